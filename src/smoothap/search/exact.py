"""All scores by their definition: exact, and fast enough for a hundred thousand photos."""

from dataclasses import dataclass

import numpy as np


class Exact:
    """The engine that names no candidates, so that the album computes the score of every vector."""

    name, limit = "exact", 0

    def nearest(self, query: np.ndarray, k: int) -> np.ndarray:
        """No rows: an album asks an engine for at most as many as its `limit`."""
        return np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class Ranking:
    """An album by its scores with one query, which are sorted as far as they are asked for.

    scores (n,) float64: that of each row, -inf where a photo is left out.
    """

    scores: np.ndarray

    def at_least(self, minimum: float | None = None) -> np.ndarray:
        """Which rows have this score or a higher one; without a score, all that are not left out. (n,) bool"""
        return self.scores >= (-2.0 if minimum is None else minimum)

    def best(self, k: int | None = None, minimum: float | None = None) -> tuple[np.ndarray, np.ndarray]:
        """The best k rows at or above a score, or all of them, and their scores; equal ones in the order of ids."""
        enough = int(self.at_least(minimum).sum())
        rows = best_rows(self.scores, enough if k is None else min(k, enough))
        return rows, self.scores[rows]


def best_rows(scores: np.ndarray, k: int) -> np.ndarray:
    """The rows of the k highest of scores (n,), highest first, the earlier row first among equals."""
    k = min(k, len(scores))
    if k == 0:
        return np.empty(0, np.int64)
    if k < len(scores):
        least = np.partition(scores, len(scores) - k)[len(scores) - k]
        rows = np.flatnonzero(scores >= least)  # with all that tie for the last place, so that the order is the same
    else:
        rows = np.arange(len(scores))
    return rows[np.lexsort((rows, -scores[rows]))][:k]
