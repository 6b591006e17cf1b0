"""Search among millions of vectors: what building, memory and a query cost, and how much each engine finds.

    python benchmarks/large_search.py --rows 1000000 [--engines ivf hnsw] [--per-cluster 20 | --features FILE.npy]
                                      [--float16] [--queries 1000] [--folder FOLDER]

The album is written block by block and never lies in memory. Vectors are around random centres, so many to each, or
real features (n, d) repeated with noise until there are enough. Queries are rows of the album, moved a little; what
should be found is known from products of all of them with all vectors. Time is the median of the queries asked one at a
time: by the clock, and by the processor, which a busy machine does not stretch; first with the vectors in the page
cache, then for some with their pages dropped before each. Memory is what the process holds itself, without mapped
files. With --folder the album stays there, and a second run takes it up.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from search_speed import clustered, resident

from smoothap.progress import Progress
from smoothap.search import Album
from smoothap.search._storage import Storage
from smoothap.search.photos import new_record

BLOCK = 1 << 17
COLD = 50


def blocks(options: argparse.Namespace) -> Iterator[np.ndarray]:
    """The vectors, some at a time."""
    features = None if options.features is None else np.load(options.features, mmap_mode="r")
    for seed, start in enumerate(range(0, options.rows, BLOCK)):
        number = min(BLOCK, options.rows - start)
        if features is None:
            yield clustered(number, options.per_cluster, seed=seed)
            continue
        random = np.random.default_rng(seed)
        rows = np.array(features[random.integers(0, len(features), number)], np.float32)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        rows += options.noise * random.standard_normal(rows.shape, np.float32) / np.sqrt(rows.shape[1])
        yield rows / np.linalg.norm(rows, axis=1, keepdims=True)


def write_album(folder: Path, options: argparse.Namespace) -> None:
    """An album of all blocks, each a segment."""
    dtype = "float16" if options.float16 else "float32"
    with Progress("Writing the album", options.rows, "vectors") as line:
        parts = blocks(options)
        first = next(parts)
        Album.from_arrays(first, path=folder, dtype=dtype)
        storage = Storage(folder)
        description, start = storage.load()[0], len(first)
        line.advance(start)
        for rows in parts:
            records = [new_record(start + row, f"{start + row:08d}") for row in range(len(rows))]
            description = storage.append(description, records, rows, [None] * len(rows))
            start += len(rows)
            line.advance(len(rows))


def moved_rows(album: Album, number: int, noise: float) -> np.ndarray:
    """Queries near rows of the album, (number, d)."""
    random = np.random.default_rng(1)
    chosen = album.vectors[np.sort(random.choice(len(album), number, replace=False))]
    moved = chosen + noise * random.standard_normal(chosen.shape, np.float32) / np.sqrt(chosen.shape[1])
    return moved / np.linalg.norm(moved, axis=1, keepdims=True)


def nearest(album: Album, queries: np.ndarray, k: int = 100) -> tuple[np.ndarray, np.ndarray]:
    """The rows and scores (number, k) of the nearest, by products of all, best first."""
    best = np.full((len(queries), k), -2.0, np.float32)
    rows = np.zeros((len(queries), k), np.int64)
    step = 1 << 15
    with Progress("What should be found", len(album), "vectors") as line:
        for start in range(0, len(album), step):
            scores = queries @ album.vectors[start : start + step].T
            part = np.argpartition(-scores, min(k, scores.shape[1] - 1), axis=1)[:, :k]
            scores = np.concatenate([best, np.take_along_axis(scores, part, 1)], axis=1)
            places = np.concatenate([rows, part + start], axis=1)
            order = np.argsort(-scores, axis=1)[:, :k]
            best, rows = np.take_along_axis(scores, order, 1), np.take_along_axis(places, order, 1)
            line.advance(min(step, len(album) - start))
    return rows, best


def drop_pages(folder: Path) -> None:
    """Let the system forget the album's vectors."""
    for file in folder.glob("vectors-*.npy"):
        descriptor = os.open(file, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def measure(folder: Path, engine: str, queries: np.ndarray, wanted: np.ndarray) -> None:
    """Print what an engine costs, and what it finds."""
    before, start, worked = resident(), time.perf_counter(), time.process_time()
    album = Album.open(folder, engine=engine)
    opened = time.perf_counter() - start
    album.search(queries[0], 10)
    ready, worked = time.perf_counter() - start, time.process_time() - worked
    print(f"  {engine}: built in {ready - opened:.0f} s ({worked:.0f} s of processor)", flush=True)
    del album
    start = time.perf_counter()
    album = Album.open(folder, engine=engine)
    opened = time.perf_counter() - start
    album.search(queries[0], 10)
    ready = time.perf_counter() - start
    for k in (10, 100):
        seconds: list[tuple[float, float]] = []
        found: list[float] = []
        for query, those in zip(queries, wanted[:, :k], strict=True):
            start, worked = time.perf_counter(), time.process_time()
            hits = album.search(query, k)
            seconds.append((time.perf_counter() - start, time.process_time() - worked))
            found.append(len({hit.id for hit in hits} & set(those.tolist())) / k)
        clock, processor = 1000 * np.median(seconds, axis=0)
        cold: list[float] = []
        for query in queries[:COLD]:
            drop_pages(folder)
            start = time.perf_counter()
            album.search(query, k)
            cold.append(time.perf_counter() - start)
        print(
            f"    k = {k:>3}: {clock:6.2f} ms ({processor:.2f} ms of processor; {1000 * np.median(cold):.0f} ms with "
            f"cold pages), recall@{k} {np.mean(found):.4f}",
            flush=True,
        )
    print(
        f"    opened in {opened:.1f} s, with its cached index and a search in {ready:.1f} s; "
        f"{resident() - before:,.0f} MB of its own",
        flush=True,
    )


def main() -> None:
    """Print all times, shares and sizes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--engines", nargs="+", default=["ivf", "hnsw"])
    parser.add_argument("--per-cluster", type=int, default=20)
    parser.add_argument("--features", type=Path)
    parser.add_argument("--noise", type=float, default=0.5)
    parser.add_argument("--float16", action="store_true")
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary) / "album"
        os.environ["XDG_CACHE_HOME"] = str(folder.parent / "cache")
        if not (folder / "album.json").exists():
            write_album(folder, options)
        album = Album.open(folder, engine="exact")
        queries = moved_rows(album, options.queries, options.noise)
        wanted, scores = nearest(album, queries)
        kind = options.features.name if options.features else f"{options.per_cluster} a cluster"
        dtype = "float16" if options.float16 else "float32"
        print(
            f"{len(album):,} x {album.vectors.shape[1]} in {dtype}, {kind}, {options.queries:,} queries; the 10th "
            f"neighbour has a median cosine of {np.median(scores[:, 9]):.2f}",
            flush=True,
        )
        del album
        for engine in options.engines:
            measure(folder, engine, queries, wanted)


if __name__ == "__main__":
    main()
