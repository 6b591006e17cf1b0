"""The definition of a score, compiled (extra `fast`). Imported only when numba is installed."""

import numpy as np

from smoothap._core.threads import compiled


@compiled()
def halves_of(dimension: int) -> np.ndarray:
    """Scratch for `cosine` of rows (d,): half as long as the next power of two."""
    length = 1
    while 2 * length < dimension:
        length *= 2
    return np.empty(length, np.float64)


@compiled()
def cosine(left: np.ndarray, right: np.ndarray, lengths: float, room: np.ndarray) -> float:
    """The score of two rows (d,) whose lengths multiply to `lengths`; no fast mathematics: every rounding is meant.

    Every loop runs over whole slices, since numba vectorises no loop whose indices it must look at.
    """
    half = room.shape[0]
    left_behind, right_behind = left[half:], right[half:]
    both = left_behind.shape[0]
    for i in range(both):
        first = np.float64(left[i]) * np.float64(right[i])
        room[i] = first + np.float64(left_behind[i]) * np.float64(right_behind[i])
    left_alone, right_alone, alone = left[both:half], right[both:half], room[both:]
    for i in range(left_alone.shape[0]):
        alone[i] = np.float64(left_alone[i]) * np.float64(right_alone[i])
    while half > 1:
        half //= 2
        front, back = room[:half], room[half : 2 * half]
        for i in range(half):
            front[i] += back[i]
    return room[0] / lengths


@compiled()
def score_pairs(
    part: int, parts: int, left: np.ndarray, left_norms: np.ndarray, right: np.ndarray, right_norms: np.ndarray,
    first: np.ndarray, second: np.ndarray, scores: np.ndarray,
) -> None:  # fmt: skip
    """scores (k,): of row first[i] of the left with row second[i] of the right; this part's share of them."""
    room = halves_of(right.shape[1])
    number = scores.shape[0]
    for i in range(number * part // parts, number * (part + 1) // parts):
        a, b = first[i], second[i]
        scores[i] = cosine(left[a], right[b], left_norms[a] * right_norms[b], room)


@compiled()
def norms_and_marks(
    part: int, parts: int, rows: np.ndarray, bits: np.ndarray, norms: np.ndarray, marks: np.ndarray
) -> None:
    """The length of each of the rows (n, d), and a number made of its bits (n, d), the same for equal rows."""
    halves, number = halves_of(rows.shape[1]), rows.shape[0]
    for row in range(number * part // parts, number * (part + 1) // parts):
        norms[row] = np.sqrt(cosine(rows[row], rows[row], 1.0, halves))
        mark, factor = np.int64(0), np.int64(1)
        for i in range(rows.shape[1]):
            mark += (np.int64(bits[row, i]) + np.int64(1)) * factor
            factor += np.int64(-7046029254386353132)  # even, so that every factor is odd: 2^64 / 1.618
        marks[row] = mark


@compiled()
def scale_rows(part: int, parts: int, rows: np.ndarray, norms: np.ndarray, units: np.ndarray) -> None:
    """units (n, d): the rows (n, d) divided by their norms (n,), rounded once."""
    number = rows.shape[0]
    for row in range(number * part // parts, number * (part + 1) // parts):
        given, unit, norm = rows[row], units[row], norms[row]
        for i in range(given.shape[0]):
            unit[i] = np.float64(given[i]) / norm
