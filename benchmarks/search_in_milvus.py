"""An album with a real Milvus server as its engine against the same album here: pushing, time a query, recall.

    python tools/milvus_server.py --set-up
    python benchmarks/search_in_milvus.py [--rows 100000] [--queries 300] [--index hnsw] [--data FOLDER] [--skip-push]
                                          [--features FEATURES.npy]

The server runs on this machine, beside the client, and shares its cores. With --data the server's folder and the album
stay there, so that --skip-push measures searches again. With --features the vectors are real ones, repeated with noise.
Both sides answer the same queries, one after the other.
"""

import argparse
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import torch
from search_speed import DIMENSION, clustered, queries_near

from smoothap.album import Album
from smoothap.album.engines.milvus import MilvusUnavailable
from smoothap.album.engines.milvus_push import push

NOISE = 0.5  # that real features are repeated with
TOOL = Path(__file__).parents[1] / "tools" / "milvus_server.py"


@contextmanager
def server(data: Path) -> Generator[str]:
    """A server, and its address."""
    data.mkdir(parents=True, exist_ok=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with (data / "log").open("ab") as log:
        process = subprocess.Popen([sys.executable, TOOL, data, "--port", str(port)], stdout=log, stderr=log)
    try:
        for _ in range(600):
            if process.poll() is not None:
                raise SystemExit((data / "log").read_text(errors="replace").strip().splitlines()[-1])
            with suppress(OSError):
                if b"OK" in urllib.request.urlopen("http://127.0.0.1:9091/healthz", timeout=2).read():
                    break
            time.sleep(0.2)
        yield f"milvus://127.0.0.1:{port}/benchmark"
    finally:
        process.kill()
        process.wait()


def vectors_of(rows: int, features: Path | None) -> np.ndarray:
    """That many vectors: in random clusters, or real ones of a file (..., d), repeated with noise.

    Of longer ones the first 512 principal components are taken.
    """
    if features is None:
        return clustered(rows)
    known = torch.from_numpy(np.load(features)).float().flatten(0, -2)
    known /= known.norm(dim=1, keepdim=True)
    if known.shape[1] > DIMENSION:
        known -= known.mean(0)
        known = known @ torch.linalg.eigh(known.T @ known)[1][:, -DIMENSION:]
        known /= known.norm(dim=1, keepdim=True)
    random = torch.Generator().manual_seed(0)
    chosen = torch.randint(len(known), (rows,), generator=random)
    vectors = torch.empty(rows, known.shape[1]).normal_(generator=random)
    vectors.mul_(NOISE / known.shape[1] ** 0.5).add_(known[chosen])
    return vectors.div_(vectors.norm(dim=1, keepdim=True)).numpy()


def patiently_opened(folder: Path, address: str) -> Album:
    """The album in Milvus; a server that was just started again reads it into memory first, which takes minutes."""
    for _ in range(20):
        with suppress(MilvusUnavailable):
            return Album.open(folder, engine=address)
    return Album.open(folder, engine=address)


def timed(album: Album, queries: np.ndarray, k: int) -> tuple[np.ndarray, list[set[int]]]:
    """Milliseconds of each search for k, and what was found."""
    album.search(queries[0], k)
    spent, found = [], []
    for query in queries:
        start = time.perf_counter()
        hits = album.search(query, k)
        spent.append(1000 * (time.perf_counter() - start))
        found.append({hit.id for hit in hits})
    return np.array(spent), found


def main() -> None:
    """Print what pushing and searching take."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--index", default="hnsw")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--features", type=Path)
    parser.add_argument("--skip-push", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        data = options.data or Path(temporary)
        os.environ["XDG_CACHE_HOME"] = str(data / "cache")
        if not (data / "album").exists():
            Album.from_arrays(vectors_of(options.rows, options.features), path=data / "album")
        with server(data / "server") as address:
            exact = Album.open(data / "album", engine="exact")
            for what in () if options.skip_push else ("push", "push of nothing new"):
                start = time.perf_counter()
                pushed = push(exact, address, index=options.index)
                seconds = time.perf_counter() - start
                print(f"{what}, {options.rows:,} x {DIMENSION}, {pushed.index}: {seconds:.1f} s", flush=True)
                if pushed.recall is not None:
                    rate = options.rows / seconds
                    print(f"{rate:,.0f} vectors a second with index and checks; recall {pushed.recall:.3f}", flush=True)
            opened = time.perf_counter()
            there = patiently_opened(data / "album", address)
            print(f"open: {time.perf_counter() - opened:.2f} s", flush=True)
            here = Album.open(data / "album", engine="pq")
            queries = queries_near(np.asarray(here.vectors), options.queries)
            for k in (10, 100):
                _, wanted = timed(exact, queries[:100], k)
                for name, album in (("milvus", there), ("local pq", here)):
                    spent, found = timed(album, queries, k)
                    recall = np.mean([len(one & other) / k for one, other in zip(wanted, found, strict=False)])
                    middle, slow = np.percentile(spent, [50, 99])
                    print(
                        f"k={k:<4} {name:10}  p50 {middle:6.2f} ms  p99 {slow:6.2f} ms  recall {recall:.3f}", flush=True
                    )


if __name__ == "__main__":
    main()
