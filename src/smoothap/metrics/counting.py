"""How many negatives score at least as high as each positive, for every query, by tiles of the score matrix.

Sorted by class, the positives of a query are neighbours. Their scores are computed by the definition (`cosine.py`).
Then a matrix product proposes the scores of all pairs, tile by tile: a negative whose proposed score lies further from
a positive's than the product can err is counted or not, and the few others are scored by the definition too. So the
counts are those of the definition: whole numbers that depend neither on the processor nor on block size, threads or
processes.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from smoothap.distributed import Processes
from smoothap.metrics.counters import AnyCounter, CompiledCounter, PlainCounter
from smoothap.metrics.rows import Rows, has_float64
from smoothap.numerics.threads import numba_is_there
from smoothap.progress import Progress

_LARGEST_TILE = 2048
_POSITIVES_AT_ONCE = 3 << 22  # 400 MB of scores, counts and tables
_PAIRS_WORTH_COMPILING = 1 << 24  # less is counted in the time in which numba is imported and its kernels are read
_TOO_MANY_UNDECIDED = 8  # one pair in so many: from there on a product in float64, which decides nearly all, is faster


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
    size = min(_LARGEST_TILE, max(64, _POSITIVES_AT_ONCE // widest))
    tiles_at_once = max(1, _POSITIVES_AT_ONCE // max(1, size * widest))
    if block_size is not None:
        tiles_at_once = min(tiles_at_once, max(1, block_size // size))
    block = tiles_at_once * size
    total = sum(_pairs(start, min(start + block, queries), items, size, problem) for start in range(0, queries, block))
    dtype = torch.float32
    with Progress("Ranking", total, "tiles", shown and processes.rank == 0) as progress:
        for start in range(0, queries, block):
            counter = _count_block(problem, start, min(start + block, queries), size, dtype, processes, progress)
            dtype = counter.dtype
            yield Counts(
                start, min(start + block, queries), counter.offset, counter.count, counter.exact, counter.counts
            )


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
    problem: Problem, start: int, stop: int, size: int, dtype: torch.dtype, processes: Processes, progress: Progress
) -> AnyCounter:
    items, device = len(problem.items.order), problem.queries.device
    width = problem.last[start:stop] - problem.first[start:stop]
    offset = np.zeros(len(problem.first) + 1, np.int64)
    offset[start + 1 : stop + 1] = np.cumsum(width + 1)
    offset[stop + 1 :] = offset[stop]
    many = len(problem.first) * items >= _PAIRS_WORTH_COMPILING
    kind = CompiledCounter if many and device.type == "cpu" and numba_is_there() else PlainCounter
    counter = kind(
        problem.queries, problem.items, problem.first, problem.last, problem.one_set, problem.left_out, offset
    )
    _score_positives(problem, counter, start, stop, processes)
    counter.sort()
    counter.propose_in(dtype)
    symmetric = _symmetric(problem)
    room = torch.empty(size * size, dtype=dtype, device=device)
    for top, left in _corners(start, stop, items, size, symmetric):
        if not processes.has((top + left) // size):
            continue
        before, bottom, right = counter.asked, min(top + size, stop), min(left + size, items)
        tile = _tile(problem, top, bottom, left, right, room)
        counter.count_rows(tile, top, left)
        if symmetric and start <= left < stop and left != top:
            counter.count_columns(tile, top, left)
        if (counter.asked - before) * _TOO_MANY_UNDECIDED > tile.numel() and has_float64(device):
            counter.propose_in(torch.float64)
            room = room.double()
        progress.advance()
    processes.add_up(counter.counts)
    counter.finish()
    return counter


def _score_positives(problem: Problem, counter: AnyCounter, start: int, stop: int, processes: Processes) -> None:
    """Work out the scores of all positives of a block, some queries at a time."""
    step = max(_LARGEST_TILE, 2 * int((problem.last[start:stop] - problem.first[start:stop]).max(initial=0)))
    for number, top in enumerate(range(start, stop, step)):
        bottom = min(top + step, stop)
        wide = np.flatnonzero(problem.last[top:bottom] > problem.first[top:bottom]) + top
        if not len(wide) or not processes.has(number):
            continue
        counter.score_positives(top, bottom, int(problem.first[wide].min()), int(problem.last[wide].max()))
        if problem.ignored is not None:
            for query in wide:
                first, last = problem.first[query], problem.last[query]
                out = problem.ignored[problem.queries.order[query], problem.items.order[first:last]]
                counter.exact[counter.offset[query] : counter.offset[query] + last - first][out] = np.inf
    processes.add_up(counter.exact)


def _tile(problem: Problem, top: int, bottom: int, left: int, right: int, room: Tensor) -> Tensor:
    """Proposed scores of queries top ... bottom - 1 and items left ... right - 1; minus infinity for ignored pairs."""
    queries, items = problem.queries.units(top, bottom, room.dtype), problem.items.units(left, right, room.dtype)
    tile = room[: len(queries) * len(items)].view(len(queries), len(items))
    torch.mm(queries, items.T, out=tile)
    if problem.ignored is not None:
        rows, columns = problem.queries.order[top:bottom], problem.items.order[left:right]
        ignored = torch.from_numpy(problem.ignored[np.ix_(rows, columns)]).to(tile.device)
        tile.masked_fill_(ignored, float("-inf"))
    return tile
