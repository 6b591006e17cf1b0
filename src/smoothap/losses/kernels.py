"""The compiled kernels of the losses, float32 on the CPU (extra `fast`). Imported only when numba is installed.

Most are for a batch that retrieves from itself: s_ij = s_ji, so each score is made once and serves two queries. The
batch is sorted by class, small classes first. So the positives of row q are the rows from first[q] to first[q] +
size[q] - 1, every column right of them is a negative, and the last column of a tile has the most positives. A slot k of
query q is its k-th positive, itself left out. Only columns c > row are looked at: the pair serves the row as query and
the column as query. Rows behind the last that has a factor have too many positives: they are items alone.
`functional/kernels.py` says what `factors` and `shared` are.
"""

import math

import numpy as np
from numba import njit

from smoothap._core.threads import compiled
from smoothap.functional.kernels import (
    FAST,
    ONE,
    WIDEST_SPREAD,
    add_slopes,
    among_positives,
    exponential,
    share,
    sum_terms,
)


@compiled(fastmath=FAST, error_model="numpy", forceinline=True)
def _dot(left: np.ndarray, right: np.ndarray) -> np.float32:
    total = np.float32(0.0)
    for k in range(left.shape[0]):
        total += left[k] * right[k]
    return total


@compiled(fastmath=FAST, error_model="numpy")
def normalise(rows: np.ndarray, units: np.ndarray, lengths: np.ndarray, least: float) -> np.bool_ | bool:
    """units = rows / |rows|; False if a length is below `least`, infinite or NaN. (n, d), (n, d), (n, 1)"""
    good = True
    for q in range(rows.shape[0]):
        row, unit = rows[q], units[q]
        length = np.float32(math.sqrt(_dot(row, row)))
        inverse = ONE / length
        for k in range(row.shape[0]):
            unit[k] = row[k] * inverse
        good = good and least < length < np.inf
        lengths[q, 0] = length
    return good


@compiled(fastmath=FAST, error_model="numpy")
def back_through_normalising(gradients: np.ndarray, units: np.ndarray, lengths: np.ndarray) -> None:
    """Turn gradients with respect to row / |row| into those with respect to the row. (n, d), (n, d), (n, 1)"""
    for q in range(gradients.shape[0]):
        gradient, unit = gradients[q], units[q]
        along = _dot(gradient, unit)
        inverse = ONE / lengths[q, 0]
        for k in range(unit.shape[0]):
            gradient[k] = (gradient[k] - along * unit[k]) * inverse


@compiled(fastmath=FAST, error_model="numpy", forceinline=True)
def _add_terms(shared: np.ndarray, factors: np.ndarray, totals: np.ndarray, slopes: np.ndarray) -> None:
    """As `sum_terms` for many queries at once, one item each: query j, with factors[j], sees this row's item."""
    for j in range(shared.shape[0]):
        value = ONE / (ONE + factors[j] * shared[j])
        totals[j] += value
        slopes[j] += value * (ONE - value)


@compiled(fastmath=FAST, error_model="numpy", forceinline=True)
def _add_each_slope(shared: np.ndarray, factors: np.ndarray, weight: np.ndarray, gradient: np.ndarray) -> None:
    """As `add_slopes` for many queries at once, one item each."""
    for j in range(shared.shape[0]):
        value = ONE / (ONE + factors[j] * shared[j])
        gradient[j] += weight[j] * (value * (ONE - value))


@compiled(fastmath=FAST, error_model="numpy", forceinline=True)
def _sup_sum(
    scores: np.ndarray, shared: np.ndarray, positive: np.float32, factor: np.float32, sup: np.ndarray
) -> np.float32:
    """The sum over j of SupAP's indicator at scores[j] - positive; sup: 1 / tau, rho, delta, offset, step."""
    rho, delta, offset, step, total = sup[1], sup[2], sup[3], sup[4], np.float32(0.0)
    for j in range(scores.shape[0]):  # an item outside, at -inf, has a sigmoid of 0
        x = scores[j] - positive
        sigmoid = ONE / (ONE + factor * shared[j])
        near = sigmoid + step if x > np.float32(0.0) else sigmoid
        total += rho * x + offset if x > delta else near
    return total


@compiled(fastmath=FAST, error_model="numpy", forceinline=True)
def _add_sup_slopes(
    scores: np.ndarray, shared: np.ndarray, positive: np.float32, factor: np.float32, sup: np.ndarray,
    weight: np.float32, gradient: np.ndarray,
) -> np.float32:  # fmt: skip
    """Add weight * slope to the gradient of each score; returns the sum of the slopes."""
    steep, rho, delta, total = sup[0], sup[1], sup[2], np.float32(0.0)
    for j in range(scores.shape[0]):
        sigmoid = ONE / (ONE + factor * shared[j])
        slope = rho if scores[j] - positive > delta else sigmoid * (ONE - sigmoid) * steep
        total += slope
        gradient[j] += weight * slope
    return total


@compiled()
def sup_ap_rows(
    part: int, parts: int, scores: np.ndarray, positive_scores: np.ndarray, valid: np.ndarray, weights: np.ndarray,
    middles: np.ndarray, sup: np.ndarray, average_precision: np.ndarray, positive_gradient: np.ndarray,
    with_gradient: bool,
) -> None:  # fmt: skip
    """`sup_ap.SupAPBlock` for every `parts`-th row: exact ranks among positives, SupAP's indicator for negatives.

    scores (b, m), positive_scores (b, p), valid (b, p) bool, weights, middles (b,) -> average_precision (b,),
    positive_gradient (b, p); with a gradient, weights * dAP/dscores is put in the place of the scores.
    """
    slots, steep, nothing = positive_scores.shape[1], sup[0], np.float32(0.0)
    gradient, shared = np.empty(scores.shape[1], np.float32), np.empty(scores.shape[1], np.float32)
    factors, above, among = np.empty(slots, np.float32), np.empty(slots, np.float32), np.empty(slots, np.float32)
    for q in range(part, scores.shape[0], parts):
        row, count, precisions = scores[q], 0, np.float32(0.0)
        shared[:] = row * steep
        share(shared, middles[q] * steep)
        for k in range(slots):
            positive_gradient[q, k] = nothing
            if not valid[q, k]:
                continue
            count += 1
            factors[k] = exponential((positive_scores[q, k] - middles[q]) * steep)
            above[k] = _sup_sum(row, shared, positive_scores[q, k], factors[k], sup)
            among[k] = nothing
            for i in range(slots):
                among[k] += np.float32(valid[q, i] and positive_scores[q, i] >= positive_scores[q, k])
            precisions += among[k] / (among[k] + above[k])  # R(i, S_P), itself among them, over R(i, S_Omega)
        average_precision[q] = precisions / np.float32(count)
        if with_gradient:
            gradient[:] = nothing
            for k in range(slots):
                if valid[q, k]:
                    rank = among[k] + above[k]
                    push = -weights[q] / np.float32(count) * among[k] / (rank * rank)
                    slopes = _add_sup_slopes(row, shared, positive_scores[q, k], factors[k], sup, push, gradient)
                    positive_gradient[q, k] = -push * slopes
            row[:] = gradient


@njit(inline="always")
def _slot(query: int, item: int, first: np.ndarray, include_query: bool) -> int:
    """Which slot of the query an item of its class has."""
    slot = item - first[query]
    return slot if include_query or item < query else slot - 1


@compiled()
def score_positives(
    units: np.ndarray, inverse_tau: float, first: np.ndarray, count: np.ndarray, include_query: bool,
    scores: np.ndarray, factors: np.ndarray, too_far: np.ndarray,
) -> float:  # fmt: skip
    """Score each query with its positives; returns the middle of the highest ones, which factors are taken around.

    units (b, d) -> scores and factors = e^(score - middle), infinite in an empty slot, both (slots, q); too_far (q,)
    bool: the query has a positive too far below the highest, so that all its slots are left empty.
    """
    lowest, highest = np.full(factors.shape[1], np.inf), -np.inf
    for q in range(factors.shape[1]):
        for k in range(count[q]):
            row = first[q] + k
            if row >= q and not include_query:
                row += 1
            scores[k, q] = _dot(units[q], units[row]) * inverse_tau
            lowest[q], highest = min(lowest[q], scores[k, q]), max(highest, scores[k, q])
    middle = 0.5 * (max(lowest.min(), highest - 2 * WIDEST_SPREAD) + highest)
    for q in range(factors.shape[1]):
        too_far[q] = not lowest[q] > middle - 1.0001 * WIDEST_SPREAD
    for k in range(factors.shape[0]):
        for q in range(factors.shape[1]):
            held = k < count[q] and not too_far[q]
            factors[k, q] = exponential(scores[k, q] - np.float32(middle)) if held else np.float32(np.inf)
    return middle


@compiled()
def sum_over_rows(
    part: int, parts: int, tile: np.ndarray, corner: tuple[int, int], first: np.ndarray, size: np.ndarray,
    count: np.ndarray, factors: np.ndarray, middle: float, totals: np.ndarray, slopes: np.ndarray,
) -> None:  # fmt: skip
    """First pass: add what this tile of scores tells the positives of its rows about the negatives above them.

    tile (h, w), whose upper left corner is (row, column) of the batch; a part looks at every `parts`-th of its rows,
    and leaves `shared` in the place of the scores of negatives.
    factors (slots, q); totals and slopes (slots, q): the sums of the terms and of their slopes.
    """
    width = tile.shape[1]
    for r in range(part, min(tile.shape[0], factors.shape[1] - corner[0]), parts):
        query = corner[0] + r
        start = max(first[query] + size[query] - corner[1], 0)
        if start >= width:
            continue
        here = tile[r, start:]
        share(here, np.float32(middle))
        for k in range(count[query]):
            total, slope = sum_terms(here, factors[k, query])
            totals[k, query] += total
            slopes[k, query] += slope


@compiled()
def sum_over_columns(
    part: int, parts: int, tile: np.ndarray, corner: tuple[int, int], first: np.ndarray, size: np.ndarray,
    count: np.ndarray, factors: np.ndarray, middle: float, totals: np.ndarray, slopes: np.ndarray,
) -> None:  # fmt: skip
    """The same for the queries that are the tile's columns, of which a part has its share; after `sum_over_rows`."""
    width = max(0, min(tile.shape[1], factors.shape[1] - corner[1]))
    begin, end = width * part // parts, width * (part + 1) // parts
    most = count[corner[1] + end - 1] if begin < end else 0
    for r in range(tile.shape[0]):
        query = corner[0] + r
        start = max(first[query] + size[query] - corner[1], begin)
        if start >= end:
            continue
        left, right = corner[1] + start, corner[1] + end
        for k in range(most):
            _add_terms(tile[r, start:end], factors[k, left:right], totals[k, left:right], slopes[k, left:right])


@compiled()
def weigh(
    scores: np.ndarray, count: np.ndarray, middle: float, factors: np.ndarray, weights: np.ndarray,
    scale: float, totals: np.ndarray, slopes: np.ndarray, losses: np.ndarray, too_far: np.ndarray,
) -> None:  # fmt: skip
    """Between the passes: 1 - AP of each query, 0 without slots, and what each slope of the second is weighted by.

    `totals` becomes the weight of each negative's slope under a positive, `slopes` the gradient with respect to the
    positive's score, both of weights * scale * AP. weights, losses (b,), all others (slots, q).
    """
    slots = factors.shape[0]
    shared, pulls = np.empty(slots, np.float32), np.empty(slots, np.float32)
    for q in range(factors.shape[1]):
        n, weight = 0 if too_far[q] else count[q], np.float32(weights[q] * scale)
        for k in range(n):
            shared[k] = exponential(np.float32(middle) - scores[k, q])
        losses[q] = np.float32(0.0)
        if n:
            average_precision = among_positives(shared, factors[:, q], totals[:, q], slopes[:, q], n, weight, pulls)
            losses[q] = ONE - average_precision
            slopes[:n, q] = pulls[:n]


@compiled()
def gradient_of_scores(
    part: int, parts: int, tile: np.ndarray, corner: tuple[int, int], first: np.ndarray, size: np.ndarray,
    count: np.ndarray, factors: np.ndarray, middle: float, weights: np.ndarray, pulls: np.ndarray, include_query: bool,
    is_shared: bool,
) -> None:  # fmt: skip
    """Second pass: put the gradient with respect to each score, as seen by both its queries, in the score's place.

    weights, pulls (slots, q): what `weigh` left in totals and slopes; is_shared: the tile went through the first pass.
    """
    width = tile.shape[1]
    gradient = np.empty(width, np.float32)
    for r in range(part, tile.shape[0], parts):
        query = corner[0] + r
        if query >= factors.shape[1]:
            tile[r] = 0.0
            continue
        start = min(max(first[query] + size[query] - corner[1], 0), width)
        here, slope = tile[r, start:], gradient[: width - start]
        if not is_shared:
            share(here, np.float32(middle))
        slope[:] = 0.0
        for k in range(count[query]):
            add_slopes(here, factors[k, query], weights[k, query], slope)
        left, right = corner[1] + start, min(corner[1] + width, factors.shape[1])
        if left < right:
            seen = right - left
            for k in range(count[right - 1]):
                _add_each_slope(here[:seen], factors[k, left:right], weights[k, left:right], slope[:seen])
        tile[r, :start] = 0.0
        here[:] = slope
        for item in range(max(query + 1, corner[1]), min(first[query] + size[query], right)):
            tile[r, item - corner[1]] = (
                pulls[_slot(query, item, first, include_query), query]
                + pulls[_slot(item, query, first, include_query), item]
            )
