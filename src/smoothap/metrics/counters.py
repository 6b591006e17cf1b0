"""The two ways to count a tile of scores, with the same answer: compiled on the CPU, or in plain torch anywhere."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from smoothap.ranking.threads import on_threads

_FEW = 16  # thresholds that are compared one by one
_QUERIES_AT_ONCE = 4096


class Counter:
    """The thresholds (scores of positives) of a block of queries, and the negatives at or above each.

    Those of query q stand at offset[q] ... offset[q + 1] - 2 of `thresholds` and `counts`, with infinity behind them;
    once sorted, the first count[q] of them count. first, last (queries,): the columns of the query's own class.
    """

    def __init__(
        self,
        first: np.ndarray,
        last: np.ndarray,
        one_set: bool,
        left_out: np.ndarray,
        offset: np.ndarray,
        thresholds: np.ndarray,
    ) -> None:
        self.first, self.last, self.one_set, self.left_out = first, last, one_set, left_out
        self.offset, self.thresholds = offset, thresholds
        self.count = np.zeros(len(first), np.int64)
        self.counts = np.zeros(len(thresholds), np.int32)


class CompiledCounter(Counter):
    """By the kernels, on as many threads as torch uses."""

    def __init__(self, *problem: Any) -> None:
        from smoothap.metrics import kernels

        super().__init__(*problem)
        self.kernels, self.parts = kernels, torch.get_num_threads()
        self.turned: Tensor | None = None
        self.scales, self.tables = np.zeros(0, self.thresholds.dtype), np.zeros(0, np.int32)

    def take(self, tile: Tensor, top: int, left: int) -> None:
        """Store the scores of the positives in this tile."""
        self.kernels.take_positives(
            tile.numpy(), top, left, self.first, self.last, self.offset, self.one_set, self.left_out, self.thresholds
        )

    def sort(self) -> None:
        """All positives are there: sort them."""
        on_threads(
            lambda part: self.kernels.sort_thresholds(part, self.parts, self.offset, self.thresholds, self.count),
            self.parts,
        )
        if self.count.max() > self.kernels.FEW:
            self.scales = np.zeros(len(self.count), self.thresholds.dtype)
            self.tables = np.zeros(self.kernels.BINS * len(self.thresholds), np.int32)
        on_threads(
            lambda part: self.kernels.tabulate(
                part, self.parts, self.offset, self.count, self.thresholds, self.scales, self.tables
            ),
            self.parts,
        )

    def count_rows(self, tile: Tensor, top: int, left: int) -> None:
        """Count the tile for the queries that are its rows."""
        self._count(self.kernels.count_rows, tile, top, left)

    def count_columns(self, tile: Tensor, top: int, left: int) -> None:
        """Count the tile for the queries that are its columns."""
        if self.count[left : left + tile.shape[1]].max() <= self.kernels.FEW:
            self._count(self.kernels.count_columns_of_few, tile, top, left)
            return
        if self.turned is None or self.turned.numel() < tile.numel():
            self.turned = torch.empty(tile.numel(), dtype=tile.dtype)
        turned = self.turned[: tile.numel()].view(tile.shape[1], tile.shape[0])
        self._count(self.kernels.count_rows, turned.copy_(tile.T), left, top)

    def _count(self, kernel: Callable[..., None], tile: Tensor, top: int, left: int) -> None:
        array = tile.numpy()

        def run(part: int) -> None:
            kernel(
                array, top, left, part, self.parts, self.first, self.last, self.offset, self.count, self.thresholds,
                self.counts, self.scales, self.tables,
            )  # fmt: skip

        on_threads(run, self.parts)

    def finish(self) -> None:
        """All tiles are counted."""
        self.kernels.sum_up(self.offset, self.count, self.counts)


class PlainCounter(Counter):
    """By torch, on any device."""

    def take(self, tile: Tensor, top: int, left: int) -> None:
        """Store the scores of the positives in this tile."""
        width = tile.shape[1]
        rows = np.arange(top, top + len(tile))
        begin, end = (np.clip(edge[rows], left, left + width) for edge in (self.first, self.last))
        row, item = _ranges(rows, begin, end)
        scores = tile[torch.from_numpy(row - top).to(tile.device), torch.from_numpy(item - left).to(tile.device)]
        scores = scores.cpu().numpy()
        out = self.left_out[item] | np.isnan(scores) | (self.one_set & (row == item))
        self.thresholds[self.offset[row] + item - self.first[row]] = np.where(out, np.inf, scores)

    def sort(self) -> None:
        """All positives are there: sort them."""
        for start in range(0, len(self.first), _QUERIES_AT_ONCE):
            edges = self.offset[start : start + _QUERIES_AT_ONCE + 1]
            here = slice(edges[0], edges[-1])
            self.thresholds[edges[1:][np.diff(edges) > 0] - 1] = np.inf
            query = np.repeat(np.arange(len(edges) - 1), np.diff(edges))
            self.thresholds[here] = self.thresholds[here][np.lexsort((self.thresholds[here], query))]
            self.count[start : start + len(edges) - 1] = np.bincount(
                query[np.isfinite(self.thresholds[here])], minlength=len(edges) - 1
            )

    def count_rows(self, tile: Tensor, top: int, left: int) -> None:
        """Count the tile for the queries that are its rows."""
        rows = np.arange(top, top + len(tile))
        count = self.count[rows]
        slots = int(count.max())
        if not slots:
            return
        row, place = _ranges(rows, np.zeros_like(count), count)
        padded = np.full((len(rows), slots), np.inf, self.thresholds.dtype)
        padded[row - top, place] = self.thresholds[self.offset[row] + place]
        thresholds = torch.from_numpy(padded).to(tile.device)
        column = torch.arange(left, left + tile.shape[1], device=tile.device)
        first, last = (torch.from_numpy(edge[rows]).to(tile.device)[:, None] for edge in (self.first, self.last))
        negatives = tile.masked_fill((first <= column) & (column < last), float("-inf"))
        if slots <= _FEW:
            found = torch.stack([(negatives >= thresholds[:, k, None]).sum(1) for k in range(slots)], 1)
        else:
            above = torch.searchsorted(thresholds, negatives.contiguous(), right=True)
            histogram = torch.zeros(len(rows), slots + 1, dtype=torch.long, device=tile.device)
            histogram.scatter_add_(1, above, torch.ones_like(above))
            found = histogram[:, 1:].flip(1).cumsum(1).flip(1)
        self.counts[self.offset[row] + place] += found.cpu().numpy()[row - top, place].astype(np.int32)

    def count_columns(self, tile: Tensor, top: int, left: int) -> None:
        """Count the tile for the queries that are its columns."""
        self.count_rows(tile.T.contiguous(), left, top)

    def finish(self) -> None:
        """All tiles are counted."""


def _ranges(rows: np.ndarray, begin: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each row with each number from its begin to its end. (n,) each -> two of (sum of lengths,)"""
    length = np.maximum(end - begin, 0)
    place = np.arange(length.sum()) - np.repeat(np.cumsum(length) - length, length)
    return np.repeat(rows, length), np.repeat(begin, length) + place
