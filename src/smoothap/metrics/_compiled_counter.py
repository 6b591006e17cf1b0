"""Counting tiles of scores by kernels, on as many threads as torch uses. Imported only when numba is installed."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from smoothap._core.threads import on_threads
from smoothap.metrics import _kernels as kernels
from smoothap.metrics._counters import Counter
from smoothap.metrics._rows import Rows, SortedSets


class CompiledCounter(Counter):
    """As `Counter`, for tiles on the CPU."""

    def __init__(self, sets: SortedSets, start: int, stop: int) -> None:
        super().__init__(sets, start, stop)
        self.scales, self.tables = np.zeros(1, np.float32), np.zeros(0, np.int32)  # `propose_in` sets them
        self.transposed = torch.empty(0)

    def score_positives(self, start: int, stop: int, begin: int, end: int) -> None:
        sides = _side(self.sets.queries, start, stop), _side(self.sets.items, begin, end)
        self._run(kernels.score_positives, start, begin, *sides, self.sets.one_set, self.sets.left_out)

    def sort(self) -> None:
        self._run(kernels.sort_thresholds)

    def propose_in(self, dtype: torch.dtype) -> None:
        super().propose_in(dtype)
        if self.count.max() > kernels.FEW:
            self.scales = np.zeros(len(self.count), self.upper.dtype)
            self.tables = np.zeros(kernels.BINS * len(self.exact), np.int32)
            self._run(kernels.tabulate)

    def count_rows(self, tile: Tensor, top: int, left: int) -> None:
        self._count(kernels.count_rows, tile, top, left, self.sets.queries, self.sets.items)

    def count_columns(self, tile: Tensor, top: int, left: int) -> None:
        if self.count[left : left + tile.shape[1]].max() <= kernels.FEW:
            self._count(kernels.count_columns_of_few, tile, top, left, self.sets.items, self.sets.queries)
            return
        if self.transposed.numel() < tile.numel() or self.transposed.dtype != tile.dtype:
            self.transposed = torch.empty(tile.numel(), dtype=tile.dtype)
        transposed = self.transposed[: tile.numel()].view(tile.shape[1], tile.shape[0])
        self.count_rows(transposed.copy_(tile.T), left, top)

    def _count(self, kernel: Callable[..., int], tile: Tensor, top: int, left: int, rows: Rows, columns: Rows) -> None:
        sides = _side(rows, top, top + len(tile)), _side(columns, left, left + tile.shape[1])
        self.scored += sum(self._run(kernel, tile.numpy(), top, left, *sides))

    def _run(self, kernel: Callable[..., Any], *arguments: object) -> list[Any]:
        block = kernels.Thresholds(
            self.sets.first, self.sets.last, self.offset, self.count, self.exact, self.upper, self.width, self.counts,
            self.scales, self.tables,
        )  # fmt: skip
        return on_threads(kernel, torch.get_num_threads(), *arguments, block)


def _side(rows: Rows, start: int, stop: int) -> kernels.Side:
    given, norms = rows.side(start, stop)
    return kernels.Side(given.numpy(), norms, rows.group[start:stop])
