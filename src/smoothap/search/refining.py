"""Finding the rest: a query moved by its own first answers, or by what the user says is right and wrong."""

from collections.abc import Sequence

import numpy as np
import torch

from smoothap.metrics.cosine import given_rows, norms_and_marks, unit_rows

ALPHA = 3.0  # weight of an answer in query expansion: its score to this power; 0 is the plain average
RIGHT, WRONG = 1.0, 0.5  # Rocchio's weights of what is marked, beside the query's own weight of 1


def unit(vector: np.ndarray) -> np.ndarray:
    """The vector (d,) at length 1; one of length 0 or with a number that is none is refused."""
    given = given_rows(np.asarray(vector)[None])
    norms, _ = norms_and_marks(given)
    if not np.isfinite(norms[0]) or norms[0] == 0:
        raise ValueError("The query's vector is zero or not finite: it points nowhere, so nothing is like it.")
    return unit_rows(given, norms, torch.float32)[0].numpy()


def joined(queries: Sequence[np.ndarray]) -> np.ndarray:
    """Several photos of one thing as one query: the direction of their mean, (d,)."""
    if not len(queries):
        raise ValueError("A query needs at least one photo.")
    return unit(np.mean([unit(query) for query in queries], axis=0))


def expanded(query: np.ndarray, answers: np.ndarray, scores: np.ndarray, alpha: float = ALPHA) -> np.ndarray:
    """The query (d,) plus its first answers (n, d), each weighted by its score (n,) to the power alpha."""
    weights = np.maximum(scores, 0) ** alpha
    return unit(query + (weights[:, None] * answers).sum(axis=0))


def corrected(query: np.ndarray, right: np.ndarray, wrong: np.ndarray) -> np.ndarray:
    """Rocchio: the query (d,) moved towards the mean of right (m, d) and away from that of wrong (n, d), if any."""
    moved = query.astype(np.float32)
    if not len(right) and not len(wrong):
        return moved
    if len(right):
        moved = moved + RIGHT * right.mean(axis=0)
    if len(wrong):
        moved = moved - WRONG * wrong.mean(axis=0)
    return unit(moved)
