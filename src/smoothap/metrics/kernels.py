"""Counting scores at or above thresholds, compiled (extra `fast`). Imported only when numba is installed.

For every query q the sorted scores of its positives, the thresholds, stand at offset[q] ... of one flat array, and the
counts at the same places of another. The columns of a query's own class, first[q] ... last[q] - 1, are no negatives.
With up to `FEW` thresholds a count is the number of negatives at or above that threshold; with more, a histogram of
the negatives between thresholds, which `sum_up` turns into the same.
"""

import numpy as np

from smoothap.ranking.compiled import compiled

FEW = 16
_COLUMNS_AT_ONCE = 64


@compiled(fastmath={"reassoc"})
def _at_least(scores: np.ndarray, threshold: float) -> np.int32:
    total = np.int32(0)
    for j in range(scores.shape[0]):
        total += np.int32(scores[j] >= threshold)
    return total


@compiled()
def _bins(scores: np.ndarray, lowest: float, scale: float, last_bin: int, bins: np.ndarray) -> None:
    """A bin for each score, the same or a higher one for a higher score; -1 below the lowest threshold."""
    for j in range(scores.shape[0]):
        place = np.int32(min((scores[j] - lowest) * scale, last_bin))
        bins[j] = place if scores[j] >= lowest else np.int32(-1)


@compiled()
def _add_counts(
    scores: np.ndarray, thresholds: np.ndarray, counts: np.ndarray, bins: np.ndarray, table: np.ndarray
) -> None:
    """Count these scores against one query's thresholds. table (2 * thresholds + 1 or more,) is scratch."""
    many = thresholds.shape[0]
    if many <= FEW:
        for i in range(many):
            counts[i] += _at_least(scores, thresholds[i])
        return
    last_bin = 2 * many
    lowest, spread = thresholds[0], thresholds[many - 1] - thresholds[0]
    scale = scores.dtype.type(min(last_bin / spread, 1e30) if spread > 0 else 1.0)
    # table[b]: how many thresholds lie in lower bins. A score is above those, and is compared with its own bin's only.
    table[: last_bin + 1] = 0
    _bins(thresholds, lowest, scale, last_bin, bins)
    for i in range(many):
        table[bins[i]] += 1
    below = 0
    for b in range(last_bin + 1):
        here = table[b]
        table[b] = below
        below += here
    _bins(scores, lowest, scale, last_bin, bins)
    for j in range(scores.shape[0]):
        if bins[j] >= 0:
            place = table[bins[j]]
            while place < many and thresholds[place] <= scores[j]:
                place += 1
            counts[place - 1] += 1


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
    bins, table = np.empty(most, np.int32), np.empty(2 * most + 1, np.int32)
    for r in range(part, tile.shape[0], parts):
        query = top + r
        places = slice(offset[query], offset[query] + count[query])
        if count[query]:
            begin, end = min(max(first[query] - left, 0), width), min(max(last[query] - left, 0), width)
            _add_counts(tile[r, :begin], thresholds[places], counts[places], bins, table)
            _add_counts(tile[r, end:], thresholds[places], counts[places], bins, table)


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
    bins, table = np.empty(max(height, most), np.int32), np.empty(2 * most + 1, np.int32)
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
                _add_counts(turned[c - start, :above], thresholds[places], counts[places], bins, table)
                _add_counts(turned[c - start, below:], thresholds[places], counts[places], bins, table)


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
