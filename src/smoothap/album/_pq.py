"""FAISS's product codes (PQ), for albums whose graph would not fit into memory.

Eight numbers of a vector become four bits: 32 bytes for 512 numbers, of which one core compares half a million with a
query in a millisecond. The codes name candidates; their scores come from the vectors themselves. All codes are
compared: with cells, of which a query searches the nearest (IVF), three eighths of them had to be searched where
vectors have no large clusters, and that took longer, since a code in a short list costs more than one in a long list.

What is built is kept in the user's cache, one piece after the other; in a search, each piece has a thread.
"""

from typing import Any

import numpy as np

from smoothap._core.progress import Progress
from smoothap.album._faiss_cache import faiss, read_cached, search, write_cached
from smoothap.album.vectors import Vectors

LEAST = 5_000  # vectors: fewer are compared one by one
_NUMBERS_A_CODE = 8  # that share four bits
_LIMIT = 2048  # answers; beyond, all are compared
_SPARE, _LEAST_CANDIDATES = 20, 2000  # candidates for an answer: codes blur the order
_TRAINED_BY = 1 << 14  # vectors
_PIECE, _CHUNK = 1 << 19, 1 << 15  # vectors that are kept in one file, and that are added at once


class ProductCodes:
    """Codes of vectors (n, d)."""

    name = "pq"

    def __init__(self, index: Any, rows: int) -> None:
        self.index, self.rows, self.limit = index, rows, min(_LIMIT, rows)

    def nearest(self, query: np.ndarray, k: int) -> np.ndarray:
        """Rows among which the k nearest to the query (d,) should be: many more, since codes blur the order."""
        wanted = min(max(_SPARE * k, _LEAST_CANDIDATES), self.rows)
        return search(self.index, _padded(query[None])[0], wanted, None)


def open_codes(vectors: Vectors, checksum: str) -> ProductCodes:
    """The codes of these vectors, from the user's cache or built again and kept there, never in an album."""
    width, rows = _width(vectors.shape[1]), len(vectors)
    starts = range(0, rows, _PIECE)
    forms = [f"pq{_NUMBERS_A_CODE}-{start}-{min(start + _PIECE, rows)}" for start in starts]
    pieces: list[Any] = [
        read_cached(checksum, form, (min(_PIECE, rows - start), width))
        for form, start in zip(forms, starts, strict=True)
    ]
    if any(piece is None for piece in pieces):
        empty = _trained(vectors)
        with Progress("Building the index", rows, "vectors") as line:
            for place, start in enumerate(starts):
                if pieces[place] is None:
                    pieces[place] = _filled(faiss().clone_index(empty), vectors, start, line)
                    write_cached(pieces[place], checksum, forms[place])
                else:
                    line.advance(pieces[place].ntotal)
    whole = faiss().IndexShards(width, True, True)  # threaded, and numbered one after the other
    for piece in pieces:
        whole.add_shard(piece)
    return ProductCodes(whole, rows)


def _filled(index: Any, vectors: Vectors, start: int, line: Progress) -> Any:
    """The index with the vectors of one piece."""
    stop = min(start + _PIECE, len(vectors))
    for first in range(start, stop, _CHUNK):
        part = _padded(vectors[first : min(first + _CHUNK, stop)])
        index.add(part)
        line.advance(len(part))
    return index


def _trained(vectors: Vectors) -> Any:
    """An index without vectors, whose codes are fitted to some of them."""
    width, rows = _width(vectors.shape[1]), len(vectors)
    # For vectors of length 1 the highest products are the highest scores.
    index = faiss().IndexPQFastScan(width, width // _NUMBERS_A_CODE, 4, faiss().METRIC_INNER_PRODUCT)
    index.train(_padded(vectors[np.linspace(0, rows - 1, min(rows, _TRAINED_BY)).astype(np.int64)]))
    return index


def _width(dimension: int) -> int:
    return -(-dimension // _NUMBERS_A_CODE) * _NUMBERS_A_CODE


def _padded(vectors: np.ndarray) -> np.ndarray:
    """The vectors with zeros behind, so that codes of eight numbers each hold all of them; scores stay as they are."""
    rows = np.ascontiguousarray(vectors, np.float32)
    missing = _width(rows.shape[1]) - rows.shape[1]
    return np.pad(rows, ((0, 0), (0, missing))) if missing else rows
