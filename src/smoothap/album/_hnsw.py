"""FAISS's graph of near neighbours (HNSW) for albums beyond a hundred thousand photos.

The graph holds each vector in one byte a number and names candidates; their scores come from the vectors themselves. A
built graph is kept in the user's cache.
"""

from typing import Any

import numpy as np

from smoothap._core.progress import Progress
from smoothap.album._faiss_cache import faiss, read_cached, search, write_cached
from smoothap.album.vectors import Vectors

LINKS = 32  # of each vector in the graph
BUILD_BREADTH = 80
FORM = f"hnsw{LINKS}-sq8-{BUILD_BREADTH}"
_LIMIT = 2048  # answers; beyond, the product of all is as fast
_CHUNK = 5_000
_BREADTH = 128  # of a search at least: at 64, one in 17 of the first ten was missed among a million


class Hnsw:
    """A graph over vectors (n, d)."""

    name = "hnsw"

    def __init__(self, index: Any, rows: int) -> None:
        self.index, self.rows, self.limit = index, rows, min(_LIMIT, rows)

    def nearest(self, query: np.ndarray, k: int) -> np.ndarray:
        """About the k rows nearest to the query (d,); some more are asked for, since bytes blur the order."""
        wanted = min(k + k // 4 + 10, self.rows)
        return search(self.index, query, wanted, faiss().SearchParametersHNSW(efSearch=max(_BREADTH, 2 * wanted)))


def open_hnsw(vectors: Vectors, checksum: str) -> Hnsw:
    """The graph of these vectors, from the user's cache or built again and kept there, never in an album."""
    index = read_cached(checksum, FORM, vectors.shape)
    if index is None:
        index = _build(vectors)
        write_cached(index, checksum, FORM)
    return Hnsw(index, len(vectors))


def _build(vectors: Vectors) -> Any:
    # For vectors of length 1 the nearest have the highest scores, and graphs by distance are the better ones.
    index = faiss().IndexHNSWSQ(vectors.shape[1], faiss().ScalarQuantizer.QT_8bit, LINKS, faiss().METRIC_L2)
    index.hnsw.efConstruction = BUILD_BREADTH
    sample = np.linspace(0, len(vectors) - 1, min(len(vectors), 50_000)).astype(np.int64)
    index.train(np.ascontiguousarray(vectors[sample]))
    with Progress("Building the index", len(vectors), "vectors") as line:
        for start in range(0, len(vectors), _CHUNK):
            part = np.ascontiguousarray(vectors[start : start + _CHUNK])
            index.add(part)
            line.advance(len(part))
    return index
