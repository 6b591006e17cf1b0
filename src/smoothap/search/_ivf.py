"""FAISS's inverted lists of product codes (IVF-PQ), for albums whose graph would not fit into memory.

Vectors are sorted into cells, by the nearest of some thousand centres, and kept as codes of one bit a number: 64 bytes
for 512 numbers, which a processor compares many at a time. The codes name candidates; their scores come from the
vectors themselves. What is built is kept in the user's cache, also while it is being built.

Cells are chosen by the first 64 principal components, which takes an eighth of the products. With 128 of them the share
of vectors to search is nearly the same (random clusters of 20: 0.27 for 95% of the neighbours, and 0.28 with 64). Where
vectors have no large clusters a neighbour may lie in any of many cells, so a good share of them is searched.
"""

import math
from typing import Any

import numpy as np

from smoothap.progress import Progress
from smoothap.search._faiss_cache import faiss, read_cached, read_unfinished, search, write_cached, write_unfinished
from smoothap.search.vectors import Vectors

LEAST = 5_000  # vectors: fewer are compared one by one
_NUMBERS_A_CODE = 4  # that share four bits
_LIMIT = 2048  # answers; beyond, all are compared
_SPARE, _LEAST_CANDIDATES = 20, 2000  # candidates for an answer: codes blur the order
_CELLS_SEARCHED = 3 / 8
_MOST_CELLS = 4096  # up to their own square in vectors
_COMPONENTS = 64  # by which cells are chosen
_TRAINED_BY, _STEPS = 40, 10  # vectors for a cell, and steps of k-means
_CODES_TRAINED_BY = 1 << 14  # vectors
_CHUNK, _KEPT_EVERY = 1 << 15, 1 << 21  # vectors that are added at once, and after which the index is kept
_ON_ALL_CORES = 15  # FAISS's number for a search that divides the cells of one query


class Ivf:
    """Codes of vectors (n, d) in cells."""

    name = "ivf"

    def __init__(self, index: Any, rows: int) -> None:
        self.index, self.rows, self.limit = index, rows, min(_LIMIT, rows)
        self._probes = max(16, math.ceil(index.nlist * _CELLS_SEARCHED))
        index.implem = _ON_ALL_CORES

    def nearest(self, query: np.ndarray, k: int) -> np.ndarray:
        """Rows among which the k nearest to the query (d,) should be: many more, since codes blur the order."""
        wanted = min(max(_SPARE * k, _LEAST_CANDIDATES), self.rows)
        parameters = faiss().SearchParametersIVF(nprobe=self._probes)
        return search(self.index, _padded(query[None])[0], wanted, parameters)


def open_ivf(vectors: Vectors, checksum: str) -> Ivf:
    """The codes of these vectors, from the user's cache or built anew and kept there, never in an album."""
    cells = cells_for(len(vectors))
    form = f"ivf{cells}-{_COMPONENTS}-pq{_NUMBERS_A_CODE}"
    width = _width(vectors.shape[1])
    index = read_cached(checksum, form, (len(vectors), width))
    if index is None:
        index = read_unfinished(checksum, form, width) or _trained(vectors, cells)
        _fill(index, vectors, checksum, form)
        write_cached(index, checksum, form)
    return Ivf(index, len(vectors))


def cells_for(rows: int) -> int:
    """How many cells so many vectors are sorted into: a power of two near four times the root, or near the root."""
    root = math.sqrt(rows)
    return 1 << max(4, round(math.log2(max(root, min(4 * root, _MOST_CELLS)))))


def _trained(vectors: Vectors, cells: int) -> Any:
    """An index without vectors, whose centres and codes are fitted to some of them."""
    width = _width(vectors.shape[1])
    components = min(_COMPONENTS, width)
    few = _sample(vectors, _CODES_TRAINED_BY)
    projection = faiss().PCAMatrix(width, components)
    projection.train(few)
    quantiser = faiss().IndexPreTransform(projection, _centres(vectors, cells, projection))
    index = faiss().IndexIVFPQFastScan(quantiser, width, cells, width // _NUMBERS_A_CODE, 4, faiss().METRIC_L2)
    index.by_residual = False  # else a query needs a table for each of many cells
    for owner, owned in ((quantiser, projection), (index, quantiser)):
        owner.own_fields = True
        owned.this.disown()
    index.train(few)
    return index


def _centres(vectors: Vectors, cells: int, projection: Any) -> Any:
    """The centres of cells among the principal components, by k-means over some of the vectors, as an index."""
    number = min(len(vectors), _TRAINED_BY * cells)
    sample = np.empty((number, projection.d_out), np.float32)
    centres = None
    with Progress("Sorting into cells", _STEPS * number, "vectors") as line:
        chosen = _spread(len(vectors), number)
        for start in range(0, number, _CODES_TRAINED_BY):
            part = _padded(vectors[chosen[start : start + _CODES_TRAINED_BY]])
            sample[start : start + len(part)] = projection.apply(part)
        for step in range(_STEPS):
            means = faiss().Kmeans(
                sample.shape[1], cells, niter=1, seed=1 + step,
                min_points_per_centroid=1, max_points_per_centroid=_TRAINED_BY,
            )  # fmt: skip
            means.train(sample, init_centroids=centres)
            centres = means.centroids.copy()
            line.advance(number)
    flat = faiss().IndexFlatL2(sample.shape[1])
    flat.add(centres)
    flat.this.disown()  # it goes into an index that owns it
    return flat


def _fill(index: Any, vectors: Vectors, checksum: str, form: str) -> None:
    """Add what is not in the index yet, which is kept now and then."""
    with Progress("Building the index", len(vectors), "vectors") as line:
        line.advance(index.ntotal)
        if not index.ntotal:
            write_unfinished(index, checksum, form)
        while index.ntotal < len(vectors):
            start = index.ntotal
            part = _padded(vectors[start : start + _CHUNK])
            index.add(part)
            line.advance(len(part))
            if index.ntotal // _KEPT_EVERY > start // _KEPT_EVERY and index.ntotal < len(vectors):
                write_unfinished(index, checksum, form)


def _spread(rows: int, number: int) -> np.ndarray:
    """So many of the rows, from the first to the last. (number,)"""
    return np.linspace(0, rows - 1, number).astype(np.int64)


def _sample(vectors: Vectors, number: int) -> np.ndarray:
    return _padded(vectors[_spread(len(vectors), min(len(vectors), number))])


def _width(dimension: int) -> int:
    return -(-dimension // _NUMBERS_A_CODE) * _NUMBERS_A_CODE


def _padded(vectors: np.ndarray) -> np.ndarray:
    """The vectors with zeros behind, so that codes of four numbers each hold all of them; scores stay as they are."""
    rows = np.ascontiguousarray(vectors, np.float32)
    missing = _width(rows.shape[1]) - rows.shape[1]
    return np.pad(rows, ((0, 0), (0, missing))) if missing else rows
