"""Queries that have an exact copy among their items: a test with many of them says little about new images."""

import numpy as np
from torch import Tensor

from smoothap.metrics._rows import Rows, SortedSets
from smoothap.metrics.cosine import NUMBERS_READ_AT_ONCE, given_rows, norms_and_marks


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


def copied_vectors(sets: SortedSets) -> int:
    """How many queries have a row, number for number, that one of their items has too."""
    queries, items = sets.queries, sets.items
    keys, item_keys = np.empty_like(queries.group), np.empty_like(items.group)  # in the callers' order
    keys[queries.order] = queries.group if sets.one_set else _groups_of_items(queries, items)
    item_keys[items.order] = items.group
    return queries_with_copies(keys, None if sets.one_set else item_keys, sets.ignored)


def _groups_of_items(queries: Rows, items: Rows) -> np.ndarray:
    """The group of the item that each query is equal to, -1 where there is none. (n,)"""
    step = max(1, NUMBERS_READ_AT_ONCE // items.matrix.shape[1])
    one_type = queries.given(slice(1)).dtype == items.given(slice(1)).dtype

    def numbers(rows: Rows, places: slice | np.ndarray) -> Tensor:
        """Rows as they were given; as float64 where one side is, so that equal numbers have equal bits."""
        given = rows.given(places)
        return given if one_type else given_rows(given.double())

    def marks_of(rows: Rows) -> np.ndarray:
        if one_type:
            return rows.marks
        starts = range(0, len(rows.order), step)
        return np.concatenate([norms_and_marks(numbers(rows, slice(start, start + step)))[1] for start in starts])

    marks, item_marks = marks_of(queries), marks_of(items)
    order = np.argsort(item_marks, kind="stable")
    places = np.searchsorted(item_marks[order], marks).clip(max=len(order) - 1)
    groups = np.full(len(marks), -1)
    alike = np.flatnonzero(item_marks[order[places]] == marks)  # equal rows, and seldom others
    for start in range(0, len(alike), step):
        here = alike[start : start + step]
        equals = order[places[here]]
        equal = (numbers(queries, here) == numbers(items, equals)).all(1).cpu().numpy()
        groups[here[equal]] = items.group[equals[equal]]
    return groups
