"""The definition of a score, compiled (extra `fast`). Imported only when numba is installed."""

import numpy as np
import torch
from torch import Tensor

from smoothap._core.threads import compiled

_COLUMNS = 32  # rows of the right side that a step takes at once


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
def norms(part: int, parts: int, rows: np.ndarray, lengths: np.ndarray) -> None:
    """The length of each of the rows (n, d), lengths (n,)."""
    halves, number = halves_of(rows.shape[1]), rows.shape[0]
    for row in range(number * part // parts, number * (part + 1) // parts):
        lengths[row] = np.sqrt(cosine(rows[row], rows[row], 1.0, halves))


@compiled()
def scale_rows(part: int, parts: int, rows: np.ndarray, norms: np.ndarray, units: np.ndarray) -> None:
    """units (n, d): the rows (n, d) divided by their norms (n,), rounded once."""
    number = rows.shape[0]
    for row in range(number * part // parts, number * (part + 1) // parts):
        given, unit, norm = rows[row], units[row], norms[row]
        for i in range(given.shape[0]):
            unit[i] = np.float64(given[i]) / norm


def turned(rows: Tensor) -> np.ndarray:
    """Rows (m, d) for `score_tile`: some at a time, number by number, with zeros up to a power of two."""
    number, dimension = rows.shape
    wide = torch.zeros(
        -(-number // _COLUMNS) * _COLUMNS, max(8, 1 << (dimension - 1).bit_length()), dtype=torch.float64
    )
    wide[:number, :dimension] = rows
    return wide.view(-1, _COLUMNS, wide.shape[1]).transpose(1, 2).contiguous().numpy()


@compiled()
def score_tile(
    part: int, parts: int, left: np.ndarray, left_norms: np.ndarray, right: np.ndarray, right_norms: np.ndarray,
    tile: np.ndarray,
) -> None:  # fmt: skip
    """tile (n, m): the score of every row of the left (n, d) with every one of the right, which is `turned`.

    The sums are those of `cosine`, of many pairs side by side; the first three additions are made at once.
    """
    n = right.shape[1] // 8
    room, x = np.empty((n, _COLUMNS), np.float64), np.zeros(8 * n, np.float64)
    for r in range(part, left.shape[0], parts):
        x[: left.shape[1]] = left[r]
        for step in range(right.shape[0]):
            y, begin = right[step], step * _COLUMNS
            for i in range(n):
                x0, x1, x2, x3 = x[i], x[i + n], x[i + 2 * n], x[i + 3 * n]
                x4, x5, x6, x7 = x[i + 4 * n], x[i + 5 * n], x[i + 6 * n], x[i + 7 * n]
                for j in range(_COLUMNS):
                    even = (x0 * y[i, j] + x4 * y[i + 4 * n, j]) + (x2 * y[i + 2 * n, j] + x6 * y[i + 6 * n, j])
                    odd = (x1 * y[i + n, j] + x5 * y[i + 5 * n, j]) + (x3 * y[i + 3 * n, j] + x7 * y[i + 7 * n, j])
                    room[i, j] = even + odd
            half = n
            while half > 1:
                half //= 2
                for i in range(half):
                    for j in range(_COLUMNS):
                        room[i, j] += room[i + half, j]
            for j in range(min(_COLUMNS, tile.shape[1] - begin)):
                tile[r, begin + j] = room[0, j] / (left_norms[r] * right_norms[begin + j])
