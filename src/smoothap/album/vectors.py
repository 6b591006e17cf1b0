"""The vectors of an album: rows of a file that only grows, mapped into memory and given out as float32."""

from __future__ import annotations

import mmap
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np
import torch

from smoothap._core.devices import refuse_masked
from smoothap.metrics import cosine

FLOAT16, FLOAT32 = "float16", "float32"
CODECS = {FLOAT16: "<f2", FLOAT32: "<f4"}  # what an album may keep its vectors in, and the bytes of a number
_AT_ONCE = 1 << 14  # rows
_FAR_APART = 16  # rows, on average


def check_codec(codec: str) -> None:
    """Refuse what an album cannot keep its vectors in."""
    if codec not in CODECS:
        raise ValueError(f"An album keeps its vectors in float32 or in float16, not in {codec!r}.")


class StoredVectors:
    """Vectors (n, d) that give rows as an array does, in float32, whatever they are kept in.

    >>> vectors = StoredVectors(np.eye(3, dtype=np.float16), np.array([2, 0]))
    >>> vectors[:1]
    array([[0., 0., 1.]], dtype=float32)

    `stored` (s, d) has a row for each slot, `slots` (n,) says which slot each vector is in; None: they are in order.
    What asks for all of them at once, such as `np.asarray(vectors)`, puts them together in memory.
    """

    ndim, dtype = 2, np.dtype(np.float32)

    def __init__(self, stored: np.ndarray, slots: np.ndarray | None = None) -> None:
        self.stored, self.slots = stored, slots
        self.shape = (len(stored) if slots is None else len(slots), stored.shape[1])

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> np.ndarray:
        """A row by its number, or some by a slice, their numbers (k,) or a choice (n,) of bool."""
        if isinstance(rows, slice):
            start, stop, step = rows.indices(len(self))
            if step == 1 and self.slots is None:
                return _floats(self.stored[start : max(start, stop)])
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

    def __matmul__(self, other: np.ndarray) -> np.ndarray:
        """The product with a vector (d,) or a matrix (d, k), some slots at a time."""
        product = np.empty((len(self.stored), *other.shape[1:]), np.result_type(self.dtype, other.dtype))
        for start in range(0, len(product), _AT_ONCE):
            product[start : start + _AT_ONCE] = _floats(self.stored[start : start + _AT_ONCE]) @ other
        return product if self.slots is None else product[self.slots]

    def _gathered(self, rows: np.ndarray) -> np.ndarray:
        slots = rows if self.slots is None else self.slots[rows]
        with _few_pages_read(self.stored, slots):
            return _floats(self.stored[slots])


@contextmanager
def _few_pages_read(stored: np.ndarray, rows: np.ndarray) -> Generator[None]:
    """While this lasts, the disk reads the pages of rows that are far apart, and not megabytes around each of them."""
    mapped = getattr(stored, "_mmap", None)
    if mapped is None or not hasattr(mmap, "MADV_RANDOM") or not len(rows) or np.ptp(rows) < _FAR_APART * len(rows):
        yield
        return
    mapped.madvise(mmap.MADV_RANDOM)
    try:
        yield
    finally:
        mapped.madvise(mmap.MADV_NORMAL)


def _floats(rows: np.ndarray) -> np.ndarray:
    """Rows as plain float32; torch widens float16 in less time than numpy."""
    if rows.dtype == np.float32:
        return rows.view(np.ndarray)
    return torch.from_numpy(np.array(rows)).float().numpy()


def unit_vectors(vectors: np.ndarray) -> np.ndarray:
    """Vectors (n, d) as float32 of length 1; a row that is zero or not finite is named."""
    refuse_masked(vectors, "vectors")
    array = np.asarray(vectors)
    if array.ndim != 2 or array.dtype.kind not in "fiu":
        raise ValueError(f"Vectors are numbers of shape (n, d), not {array.dtype} of shape {array.shape}.")
    rows = cosine.given_rows(array)
    norms = cosine.row_norms(rows)
    bad = np.flatnonzero(~np.isfinite(norms) | (norms == 0))
    if len(bad):
        raise ValueError(f"Vector {bad[0]} is zero or not finite, so nothing is like it: leave it out.")
    return cosine.unit_rows(rows, norms, torch.float32).numpy()


def unit(vector: np.ndarray) -> np.ndarray:
    """The vector (d,) at length 1."""
    return unit_vectors(np.asanyarray(vector)[None])[0]


Vectors: TypeAlias = np.ndarray | StoredVectors  # (n, d)
