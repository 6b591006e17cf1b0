"""Finding the rest: a query moved by its own first answers, or by what the user says is right and wrong."""

from collections.abc import Sequence

import numpy as np

ALPHA = 3.0  # weight of an answer in query expansion: its score to this power; 0 is the plain average
RIGHT, WRONG = 1.0, 0.5  # Rocchio's weights of what is marked, beside the query's own weight of 1


def unit(vector: np.ndarray) -> np.ndarray:
    """The vector (d,) at length 1; one of length 0 or with a number that is none is refused."""
    length = float(np.linalg.norm(vector))
    if not np.isfinite(length) or length == 0:
        raise ValueError("The query's vector is zero or not finite: it points nowhere, so nothing is like it.")
    return np.ascontiguousarray(vector / length, dtype=np.float32)


def joined(queries: Sequence[np.ndarray]) -> np.ndarray:
    """Several photos of one thing as one query: the direction of their mean, (d,)."""
    if not len(queries):
        raise ValueError("A query needs at least one photo.")
    return unit(np.mean([unit(query) for query in queries], axis=0))


def expanded(query: np.ndarray, answers: np.ndarray, scores: np.ndarray, alpha: float = ALPHA) -> np.ndarray:
    """The query (d,) plus its first answers (n, d), each weighted by its score (n,) to the power alpha."""
    weights = np.maximum(scores, 0) ** alpha
    return unit(query + weights.astype(np.float32) @ answers)


def corrected(query: np.ndarray, right: np.ndarray, wrong: np.ndarray) -> np.ndarray:
    """Rocchio: the query (d,) moved towards the mean of right (m, d) and away from that of wrong (n, d)."""
    moved = query.astype(np.float32)
    if len(right):
        moved = moved + RIGHT * right.mean(axis=0)
    if len(wrong):
        moved = moved - WRONG * wrong.mean(axis=0)
    return unit(moved)
