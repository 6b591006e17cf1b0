"""How many negatives score at least as high as each positive, for every query, by tiles of the score matrix.

Sorted by class, the positives of a query are neighbours. A first pass over the few tiles that hold positives takes
their scores; a second over all tiles counts the negatives at or above each. Counts are whole numbers: they do not
depend on block size, threads or processes. A positive is never compared with itself, and every tile is a product of
one fixed shape (the last one padded), so that the same two vectors always give the same bits.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from smoothap.distributed import Processes
from smoothap.metrics.counters import CompiledCounter, PlainCounter
from smoothap.metrics.rows import Rows
from smoothap.progress import Progress
from smoothap.ranking.threads import numba_is_there

_LARGEST_TILE = 1024
_BYTES_KEPT = 160 << 20
_POSITIVES_AT_ONCE = 1 << 24  # 400 MB of scores, counts and tables


@dataclass(frozen=True)
class Problem:
    """Queries and items, both sorted by class."""

    queries: Rows
    items: Rows
    first: np.ndarray  # (queries,) where the items of the query's class begin
    last: np.ndarray  # (queries,) and end
    one_set: bool  # items are the queries themselves: each is left out of its own ranking
    left_out: np.ndarray  # (items,) bool: no positive for its own class, and no negative
    ignored: np.ndarray | None  # (queries, items) bool, in the callers' order


@dataclass(frozen=True)
class Counts:
    """For queries start ... stop - 1: the positives of query q, lowest score first, are offset[q] ... + count[q]."""

    start: int
    stop: int
    offset: np.ndarray  # (queries + 1,)
    count: np.ndarray  # (queries,)
    scores: np.ndarray  # of each positive
    negatives: np.ndarray  # that score at least as high


def count_negatives(problem: Problem, block_size: int | None, processes: Processes, shown: bool) -> Iterator[Counts]:
    """The counts of every query, a block of queries at a time."""
    queries, items = len(problem.queries.order), len(problem.items.order)
    widest = int((problem.last - problem.first).max(initial=1))
    size = _tile_size(max(queries, items), problem.items.matrix.shape[1], widest)
    tiles_at_once = max(1, _POSITIVES_AT_ONCE // max(1, size * widest))
    if block_size is not None:
        tiles_at_once = min(tiles_at_once, max(1, block_size // size))
    block = tiles_at_once * size
    total = sum(_pairs(start, min(start + block, queries), items, size, problem) for start in range(0, queries, block))
    with Progress("Ranking", total, "tiles", shown and processes.rank == 0) as progress:
        for start in range(0, queries, block):
            yield _count_block(problem, start, min(start + block, queries), size, processes, progress)


def _tile_size(rows: int, dimension: int, widest: int) -> int:
    """One size for all tiles: not so small that a product is cut along the dimension, whose sum would round anew."""
    smallest = 64 if dimension <= 64 else 512 if dimension <= 1024 else _LARGEST_TILE
    fitting = max(64, _POSITIVES_AT_ONCE // widest // 64 * 64)
    return min(max(smallest, -(-rows // 64) * 64), _LARGEST_TILE, max(smallest, fitting))


def _corners(start: int, stop: int, items: int, size: int, symmetric: bool) -> Iterator[tuple[int, int]]:
    """The upper left corners of a block's tiles; of two that mirror each other, both queries of the block, only one."""
    for top in range(start, stop, size):
        for left in range(0, items, size):
            if not (symmetric and start <= left < top):
                yield top, left


def _pairs(start: int, stop: int, items: int, size: int, problem: Problem) -> int:
    return sum(1 for _ in _corners(start, stop, items, size, _symmetric(problem)))


def _symmetric(problem: Problem) -> bool:
    return problem.one_set and problem.ignored is None


def _count_block(
    problem: Problem, start: int, stop: int, size: int, processes: Processes, progress: Progress
) -> Counts:
    items = len(problem.items.order)
    width = problem.last[start:stop] - problem.first[start:stop]
    offset = np.zeros(len(problem.first) + 1, np.int64)
    offset[start + 1 : stop + 1] = np.cumsum(width + 1)
    offset[stop + 1 :] = offset[stop]
    precise = np.float64 if problem.queries.dtype == torch.float64 else np.float32
    compiled = numba_is_there() and problem.queries.device.type == "cpu"
    counting = (CompiledCounter if compiled else PlainCounter)(
        problem.first, problem.last, problem.one_set, problem.left_out, offset, np.zeros(offset[stop], precise)
    )
    symmetric = _symmetric(problem)
    room = torch.empty(size, size, dtype=problem.queries.dtype, device=problem.queries.device)
    mine = [
        (top, left)
        for top, left in _corners(start, stop, items, size, symmetric)
        if processes.has((top + left) // size)
    ]
    kept: dict[tuple[int, int], Tensor] = {}  # tiles of the first pass that the second need not make again
    for top, left in mine:
        bottom = min(top + size, stop)
        if left < problem.last[top:bottom].max() and problem.first[top:bottom].min() < left + size:
            tile = _tile(problem, top, bottom, left, room, outside=float("nan"))
            if problem.ignored is None and len(kept) * room.nbytes < _BYTES_KEPT:
                kept[top, left] = tile = tile.clone()
            counting.take(tile, top, left)
            if symmetric and start <= left < stop and left != top:
                counting.take(tile.T, left, top)
    processes.add_up(counting.thresholds)
    counting.sort()
    for top, left in mine:
        tile = kept.pop((top, left), None)
        if tile is None:
            tile = _tile(problem, top, min(top + size, stop), left, room, outside=float("-inf"))
        counting.count_rows(tile, top, left)
        if symmetric and start <= left < stop and left != top:
            counting.count_columns(tile, top, left)
        progress.advance()
    processes.add_up(counting.counts)
    counting.finish()
    return Counts(start, stop, offset, counting.count, counting.thresholds, counting.counts)


def _tile(problem: Problem, top: int, bottom: int, left: int, room: Tensor, outside: float) -> Tensor:
    """Scores of queries top ... bottom - 1 and items from `left`, in `room`; `outside` where a pair is ignored."""
    size = len(room)
    right = min(left + size, len(problem.items.order))
    torch.mm(problem.queries.tile(top, bottom, size), problem.items.tile(left, right, size).T, out=room)
    tile = room[: bottom - top, : right - left]
    if problem.ignored is not None:
        rows, columns = problem.queries.order[top:bottom], problem.items.order[left:right]
        tile = tile.masked_fill(torch.from_numpy(problem.ignored[np.ix_(rows, columns)]).to(tile.device), outside)
    return tile
