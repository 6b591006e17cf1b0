"""Embeddings wherever they are (torch or numpy, in memory or mapped from a file), read some rows at a time."""

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from smoothap._core.devices import has_float64
from smoothap.metrics.cosine import given_rows, row_digests, row_norms, unit_rows

Embeddings: TypeAlias = Tensor | np.ndarray
_SMALL_ENOUGH_TO_HOLD = 1 << 26  # numbers: 256 MB in float32


def _equal_rows(matrix: Embeddings, norms: np.ndarray) -> np.ndarray:
    """The same number (n,) for equal rows; only rows of the same length are looked at."""
    _, group, counts = np.unique(norms, return_inverse=True, return_counts=True)
    alike = np.flatnonzero(counts[group] > 1)
    known = dict[bytes, int]()
    for row, digest in zip(alike, row_digests(matrix, chosen=alike), strict=True):
        group[row] = len(counts) + known.setdefault(digest, len(known))
    return group


@dataclass(frozen=True)
class Rows:
    """Rows of a matrix in a given order: as they were given, and scaled to length 1 on a device."""

    matrix: Embeddings
    order: np.ndarray  # (n,) which row is where
    norms: np.ndarray  # (n,) the length of the row that is there, by the definition
    group: np.ndarray  # (n,) the same number for equal rows
    device: torch.device
    held: Tensor | None = None  # a small matrix as it was given, in order
    held_units: Tensor | None = None  # and of length 1, float32, on the device

    @classmethod
    def of(
        cls,
        matrix: Embeddings,
        order: np.ndarray,
        device: torch.device,
        name: str,
        groups: dict[bytes, int] | None = None,
        wide: bool = False,
    ) -> "Rows":
        """Look at every row; NaN, infinite and zero rows are refused by name.

        groups: those of the rows of another matrix by their digest, to which these are added; `wide` if one of the two
        is of float64 and the other is not. None where there is no other matrix.
        """
        norms = row_norms(matrix)
        wrong = np.flatnonzero(~np.isfinite(norms) | (norms == 0))
        if len(wrong):
            what = "is all zeros" if norms[wrong[0]] == 0 else "has NaN or infinite values"
            raise ValueError(
                f"{name} {what} in row {wrong[0]}, which cannot be ranked: embed that image again or drop it"
            )
        if groups is None:
            group = _equal_rows(matrix, norms)
        else:
            group = np.array([groups.setdefault(digest, len(groups)) for digest in row_digests(matrix, wide=wide)])
        rows = cls(matrix, order, norms[order], group[order], device)
        if matrix.shape[0] * matrix.shape[1] > _SMALL_ENOUGH_TO_HOLD:
            return rows
        rows = replace(rows, held=rows.given(slice(None)))
        return replace(rows, held_units=rows.units(0, len(order), torch.float32))

    def given(self, places: slice | np.ndarray) -> Tensor:
        """The rows that are in these places as they were given, where float64 can be computed. (n, d)"""
        if self.held is not None:
            return self.held[places if isinstance(places, slice) else torch.from_numpy(places).to(self.held.device)]
        chosen = self.order[places]
        if isinstance(self.matrix, Tensor):
            rows = given_rows(self.matrix[torch.from_numpy(chosen).to(self.matrix.device)])
        else:
            rows = given_rows(np.asarray(self.matrix[chosen]))
        return rows.to(self.device) if has_float64(self.device) else rows.cpu()

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
    classes: np.ndarray  # (queries,) and
    item_classes: np.ndarray  # (items,), rising
    first: np.ndarray  # (queries,) where the items of the query's class begin
    last: np.ndarray  # (queries,) and end
    one_set: bool  # items are the queries themselves: each is left out of its own ranking
    left_out: np.ndarray  # (items,) bool: no positive for its own class, and no negative
    ignored: np.ndarray | None  # (queries, items) bool, in the callers' order

    @property
    def symmetric(self) -> bool:
        """Whether a tile of scores off the diagonal serves its rows and its columns alike."""
        return self.one_set and self.ignored is None


def copies_among(queries: Rows, items: Rows, one_set: bool, ignored: np.ndarray | None) -> int:
    """How many queries have a row, number for number, that one of their items has too."""
    keys, item_keys = np.empty_like(queries.group), np.empty_like(items.group)  # in the callers' order
    keys[queries.order], item_keys[items.order] = queries.group, items.group
    return queries_with_copies(keys, None if one_set else item_keys, ignored)


def device_of(embeddings: Embeddings) -> torch.device:
    """Where the embeddings are; numpy's are on the CPU."""
    return embeddings.device if isinstance(embeddings, Tensor) else torch.device("cpu")


def queries_with_copies(queries: np.ndarray, items: np.ndarray | None = None, ignored: np.ndarray | None = None) -> int:
    """How many queries have an exact copy among their items; copies, and only they, have the same key.

    queries (n,), items (m,): the keys; without items every query is ranked among all others. ignored (n, m): pairs
    that count neither way.
    """
    keys = queries if items is None else items
    order = np.argsort(keys, kind="stable")
    first, last = (np.searchsorted(keys[order], queries, side=side) for side in ("left", "right"))
    has_copy = last - first > (items is None)  # more than itself
    if ignored is None:
        return int(has_copy.sum())
    copies = 0
    for query in np.flatnonzero(has_copy).tolist():
        others = order[first[query] : last[query]]
        counts = ~ignored[query, others] & ((others != query) if items is None else True)
        copies += bool(counts.any())
    return copies
