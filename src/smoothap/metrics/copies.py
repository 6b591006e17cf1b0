"""Queries that have an exact copy among their items: a test with many of them says little about new images."""

import numpy as np

from smoothap.metrics.cosine import NUMBERS_READ_AT_ONCE
from smoothap.metrics.rows import Rows, SortedSets


def queries_with_copies(queries: np.ndarray, items: np.ndarray | None = None, ignored: np.ndarray | None = None) -> int:
    """How many queries have an exact copy among their items; copies, and only they, have the same key.

    queries (n,), items (m,): the keys; without items every query is ranked among all others. ignored (n, m): pairs
    that count neither way.
    """
    if items is None:
        _, place, sizes = np.unique(queries, return_inverse=True, return_counts=True)
        return int((sizes[place] > 1).sum())
    order = np.argsort(items, kind="stable")
    first, last = (np.searchsorted(items[order], queries, side=side) for side in ("left", "right"))
    if ignored is None:
        return int((last > first).sum())
    return sum(
        not ignored[query, order[first[query] : last[query]]].all() for query in np.flatnonzero(last > first).tolist()
    )


def copied_vectors(sets: SortedSets) -> int:
    """How many queries have a row, number for number, that an item has too."""
    queries, items = sets.queries, sets.items
    if sets.one_set and sets.ignored is None:
        return queries_with_copies(queries.group)
    ignored = None if sets.ignored is None else sets.ignored[queries.order][:, items.order]
    if not sets.one_set:
        return queries_with_copies(_groups_of_items(queries, items), items.group, ignored)
    assert ignored is not None
    itself = queries.order[:, None] == items.order[None, :]
    return queries_with_copies(queries.group, items.group, ignored | itself)


def _groups_of_items(queries: Rows, items: Rows) -> np.ndarray:
    """The group of the item that each query is equal to, -1 where there is none. (n,)"""
    order = np.argsort(items.marks, kind="stable")
    places = np.searchsorted(items.marks[order], queries.marks).clip(max=len(order) - 1)
    groups = np.full(len(queries.marks), -1)
    alike = np.flatnonzero(items.marks[order[places]] == queries.marks)  # equal rows, and seldom others
    step = max(1, NUMBERS_READ_AT_ONCE // items.matrix.shape[1])
    for start in range(0, len(alike), step):
        here = alike[start : start + step]
        equals = order[places[here]]
        equal = (queries.given(here) == items.given(equals)).all(1).cpu().numpy()
        groups[here[equal]] = items.group[equals[equal]]
    return groups
