"""The two ways to count a tile of scores, with the same answer: compiled on the CPU, or in plain torch anywhere."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from smoothap.metrics.cosine import error_bound, pair_scores
from smoothap.metrics.rows import Rows
from smoothap.numerics.threads import on_threads

if TYPE_CHECKING:
    from smoothap.metrics.kernels import Side, Thresholds

_FEW = 16  # thresholds that are compared one by one
_QUERIES_AT_ONCE = 4096


class Counter:
    """The thresholds (scores of positives) of a block of queries, and the negatives at or above each.

    Those of query q stand at offset[q] ... offset[q + 1] - 2 of `exact` and `counts`, with infinity behind them; once
    sorted, the first count[q] of them count. first, last (queries,): the columns of the query's own class.
    `asked` is how many pairs had to be scored by the definition because the tiles left them open.
    """

    def __init__(
        self,
        queries: Rows,
        items: Rows,
        first: np.ndarray,
        last: np.ndarray,
        one_set: bool,
        left_out: np.ndarray,
        offset: np.ndarray,
    ) -> None:
        self.queries, self.items = queries, items
        self.first, self.last, self.one_set, self.left_out = first, last, one_set, left_out
        self.offset, self.dtype = offset, torch.float32
        self.exact = np.zeros(offset[-1])
        self.count = np.zeros(len(first), np.int64)
        self.counts = np.zeros(offset[-1], np.int32)
        self.asked = 0
        self.upper = self.width = self.scales = np.zeros(1, np.float32)  # `propose_in` sets them
        self.tables = np.zeros(0, np.int32)
        self.turned: Tensor | None = None

    def propose_in(self, dtype: torch.dtype) -> None:
        """From now on the tiles are of this dtype: say from which proposed score on a negative is above for sure."""
        self.dtype = dtype
        bound = error_bound(self.items.matrix.shape[1], dtype)
        number = np.float64 if dtype == torch.float64 else np.float32
        rounding = float(np.finfo(number).eps)  # more than a score, which is about 1 at most, loses in that dtype
        self.upper = (self.exact + (bound + rounding)).astype(number)
        self.width = np.array([2 * bound + 8 * rounding], number)


class CompiledCounter(Counter):
    """By the kernels, on as many threads as torch uses."""

    def score_positives(self, start: int, stop: int, begin: int, end: int) -> None:
        """Score queries start ... stop - 1 with their positives, which lie among items begin ... end - 1."""
        from smoothap.metrics import kernels

        sides = _side(self.queries, start, stop), _side(self.items, begin, end)
        self._run(kernels.score_positives, start, begin, *sides, self.one_set, self.left_out, self._block())

    def sort(self) -> None:
        """All positives are there: sort them."""
        from smoothap.metrics import kernels

        self._run(kernels.sort_thresholds, self._block())

    def propose_in(self, dtype: torch.dtype) -> None:
        """From now on the tiles are of this dtype."""
        from smoothap.metrics import kernels

        super().propose_in(dtype)
        if self.count.max() > kernels.FEW:
            self.scales = np.zeros(len(self.count), self.upper.dtype)
            self.tables = np.zeros(kernels.BINS * len(self.exact), np.int32)
            self._run(kernels.tabulate, self._block())

    def count_rows(self, tile: Tensor, top: int, left: int) -> None:
        """Count the tile for the queries that are its rows."""
        from smoothap.metrics import kernels

        self._count(kernels.count_rows, tile, top, left, self.queries, self.items)

    def count_columns(self, tile: Tensor, top: int, left: int) -> None:
        """Count the tile for the queries that are its columns."""
        from smoothap.metrics import kernels

        if self.count[left : left + tile.shape[1]].max() <= kernels.FEW:
            self._count(kernels.count_columns_of_few, tile, top, left, self.items, self.queries)
            return
        if self.turned is None or self.turned.numel() < tile.numel() or self.turned.dtype != tile.dtype:
            self.turned = torch.empty(tile.numel(), dtype=tile.dtype)
        turned = self.turned[: tile.numel()].view(tile.shape[1], tile.shape[0])
        self.count_rows(turned.copy_(tile.T), left, top)

    def finish(self) -> None:
        """All tiles are counted."""
        from smoothap.metrics import kernels

        kernels.sum_up(self._block())

    def _count(self, kernel: Callable[..., int], tile: Tensor, top: int, left: int, rows: Rows, columns: Rows) -> None:
        sides = _side(rows, top, top + len(tile)), _side(columns, left, left + tile.shape[1])
        self.asked += sum(self._run(kernel, tile.numpy(), top, left, *sides, self._block()))

    def _run(self, kernel: Callable[..., Any], *arguments: object) -> list[Any]:
        return on_threads(kernel, torch.get_num_threads(), *arguments)

    def _block(self) -> Thresholds:
        from smoothap.metrics.kernels import Thresholds

        return Thresholds(
            self.first, self.last, self.offset, self.count, self.exact, self.upper, self.width, self.counts,
            self.scales, self.tables,
        )  # fmt: skip


def _side(rows: Rows, start: int, stop: int) -> Side:
    from smoothap.metrics.kernels import Side

    given, norms = rows.side(start, stop)
    return Side(given.numpy(), norms, rows.group[start:stop])


class PlainCounter(Counter):
    """By torch, on any device."""

    def score_positives(self, start: int, stop: int, begin: int, end: int) -> None:
        """Score queries start ... stop - 1 with their positives, which lie among items begin ... end - 1."""
        rows = np.arange(start, stop)
        query, item = _ranges(rows, self.first[rows], self.last[rows])
        sides = (*self.queries.side(start, stop), *self.items.side(begin, end))
        scores = pair_scores(*sides, query - start, item - begin)
        out = self.left_out[item] | (self.one_set & (query == item))
        self.exact[self.offset[query] + item - self.first[query]] = np.where(out, np.inf, scores)

    def sort(self) -> None:
        """All positives are there: sort them."""
        for start in range(0, len(self.first), _QUERIES_AT_ONCE):
            edges = self.offset[start : start + _QUERIES_AT_ONCE + 1]
            here = slice(edges[0], edges[-1])
            self.exact[edges[1:][np.diff(edges) > 0] - 1] = np.inf
            query = np.repeat(np.arange(len(edges) - 1), np.diff(edges))
            self.exact[here] = self.exact[here][np.lexsort((self.exact[here], query))]
            self.count[start : start + len(edges) - 1] = np.bincount(
                query[np.isfinite(self.exact[here])], minlength=len(edges) - 1
            )

    def count_rows(self, tile: Tensor, top: int, left: int) -> None:
        """Count the tile for the queries that are its rows."""
        rows = np.arange(top, top + len(tile))
        count = self.count[rows]
        slots = int(count.max())
        if not slots:
            return
        row, place = _ranges(rows, np.zeros_like(count), count)
        padded = np.full((len(rows), slots + 1), np.inf, self.upper.dtype)  # one infinity at least at the end
        padded[row - top, place] = self.upper[self.offset[row] + place]
        upper = torch.from_numpy(padded).to(tile.device)
        column = torch.arange(left, left + tile.shape[1], device=tile.device)
        first, last = (torch.from_numpy(edge[rows]).to(tile.device)[:, None] for edge in (self.first, self.last))
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
        found = table[:, :0:-1].cumsum(1)[:, ::-1]
        self.counts[self.offset[row] + place] += found[row - top, place].astype(np.int32)

    def count_columns(self, tile: Tensor, top: int, left: int) -> None:
        """Count the tile for the queries that are its columns."""
        self.count_rows(tile.T.contiguous(), left, top)

    def finish(self) -> None:
        """All tiles are counted."""

    def _places(self, pairs: np.ndarray, top: int, left: int, width: int) -> np.ndarray:
        """How many of its thresholds each undecided pair (query - top, item - left) is at or above. (n, 2) -> (n,)"""
        if not len(pairs):
            return np.empty(0, np.int64)
        height = int(pairs[:, 0].max()) + 1
        # Copies of one image are scored once: pairs of groups are looked up in a table of the tile's size.
        kind, kinds = (
            np.unique(side.group[start : start + number], return_index=True, return_inverse=True)[1:]
            for side, start, number in ((self.queries, top, height), (self.items, left, width))
        )
        query, item = kind[1][pairs[:, 0]], kinds[1][pairs[:, 1]]
        known = np.zeros((len(kind[0]), len(kinds[0])), bool)
        known[query, item] = True
        asked = np.argwhere(known)
        sides = (*self.queries.side(top, top + height), *self.items.side(left, left + width))
        scores = np.empty(known.shape)
        scores[known] = pair_scores(*sides, kind[0][asked[:, 0]], kinds[0][asked[:, 1]])
        self.asked += len(asked)
        answers, places = scores[query, item], np.zeros(len(pairs), np.int64)
        starts = np.append(np.flatnonzero(np.diff(pairs[:, 0], prepend=-1)), len(pairs))  # pairs come query by query
        for begin, end in pairwise(starts):
            asking = top + pairs[begin, 0]
            own = self.exact[self.offset[asking] : self.offset[asking] + self.count[asking]]
            places[begin:end] = np.searchsorted(own, answers[begin:end], side="right")
        return places


AnyCounter: TypeAlias = CompiledCounter | PlainCounter


def _ranges(rows: np.ndarray, begin: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each row with each number from its begin to its end. (n,) each -> two of (sum of lengths,)"""
    length = np.maximum(end - begin, 0)
    place = np.arange(length.sum()) - np.repeat(np.cumsum(length) - length, length)
    return np.repeat(rows, length), np.repeat(begin, length) + place
