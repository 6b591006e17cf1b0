"""Sums of sigmoids in fused passes, float32 on the CPU (extra `fast`): the torch path's answer, less memory traffic.

Imported only when numba is installed. Plain threads run the kernels on slices of rows; they hold no lock on the
interpreter. Scores z are already divided by tau. All rest on

    G(z_j - z_i) = 1 / (1 + e^(z_i - middle) e^(middle - z_j)) = 1 / (1 + factor_i * shared_j),

one exponential for each score instead of one for each pair of scores. It holds while every positive is within e^60 of
the middle; `shared` is cut at e^87, which changes terms below e^-27 or above 1 - e^-27 only, under the last bit of a
float32 sum. A factor of infinity makes its terms 0: an empty slot.
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


@compiled()
def rows_against_set(
    scores: np.ndarray,
    positive_scores: np.ndarray,
    valid: np.ndarray,
    weights: np.ndarray,
    middles: np.ndarray,
    average_precision: np.ndarray,
    positive_gradient: np.ndarray,
    with_gradient: bool,
) -> None:
    """`block.smooth_ap_block` for these rows.

    scores (b, m), positive_scores (b, p), valid (b, p) bool, weights, middles (b,) -> average_precision (b,),
    positive_gradient (b, p); the gradient with respect to the scores takes their place, or they are lost.
    """
    rows, items = scores.shape
    slots = positive_scores.shape[1]
    gradient = np.empty(items, np.float32)
    factors, shared_positives = np.empty(slots, np.float32), np.empty(slots, np.float32)
    negatives, slopes, pulls = np.empty(slots, np.float32), np.empty(slots, np.float32), np.empty(slots, np.float32)
    for q in range(rows):
        count = 0
        shared = scores[q]
        share(shared, middles[q])
        for k in range(slots):
            if valid[q, k]:
                factors[count] = exponential(positive_scores[q, k] - middles[q])
                shared_positives[count] = exponential(middles[q] - positive_scores[q, k])
                negatives[count], slopes[count] = sum_terms(shared, factors[count])
                count += 1
        if count == 0:
            average_precision[q] = np.nan
            positive_gradient[q] = 0.0
            shared[:] = 0.0
            continue
        average_precision[q] = among_positives(shared_positives, factors, negatives, slopes, count, weights[q], pulls)
        if with_gradient:
            gradient[:] = 0.0
            for k in range(count):
                add_slopes(shared, factors[k], negatives[k], gradient)
            shared[:] = gradient
            position = 0
            for k in range(slots):
                positive_gradient[q, k] = np.float32(0.0)
                if valid[q, k]:
                    positive_gradient[q, k] = pulls[position]
                    position += 1
