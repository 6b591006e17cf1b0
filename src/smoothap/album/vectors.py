"""The vectors of an album as rows of several files, which are mapped into memory and never put together in it."""

from __future__ import annotations

import hashlib
import mmap
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from smoothap.metrics.cosine import Rows

FLOAT16, FLOAT32 = "float16", "float32"
_AT_ONCE = 1 << 14  # rows
_FAR_APART = 16  # rows, on average
DTYPES = {FLOAT16: "<f2", FLOAT32: "<f4"}  # what an album may keep its vectors in, and what their files say


def check_dtype(dtype: str) -> None:
    """Refuse what an album cannot keep its vectors in."""
    if dtype not in DTYPES:
        raise ValueError(f"An album keeps its vectors in float32 or in float16, not in {dtype!r}.")


class MappedVectors(NDArrayOperatorsMixin):
    """Vectors (n, d) that give rows as an array does, in float32, whatever they are kept in.

    What asks for all of them at once, such as `vectors + 1` or `np.asarray(vectors)`, puts them together in memory.

    >>> vectors = MappedVectors([np.eye(2, dtype=np.float16), np.ones((1, 2), np.float16)], 2)
    >>> vectors[1:]
    array([[0., 1.],
           [1., 1.]], dtype=float32)

    `places` (n,) says where each row stands among the rows of all pieces; None: they are in that order. A piece may be
    some vectors of this kind itself, or others that give rows as an array does.
    """

    ndim, dtype = 2, np.dtype(np.float32)

    def __init__(self, pieces: Sequence[Vectors | Rows], dimension: int, places: np.ndarray | None = None) -> None:
        self._pieces, self._places = list(pieces), places
        self._starts = np.cumsum([0, *map(len, pieces)])
        self.shape = (int(self._starts[-1]) if places is None else len(places), dimension)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> np.ndarray:
        """A row by its number, or some by a slice, their numbers (k,) or a choice (n,) of bool."""
        if isinstance(rows, slice):
            start, stop, step = rows.indices(len(self))
            if step == 1 and self._places is None and start < stop:
                return self._side_by_side(start, stop)
            return self._gathered(np.arange(start, stop, step))
        numbers = np.asarray(rows)
        if numbers.dtype == bool:
            if numbers.shape != self.shape[:1]:
                raise IndexError(f"a choice of shape {numbers.shape} among {len(self)} rows")
            numbers = np.flatnonzero(numbers)
        numbers = numbers.astype(np.int64)
        if numbers.size and not (-len(self) <= numbers.min() and numbers.max() < len(self)):
            raise IndexError(f"row {numbers.min()} or {numbers.max()} of {len(self)}")
        numbers = np.where(numbers < 0, numbers + len(self), numbers)
        return self._gathered(np.atleast_1d(numbers).ravel()).reshape(*numbers.shape, self.shape[1])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """All rows as one array, for whoever knows that there is room for them."""
        return np.asarray(self[:], dtype)

    def __array_ufunc__(self, function: Any, method: str, *inputs: Any, **options: Any) -> Any:
        whole = (np.asarray(value) if isinstance(value, MappedVectors) else value for value in inputs)
        return getattr(function, method)(*whole, **options)

    def astype(self, dtype: Any) -> np.ndarray:
        """All rows as one array of another type."""
        return self[:].astype(dtype)

    def __matmul__(self, other: np.ndarray) -> np.ndarray:
        """The product with a vector (d,) or a matrix (d, k), some rows at a time."""
        product = np.empty((len(self), *other.shape[1:]), np.result_type(self.dtype, other.dtype))
        for start in range(0, len(self), _AT_ONCE):
            product[start : start + _AT_ONCE] = self[start : start + _AT_ONCE] @ other
        return product

    def order(self) -> np.ndarray | None:
        """Where each row stands among the rows of all files, (n,); None: they are in that order."""
        return self._places

    def _side_by_side(self, start: int, stop: int) -> np.ndarray:
        """Rows that stand side by side; without a copy if they do so in one file of float32."""
        first, last = np.searchsorted(self._starts, (start, stop - 1), side="right") - 1
        pieces = [
            np.asarray(self._pieces[piece][max(0, start - begin) : stop - begin])
            for piece, begin in zip(range(first, last + 1), self._starts[first:].tolist(), strict=False)
        ]
        if len(pieces) == 1 and pieces[0].dtype == self.dtype:
            return pieces[0]
        return _floats(np.concatenate(pieces))

    def _gathered(self, rows: np.ndarray) -> np.ndarray:
        places = rows if self._places is None else self._places[rows]
        pieces = np.searchsorted(self._starts, places, side="right") - 1
        kept = np.result_type(*([getattr(piece, "dtype", self.dtype) for piece in self._pieces] or [self.dtype]))
        gathered = np.empty((len(rows), self.shape[1]), kept)
        order = np.argsort(pieces, kind="stable")
        numbers, firsts = np.unique(pieces[order], return_index=True)
        for piece, here in zip(numbers, np.split(order, firsts[1:]), strict=True) if len(rows) else ():
            there = places[here] - self._starts[piece]
            with _few_pages_read(self._pieces[piece], there):
                gathered[here] = self._pieces[piece][there]
        return _floats(gathered)


@contextmanager
def _few_pages_read(piece: Any, rows: np.ndarray) -> Generator[None]:
    """While this lasts, the disk reads the pages of rows that are far apart, and not megabytes around each of them."""
    mapped = getattr(piece, "_mmap", None)
    if mapped is None or not hasattr(mmap, "MADV_RANDOM") or np.ptp(rows) < _FAR_APART * len(rows):
        yield
        return
    mapped.madvise(mmap.MADV_RANDOM)
    try:
        yield
    finally:
        mapped.madvise(mmap.MADV_NORMAL)


def _floats(rows: np.ndarray) -> np.ndarray:
    """Rows of an array of our own as float32; torch widens float16 in less time than numpy."""
    if rows.dtype == np.float32:
        return rows
    import torch

    return torch.from_numpy(rows).float().numpy()


Vectors: TypeAlias = np.ndarray | MappedVectors  # (n, d): one file of float32 as it is, or several


def checksum_of_rows(vectors: Vectors) -> str:
    """The SHA-256 of all numbers in order, as float32; some rows are read at a time."""
    digest, step = hashlib.sha256(), max(1, (1 << 22) // vectors.shape[1])
    for start in range(0, len(vectors), step):
        digest.update(np.ascontiguousarray(vectors[start : start + step]).data)
    return digest.hexdigest()
