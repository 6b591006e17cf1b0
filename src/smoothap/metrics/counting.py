"""How many negatives score at least as high as each positive, for every query, by tiles of the score matrix.

Sorted by class, the positives of a query are neighbours. Their scores are computed by the definition (`cosine.py`).
Then a matrix product proposes the scores of all pairs, tile by tile: a negative whose proposed score lies further from
a positive's than the product can err is counted or not, and the few others are scored by the definition too. So the
counts are those of the definition: whole numbers that depend neither on the processor nor on block size, threads or
processes.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from smoothap._core.devices import has_float64
from smoothap._core.distributed import Processes
from smoothap._core.progress import Progress
from smoothap._core.threads import numba_is_there, on_threads
from smoothap.metrics.cosine import error_bound, pair_scores
from smoothap.metrics.rows import Rows, SortedSets

_LARGEST_TILE = 2048
_POSITIVES_AT_ONCE = 3 << 22  # 400 MB of scores, counts and tables
_PAIRS_WORTH_COMPILING = 1 << 24  # less is counted in the time in which numba is imported and its kernels are read
# one pair in that many: from there on a product in float64, which decides nearly all, is faster
_TOO_MANY_UNDECIDED = 8
_PROBED = 64  # queries
_FEW = 16  # thresholds that are compared one by one
_FEW_TO_SORT = 128  # of a query
_QUERIES_AT_ONCE = 4096


class Counter:
    """The thresholds (scores of positives) of queries start ... stop - 1, and the negatives at or above each.

    Those of query q are at offset[q] ... offset[q + 1] - 2 of `exact` and `counts`, with infinity behind them; once
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
        """Score queries start ... stop - 1 with their positives, which are among items begin ... end - 1."""
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

    def tile(self, top: int, bottom: int, left: int, right: int, room: Tensor) -> Tensor:
        """Proposed scores of queries top ... bottom - 1 and items left ... right - 1."""
        queries = self.sets.queries.units(top, bottom, room.dtype)
        items = self.sets.items.units(left, right, room.dtype)
        return torch.mm(queries, items.T, out=_view(room, len(queries), len(items)))

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

    def count_columns(self, tile: Tensor, top: int, left: int, turned: Tensor) -> None:
        """Count the tile for the queries that are its columns; `turned` has room for it."""
        self.count_rows(_view(turned, *tile.T.shape).copy_(tile.T), left, top)

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


class CompiledCounter(Counter):
    """As `Counter`, for tiles on the CPU, by kernels on as many threads as torch uses."""

    def __init__(self, sets: SortedSets, start: int, stop: int) -> None:
        from smoothap.metrics import kernels  # which need numba

        super().__init__(sets, start, stop)
        self.kernels = kernels
        self.scales, self.tables = np.zeros(1, np.float32), np.zeros(0, np.int32)  # `propose_in` sets them

    def score_positives(self, start: int, stop: int, begin: int, end: int) -> None:
        sides = self._side(self.sets.queries, start, stop), self._side(self.sets.items, begin, end)
        self._run(self.kernels.score_positives, start, begin, *sides, self.sets.one_set, self.sets.left_out)

    def sort(self) -> None:
        if np.diff(self.offset).max() <= _FEW_TO_SORT:
            self._run(self.kernels.sort_thresholds)
        else:
            on_threads(self._sort_part, torch.get_num_threads())

    def _sort_part(self, part: int, parts: int) -> None:
        """Sort every `parts`-th query's by numpy, which is faster where they are many."""
        for query in range(self.start + part, self.stop, parts):
            row = self.exact[self.offset[query] : self.offset[query + 1]]
            if len(row):
                row[-1] = np.inf
                row.sort()
                self.count[query] = np.searchsorted(row, np.inf)

    def propose_in(self, dtype: torch.dtype) -> None:
        super().propose_in(dtype)
        if dtype == torch.float64:  # the tiles are the definition's scores
            self.upper, self.width = self.exact, np.zeros(1)
        if self.count.max() > self.kernels.FEW:
            self.scales = np.zeros(len(self.count), self.upper.dtype)
            self.tables = np.zeros(self.kernels.BINS * len(self.exact), np.int32)
            self._run(self.kernels.tabulate)

    def tile(self, top: int, bottom: int, left: int, right: int, room: Tensor) -> Tensor:
        if self.dtype == torch.float32:
            return super().tile(top, bottom, left, right, room)
        from smoothap.metrics.cosine_kernels import score_tile, turned

        given, norms = self.sets.queries.side(top, bottom)
        items, item_norms = self.sets.items.side(left, right)
        tile = _view(room, len(given), len(items))
        sides = given.numpy(), norms, turned(items), item_norms
        on_threads(score_tile, torch.get_num_threads(), *sides, tile.numpy())
        return tile

    def count_rows(self, tile: Tensor, top: int, left: int) -> None:
        self._count(self.kernels.count_rows, tile, top, left)

    def count_columns(self, tile: Tensor, top: int, left: int, turned: Tensor) -> None:
        if self.count[left : left + tile.shape[1]].max() <= self.kernels.FEW:
            self._count(self.kernels.count_columns_of_few, tile, top, left)
        else:
            super().count_columns(tile, top, left, turned)

    def _count(self, kernel: Callable[..., int], tile: Tensor, top: int, left: int) -> None:
        rows = self._side(self.sets.queries, top, top + len(tile))
        columns = self._side(self.sets.items, left, left + tile.shape[1])
        self.scored += sum(self._run(kernel, tile.numpy(), top, left, rows, columns))

    def _run(self, kernel: Callable[..., Any], *arguments: object) -> list[Any]:
        from smoothap.metrics.kernels import Thresholds

        thresholds = Thresholds(
            self.sets.first, self.sets.last, self.offset, self.count, self.exact, self.upper, self.width, self.counts,
            self.scales, self.tables,
        )  # fmt: skip
        return on_threads(kernel, torch.get_num_threads(), *arguments, thresholds)

    def _side(self, rows: Rows, start: int, stop: int) -> tuple[Any, ...]:
        given, norms = rows.side(start, stop)
        return self.kernels.Side(given.numpy(), norms, rows.group[start:stop])


def count_negatives(sets: SortedSets, block_size: int | None, processes: Processes, shown: bool) -> Iterator[Counter]:
    """The positives of every query and what was counted for them, a block of queries at a time."""
    queries = len(sets.first)
    widest = int((sets.last - sets.first).max(initial=1))
    size = min(_LARGEST_TILE, max(64, _POSITIVES_AT_ONCE // widest))
    tiles_at_once = max(1, _POSITIVES_AT_ONCE // max(1, size * widest))
    if block_size is not None:
        tiles_at_once = min(tiles_at_once, max(1, block_size // size))
    step = tiles_at_once * size
    blocks = [(start, min(start + step, queries)) for start in range(0, queries, step)]
    total = sum(1 for start, stop in blocks for _ in _corners(sets, start, stop, size))
    dtype = torch.float32
    with Progress("Ranking", total, "tiles", shown and processes.rank == 0) as progress:
        for start, stop in blocks:
            counter = _count_block(sets, start, stop, size, dtype, processes, progress)
            dtype = counter.dtype
            yield counter


def _corners(sets: SortedSets, start: int, stop: int, size: int) -> Iterator[tuple[int, int]]:
    """The upper left corners of a block's tiles; of two that mirror each other, both queries of the block, only one."""
    for top in range(start, stop, size):
        for left in range(0, len(sets.items.order), size):
            if not (sets.symmetric and start <= left < top):
                yield top, left


def _count_block(
    sets: SortedSets, start: int, stop: int, size: int, dtype: torch.dtype, processes: Processes, progress: Progress
) -> Counter:
    items, device = len(sets.items.order), sets.queries.device
    counter = Counter(sets, start, stop)
    if len(sets.first) * items >= _PAIRS_WORTH_COMPILING and device.type == "cpu" and numba_is_there():
        counter = CompiledCounter(sets, start, stop)
    _score_positives(sets, counter, start, stop, processes)
    counter.sort()
    counter.propose_in(dtype)
    room, turned = torch.empty(2, size * size, dtype=dtype, device=device)
    if dtype == torch.float32:  # the first rows say which tiles are best
        probe = _tile(counter, start, min(start + _PROBED, stop), 0, min(size, items), room)
        counter.count_rows(probe, start, 0)
        room, turned = _with_digits(counter, 0, probe, room, turned)
        counter.counts[:] = 0
    for top, left in _corners(sets, start, stop, size):
        if not processes.has((top + left) // size):
            continue
        before, bottom, right = counter.scored, min(top + size, stop), min(left + size, items)
        tile = _tile(counter, top, bottom, left, right, room)
        counter.count_rows(tile, top, left)
        if sets.symmetric and start <= left < stop and left != top:
            counter.count_columns(tile, top, left, turned)
        room, turned = _with_digits(counter, before, tile, room, turned)
        progress.advance()
    processes.add_up(counter.counts)
    return counter


def _with_digits(counter: Counter, before: int, tile: Tensor, room: Tensor, turned: Tensor) -> tuple[Tensor, Tensor]:
    """Room for further tiles: of float64 from here on where this one left too many pairs to the definition."""
    if (counter.scored - before) * _TOO_MANY_UNDECIDED <= tile.numel() or not has_float64(tile.device):
        return room, turned
    counter.propose_in(torch.float64)
    return room.double(), turned.double()


def _score_positives(sets: SortedSets, counter: Counter, start: int, stop: int, processes: Processes) -> None:
    """Work out the scores of all positives of a block, some queries at a time."""
    step = max(_LARGEST_TILE, 2 * int((sets.last[start:stop] - sets.first[start:stop]).max(initial=0)))
    for number, top in enumerate(range(start, stop, step)):
        bottom = min(top + step, stop)
        wide = np.flatnonzero(sets.last[top:bottom] > sets.first[top:bottom]) + top
        if not len(wide) or not processes.has(number):
            continue
        counter.score_positives(top, bottom, int(sets.first[wide].min()), int(sets.last[wide].max()))
        if sets.ignored is not None:
            for query in wide:
                first, last = sets.first[query], sets.last[query]
                out = sets.ignored[sets.queries.order[query], sets.items.order[first:last]]
                counter.exact[counter.offset[query] : counter.offset[query] + last - first][out] = np.inf
    processes.add_up(counter.exact)


def _tile(counter: Counter, top: int, bottom: int, left: int, right: int, room: Tensor) -> Tensor:
    """The counter's tile, with minus infinity for ignored pairs."""
    sets = counter.sets
    tile = counter.tile(top, bottom, left, right, room)
    if sets.ignored is not None:
        rows, columns = sets.queries.order[top:bottom], sets.items.order[left:right]
        ignored = torch.from_numpy(sets.ignored[np.ix_(rows, columns)]).to(tile.device)
        tile.masked_fill_(ignored, float("-inf"))
    return tile


def _view(room: Tensor, rows: int, columns: int) -> Tensor:
    return room[: rows * columns].view(rows, columns)


def ranges(rows: np.ndarray, begin: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each row with each number from its begin to its end. (n,) each -> two of (sum of lengths,)"""
    length = np.maximum(end - begin, 0)
    place = np.arange(length.sum()) - np.repeat(np.cumsum(length) - length, length)
    return np.repeat(rows, length), np.repeat(begin, length) + place
