"""Counting scores at or above thresholds, compiled (extra `fast`). Imported only when numba is installed.

For every query q the sorted scores of its positives, the thresholds, stand at offset[q] ... of one flat array, and the
counts at the same places of another; one place behind them stays free for an infinity. The columns of a query's own
class, first[q] ... last[q] - 1, are no negatives. With up to `FEW` thresholds a count is the number of negatives at or
above that threshold; with more, a histogram of the negatives between thresholds, which `sum_up` turns into the same.
"""

import math

import numpy as np

from smoothap.ranking.compiled import compiled

FEW = 16
BINS = 4  # for each threshold


@compiled(fastmath={"reassoc"})
def _at_least(scores: np.ndarray, threshold: float) -> np.int32:
    total = np.int32(0)
    for j in range(scores.shape[0]):
        total += np.int32(scores[j] >= threshold)
    return total


@compiled()
def _bins(scores: np.ndarray, lowest: float, scale: float, last_bin: float, bins: np.ndarray) -> None:
    """A bin for each score, the same or a higher one for a higher score; 0 below the lowest threshold, 1 from it on."""
    for j in range(scores.shape[0]):
        place = (scores[j] - lowest) * scale
        place = last_bin if place > last_bin else place
        bins[j] = np.int32(math.floor(-1 if place < -1 else place)) + np.int32(1)


@compiled()
def tabulate(
    part: int, parts: int, offset: np.ndarray, count: np.ndarray, thresholds: np.ndarray, scales: np.ndarray,
    tables: np.ndarray,
) -> None:  # fmt: skip
    """Spread each query's thresholds over more bins, so that a score finds its place among them at once.

    Of the query's table, tables[BINS * offset[q] ...], entry 0 is for scores below all thresholds and entry b holds the
    number of thresholds in bins lower than b: a score in bin b needs comparing with those of its own bin only.
    scales (queries,): how many bins there are to one unit of score.
    """
    bins = np.empty(max(1, count.max()), np.int32)
    number = thresholds.dtype.type
    for query in range(part, count.shape[0], parts):
        many = count[query]
        if many <= FEW:
            continue
        row = thresholds[offset[query] : offset[query] + many]
        spread = row[many - 1] - row[0]
        scales[query] = number(min((BINS * many - 2) / spread, 1e30) if spread > 0 else 1.0)
        _bins(row, row[0], scales[query], number(BINS * many - 2), bins)
        table = tables[BINS * offset[query] : BINS * (offset[query] + many)]
        table[:] = 0
        for i in range(many):
            table[bins[i]] += 1
        below = np.int32(0)
        for b in range(1, BINS * many):
            here = table[b]
            table[b] = below
            below += here


@compiled()
def _add_histogram(
    scores: np.ndarray, limits: np.ndarray, many: int, scale: float, table: np.ndarray, packed: np.ndarray,
    found: np.ndarray,
) -> None:  # fmt: skip
    """found (many + 1,): how many scores are above so many thresholds; of none, which nobody asks for, it stays 0.

    packed is scratch for one number more than there are scores: those from the lowest threshold on, without a branch.
    """
    lowest, last_bin = limits[0], limits.dtype.type(BINS * many - 2)
    kept = np.uintp(0)  # unsigned: nobody looks for a negative index
    for j in range(scores.shape[0]):
        packed[kept] = scores[j]
        kept += np.uintp(scores[j] >= lowest)
    for j in range(kept):
        score = packed[j]
        bin_of = (score - lowest) * scale  # as in `_bins`
        bin_of = last_bin if bin_of > last_bin else bin_of
        place = np.uintp(table[np.uintp(np.int32(bin_of) + np.int32(1))])
        place += np.uintp(limits[place] <= score)  # most bins hold one threshold at most: no branch to guess
        while limits[place] <= score:
            place += np.uintp(1)
        found[place] += np.int32(1)


@compiled()
def _add_counts(
    before: np.ndarray, behind: np.ndarray, query: int, offset: np.ndarray, many: int, thresholds: np.ndarray,
    counts: np.ndarray, scales: np.ndarray, tables: np.ndarray, packed: np.ndarray, found: np.ndarray,
) -> None:  # fmt: skip
    """Count the scores before and behind a query's own class against its thresholds; packed and found are scratch."""
    begin = offset[query]
    if many <= FEW:
        for i in range(begin, begin + many):
            counts[i] += _at_least(before, thresholds[i]) + _at_least(behind, thresholds[i])
        return
    limits = thresholds[begin : begin + many + 1]  # with the infinity behind them
    table = tables[BINS * begin : BINS * (begin + many)]
    found[: many + 1] = 0
    _add_histogram(before, limits, many, scales[query], table, packed, found)
    _add_histogram(behind, limits, many, scales[query], table, packed, found)
    for i in range(many):
        counts[begin + i] += found[i + 1]


@compiled()
def take_positives(
    tile: np.ndarray, top: int, left: int, first: np.ndarray, last: np.ndarray, offset: np.ndarray,
    is_own: bool, left_out: np.ndarray, thresholds: np.ndarray,
) -> None:  # fmt: skip
    """Store the scores of a tile's positives; infinity for what does not count (the query itself, left out, NaN)."""
    for r in range(tile.shape[0]):
        query = top + r
        for item in range(max(first[query], left), min(last[query], left + tile.shape[1])):
            score = tile[r, item - left]
            out = (is_own and item == query) or left_out[item] or np.isnan(score)
            thresholds[offset[query] + item - first[query]] = np.inf if out else score


@compiled()
def sort_thresholds(part: int, parts: int, offset: np.ndarray, thresholds: np.ndarray, count: np.ndarray) -> None:
    """Sort each query's thresholds, those that do not count last, and say how many count."""
    for query in range(part, count.shape[0], parts):
        row = thresholds[offset[query] : offset[query + 1]]
        if row.shape[0]:
            row[-1] = np.inf
            row.sort()
            count[query] = np.searchsorted(row, np.inf)


@compiled()
def count_rows(
    tile: np.ndarray, top: int, left: int, part: int, parts: int, first: np.ndarray, last: np.ndarray,
    offset: np.ndarray, count: np.ndarray, thresholds: np.ndarray, counts: np.ndarray, scales: np.ndarray,
    tables: np.ndarray,
) -> None:  # fmt: skip
    """The tile's rows are queries, its columns items."""
    width = tile.shape[1]
    packed = np.empty(width + 1, tile.dtype)
    found = np.empty(1 + count[top : top + tile.shape[0]].max(), np.int32)
    for r in range(part, tile.shape[0], parts):
        query = top + r
        if count[query]:
            begin, end = min(max(first[query] - left, 0), width), min(max(last[query] - left, 0), width)
            _add_counts(
                tile[r, :begin], tile[r, end:], query, offset, count[query], thresholds, counts, scales, tables, packed,
                found,
            )  # fmt: skip


@compiled()
def count_columns_of_few(
    tile: np.ndarray, top: int, left: int, part: int, parts: int, first: np.ndarray, last: np.ndarray,
    offset: np.ndarray, count: np.ndarray, thresholds: np.ndarray, counts: np.ndarray, scales: np.ndarray,
    tables: np.ndarray,
) -> None:  # fmt: skip
    """The tile's columns are queries of at most `FEW` thresholds, its rows items: no need to transpose it."""
    width = tile.shape[1]
    begin, end = width * part // parts, width * (part + 1) // parts
    most = count[left : left + width].max()
    limits = np.full((most, end - begin), np.inf, tile.dtype)
    found = np.zeros((most, end - begin), np.int32)
    for c in range(begin, end):
        for k in range(count[left + c]):
            limits[k, c - begin] = thresholds[offset[left + c] + k]
    for r in range(tile.shape[0]):
        # the columns of the item's own class stand together, and take nothing from it
        right_of = min(max(first[top + r] - left, begin), end)
        left_of = min(max(last[top + r] - left, begin), end)
        for k in range(most):
            _add_each(tile[r, begin:right_of], limits[k, : right_of - begin], found[k, : right_of - begin])
            _add_each(tile[r, left_of:end], limits[k, left_of - begin :], found[k, left_of - begin :])
    for c in range(begin, end):
        for k in range(count[left + c]):
            counts[offset[left + c] + k] += found[k, c - begin]


@compiled()
def _add_each(scores: np.ndarray, limits: np.ndarray, found: np.ndarray) -> None:
    for c in range(scores.shape[0]):
        found[c] += np.int32(scores[c] >= limits[c])


@compiled()
def sum_up(offset: np.ndarray, count: np.ndarray, counts: np.ndarray) -> None:
    """Turn histograms into numbers of negatives at or above each threshold."""
    for query in range(count.shape[0]):
        if count[query] > FEW:
            for i in range(offset[query] + count[query] - 2, offset[query] - 1, -1):
                counts[i] += counts[i + 1]
