"""The kernels of a batch that retrieves from itself: s_ij = s_ji, so each score is made once and serves two queries.

The batch is sorted by class, small classes first. So the positives of row q are the rows first[q] ... first[q] +
size[q] - 1, every column right of them is a negative, and the last column of a tile has the most positives. A slot k of
query q is its k-th positive, itself left out. Only columns c > row are looked at: the pair serves the row as query and
the column as query.
"""

import numpy as np
from numba import njit

from smoothap.ranking.compiled import compiled
from smoothap.ranking.kernels import _exp, add_each_slope, add_slopes, add_terms, among_positives, dot, share, sum_terms


@njit(inline="always")
def _positive(query: int, slot: int, first: np.ndarray, include_query: bool) -> int:
    """The row of the query's k-th positive."""
    row = first[query] + slot
    return row if include_query or row < query else row + 1


@njit(inline="always")
def _slot(query: int, item: int, first: np.ndarray, include_query: bool) -> int:
    """Which slot of the query an item of its class has."""
    slot = item - first[query]
    return slot if include_query or item < query else slot - 1


@compiled()
def score_positives(
    units: np.ndarray, inverse_tau: float, first: np.ndarray, count: np.ndarray, include_query: bool,
    scores: np.ndarray,
) -> None:  # fmt: skip
    """The score of each query with each of its positives. units (b, d) -> scores (slots, b)"""
    for q in range(units.shape[0]):
        for k in range(count[q]):
            scores[k, q] = dot(units[q], units[_positive(q, k, first, include_query)]) * inverse_tau


@compiled()
def middle_of(scores: np.ndarray, count: np.ndarray) -> tuple[float, float]:
    """The middle of all positives' scores, and how far from it they reach."""
    lowest, highest = np.inf, -np.inf
    for k in range(scores.shape[0]):
        for q in range(scores.shape[1]):
            if k < count[q]:
                lowest, highest = min(lowest, scores[k, q]), max(highest, scores[k, q])
    return 0.5 * (lowest + highest), 0.5 * (highest - lowest)


@compiled()
def set_own(scores: np.ndarray, count: np.ndarray, middle: float, own: np.ndarray) -> None:
    """own = e^(z - middle) of each positive, infinite in an empty slot. scores, own (slots, b)"""
    for k in range(own.shape[0]):
        for q in range(own.shape[1]):
            own[k, q] = _exp(scores[k, q] - np.float32(middle)) if k < count[q] else np.float32(np.inf)


@compiled()
def sum_over_negatives(
    tile: np.ndarray, corner: tuple[int, int], part: tuple[int, int], first: np.ndarray, size: np.ndarray,
    count: np.ndarray, own: np.ndarray, middle: float, totals: np.ndarray, slopes: np.ndarray,
) -> None:  # fmt: skip
    """First pass: add what this tile of scores tells each positive about the negatives above it; the scores are lost.

    tile (h, w), whose upper left corner is (row, column) of the batch; part (i, n): look at its rows i, i + n, ...
    own, totals, slopes (slots, b).
    """
    width = tile.shape[1]
    for r in range(part[0], tile.shape[0], part[1]):
        query = corner[0] + r
        start = max(first[query] + size[query] - corner[1], 0)
        if start >= width:
            continue
        here = tile[r, start:]
        share(here, np.float32(middle))
        for k in range(count[query]):
            total, slope = sum_terms(here, own[k, query])
            totals[k, query] += total
            slopes[k, query] += slope
        left, right = corner[1] + start, corner[1] + width
        for k in range(count[right - 1]):
            add_terms(here, own[k, left:right], totals[k, left:right], slopes[k, left:right])


@compiled()
def weigh(
    scores: np.ndarray, count: np.ndarray, middle: float, own: np.ndarray, weights: np.ndarray,
    factor: float, totals: np.ndarray, slopes: np.ndarray, losses: np.ndarray,
) -> None:  # fmt: skip
    """Between the passes: 1 - AP of each query, 0 without a positive, and what each slope of the second is weighted by.

    `totals` becomes the weight of each negative's slope under a positive, `slopes` the gradient with respect to the
    positive's own score, both of weights * factor * AP. weights, losses (b,), all others (slots, b).
    """
    slots = own.shape[0]
    shared, pulls = np.empty(slots, np.float32), np.empty(slots, np.float32)
    mine, above, steep = np.empty(slots, np.float32), np.empty(slots, np.float32), np.empty(slots, np.float32)
    for q in range(count.shape[0]):
        n = count[q]
        for k in range(n):
            shared[k] = _exp(np.float32(middle) - scores[k, q])
            mine[k], above[k], steep[k] = own[k, q], totals[k, q], slopes[k, q]
        losses[q] = np.float32(0.0)
        if n:
            weight = np.float32(weights[q] * factor)
            losses[q] = np.float32(1.0) - among_positives(shared, mine, above, steep, n, weight, pulls)
        for k in range(n):
            totals[k, q], slopes[k, q] = above[k], pulls[k]


@compiled()
def gradient_of_scores(
    tile: np.ndarray, corner: tuple[int, int], part: tuple[int, int], first: np.ndarray, size: np.ndarray,
    count: np.ndarray, own: np.ndarray, middle: float, weights: np.ndarray, pulls: np.ndarray, include_query: bool,
    is_shared: bool,
) -> None:  # fmt: skip
    """Second pass: put the gradient with respect to each score, as seen by both its queries, in the score's place.

    weights, pulls (slots, b): what `weigh` left in totals and slopes; is_shared: the tile went through the first pass.
    """
    width = tile.shape[1]
    gradient = np.empty(width, np.float32)
    for r in range(part[0], tile.shape[0], part[1]):
        query = corner[0] + r
        start = min(max(first[query] + size[query] - corner[1], 0), width)
        here, slope = tile[r, start:], gradient[: width - start]
        if not is_shared:
            share(here, np.float32(middle))
        slope[:] = 0.0
        for k in range(count[query]):
            add_slopes(here, own[k, query], weights[k, query], slope)
        left, right = corner[1] + start, corner[1] + width
        if left < right:
            for k in range(count[right - 1]):
                add_each_slope(here, own[k, left:right], weights[k, left:right], slope)
        tile[r, :start] = 0.0
        here[:] = slope
        for item in range(max(query + 1, corner[1]), min(first[query] + size[query], right)):
            tile[r, item - corner[1]] = (
                pulls[_slot(query, item, first, include_query), query]
                + pulls[_slot(item, query, first, include_query), item]
            )
