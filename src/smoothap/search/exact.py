"""All scores by their definition: exact, and fast enough for a hundred thousand photos."""

from dataclasses import dataclass

import numpy as np

from smoothap.metrics.cosine import Cosines


class Exact:
    """The score of the query with every vector; an album that has this engine asks for all scores at once."""

    name = "exact"
    limit = 0

    def __init__(self, vectors: np.ndarray) -> None:
        self.cosines = Cosines(vectors)

    def nearest(self, query: np.ndarray, k: int) -> np.ndarray:
        """The k rows with the highest scores for the query (d,)."""
        return best_rows(self.cosines.of(query), k)


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
