"""Search among millions of vectors: what building, memory and a query cost, and how much each engine finds.

    python benchmarks/large_search.py --rows 1000000 [--kinds 20 200 FEATURES.npy] [--engines pq hnsw] [--float16]
                                      [--queries 1000] [--judged 1000] [--folder FOLDER]

Each kind of vectors makes an album, which is written block by block and never held in memory. They are around random
centres, that many to each, or real features repeated with noise until there are enough: of a file (..., d), such as
`smoothap train --data emoji --frozen` leaves in its cache, by their first 512 principal components. Queries are rows of
the album, moved a little; what should be found for the first `judged` of them is known from products with all vectors.
Time is the median of the queries asked one at a time: by the clock, and by the processor, which a busy machine does not
stretch; first with the candidates' vectors in the page cache, then for some with all pages dropped before each. Memory
is what the process holds itself, without mapped files. With --folder the albums stay there, and a second run takes up
what the first one left: the album, what should be found, and the index. Without it each is deleted when it is measured;
a million vectors of 512 numbers take 2 GB of disk, or 1 GB with --float16.
"""

import argparse
import itertools
import mmap
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from search_speed import resident

from smoothap._core.progress import Progress
from smoothap.album import Album
from smoothap.album._storage import Storage
from smoothap.album.description import read_head, write_description
from smoothap.album.photos import SCHEMA

BLOCK = 1 << 17
DIMENSION = 512
SPREAD = 0.8  # of a cluster, as wide as its centre is far
NOISE = 0.5  # that real features are repeated with
COLD = 50


def block(number: int, rows: int, kind: str, noise: float, features: torch.Tensor | None) -> np.ndarray:
    """The vectors of one block, (rows, d) float32 of length 1; those of a cluster lie apart in it."""
    random = torch.Generator().manual_seed(number)
    if features is None:
        clusters = -(-rows // int(kind))
        centres = torch.empty(clusters, DIMENSION).normal_(generator=random)
        vectors = torch.empty(rows, DIMENSION).normal_(generator=random)
        vectors.mul_(SPREAD).add_(centres.repeat(int(kind), 1)[:rows])
    else:
        chosen = torch.randint(len(features), (rows,), generator=random)
        vectors = torch.empty(rows, features.shape[1]).normal_(generator=random)
        vectors.mul_(noise / features.shape[1] ** 0.5).add_(features[chosen])
    return vectors.div_(vectors.norm(dim=1, keepdim=True)).numpy()


def table(start: int, rows: int) -> pa.Table:
    """Photos of which nothing is known but a path."""
    columns = {field.name: pa.nulls(rows, field.type) for field in SCHEMA}
    zeros = pa.array(np.zeros(rows, np.int64))
    columns |= {name: zeros.cast(SCHEMA.field(name).type) for name in ("bytes", "modified", "width", "height")}
    columns |= dict.fromkeys(("offset", "length", "crc"), zeros)
    columns["id"] = pa.array(np.arange(start, start + rows))
    columns["path"] = pa.array([f"{row:08d}".encode() for row in range(start, start + rows)], pa.binary())
    columns["sha256"] = pa.array([b""] * rows, pa.binary())
    columns["pack"] = pa.array(np.full(rows, -1, np.int32))
    return pa.table(columns, schema=SCHEMA)


def real_features(file: Path) -> torch.Tensor:
    """Features of a file (..., d) at length 1, (n, 512 or d); longer ones by their first principal components."""
    features = torch.from_numpy(np.load(file)).float().flatten(0, -2)
    features /= features.norm(dim=1, keepdim=True)
    if features.shape[1] > DIMENSION:
        features -= features.mean(0)
        features = features @ torch.linalg.eigh(features.T @ features)[1][:, -DIMENSION:]
        features /= features.norm(dim=1, keepdim=True)
    return features


def blocks(options: argparse.Namespace) -> Iterator[tuple[int, int]]:
    """The first row of each block, and how many it has."""
    return ((start, min(BLOCK, options.rows - start)) for start in range(0, options.rows, BLOCK))


def write_album(folder: Path, kind: str, options: argparse.Namespace) -> None:
    """An album of all blocks, each a segment; those that are there already stay."""
    if (folder / "album.json").exists() and read_head(folder).next_id == options.rows:
        return
    features = None if kind.isdigit() else real_features(Path(kind))
    if not (folder / "album.json").exists():
        dtype = "float16" if options.float16 else "float32"
        Album.from_arrays(np.empty((0, DIMENSION if features is None else features.shape[1])), path=folder, dtype=dtype)
    storage = Storage(folder)
    description = storage.load()[0]
    there = sum(segment.rows for segment in description.segments)
    with Progress("Writing the album", options.rows, "vectors") as line:
        line.advance(there)
        for number, (start, rows) in enumerate(blocks(options)):
            if start < there:
                continue
            vectors, name = block(number, rows, kind, options.noise, features), description.next_segment
            segment = storage.write_segment(name, table(start, rows), [vectors], description)
            segments = tuple(known for known in (*description.segments, segment) if known.rows)
            description = replace(description, segments=segments, next_id=start + rows, next_segment=name + 1)
            write_description(folder, description)
            line.advance(rows)


def moved_rows(album: Album, number: int, noise: float) -> np.ndarray:
    """Queries near rows of the album, (number, d)."""
    random = np.random.default_rng(1)
    chosen = album.vectors[random.choice(len(album), number, replace=False)]
    moved = chosen + noise * random.standard_normal(chosen.shape, np.float32) / np.sqrt(chosen.shape[1])
    return moved / np.linalg.norm(moved, axis=1, keepdims=True)


def nearest(album: Album, queries: np.ndarray, k: int = 100) -> tuple[np.ndarray, np.ndarray]:
    """The rows and scores (number, k) of the nearest, by products of all, best first."""
    best, rows = np.full((len(queries), k), -2.0, np.float32), np.zeros((len(queries), k), np.int64)
    step = 1 << 15
    with Progress("What should be found", len(album), "vectors") as line:
        for start in range(0, len(album), step):
            scores = queries @ album.vectors[start : start + step].T
            for query in np.flatnonzero((scores > best[:, -1:]).any(1)):
                places = np.flatnonzero(scores[query] > best[query, -1])
                both = np.concatenate([best[query], scores[query, places]])
                order = np.argsort(-both)[:k]
                best[query], rows[query] = both[order], np.concatenate([rows[query], places + start])[order]
            line.advance(min(step, len(album) - start))
    return rows, best


def what_should_be_found(folder: Path, options: argparse.Namespace) -> dict[str, np.ndarray]:
    """The queries, and the rows and scores of what is nearest to the first of them, kept beside the album."""
    file = folder.parent / f"nearest-{options.queries}-{options.judged}.npz"
    if not file.exists():
        album = Album.open(folder, engine="exact")
        queries = moved_rows(album, options.queries, options.noise)
        rows, scores = nearest(album, queries[: options.judged])
        np.savez(file, queries=queries, rows=rows, scores=scores)
    return dict(np.load(file))


def drop_pages(album: Album) -> None:
    """Let the system forget the album's vectors: what a process has mapped and seen stays, so that goes first."""
    assert album.folder is not None
    for piece in getattr(album.vectors, "_pieces", [album.vectors]):
        piece._mmap.madvise(mmap.MADV_DONTNEED)
    for file in album.folder.glob("vectors-*.npy"):
        descriptor = os.open(file, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def build(folder: Path, engine: str, query: np.ndarray) -> None:
    """Print what building an engine costs."""
    album, start, worked = Album.open(folder, engine=engine), time.perf_counter(), time.process_time()
    album.search(query, 10)
    seconds, worked = time.perf_counter() - start, time.process_time() - worked
    print(f"  {engine}: built in {seconds:.0f} s ({worked:.0f} s of processor)", flush=True)


def measure(folder: Path, engine: str, queries: np.ndarray, wanted: np.ndarray) -> None:
    """Print what an engine costs that is built, and what it finds."""
    before, start = resident(), time.perf_counter()
    album = Album.open(folder, engine=engine)
    opened, held = time.perf_counter() - start, resident() - before
    album.search(queries[0], 10)
    ready = time.perf_counter() - start
    own, lines = resident() - before, dict[int, str]()
    for k in (10, 100):
        seconds: list[tuple[float, float]] = []
        found: list[float] = []
        for number, query in enumerate(queries):
            album.search(query, k)  # brings the pages of its candidates into the cache
            start, worked = time.perf_counter(), time.process_time()
            hits = album.search(query, k)
            seconds.append((time.perf_counter() - start, time.process_time() - worked))
            if number < len(wanted):
                found.append(len({hit.id for hit in hits} & set(wanted[number, :k].tolist())) / k)
        clock, processor = 1000 * np.median(seconds, axis=0)
        lines[k] = f"{clock:6.2f} ms ({processor:.2f} ms of processor), recall@{k} {np.mean(found):.4f}"
        own = max(own, resident() - before)
    for k, line in lines.items():
        cold: list[float] = []
        for query in queries[:COLD]:
            drop_pages(album)
            start = time.perf_counter()
            album.search(query, k)
            cold.append(time.perf_counter() - start)
        print(f"    k = {k:>3}: {line}; {1000 * np.median(cold):.0f} ms with cold pages", flush=True)
    print(
        f"    opened in {opened:.1f} s, {held:,.0f} MB; with its cached index and a search in {ready:.1f} s; "
        f"{own:,.0f} MB of its own",
        flush=True,
    )


def run(folder: Path, kind: str, options: argparse.Namespace) -> None:
    """Measure all engines on one kind of vectors."""
    os.environ["XDG_CACHE_HOME"] = str(folder.parent / "cache")
    write_album(folder, kind, options)
    known = what_should_be_found(folder, options)
    if options.step == "build":
        build(folder, options.engines[0], known["queries"][0])
    elif options.step == "measure":
        measure(folder, options.engines[0], known["queries"], known["rows"])
    else:
        name = f"{kind} a cluster" if kind.isdigit() else f"{Path(kind).name} with noise"
        print(
            f"{options.rows:,} x {known['queries'].shape[1]} in {'float16' if options.float16 else 'float32'}, {name}, "
            f"{options.queries:,} queries; the 10th neighbour has a median cosine of "
            f"{np.median(known['scores'][:, 9]):.2f}, the 100th {np.median(known['scores'][:, 99]):.2f}",
            flush=True,
        )
        for engine, step in itertools.product(options.engines, ("build", "measure")):
            again = [*sys.argv[1:], "--step", step, "--folder", folder.parent, "--kinds", kind, "--engines", engine]
            # A process of its own: what other steps leave behind is not counted.
            subprocess.run([sys.executable, __file__, *map(str, again)], check=True)


def main() -> None:
    """Print all times, shares and sizes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--kinds", nargs="+", default=["20", "200"])
    parser.add_argument("--engines", nargs="+", default=["pq", "hnsw"])
    parser.add_argument("--noise", type=float, default=NOISE)
    parser.add_argument("--float16", action="store_true")
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--judged", type=int, default=1000)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--step", choices=("build", "measure"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    for kind in options.kinds:
        if options.step is not None:
            run(options.folder / "album", kind, options)
        elif options.folder is not None:
            run(options.folder / Path(kind).stem / "album", kind, options)
        else:
            with tempfile.TemporaryDirectory() as temporary:
                run(Path(temporary) / "album", kind, options)


if __name__ == "__main__":
    main()
