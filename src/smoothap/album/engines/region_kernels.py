"""Scores of coded parts of photos, compiled (extra `fast`). Imported only when numba is installed."""

import math

import numpy as np

from smoothap._core.threads import compiled


@compiled()
def best_parts(
    part: int,
    parts: int,
    codes: np.ndarray,
    norms: np.ndarray,
    levels: np.ndarray,
    queries: np.ndarray,
    query_norms: np.ndarray,
    slots: np.ndarray,
    scores: np.ndarray,
    found: np.ndarray,
) -> None:
    """scores (m,) float64 and found (m,): of the photos in slots (m,), the best score of a part, and which it is.

    codes (slots, PARTS, k + 4) int8, norms: the same memory as int32, (slots, PARTS, k / 4 + 1); queries (levels, k)
    int16 and their squared lengths; levels (PARTS,) says which of them a part is compared with.
    """
    dimension = queries.shape[1]
    last = norms.shape[2] - 1
    for place in range(len(slots) * part // parts, len(slots) * (part + 1) // parts):
        slot = slots[place]
        best, which = -1.0, 0
        for number in range(codes.shape[1]):
            query = queries[levels[number]]
            code = codes[slot, number]
            total = np.int32(0)
            for i in range(dimension):
                total = np.int32(total + np.int32(code[i]) * np.int32(query[i]))
            squares = np.int64(norms[slot, number, last]) * query_norms[levels[number]]
            score = total / math.sqrt(squares) if squares > 0 else -1.0
            if score > best:
                best, which = score, number
        scores[place], found[place] = best, which
