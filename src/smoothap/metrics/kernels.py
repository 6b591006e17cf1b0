"""Counting scores at or above thresholds, compiled (extra `fast`). Imported only when numba is installed.

For every query q the sorted scores of its positives, the thresholds, are at offset[q] ... of one flat array, and the
counts at the same places of another; one place behind them stays free for an infinity. The columns of a query's own
class, first[q] ... last[q] - 1, are no negatives. A count is the number of negatives at or above that threshold.

A tile holds proposals. From `upper` on, a proposed score is certainly at or above the threshold, and below upper -
width certainly under it; what is between is undecided, and scored by the definition.
"""

from typing import NamedTuple

import numpy as np

from smoothap._core.threads import compiled
from smoothap.metrics.cosine_kernels import cosine, halves_of

FEW = 16
BINS = 4  # for each threshold
MEMORY = 1024  # scores by the definition that a thread remembers: copies of one image ask for them again and again


class Thresholds(NamedTuple):
    """The positives of a block of queries and what is counted for them; all arrays that the kernels share."""

    first: np.ndarray  # (queries,) where the items of the query's class begin
    last: np.ndarray  # (queries,) and end
    offset: np.ndarray  # (queries + 1,)
    count: np.ndarray  # (queries,) how many thresholds
    exact: np.ndarray  # float64: the scores of the positives by the definition
    upper: np.ndarray  # of the tile's dtype
    width: np.ndarray  # (1,) of the tile's dtype
    counts: np.ndarray
    scales: np.ndarray  # (queries,) how many bins there are to one unit of score
    tables: np.ndarray


class Side(NamedTuple):
    """The vectors that the rows of a tile stand for, or its columns."""

    given: np.ndarray  # (n, d)
    norms: np.ndarray  # (n,)
    group: np.ndarray  # (n,) the same number for equal rows


class Scratch(NamedTuple):
    """Room for one row of a tile, and the last scores by the definition: equal columns ask for the same again."""

    places: np.ndarray  # (columns + 1,)
    undecided: np.ndarray  # (columns + 1,) columns
    settled: np.ndarray  # (columns + 1,) their scores by the definition
    histogram: np.ndarray  # (most thresholds of a query + 1,) scores above that many thresholds
    keys: np.ndarray  # (MEMORY,) the row and the group of columns that `known` is the score of
    known: np.ndarray  # (MEMORY,)
    halves: np.ndarray


@compiled()
def _scratch(columns: int, thresholds: int, dimension: int) -> Scratch:
    return Scratch(
        np.empty(columns + 1, np.uint32), np.empty(columns + 1, np.int64), np.empty(columns + 1, np.float64),
        np.empty(thresholds + 1, np.int32), np.full(MEMORY, -1, np.int64), np.empty(MEMORY, np.float64),
        halves_of(dimension),
    )  # fmt: skip


@compiled()
def _settle(rows: Side, row: int, columns: Side, number: int, scratch: Scratch) -> int:
    """Score the first `number` undecided columns of a row by the definition; returns how many were worked out."""
    one, norm = rows.given[row], rows.norms[row]
    given, norms, group = columns.given, columns.norms, columns.group
    undecided, settled, keys, known, halves = (
        scratch.undecided, scratch.settled, scratch.keys, scratch.known, scratch.halves,
    )  # fmt: skip
    scored = 0
    for j in range(number):
        column = undecided[j]
        slot, key = group[column] % MEMORY, np.int64(row) << 40 | group[column]
        if keys[slot] != key:
            keys[slot] = key
            known[slot] = cosine(one, given[column], norm * norms[column], halves)
            scored += 1
        settled[j] = known[slot]
    return scored


@compiled(fastmath={"reassoc"})
def _at_least(scores: np.ndarray, upper: float, lower: float) -> tuple[np.int32, np.int32]:
    """How many scores are certainly at or above the threshold, and how many perhaps."""
    certain, perhaps = np.int32(0), np.int32(0)
    for j in range(scores.shape[0]):
        certain += np.int32(scores[j] >= upper)
        perhaps += np.int32(scores[j] >= lower)
    return certain, perhaps


@compiled()
def tabulate(part: int, parts: int, block: Thresholds) -> None:
    """Spread each query's thresholds over more bins, so that a score finds its place among them at once.

    Of the query's table, tables[BINS * offset[q] ...], entry 0 is for scores below all thresholds and entry b holds the
    number of thresholds in bins lower than b: a score in bin b needs comparing with those of its own bin only. The last
    entry holds the number of all.
    """
    number = block.upper.dtype.type
    for query in range(part, block.count.shape[0], parts):
        many, begin = block.count[query], block.offset[query]
        if many <= FEW:
            continue
        row = block.upper[begin : begin + many]
        spread = row[many - 1] - row[0]
        block.scales[query] = number(min((BINS * many - 3) / spread, 1e30) if spread > 0 else 1.0)
        table = block.tables[BINS * begin : BINS * (begin + many)]
        table[:] = 0
        for i in range(many):
            place = min((row[i] - row[0]) * block.scales[query], number(BINS * many - 3))
            table[np.int32(place) + np.int32(1)] += 1
        below = np.int32(0)
        for b in range(1, BINS * many):
            here = table[b]
            table[b] = below
            below += here


@compiled()
def _add_histogram(
    scores: np.ndarray, left: int, limits: np.ndarray, width: float, scale: float, table: np.ndarray,
    scratch: Scratch, number: int,
) -> int:  # fmt: skip
    """Add to `histogram` how many scores are above that many thresholds; of none, which is not needed, it stays 0.

    limits (many + 1,) are the upper ones, infinity last. The columns of undecided scores are written into `undecided`
    from `number` on; the new number is returned. A first loop, which has
    no branch, gathers the places of the scores that can matter.
    """
    places, histogram, undecided = scratch.places, scratch.histogram, scratch.undecided
    lowest, last_bin = limits[0], limits.dtype.type(table.shape[0] - 3)
    perhaps, zero = lowest - width, limits.dtype.type(0)
    kept = np.uintp(0)  # unsigned, so that numba leaves out the check for negative indices
    for j in range(scores.shape[0]):
        places[kept] = np.uint32(j)
        kept += np.uintp(scores[j] >= perhaps)
    for j in range(kept):
        score = scores[np.uintp(places[j])]
        bin_of = max((score - lowest) * scale, zero)  # as in `tabulate`
        bin_of = last_bin if bin_of > last_bin else bin_of
        bin_of_table = np.uintp(np.int32(bin_of) + np.int32(1))
        place, behind = np.uintp(table[bin_of_table]), np.uintp(table[bin_of_table + np.uintp(1)])
        # without a branch, which is enough for most bins: they hold one threshold at most, or equal ones
        place = behind if limits[behind - np.uintp(1)] <= score else place
        while limits[place] <= score:
            place += np.uintp(1)
        if score >= limits[place] - width:
            undecided[number] = left + places[j]
            number += 1
        else:
            histogram[place] += np.int32(1)
    return number


@compiled()
def _add_counts(
    scores: np.ndarray, row: int, begin: int, end: int, query: int, block: Thresholds, rows: Side, columns: Side,
    scratch: Scratch,
) -> int:  # fmt: skip
    """Count the scores of a row of the tile but those from `begin` to `end`, the query's own class."""
    start, many, width = block.offset[query], block.count[query], block.width[0]
    counts, exact, scored = block.counts, block.exact[start : start + many], 0
    if many <= FEW:
        for i in range(many):
            upper = block.upper[start + i]
            before, perhaps_before = _at_least(scores[:begin], upper, upper - width)
            behind, perhaps_behind = _at_least(scores[end:], upper, upper - width)
            counts[start + i] += before + behind
            number = perhaps_before - before + perhaps_behind - behind
            if number:
                _find(scores, begin, end, upper - width, upper, scratch.undecided)
                scored += _settle(rows, row, columns, number, scratch)
                for j in range(number):
                    counts[start + i] += np.int32(scratch.settled[j] >= exact[i])
        return scored
    limits = block.upper[start : start + many + 1]  # with the infinity behind them
    table, scale, histogram = block.tables[BINS * start : BINS * (start + many)], block.scales[query], scratch.histogram
    histogram[: many + 1] = 0
    number = _add_histogram(scores[:begin], 0, limits, width, scale, table, scratch, 0)
    number = _add_histogram(scores[end:], end, limits, width, scale, table, scratch, number)
    scored = _settle(rows, row, columns, number, scratch)
    for j in range(number):
        histogram[np.searchsorted(exact, scratch.settled[j], side="right")] += np.int32(1)
    at_or_above = np.int32(0)
    for i in range(many - 1, -1, -1):
        at_or_above += histogram[i + 1]
        counts[start + i] += at_or_above
    return scored


@compiled()
def _find(scores: np.ndarray, begin: int, end: int, lower: float, upper: float, undecided: np.ndarray) -> None:
    """Write the columns of the scores from `lower` to below `upper`, but for those from `begin` to `end`."""
    number = np.uintp(0)
    for j in range(begin):
        undecided[number] = j
        number += np.uintp((scores[j] >= lower) & (scores[j] < upper))
    for j in range(end, scores.shape[0]):
        undecided[number] = j
        number += np.uintp((scores[j] >= lower) & (scores[j] < upper))


@compiled()
def score_positives(
    part: int, parts: int, start: int, begin: int, queries: Side, items: Side, one_set: bool, left_out: np.ndarray,
    block: Thresholds,
) -> None:  # fmt: skip
    """The scores of queries from `start` on with the items of their classes, by the definition; infinity for a pair
    that does not count. The rows of items begin with item `begin`. In one set a pair serves both of its queries.
    """
    room = halves_of(items.given.shape[1])
    stop = start + queries.given.shape[0]
    for query in range(start + part, stop, parts):
        first, length = block.first[query], queries.norms[query - start]
        for item in range(first, block.last[query]):
            mirrored = one_set and start <= item < stop
            if mirrored and item < query:
                continue
            row = item - begin
            score = cosine(queries.given[query - start], items.given[row], length * items.norms[row], room)
            itself = one_set and item == query
            block.exact[block.offset[query] + item - first] = np.inf if itself or left_out[item] else score
            if mirrored and not itself:
                block.exact[block.offset[item] + query - first] = np.inf if left_out[query] else score


@compiled()
def sort_thresholds(part: int, parts: int, block: Thresholds) -> None:
    """Sort each query's thresholds, those that do not count last, and say how many count."""
    for query in range(part, block.count.shape[0], parts):
        row = block.exact[block.offset[query] : block.offset[query + 1]]
        if row.shape[0]:
            row[-1] = np.inf
            row.sort()
            block.count[query] = np.searchsorted(row, np.inf)


@compiled()
def count_rows(
    part: int, parts: int, tile: np.ndarray, top: int, left: int, rows: Side, columns: Side, block: Thresholds
) -> int:
    """The tile's rows are queries, its columns items. Returns how many pairs were scored by the definition."""
    height, width = tile.shape
    scratch = _scratch(width, block.count[top : top + height].max(), rows.given.shape[1])
    scored = 0
    for r in range(part, height, parts):
        query = top + r
        if block.count[query]:
            begin = min(max(block.first[query] - left, 0), width)
            end = min(max(block.last[query] - left, 0), width)
            scored += _add_counts(tile[r], r, begin, end, query, block, rows, columns, scratch)
    return scored


@compiled()
def count_columns_of_few(
    part: int, parts: int, tile: np.ndarray, top: int, left: int, rows: Side, columns: Side, block: Thresholds
) -> int:
    """The tile's columns are queries of at most `FEW` thresholds, its rows items: no need to transpose it."""
    height, width = tile.shape
    begin, end = width * part // parts, width * (part + 1) // parts
    most = block.count[left : left + width].max()
    limits = np.full((most, end - begin), np.inf, tile.dtype)
    lowest = np.full((most, end - begin), np.inf, tile.dtype)
    counts = np.zeros((most, end - begin), np.int32)
    scratch, scored = _scratch(width, 0, rows.given.shape[1]), 0
    for c in range(begin, end):
        for k in range(block.count[left + c]):
            limits[k, c - begin] = block.upper[block.offset[left + c] + k]
            lowest[k, c - begin] = limits[k, c - begin] - block.width[0]
    for r in range(height):
        # the columns of the item's own class stand together, and take nothing from it
        right_of = min(max(block.first[top + r] - left, begin), end)
        left_of = min(max(block.last[top + r] - left, begin), end)
        for here, there in ((begin, right_of), (left_of, end)):
            scores, span = tile[r, here:there], slice(here - begin, there - begin)
            for k in range(most):
                number = int(_add_each(scores, limits[k, span], lowest[k, span], counts[k, span]))
                if number:
                    _find_each(tile[r], here, there, begin, lowest[k], limits[k], scratch.undecided)
                    scored += _settle(rows, r, columns, number, scratch)
                    for j in range(number):
                        c = scratch.undecided[j]
                        exact = block.exact[block.offset[left + c] + k]
                        counts[k, c - begin] += np.int32(scratch.settled[j] >= exact)
    for c in range(begin, end):
        for k in range(block.count[left + c]):
            block.counts[block.offset[left + c] + k] += counts[k, c - begin]
    return scored


@compiled()
def _find_each(
    scores: np.ndarray, here: int, there: int, begin: int, lowest: np.ndarray, limits: np.ndarray,
    undecided: np.ndarray,
) -> None:  # fmt: skip
    """Write the columns from `here` to `there` whose score is undecided; lowest and limits start with column begin."""
    number = np.uintp(0)
    for c in range(here, there):
        undecided[number] = c
        number += np.uintp((scores[c] >= lowest[c - begin]) & (scores[c] < limits[c - begin]))


@compiled(fastmath={"reassoc"})
def _add_each(scores: np.ndarray, limits: np.ndarray, lowest: np.ndarray, counts: np.ndarray) -> np.int32:
    """Count each score against the limit of its column; returns how many are undecided."""
    undecided = np.int32(0)
    for c in range(scores.shape[0]):
        certain = np.int32(scores[c] >= limits[c])
        counts[c] += certain
        undecided += np.int32(scores[c] >= lowest[c]) - certain
    return undecided


@compiled()
def merged_places(ordered: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """How many of the values (m,) are below each of the keys (k,); both rise, and are walked through once. (k,)"""
    places = np.empty(keys.shape[0], np.int64)
    place = 0
    for i in range(keys.shape[0]):
        while place < ordered.shape[0] and ordered[place] < keys[i]:
            place += 1
        places[i] = place
    return places


@compiled()
def negatives_of(scores: np.ndarray, positive: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """The scores (m,) of items that take part and are no positives, in any order."""
    found = np.empty(scores.shape[0] + 1, scores.dtype)
    number = np.uintp(0)
    for i in range(scores.shape[0]):
        found[number] = scores[i]
        number += np.uintp(kept[i] & ~positive[i])
    return found[:number]


@compiled()
def count_at_or_above(thresholds: np.ndarray, others: np.ndarray, bound: float, counts: np.ndarray) -> bool:
    """counts (k,): how many of the others (m,) are at or above each threshold (k,); both rise, and are walked once.

    False where one of the others, or another threshold, is within a bound above 0 of a threshold.
    """
    number, last = others.shape[0], thresholds.shape[0]
    place, i, before, near, was_threshold = np.uintp(0), np.uintp(0), -np.inf, np.inf, False
    while i < last and place < number:  # without a branch: which of the two comes next is as good as random
        is_other = others[place] < thresholds[i]
        here = others[place] if is_other else thresholds[i]
        gap = here - before if was_threshold or not is_other else np.inf
        near = gap if gap < near else near
        counts[i] = number - place
        place += np.uintp(is_other)
        i += np.uintp(not is_other)
        before, was_threshold = here, not is_other
    if place < number and last:
        near = min(near, others[place] - before if was_threshold else np.inf)
    while i < last:
        near = min(near, thresholds[i] - before)
        counts[i], before = 0, thresholds[i]
        i += np.uintp(1)
    return bound == 0 or near > bound
