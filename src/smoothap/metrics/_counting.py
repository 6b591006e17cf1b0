"""How many negatives score at least as high as each positive, for every query, by tiles of the score matrix.

Sorted by class, the positives of a query are neighbours. Their scores are computed by the definition (`cosine.py`).
Then a matrix product proposes the scores of all pairs, tile by tile: a negative whose proposed score lies further from
a positive's than the product can err is counted or not, and the few others are scored by the definition too. So the
counts are those of the definition: whole numbers that depend neither on the processor nor on block size, threads or
processes.
"""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from smoothap._core.devices import has_float64
from smoothap._core.distributed import Processes
from smoothap._core.progress import Progress
from smoothap._core.threads import numba_is_there
from smoothap.metrics._counters import Counter
from smoothap.metrics._rows import SortedSets

_LARGEST_TILE = 2048
_POSITIVES_AT_ONCE = 3 << 22  # 400 MB of scores, counts and tables
_PAIRS_WORTH_COMPILING = 1 << 24  # less is counted in the time in which numba is imported and its kernels are read
_TOO_MANY_UNDECIDED = 8  # one pair in so many: from there on a product in float64, which decides nearly all, is faster


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
        from smoothap.metrics._compiled_counter import CompiledCounter

        counter = CompiledCounter(sets, start, stop)
    _score_positives(sets, counter, start, stop, processes)
    counter.sort()
    counter.propose_in(dtype)
    room = torch.empty(size * size, dtype=dtype, device=device)
    for top, left in _corners(sets, start, stop, size):
        if not processes.has((top + left) // size):
            continue
        before, bottom, right = counter.scored, min(top + size, stop), min(left + size, items)
        tile = _tile(sets, top, bottom, left, right, room)
        counter.count_rows(tile, top, left)
        if sets.symmetric and start <= left < stop and left != top:
            counter.count_columns(tile, top, left)
        if (counter.scored - before) * _TOO_MANY_UNDECIDED > tile.numel() and has_float64(device):
            counter.propose_in(torch.float64)
            room = room.double()
        progress.advance()
    processes.add_up(counter.counts)
    return counter


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


def _tile(sets: SortedSets, top: int, bottom: int, left: int, right: int, room: Tensor) -> Tensor:
    """Proposed scores of queries top ... bottom - 1 and items left ... right - 1; minus infinity for ignored pairs."""
    queries, items = sets.queries.units(top, bottom, room.dtype), sets.items.units(left, right, room.dtype)
    tile = room[: len(queries) * len(items)].view(len(queries), len(items))
    torch.mm(queries, items.T, out=tile)
    if sets.ignored is not None:
        rows, columns = sets.queries.order[top:bottom], sets.items.order[left:right]
        ignored = torch.from_numpy(sets.ignored[np.ix_(rows, columns)]).to(tile.device)
        tile.masked_fill_(ignored, float("-inf"))
    return tile
