"""All scores by their definition: exact, and fast enough for a hundred thousand photos."""

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
