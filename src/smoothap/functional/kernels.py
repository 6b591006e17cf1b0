"""Sums of sigmoids in fused passes, float32 on the CPU (extra `fast`): the torch path's answer, less memory traffic.

Imported only when numba is installed. Plain threads run the kernels on slices of rows; they hold no lock on the
interpreter. Scores z are already divided by tau. All rest on

    G(z_j - z_i) = 1 / (1 + e^(z_i - middle) e^(middle - z_j)) = 1 / (1 + factor_i * shared_j),

one exponential for each score instead of one for each pair of scores. It holds while every positive is within e^60 of
the middle; `shared` is cut at e^87, which changes terms below e^-27 or above 1 - e^-27 only, under the last bit of a
float32 sum. A factor of infinity makes its terms 0: an empty slot.

A query with many positives does not need a sum for each of them: as a function of the threshold z_i, the sum is
analytic within pi of the real line, so that its values at `NODES` Chebyshev points of every `PANEL` give all others by
interpolation. Their relative error is 3e-8. The gradient is that of the interpolant: the weight of each positive is
spread over the nodes that it was interpolated from.
"""

import math

import numpy as np
from numba import njit

from smoothap._core.threads import compiled

WIDEST_SPREAD = 60.0
_LOG2_E = np.float32(1.4426950408889634)
_LN2_HIGH = np.float32(0.693145751953125)
_LN2_LOW = np.float32(1.42860682030941723e-6)
_OUTSIDE = np.float32(-1e30)  # scores below it are outside the retrieval set
PANEL, NODES = 4.0, 14
WORTH_NODES = 1.25  # positives for each node, from which on nodes are faster
# Rounded, so that nodes are float32 numbers, and their exponentials are those of the places that are interpolated from.
_POINTS = np.round(np.cos((2 * np.arange(NODES) + 1) * np.pi / (2 * NODES)) * 2**14) / 2**14
_BARYCENTRIC = 1 / np.prod(_POINTS[:, None] - _POINTS + np.eye(NODES), axis=1)
ONE = np.float32(1.0)
FAST = {"contract", "reassoc", "nsz", "arcp"}
# forceinline, below: a helper that is called and not inlined is another piece of code in the process that compiles it
# than in one that finds its caller in the cache, and under FAST the two may differ in the last bit.


@njit(inline="always")
def exponential(x: np.float32) -> np.float32:
    """e^x to about 1e-7, |x| cut at 87, in operations that vectorise."""
    x = min(max(x, np.float32(-87.0)), np.float32(87.0))
    whole = math.floor(x * _LOG2_E + np.float32(0.5))
    rest = (x - whole * _LN2_HIGH) - whole * _LN2_LOW
    value = np.float32(1.9875691500e-4)
    value = value * rest + np.float32(1.3981999507e-3)
    value = value * rest + np.float32(8.3334519073e-3)
    value = value * rest + np.float32(4.1665795894e-2)
    value = value * rest + np.float32(1.6666665459e-1)
    value = value * rest + np.float32(5.0000001201e-1)
    value = value * rest * rest + rest + ONE
    power = np.int32((np.int32(whole) + np.int32(127)) << np.int32(23))
    return value * power.view(np.float32)


@compiled(fastmath=FAST, error_model="numpy", forceinline=True)
def share(scores: np.ndarray, middle: np.float32) -> None:
    """Replace each score by shared_j = e^(middle - z_j), infinite for an item outside the retrieval set."""
    for j in range(scores.shape[0]):
        value = exponential(middle - scores[j])
        scores[j] = np.float32(np.inf) if scores[j] < _OUTSIDE else value


@compiled(fastmath=FAST, error_model="numpy", forceinline=True)
def sum_terms(shared: np.ndarray, factor: np.float32) -> tuple[np.float32, np.float32]:
    """Sum over j of G and of its slope G (1 - G), for one positive."""
    total, slopes = np.float32(0.0), np.float32(0.0)
    for j in range(shared.shape[0]):
        value = ONE / (ONE + factor * shared[j])
        total += value
        slopes += value * (ONE - value)
    return total, slopes


@compiled(fastmath=FAST, error_model="numpy", forceinline=True)
def add_slopes(shared: np.ndarray, factor: np.float32, weight: np.float32, gradient: np.ndarray) -> None:
    """Add weight * G (1 - G) to the gradient with respect to each z_j, for one positive."""
    for j in range(shared.shape[0]):
        value = ONE / (ONE + factor * shared[j])
        gradient[j] += weight * (value * (ONE - value))


@compiled(fastmath=FAST, error_model="numpy", forceinline=True)
def among_positives(
    shared: np.ndarray, factors: np.ndarray, negatives: np.ndarray, slopes: np.ndarray, count: int, weight: np.float32,
    gradient: np.ndarray,
) -> np.float32:  # fmt: skip
    """AP of one query from its positives and the sums over its negatives, and weight * dAP/dz of each positive.

    The first `count` of shared, factors, negatives, slopes (p,) -> AP; gradient (p,) is set, and `negatives` becomes
    the weight that the slope of each negative takes under that positive.
    """
    precisions = np.float32(0.0)
    for k in range(count):
        gradient[k] = np.float32(0.0)
    for i in range(count):
        factor = factors[i]
        # 1 and 0, less the sigmoid of 0 and its slope: the loop adds the term j = i too, which Eq. 3 leaves out
        rank, steep = np.float32(0.5), np.float32(-0.25)
        for k in range(count):
            value = ONE / (ONE + factor * shared[k])
            rank += value  # R(i, S_P)
            steep += value * (ONE - value)
        all_rank = rank + negatives[i]  # R(i, S_Omega)
        precisions += rank / all_rank
        scale = weight / np.float32(count) / (all_rank * all_rank)
        pull = scale * negatives[i]
        for k in range(count):
            value = ONE / (ONE + factor * shared[k])
            gradient[k] += pull * (value * (ONE - value))
        gradient[i] += scale * rank * slopes[i] - pull * (steep + np.float32(0.25))
        negatives[i] = -scale * rank
    return precisions / np.float32(count)


@compiled(forceinline=True)
def _interpolate(place: float, basis: np.ndarray) -> int:
    """basis (NODES,): what the value at each node of a place's panel counts for at that place; the panel's number."""
    panel = int(place / PANEL)
    point, total = 2 * (place / PANEL - panel) - 1, 0.0
    for k in range(NODES):
        distance = point - _POINTS[k]
        basis[k] = _BARYCENTRIC[k] / distance if distance != 0.0 else 1e60
        total += basis[k]
    for k in range(NODES):
        basis[k] /= total
    return panel


@compiled(fastmath=FAST, error_model="numpy", forceinline=True)
def _by_interpolation(
    shared: np.ndarray, scores: np.ndarray, start: float, panels: int, weight: np.float32, gradient: np.ndarray,
    pulls: np.ndarray, with_gradient: bool,
) -> np.float32:  # fmt: skip
    """AP of a query from the sums at the nodes of some panels, which begin at `start`.

    shared (m,) of the negatives, scores (count,) of the positives, less the middle. weight * dAP/dz of each negative is
    added to gradient (m,), and that of each positive to pulls (count,).
    """
    count = scores.shape[0]
    positives, factors = np.empty(count, np.float32), np.empty((panels, NODES), np.float32)
    sums, basis = np.empty((panels, NODES, 4), np.float32), np.empty(NODES, np.float64)
    for i in range(count):
        positives[i] = exponential(-scores[i])
    for panel in range(panels):
        for k in range(NODES):
            factors[panel, k] = exponential(np.float32(start + PANEL * (panel + 0.5 + 0.5 * _POINTS[k])))
            sums[panel, k, 0], sums[panel, k, 1] = sum_terms(positives, factors[panel, k])
            sums[panel, k, 2], sums[panel, k, 3] = sum_terms(shared, factors[panel, k])
    precisions, pull_of, push_of = 0.0, np.zeros((panels, NODES)), np.zeros((panels, NODES))
    for i in range(count):
        panel = _interpolate(float(scores[i]) - start, basis)
        among, steep, above, slopes = 0.0, 0.0, 0.0, 0.0
        for k in range(NODES):
            among += basis[k] * sums[panel, k, 0]
            steep += basis[k] * sums[panel, k, 1]
            above += basis[k] * sums[panel, k, 2]
            slopes += basis[k] * sums[panel, k, 3]
        rank = 0.5 + among  # R(i, S_P): 1, less the sigmoid of 0, which the sum has for j = i
        all_rank = rank + above  # R(i, S_Omega)
        precisions += rank / all_rank
        scale = weight / count / (all_rank * all_rank)
        pulls[i] += np.float32(scale * (rank * slopes - above * steep))
        for k in range(NODES):
            pull_of[panel, k] += scale * above * basis[k]
            push_of[panel, k] -= scale * rank * basis[k]
    if with_gradient:
        for panel in range(panels):
            for k in range(NODES):
                add_slopes(positives, factors[panel, k], np.float32(pull_of[panel, k]), pulls)
                add_slopes(shared, factors[panel, k], np.float32(push_of[panel, k]), gradient)
    return np.float32(precisions / count)


@compiled()
def rows_against_set(
    part: int,
    parts: int,
    scores: np.ndarray,
    positive_scores: np.ndarray,
    valid: np.ndarray,
    weights: np.ndarray,
    middles: np.ndarray,
    average_precision: np.ndarray,
    positive_gradient: np.ndarray,
    with_gradient: bool,
) -> None:
    """`block.smooth_ap_block` for every `parts`-th row.

    scores (b, m), positive_scores (b, p), valid (b, p) bool, weights, middles (b,) -> average_precision (b,),
    positive_gradient (b, p); the gradient with respect to the scores takes their place, or they are lost.
    """
    rows, items = scores.shape
    slots = positive_scores.shape[1]
    gradient = np.empty(items, np.float32)
    factors, shared_positives = np.empty(slots, np.float32), np.empty(slots, np.float32)
    negatives, slopes, pulls = np.empty(slots, np.float32), np.empty(slots, np.float32), np.empty(slots, np.float32)
    held = np.empty(slots, np.float32)  # scores of positives, less the middle
    for q in range(part, rows, parts):
        count, lowest, highest = 0, np.float32(np.inf), np.float32(-np.inf)
        shared = scores[q]
        share(shared, middles[q])
        for k in range(slots):
            if valid[q, k]:
                held[count] = positive_scores[q, k] - middles[q]
                lowest, highest = min(lowest, held[count]), max(highest, held[count])
                count += 1
        if count == 0:
            average_precision[q] = np.nan
            positive_gradient[q] = 0.0
            shared[:] = 0.0
            continue
        gradient[:] = 0.0
        start = math.floor(lowest * 256.0) / 256.0
        panels = 1 + int((highest - start) / PANEL)
        if WORTH_NODES * panels * NODES <= count:
            pulls[:count] = 0.0
            average_precision[q] = _by_interpolation(
                shared, held[:count], start, panels, weights[q], gradient, pulls[:count], with_gradient
            )
        else:
            for k in range(count):
                factors[k], shared_positives[k] = exponential(held[k]), exponential(-held[k])
                negatives[k], slopes[k] = sum_terms(shared, factors[k])
            average_precision[q] = among_positives(
                shared_positives, factors, negatives, slopes, count, weights[q], pulls
            )
            if with_gradient:
                for k in range(count):
                    add_slopes(shared, factors[k], negatives[k], gradient)
        if with_gradient:
            shared[:] = gradient
            position = 0
            for k in range(slots):
                positive_gradient[q, k] = np.float32(0.0)
                if valid[q, k]:
                    positive_gradient[q, k] = pulls[position]
                    position += 1
