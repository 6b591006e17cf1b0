"""The vectors of queries: brought to length 1, joined, and moved by their first answers or by what the user marked."""

from collections.abc import Sequence

import numpy as np
import torch

from smoothap._core.devices import refuse_masked
from smoothap.metrics import cosine

ALPHA = 3.0  # weight of an answer in query expansion: its score to this power; 0 is the plain average
RIGHT, WRONG = 1.0, 0.5  # Rocchio's weights of what is marked, beside the query's own weight of 1


def unit_vectors(vectors: np.ndarray) -> np.ndarray:
    """Vectors (n, d) as float32 of length 1; a row that is zero or not finite is named."""
    refuse_masked(vectors, "vectors")
    array = np.asarray(vectors)
    if array.ndim != 2 or array.dtype.kind not in "fiu":
        raise ValueError(f"Vectors are numbers of shape (n, d), not {array.dtype} of shape {array.shape}.")
    rows = cosine.given_rows(array)
    norms = cosine.row_norms(rows)
    bad = np.flatnonzero(~np.isfinite(norms) | (norms == 0))
    if len(bad):
        raise ValueError(f"Vector {bad[0]} is zero or not finite, so nothing is like it: leave that photo out.")
    return cosine.unit_rows(rows, norms, torch.float32).numpy()


def unit(vector: np.ndarray) -> np.ndarray:
    """The vector (d,) at length 1."""
    return unit_vectors(np.asanyarray(vector)[None])[0]


def joined(queries: Sequence[np.ndarray]) -> np.ndarray:
    """Several photos of one thing as one query: the direction of their mean, (d,)."""
    if not len(queries):
        raise ValueError("A query needs at least one photo.")
    return unit(np.mean(unit_vectors(np.stack(queries)), axis=0))


def check_expansion(expand: int, alpha: float) -> None:
    """Refuse a number of answers or a power that a query cannot be expanded by."""
    if expand < 0:
        raise ValueError(f"expand is how many first answers to add to the query, 0 or more, not {expand}.")
    if not 0 <= alpha < np.inf:
        raise ValueError(f"alpha is the power of a score, 0 or more, not {alpha}.")


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
