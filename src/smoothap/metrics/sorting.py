"""Ranks by sorting whole rows of scores: where positives are many, images have several labels, or relevance is graded.

A product in float64 proposes the scores of some queries with all items. Where two of them, one of a relevant item, are
nearer to each other than the product can err, both are scored by the definition (`cosine.py`); so the ranks are those
of the definition, as in `counting.py`. Rows of small whole numbers have products that no order of summation rounds:
there the product is the definition.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from smoothap._core.distributed import Processes
from smoothap._core.progress import Progress
from smoothap._core.threads import numba_is_there, on_threads
from smoothap.metrics.cosine import error_bound, pair_scores
from smoothap.metrics.rows import Rows, SortedSets

_SCORES_AT_ONCE = 1 << 22  # 32 MB in float64
_WORTH_COMPILING = 1 << 12  # values
_PAIRS_WORTH_SORTING = 1 << 24
_WHOLE = 2.0**53  # up to which float64 holds every whole number


class Relevance(Protocol):
    """What is relevant to a query; queries and items are in the order of their `Rows`."""

    def positives(self, queries: slice) -> np.ndarray:
        """Which items are positives of some queries. (b, m) bool"""
        ...

    def gains(self, queries: slice) -> np.ndarray | None:
        """What each item is worth to them, for nDCG; None where that is not asked. (b, m) float64"""
        ...


@dataclass(frozen=True)
class RankedSets:
    """Queries, the items that are ranked for them, and which of these are relevant."""

    queries: Rows
    items: Rows
    relevance: Relevance
    one_set: bool  # items are the queries themselves: each is left out of its own ranking
    left_out: np.ndarray  # (items,) bool: no positive, and no negative for a query that it would be a positive of
    ignored: np.ndarray | None  # (queries, items) bool, in the callers' order: pairs that count neither way


def sorting_pays(sets: SortedSets) -> bool:
    """Whether whole rows are sorted sooner than each positive is scored by the definition."""
    items, widest = len(sets.items.order), int((sets.last - sets.first).max(initial=0))
    return 16 * widest > items and len(sets.first) * items >= _PAIRS_WORTH_SORTING


class RankedBlock:
    """The scores of the positives of queries start ... stop - 1, and the negatives at or above each; as `Counter`."""

    def __init__(self, queries: int, start: int, count: np.ndarray) -> None:
        self.start, self.stop = start, start + len(count)
        self.count, self.offset = np.zeros(queries, np.int64), np.zeros(queries + 1, np.int64)
        self.count[start : self.stop] = count
        self.offset[1:] = np.cumsum(self.count)
        self.exact, self.counts = np.zeros(count.sum()), np.zeros(count.sum(), np.int32)
        self.ndcg = np.zeros(len(count))  # NaN for a query to which nothing is worth anything


def rank_rows(sets: RankedSets, block_size: int | None, processes: Processes, shown: bool) -> Iterator[RankedBlock]:
    """Sort the scores of all queries, some of them at a time."""
    queries, items = len(sets.queries.order), len(sets.items.order)
    step = max(1, min(queries, _SCORES_AT_ONCE // items, block_size or queries))
    proposing = _Proposing(sets.queries, sets.items)
    with Progress("Ranking", queries, "queries", shown and processes.rank == 0) as progress:
        for start in range(0, queries, step):
            here = slice(start, min(start + step, queries))
            positives, kept = _of_queries(sets, here)
            block = RankedBlock(queries, start, positives.sum(1))
            scores, gains = proposing.scores(here), sets.relevance.gains(here)
            on_threads(_rank_part, torch.get_num_threads(), block, proposing, processes, positives, kept, scores, gains)
            for values in (block.exact, block.counts, block.ndcg):
                processes.add_up(values)
            progress.advance(block.stop - block.start)
            yield block


def _of_queries(sets: RankedSets, here: slice) -> tuple[np.ndarray, np.ndarray]:
    """Which items are positives of some queries, and which take part in their rankings. (b, m) bool each"""
    positives = sets.relevance.positives(here)
    kept = ~(positives & sets.left_out)
    if sets.ignored is not None:
        kept &= ~sets.ignored[np.ix_(sets.queries.order[here], sets.items.order)]
    if sets.one_set:
        kept[np.arange(len(kept)), np.arange(here.start, here.stop)] = False
    return positives & kept, kept


class _Proposing:
    """Scores of queries with all items in float64, how far they may be off, and the definition for those too near."""

    def __init__(self, queries: Rows, items: Rows) -> None:
        self.queries, self.items = queries, items
        whole = all(_is_whole(side) for side in (queries, items))
        self.bound = 0.0 if whole else 2 * error_bound(items.matrix.shape[1], torch.float64) + 2.0**-50
        self._whole = whole
        self._given = items.given(slice(None))
        self._room: Tensor | None = None
        self._right = self._given.double() if whole else items.units(0, len(items.order), torch.float64)

    def scores(self, here: slice) -> np.ndarray:
        """(b, m) float64, in the same room each time"""
        if not self._whole:
            return self._product(self.queries.units(here.start, here.stop, torch.float64))
        left, norms = self.queries.side(here.start, here.stop)
        scores = self._product(left.double())
        scores /= norms[:, None] * self.items.norms
        return scores

    def _product(self, left: Tensor) -> np.ndarray:
        if self._room is None or len(self._room) < len(left):
            self._room = left.new_empty(len(left), len(self._right))
        return torch.mm(left, self._right.T, out=self._room[: len(left)]).cpu().numpy()

    def defined(self, query: int, items: np.ndarray) -> np.ndarray:
        """The scores of one query with some items by the definition. (k,)"""
        left, norm = self.queries.side(query, query + 1)
        return pair_scores(left, norm, self._given, self.items.norms, np.zeros_like(items), items)


def _is_whole(side: Rows) -> bool:
    """Whether the rows are whole numbers so small that float64 sums their products exactly."""
    rows = side.given(slice(None))
    largest = float(rows.abs().max())
    return rows.shape[1] * largest * largest < _WHOLE and bool((rows == rows.round()).all())


def _rank_part(
    part: int, parts: int, block: RankedBlock, proposing: _Proposing, processes: Processes, positives: np.ndarray,
    kept: np.ndarray, scores: np.ndarray, gains: np.ndarray | None,
) -> None:  # fmt: skip
    for row in range(part, len(positives), parts):
        if processes.has(row):
            worth = None if gains is None else gains[row]
            _rank_row(block, proposing, block.start + row, positives[row], kept[row], scores[row], worth)


def _rank_row(
    block: RankedBlock, proposing: _Proposing, query: int, positive: np.ndarray, kept: np.ndarray, scores: np.ndarray,
    gains: np.ndarray | None,
) -> None:  # fmt: skip
    """Count the negatives at or above each positive of one query, and work out its nDCG."""
    row = query - block.start
    here = slice(block.offset[query], block.offset[query + 1])
    if gains is not None:
        block.ndcg[row] = np.nan
    elif _ranked_at_once(scores, positive, kept, proposing.bound, block.exact[here], block.counts[here]):
        return
    items = np.flatnonzero(kept)
    values, is_positive = scores[items], positive[items]
    relevant = is_positive if gains is None else is_positive | (gains[items] > 0)
    if not relevant.any():
        return
    ordered = np.sort(values)
    own = np.sort(values[relevant])
    places = places_in(ordered, own)
    if proposing.bound and _is_open(ordered, own, places, proposing.bound):
        _settle(values, ordered, own, proposing, query, items)
        ordered = np.sort(values)
    thresholds = own if gains is None and not proposing.bound else np.sort(values[is_positive])
    block.exact[here] = thresholds
    block.counts[here] = len(ordered) - places_in(ordered, thresholds)
    block.counts[here] -= len(thresholds) - places_in(thresholds, thresholds)
    if gains is not None:
        block.ndcg[row] = _ndcg(ordered, values[relevant], gains[items[relevant]])


def _ranked_at_once(
    scores: np.ndarray, positive: np.ndarray, kept: np.ndarray, bound: float, thresholds: np.ndarray, counts: np.ndarray
) -> bool:
    """Fill in the thresholds (k,) and counts (k,) of one query; False where scores are too near to each other."""
    if len(scores) < _WORTH_COMPILING or not numba_is_there():
        return False
    from smoothap.metrics.kernels import count_at_or_above, negatives_of

    others = negatives_of(scores, positive, kept)
    thresholds[:] = scores[positive]
    thresholds.sort()
    others.sort()
    return count_at_or_above(thresholds, others, bound, counts)


def places_in(ordered: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """How many of the values (m,) are below each of the keys (k,); both rise. (k,)"""
    if len(ordered) + len(keys) >= _WORTH_COMPILING and numba_is_there():
        from smoothap.metrics.kernels import merged_places

        return merged_places(ordered, keys)
    return np.searchsorted(ordered, keys)


def _is_open(ordered: np.ndarray, own: np.ndarray, places: np.ndarray, bound: float) -> bool:
    """Whether a value is nearer to one of the own ones, which are at these places, than a product can tell."""
    gaps = np.diff(ordered, prepend=-np.inf, append=np.inf) <= bound
    return bool((gaps[places] | gaps[places + 1]).any())


def _settle(
    values: np.ndarray, ordered: np.ndarray, own: np.ndarray, proposing: _Proposing, query: int, items: np.ndarray
) -> None:
    """Score by the definition what a product cannot tell from a relevant item."""
    low = np.searchsorted(ordered, own - proposing.bound)
    high = np.searchsorted(ordered, own + proposing.bound, side="right")
    is_open = high - low > 1
    edges = np.zeros(len(ordered) + 1, np.int64)
    np.add.at(edges, low[is_open], 1)
    np.add.at(edges, high[is_open], -1)
    undecided = np.flatnonzero((np.cumsum(edges) > 0)[np.searchsorted(ordered, values)])
    values[undecided] = proposing.defined(query, items[undecided])


def _ndcg(ordered: np.ndarray, values: np.ndarray, gains: np.ndarray) -> float:
    """The discounted gain of items with these values and gains (k,) in a ranking, over that of the best ranking.

    Items with equal scores share the mean of their discounts, as in scikit-learn. ordered (m,): all scores, rising.
    """
    discounts = _summed_discounts(len(ordered))
    at_or_above = len(ordered) - np.searchsorted(ordered, values)
    above = len(ordered) - np.searchsorted(ordered, values, side="right")
    shares = (discounts[at_or_above] - discounts[above]) / (at_or_above - above)
    best = math.fsum(np.sort(gains)[::-1] / np.log2(np.arange(2, len(gains) + 2)))
    return math.fsum(gains * shares) / best if best > 0 else math.nan


@lru_cache(maxsize=2)  # rankings of a set have one length, or two
def _summed_discounts(number: int) -> np.ndarray:
    """The sum of the discounts 1 / log2(1 + rank) of the first 0, 1, ... ranks. (number + 1,)"""
    return np.concatenate([[0.0], np.cumsum(1 / np.log2(np.arange(2, number + 2)))])
