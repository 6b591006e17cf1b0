"""Queries that have an exact copy among their items: a test with many of them says little about new images."""

import numpy as np

from smoothap.metrics._rows import Rows, SortedSets
from smoothap.metrics.cosine import NUMBERS_READ_AT_ONCE


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
