"""Ranking by neighbourhood beside the plain cosine and other ways of the field: mAP, also by class size, and cost.

    python benchmarks/rerank.py [SET ...] [--model MODEL] [--queries 800] [--keep FOLDER] [--cost]

A set is emoji, glyphs or folder:PATH; by default emoji, glyphs and those of ../shared/data that are there. Every
photo of a set is in the album, and queries are drawn from all classes. What is printed is of the classes with an odd
number, with intervals over classes; the settings were compared on queries of all classes of these sets, so that they
are not unseen. NAME@2,3,5,10,all is an album whose classes are cut to these sizes in turn: what it does to classes of
few photos.

    averaging k           each vector averaged with its k nearest, plainly or by their cosine cubed, once or twice
    query expansion       the query averaged with its ten first answers, weighted by their cosine cubed
    diffusion k           a random walk on the graph of k neighbours, cosine cubed, larger of both directions
    k-reciprocal          Zhong et al. 2017: k1 = 20, k2 = 6, lambda = 0.3
    neighbourhood         what `Album.search` does
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy.sparse as sparse
from labelled_vectors import all_vectors, unseen_vectors
from side_by_side import milliseconds, ratio, take_turns

from smoothap.album import Album
from smoothap.album.ranked_lists import ranked_lists
from smoothap.metrics import Report
from smoothap.metrics.evaluate import report_of_ranks

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
SIZES = (2, 3, 5, 10, None)
Vectors = np.ndarray  # (n, d), of length 1
Method = Callable[[Vectors, np.ndarray], np.ndarray]  # from vectors and the rows of queries (q,) to scores (q, n)


def unit(rows: np.ndarray) -> Vectors:
    """The rows at length 1."""
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def nearest(vectors: Vectors, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k nearest of each row and their cosines, (n, k)."""
    found, scores = np.empty((len(vectors), k), np.int64), np.empty((len(vectors), k))
    for start in range(0, len(vectors), 1000):
        products = vectors[start : start + 1000] @ vectors.T
        products[np.arange(len(products)), start + np.arange(len(products))] = -2
        best = np.argpartition(-products, k - 1, axis=1)[:, :k]
        values = np.take_along_axis(products, best, 1)
        order = np.argsort(-values, axis=1, kind="stable")
        found[start : start + 1000] = np.take_along_axis(best, order, 1)
        scores[start : start + 1000] = np.take_along_axis(values, order, 1)
    return found, scores


def averaged(k: int, power: float, times: int = 1) -> Method:
    """Database-side augmentation."""

    def method(vectors: Vectors, queries: np.ndarray) -> np.ndarray:
        found, scores = nearest(vectors, k)
        weights, moved = np.maximum(scores, 0) ** power, vectors.astype(np.float64)
        for _ in range(times):
            moved = moved + sum(weights[:, [place]] * moved[found[:, place]] for place in range(k))
            moved = unit(moved)
        return unit(moved)[queries] @ unit(moved).T

    return method


def query_expansion(vectors: Vectors, queries: np.ndarray) -> np.ndarray:
    """Alpha query expansion."""
    found, scores = nearest(vectors, 10)
    weights = np.maximum(scores[queries], 0) ** 3
    return unit(vectors[queries] + np.einsum("qk,qkd->qd", weights, vectors[found[queries]])) @ vectors.T


def diffusion(k: int) -> Method:
    """Diffusion with restart, 15 steps, on the symmetric graph of k neighbours."""

    def method(vectors: Vectors, queries: np.ndarray) -> np.ndarray:
        found, scores = nearest(vectors, k)
        rows = np.repeat(np.arange(len(vectors)), k)
        graph = sparse.csr_matrix(
            (np.maximum(scores.ravel(), 0) ** 3, (rows, found.ravel())), shape=(len(vectors),) * 2
        )
        graph = graph.maximum(graph.T)
        scale = sparse.diags(1 / np.sqrt(np.maximum(np.asarray(graph.sum(1)).ravel(), 1e-12)))
        graph = (scale @ graph @ scale).tocsr()
        source = np.zeros((len(vectors), len(queries)))
        source[queries, np.arange(len(queries))] = 1
        values = source
        for _ in range(15):
            values = 0.95 * (graph @ values) + 0.05 * source
        return values.T / values.max() + 1e-3 * (vectors[queries] @ vectors.T) * values.max()

    return method


def k_reciprocal(vectors: Vectors, queries: np.ndarray, k1: int = 20, k2: int = 6, mixed: float = 0.3) -> np.ndarray:
    """k-reciprocal encoding: Jaccard distance of expanded reciprocal neighbours, and the plain distance."""
    found, _ = nearest(vectors, k1)
    sets = [set(row) for row in found.tolist()]
    halves = [set(row[: k1 // 2]) for row in found.tolist()]
    rows, columns, values = [], [], []
    for row in range(len(vectors)):
        mutual = {other for other in sets[row] if row in sets[other]} | {row}
        whole = set(mutual)
        for other in mutual - {row}:
            theirs = {one for one in halves[other] if other in halves[one]} | {other}
            if len(theirs & mutual) > 2 / 3 * len(theirs):
                whole |= theirs
        members = np.array(sorted(whole))
        weights = np.exp(-(2 - 2 * vectors[members] @ vectors[row]))
        rows.append(np.full(len(members), row))
        columns.append(members)
        values.append(weights / weights.sum())
    encoded = sparse.csr_matrix(
        (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))), shape=(len(vectors),) * 2
    )
    near = np.concatenate([np.arange(len(vectors))[:, None], found[:, : k2 - 1]], axis=1)
    mean = sparse.csr_matrix(
        (np.full(near.size, 1 / k2), (np.repeat(np.arange(len(vectors)), k2), near.ravel())), shape=encoded.shape
    )
    encoded = (mean @ encoded).tocsr()
    turned, answer = encoded.tocsc(), np.empty((len(queries), len(vectors)))
    for place, query in enumerate(queries):
        shared = np.zeros(len(vectors))
        mine = encoded[query]
        for column, value in zip(mine.indices, mine.data, strict=True):
            part = slice(turned.indptr[column], turned.indptr[column + 1])
            shared[turned.indices[part]] += np.minimum(value, turned.data[part])
        distance = 1 - shared / (2 - shared)
        answer[place] = -(1 - mixed) * distance - mixed * (2 - 2 * vectors @ vectors[query])
    return answer


METHODS: dict[str, Method] = {
    "plain cosine": lambda vectors, queries: vectors[queries] @ vectors.T,
    "averaging 5": averaged(5, 0),
    "averaging 10": averaged(10, 0),
    "averaging 10, cosine cubed": averaged(10, 3),
    "averaging 5, twice": averaged(5, 3, 2),
    "query expansion": query_expansion,
    "diffusion 5": diffusion(5),
    "diffusion 10": diffusion(10),
    "k-reciprocal": k_reciprocal,
}


def ranks_of(vectors: Vectors, labels: np.ndarray, queries: np.ndarray, method: Method | None) -> list[np.ndarray]:
    """The ranks of each query's positives; without a method, as `Album.search` ranks."""
    ranks = []
    if method is None:
        for row, order, _ in ranked_lists(vectors, queries):
            ranks.append(1 + np.flatnonzero(labels[order] == labels[row]))
        return ranks
    for row, scores in zip(queries, method(vectors, queries), strict=True):
        scores[row] = -np.inf
        order = np.argsort(-scores, kind="stable")[:-1]
        ranks.append(1 + np.flatnonzero(labels[order] == labels[row]))
    return ranks


def compared(name: str, vectors: Vectors, labels: np.ndarray, number: int, methods: dict[str, Method | None]) -> None:
    """Print mAP of every method on queries of the odd classes, and what it is from the plain one, by class size."""
    sizes = np.bincount(labels)
    random = np.random.default_rng(0)
    queries = np.sort(random.permutation(np.flatnonzero((sizes[labels] > 1) & (labels % 2 == 1)))[:number])
    plain: Report | None = None
    print(f"\n{name}: {len(labels):,} photos of {(sizes > 0).sum():,} classes, {len(queries):,} queries", flush=True)
    for title, method in methods.items():
        report = report_of_ranks(ranks_of(vectors, labels, queries, method), labels[queries])
        plain = plain or report
        gain = report.compare(plain)
        line = f"  {title:<27} mAP {100 * report.mean_average_precision:5.1f}"
        if report is not plain:
            line += f"  {100 * gain.value:+5.1f} ({100 * gain.low:+.1f} to {100 * gain.high:+.1f})"
            by_size = report.average_precision - plain.average_precision
            groups = {"2": (2, 2), "3": (3, 3), "5": (5, 5), "10": (10, 10), "30+": (30, 10**9)}
            of = sizes[labels[queries]]
            for group, (low, high) in groups.items():
                if ((of >= low) & (of <= high)).sum() >= 10:
                    line += f"  {group}: {100 * by_size[(of >= low) & (of <= high)].mean():+.1f}"
        print(line, flush=True)


def cut(labels: np.ndarray, sizes: tuple[int | None, ...], seed: int = 0) -> np.ndarray:
    """Rows of classes that have these sizes in turn, two neighbouring classes the same; None leaves all."""
    random, kept = np.random.default_rng(seed), []
    for place, label in enumerate(random.permutation(np.unique(labels))):
        kept.append(random.permutation(np.flatnonzero(labels == label))[: sizes[place % len(sizes)]])
    return np.sort(np.concatenate(kept))


def opened(name: str, model: str, keep: Path | None) -> tuple[Vectors, np.ndarray]:
    """The vectors of a set, and its classes as numbers."""
    if name in ("emoji", "glyphs"):
        vectors, labels = unseen_vectors(model, name, {"emoji": 64, "glyphs": 48}[name], keep)
    else:
        vectors, labels = all_vectors(model, name, None, keep)
    return unit(vectors), np.unique(labels, return_inverse=True)[1]


def cost(rows: int, dimension: int, rounds: int) -> None:
    """Time the graph, and searches with and without it, in clusters of 100."""
    random = np.random.default_rng(0)
    centres = random.standard_normal((rows // 100, dimension), np.float32)
    vectors = np.repeat(centres, 100, axis=0)
    for start in range(0, rows, 10_000):
        vectors[start : start + 10_000] += random.standard_normal((10_000, dimension), np.float32)
    album = Album.from_arrays(unit(vectors))
    start = time.perf_counter()
    album.link(progress=True)
    print(f"\n{rows:,} x {dimension}: linked in {time.perf_counter() - start:.0f} s")
    asked = iter(random.integers(0, rows, 10_000).tolist())
    seconds = take_turns(
        {
            "plain": lambda: album.search(next(asked), rerank=False),
            "ranked": lambda: album.search(next(asked)),
        },
        rounds,
    )
    for name, times in seconds.items():
        print(f"  {name:<7} p50 {milliseconds(seconds, name):6.2f} ms  p99 {1000 * np.quantile(times, 0.99):6.2f} ms")
    print(f"  ranked takes {ratio(seconds, 'ranked', 'plain'):.2f} times as long as plain")


def main() -> None:
    """Compare on each set, or time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*")
    parser.add_argument("--model", default="tf_efficientnet_lite0")
    parser.add_argument("--queries", type=int, default=800)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--fast", action="store_true", help="only the plain cosine and ours")
    parser.add_argument("--cost", action="store_true")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--dimension", type=int, default=1280)
    options = parser.parse_args()
    if options.cost:
        cost(options.rows, options.dimension, 300)
        return
    folders = {"grocery": "grocery/images", "caltech101": "caltech101/images"}
    there = [f"folder:{SHARED / folder}" for folder in folders.values() if (SHARED / folder).is_dir()]
    methods: dict[str, Method | None] = {"plain cosine": METHODS["plain cosine"]} if options.fast else dict(METHODS)
    methods["neighbourhood"] = None
    for name in options.sets or ["emoji", "glyphs", *there]:
        vectors, labels = opened(name, options.model, options.keep)
        compared(name, vectors, labels, options.queries, methods)
        if name.startswith("folder:"):
            for sizes in (SIZES, SIZES[:3]):
                rows = cut(labels, sizes)
                words = ",".join("all" if size is None else str(size) for size in sizes)
                fewer = np.unique(labels[rows], return_inverse=True)[1]
                compared(f"{name}@{words}", vectors[rows], fewer, options.queries, methods)


if __name__ == "__main__":
    main()
