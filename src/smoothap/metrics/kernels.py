"""Counting scores at or above thresholds, compiled (extra `fast`). Imported only when numba is installed.

For every query q the sorted scores of its positives, the thresholds, stand at offset[q] ... of one flat array, and the
counts at the same places of another. The columns of a query's own class, first[q] ... last[q] - 1, are no negatives.
With up to `FEW` thresholds a count is the number of negatives at or above that threshold; with more, a histogram of
the negatives between thresholds, which `sum_up` turns into the same.
"""

import math

import numpy as np

from smoothap.ranking.compiled import compiled

FEW = 16
_COLUMNS_AT_ONCE = 16


@compiled(fastmath={"reassoc"})
def _at_least(scores: np.ndarray, threshold: float) -> np.int32:
    total = np.int32(0)
    for j in range(scores.shape[0]):
        total += np.int32(scores[j] >= threshold)
    return total


@compiled()
def _bins(scores: np.ndarray, lowest: float, scale: float, last_bin: float, bins: np.ndarray) -> None:
    """A bin for each score, the same or a higher one for a higher score; -1 below the lowest threshold."""
    for j in range(scores.shape[0]):
        place = (scores[j] - lowest) * scale
        place = last_bin if place > last_bin else place
        bins[j] = np.int32(math.floor(-1 if place < -1 else place))


@compiled()
def _tabulate(thresholds: np.ndarray, limits: np.ndarray, bins: np.ndarray, table: np.ndarray) -> float:
    """Spread one query's thresholds over twice as many bins; returns how many bins there are to one unit of score.

    table[b] becomes the number of thresholds in lower bins, which a score in bin b is above; it needs comparing with
    those of its own bin only. limits: the thresholds with infinity behind them.
    """
    many = thresholds.shape[0]
    number = thresholds.dtype.type
    spread = thresholds[many - 1] - thresholds[0]
    scale = number(min(2 * many / spread, 1e30) if spread > 0 else 1.0)
    _bins(thresholds, thresholds[0], scale, number(2 * many), bins)
    table[: 2 * many + 1] = 0
    for i in range(many):
        limits[i] = thresholds[i]
        table[bins[i]] += 1
    limits[many] = np.inf
    below = np.int32(0)
    for b in range(2 * many + 1):
        here = table[b]
        table[b] = below
        below += here
    return scale


@compiled()
def _add_histogram(
    scores: np.ndarray, limits: np.ndarray, many: int, scale: float, bins: np.ndarray, table: np.ndarray,
    counts: np.ndarray,
) -> None:  # fmt: skip
    _bins(scores, limits[0], scale, limits.dtype.type(2 * many), bins)
    for j in range(scores.shape[0]):
        if bins[j] >= 0:
            place = table[bins[j]]
            place += np.int32(limits[place] <= scores[j])  # most bins hold one threshold at most: no branch to guess
            while limits[place] <= scores[j]:
                place += np.int32(1)
            counts[place - 1] += 1


@compiled()
def _add_counts(
    before: np.ndarray, behind: np.ndarray, thresholds: np.ndarray, counts: np.ndarray, limits: np.ndarray,
    bins: np.ndarray, table: np.ndarray,
) -> None:  # fmt: skip
    """Count the scores before and behind a query's own class against its thresholds; the last three are scratch."""
    many = thresholds.shape[0]
    if many <= FEW:
        for i in range(many):
            counts[i] += _at_least(before, thresholds[i]) + _at_least(behind, thresholds[i])
        return
    scale = _tabulate(thresholds, limits, bins, table)
    _add_histogram(before, limits, many, scale, bins, table, counts)
    _add_histogram(behind, limits, many, scale, bins, table, counts)


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
        row.sort()
        count[query] = np.searchsorted(row, np.inf)


@compiled()
def count_rows(
    tile: np.ndarray, top: int, left: int, part: int, parts: int, first: np.ndarray, last: np.ndarray,
    offset: np.ndarray, count: np.ndarray, thresholds: np.ndarray, counts: np.ndarray,
) -> None:  # fmt: skip
    """The tile's rows are queries, its columns items."""
    width = tile.shape[1]
    most = max(width, count[top : top + tile.shape[0]].max())
    limits, bins, table = np.empty(most + 1, tile.dtype), np.empty(most, np.int32), np.empty(2 * most + 1, np.int32)
    for r in range(part, tile.shape[0], parts):
        query = top + r
        places = slice(offset[query], offset[query] + count[query])
        if count[query]:
            begin, end = min(max(first[query] - left, 0), width), min(max(last[query] - left, 0), width)
            _add_counts(tile[r, :begin], tile[r, end:], thresholds[places], counts[places], limits, bins, table)


@compiled()
def count_columns(
    tile: np.ndarray, top: int, left: int, part: int, parts: int, first: np.ndarray, last: np.ndarray,
    offset: np.ndarray, count: np.ndarray, thresholds: np.ndarray, counts: np.ndarray,
) -> None:  # fmt: skip
    """The tile's columns are queries, its rows items: what the transpose of the tile would tell `count_rows`."""
    height, width = tile.shape
    begin, end = width * part // parts, width * (part + 1) // parts
    most = count[left : left + width].max()
    if most <= FEW:
        _count_columns_of_few(tile, top, left, begin, end, most, first, last, offset, count, thresholds, counts)
        return
    limits, bins = np.empty(most + 1, tile.dtype), np.empty(max(height, most), np.int32)
    table = np.empty(2 * most + 1, np.int32)
    turned = np.empty((_COLUMNS_AT_ONCE, height + 16), tile.dtype)[:, :height]  # no power of two apart: caches
    for start in range(begin, end, _COLUMNS_AT_ONCE):
        stop = min(start + _COLUMNS_AT_ONCE, end)
        for r in range(height):
            for c in range(start, stop):
                turned[c - start, r] = tile[r, c]
        for c in range(start, stop):
            query = left + c
            places = slice(offset[query], offset[query] + count[query])
            if count[query]:
                above, below = min(max(first[query] - top, 0), height), min(max(last[query] - top, 0), height)
                column = turned[c - start]
                _add_counts(column[:above], column[below:], thresholds[places], counts[places], limits, bins, table)


@compiled()
def _count_columns_of_few(
    tile: np.ndarray, top: int, left: int, begin: int, end: int, most: int, first: np.ndarray, last: np.ndarray,
    offset: np.ndarray, count: np.ndarray, thresholds: np.ndarray, counts: np.ndarray,
) -> None:  # fmt: skip
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
