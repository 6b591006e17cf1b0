"""Counting tiles of scores in plain torch, on any device; `compiled_counter.py` gives the same answer by kernels."""

from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from smoothap.metrics._rows import SortedSets
from smoothap.metrics.cosine import error_bound, pair_scores

_FEW = 16  # thresholds that are compared one by one
_QUERIES_AT_ONCE = 4096


class Counter:
    """The thresholds (scores of positives) of queries start ... stop - 1, and the negatives at or above each.

    Those of query q stand at offset[q] ... offset[q + 1] - 2 of `exact` and `counts`, with infinity behind them; once
    sorted, the first count[q] of them count. `scored` is how many pairs had to be scored by the definition because the
    tiles left them open.
    """

    def __init__(self, sets: SortedSets, start: int, stop: int) -> None:
        self.sets, self.start, self.stop, self.dtype = sets, start, stop, torch.float32
        self.offset = offset = np.zeros(len(sets.first) + 1, np.int64)
        offset[start + 1 : stop + 1] = np.cumsum(sets.last[start:stop] - sets.first[start:stop] + 1)
        offset[stop + 1 :] = offset[stop]
        self.exact = np.zeros(offset[-1])
        self.count = np.zeros(len(offset) - 1, np.int64)
        self.counts = np.zeros(offset[-1], np.int32)
        self.scored = 0
        self.upper = self.width = np.zeros(1, np.float32)  # `propose_in` sets them

    def score_positives(self, start: int, stop: int, begin: int, end: int) -> None:
        """Score queries start ... stop - 1 with their positives, which lie among items begin ... end - 1."""
        sets, rows = self.sets, np.arange(start, stop)
        query, item = ranges(rows, sets.first[rows], sets.last[rows])
        sides = (*sets.queries.side(start, stop), *sets.items.side(begin, end))
        scores = pair_scores(*sides, query - start, item - begin)
        out = sets.left_out[item] | (sets.one_set & (query == item))
        self.exact[self.offset[query] + item - sets.first[query]] = np.where(out, np.inf, scores)

    def sort(self) -> None:
        """All positives are there: sort them."""
        for start in range(0, len(self.count), _QUERIES_AT_ONCE):
            edges = self.offset[start : start + _QUERIES_AT_ONCE + 1]
            here = slice(edges[0], edges[-1])
            self.exact[edges[1:][np.diff(edges) > 0] - 1] = np.inf
            query = np.repeat(np.arange(len(edges) - 1), np.diff(edges))
            self.exact[here] = self.exact[here][np.lexsort((self.exact[here], query))]
            self.count[start : start + len(edges) - 1] = np.bincount(
                query[np.isfinite(self.exact[here])], minlength=len(edges) - 1
            )

    def propose_in(self, dtype: torch.dtype) -> None:
        """From now on the tiles are of this dtype: say from which proposed score on a negative is above for sure."""
        self.dtype = dtype
        bound = error_bound(self.sets.items.matrix.shape[1], dtype)
        number = np.float64 if dtype == torch.float64 else np.float32
        rounding = float(np.finfo(number).eps)  # more than a score, which is about 1 at most, loses in that dtype
        self.upper = (self.exact + (bound + rounding)).astype(number)
        self.width = np.array([2 * bound + 8 * rounding], number)

    def count_rows(self, tile: Tensor, top: int, left: int) -> None:
        """Count the tile for the queries that are its rows."""
        rows = np.arange(top, top + len(tile))
        count = self.count[rows]
        slots = int(count.max())
        if not slots:
            return
        row, place = ranges(rows, np.zeros_like(count), count)
        padded = np.full((len(rows), slots + 1), np.inf, self.upper.dtype)  # one infinity at least at the end
        padded[row - top, place] = self.upper[self.offset[row] + place]
        upper = torch.from_numpy(padded).to(tile.device)
        column = torch.arange(left, left + tile.shape[1], device=tile.device)
        edges = self.sets.first, self.sets.last
        first, last = (torch.from_numpy(edge[rows]).to(tile.device)[:, None] for edge in edges)
        negatives = tile.masked_fill((first <= column) & (column < last), float("-inf"))
        if slots <= _FEW:
            above = torch.zeros(tile.shape, dtype=torch.long, device=tile.device)
            for k in range(slots):
                above += negatives >= upper[:, k, None]
        else:
            above = torch.searchsorted(upper, negatives.contiguous(), right=True)
        undecided = negatives >= upper.gather(1, above) - float(self.width[0])
        histogram = torch.zeros(len(rows), slots + 1, dtype=torch.long, device=tile.device)
        histogram.scatter_add_(1, above, (~undecided).long())
        table = histogram.cpu().numpy()
        pairs = undecided.nonzero().cpu().numpy()
        np.add.at(table, (pairs[:, 0], self._places(pairs, top, left, tile.shape[1])), 1)
        at_or_above = table[:, :0:-1].cumsum(1)[:, ::-1]
        self.counts[self.offset[row] + place] += at_or_above[row - top, place].astype(np.int32)

    def count_columns(self, tile: Tensor, top: int, left: int) -> None:
        """Count the tile for the queries that are its columns."""
        self.count_rows(tile.T.contiguous(), left, top)

    def _places(self, pairs: np.ndarray, top: int, left: int, width: int) -> np.ndarray:
        """How many of its thresholds each undecided pair (query - top, item - left) is at or above. (n, 2) -> (n,)"""
        if not len(pairs):
            return np.empty(0, np.int64)
        height, sets = int(pairs[:, 0].max()) + 1, self.sets
        # Copies of one image are scored once: pairs of groups are looked up in a table of the tile's size.
        (_, query, query_group), (_, item, item_group) = (
            np.unique(side.group[start : start + number], return_index=True, return_inverse=True)
            for side, start, number in ((sets.queries, top, height), (sets.items, left, width))
        )
        cells = query_group[pairs[:, 0]], item_group[pairs[:, 1]]
        wanted = np.zeros((len(query), len(item)), bool)
        wanted[cells] = True
        groups, item_groups = np.nonzero(wanted)
        sides = (*sets.queries.side(top, top + height), *sets.items.side(left, left + width))
        scores = np.empty(wanted.shape)
        scores[wanted] = pair_scores(*sides, query[groups], item[item_groups])
        self.scored += len(groups)
        answers, places = scores[cells], np.zeros(len(pairs), np.int64)
        starts = np.append(np.flatnonzero(np.diff(pairs[:, 0], prepend=-1)), len(pairs))  # pairs come query by query
        for begin, end in pairwise(starts):
            row = top + pairs[begin, 0]
            thresholds = self.exact[self.offset[row] : self.offset[row] + self.count[row]]
            places[begin:end] = np.searchsorted(thresholds, answers[begin:end], side="right")
        return places


def ranges(rows: np.ndarray, begin: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each row with each number from its begin to its end. (n,) each -> two of (sum of lengths,)"""
    length = np.maximum(end - begin, 0)
    place = np.arange(length.sum()) - np.repeat(np.cumsum(length) - length, length)
    return np.repeat(rows, length), np.repeat(begin, length) + place
