"""Embeddings wherever they are (torch or numpy, in memory or mapped from a file), read some rows at a time."""

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from smoothap._core.devices import has_float64
from smoothap.metrics.cosine import NUMBERS_READ_AT_ONCE, given_rows, norms_and_marks, unit_rows

Embeddings: TypeAlias = Tensor | np.ndarray
_SMALL_ENOUGH_TO_HOLD = 1 << 26  # numbers: 256 MB in float32


@dataclass(frozen=True)
class Rows:
    """Rows of a matrix in a given order: as they were given, and scaled to length 1 on a device."""

    matrix: Embeddings
    order: np.ndarray  # (n,) which row stands where
    norms: np.ndarray  # (n,) the length of the row that stands there, by the definition
    group: np.ndarray  # (n,) the same number for equal rows
    marks: np.ndarray  # (n,) the same number for equal rows of any matrix, and seldom for others
    device: torch.device
    held: Tensor | None = None  # a small matrix as it was given, in order
    held_units: Tensor | None = None  # and of length 1, float32, on the device

    @classmethod
    def of(cls, matrix: Embeddings, order: np.ndarray, device: torch.device, name: str) -> "Rows":
        """Look at every row once; NaN, infinite and zero rows are refused by name."""
        number, dimension = matrix.shape
        norms, marks = norms_and_marks(matrix)
        wrong = np.flatnonzero(~np.isfinite(norms) | (norms == 0))
        if len(wrong):
            what = "is all zeros" if norms[wrong[0]] == 0 else "has NaN or infinite values"
            raise ValueError(
                f"{name} {what} in row {wrong[0]}, which cannot be ranked: embed that image again or drop it"
            )
        rows = cls(matrix, order, norms[order], _groups(matrix, marks)[order], marks[order], device)
        if number * dimension > _SMALL_ENOUGH_TO_HOLD:
            return rows
        rows = replace(rows, held=rows.given(slice(None)))
        return replace(rows, held_units=rows.units(0, len(order), torch.float32))

    def given(self, places: slice | np.ndarray) -> Tensor:
        """The rows that stand in these places as they were given, where float64 can be computed. (n, d)"""
        if self.held is None:
            rows = _read(self.matrix, self.order[places])
            return rows.to(self.device) if has_float64(self.device) else rows.cpu()
        return self.held[places if isinstance(places, slice) else torch.from_numpy(places).to(self.held.device)]

    def side(self, start: int, stop: int) -> tuple[Tensor, np.ndarray]:
        """Rows start ... stop - 1 as they were given, and their norms: one side of `pair_scores`. (n, d), (n,)"""
        return self.given(slice(start, stop)), self.norms[start:stop]

    def units(self, start: int, stop: int, dtype: torch.dtype) -> Tensor:
        """The same rows at length 1, on the device. (n, d)"""
        if self.held_units is not None and dtype == self.held_units.dtype:
            return self.held_units[start:stop]
        rows, norms = self.side(start, stop)
        return unit_rows(rows, norms, dtype).to(self.device)


@dataclass(frozen=True)
class SortedSets:
    """Queries and the items that are ranked for them, both sorted by class."""

    queries: Rows
    items: Rows
    first: np.ndarray  # (queries,) where the items of the query's class begin
    last: np.ndarray  # (queries,) and end
    one_set: bool  # items are the queries themselves: each is left out of its own ranking
    left_out: np.ndarray  # (items,) bool: no positive for its own class, and no negative
    ignored: np.ndarray | None  # (queries, items) bool, in the callers' order

    @property
    def symmetric(self) -> bool:
        """Whether a tile of scores off the diagonal serves its rows and its columns alike."""
        return self.one_set and self.ignored is None


def device_of(embeddings: Embeddings) -> torch.device:
    """Where the embeddings are; numpy's are on the CPU."""
    return embeddings.device if isinstance(embeddings, Tensor) else torch.device("cpu")


def _read(matrix: Embeddings, places: np.ndarray) -> Tensor:
    if isinstance(matrix, Tensor):
        return given_rows(matrix[torch.from_numpy(places).to(matrix.device)])
    return given_rows(np.asarray(matrix[places]))


def _groups(matrix: Embeddings, marks: np.ndarray) -> np.ndarray:
    """The same number for equal rows, and for no others. (n,)"""
    _, first, group, sizes = np.unique(marks, return_index=True, return_inverse=True, return_counts=True)
    alike = np.flatnonzero((sizes[group] > 1) & (first[group] != np.arange(len(marks))))
    step = max(1, NUMBERS_READ_AT_ONCE // matrix.shape[1])
    others: dict[bytes, int] = {}
    for start in range(0, len(alike), step):
        places = alike[start : start + step]
        unequal = (_read(matrix, places) != _read(matrix, first[group[places]])).any(1).cpu().numpy()
        for place in places[unequal]:  # rows of one mark that differ: so rare that one by one is soon enough
            row = _read(matrix, np.array([place])).cpu().numpy().tobytes()
            group[place] = others.setdefault(row, len(first) + place)
    return group
