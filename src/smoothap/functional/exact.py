"""Exact Average Precision, Eq. 5, with ties counted against a positive as scikit-learn does."""

import torch
from torch import Tensor

from smoothap._core.devices import widest_float


def average_precision(scores: Tensor, relevant: Tensor) -> Tensor:
    """AP of each query over its whole ranking, in float64 (float32 where a device has no other); NaN without positives.

    scores (queries, items) of any similarity, relevant (queries, items) bool -> (queries,); or (items,) -> ().

    >>> average_precision(torch.tensor([0.9, 0.8, 0.7]), torch.tensor([True, False, True]))
    tensor(0.8333, dtype=torch.float64)
    """
    matrix, mask = check_scores(scores.detach(), relevant)
    items = matrix.shape[1]
    ascending = matrix.sort(1).values
    positives_ascending = matrix.masked_fill(~mask, float("-inf")).sort(1).values
    at_least = items - torch.searchsorted(ascending, matrix)  # items that score at least as high, itself included
    positives_at_least = items - torch.searchsorted(positives_ascending, matrix)
    wide = widest_float(matrix.device)
    precision = (positives_at_least.to(wide) / at_least.to(wide)).masked_fill_(~mask, 0.0)
    return (precision.sum(1) / mask.sum(1)).reshape(scores.shape[:-1])


def check_shapes(scores: Tensor, relevant: Tensor) -> None:
    """Refuse anything but one score and one flag for each item of each query."""
    if scores.shape != relevant.shape or scores.ndim not in (1, 2) or not scores.shape[-1]:
        raise ValueError(
            f"scores and relevant must both be (queries, items), not {tuple(scores.shape)} and {tuple(relevant.shape)}"
        )


def check_scores(scores: Tensor, relevant: Tensor) -> tuple[Tensor, Tensor]:
    """Scores and a relevance mask of shape (queries, items), from that or from one query's (items,).

    A score of -inf leaves an item out of the retrieval set; a relevant item must have a finite score.
    """
    check_shapes(scores, relevant)
    if not scores.is_floating_point():
        raise ValueError(f"scores must be floats, not {scores.dtype}: use scores.float()")
    if relevant.is_floating_point() or relevant.is_complex():
        raise ValueError(f"relevant must be a mask of True and False, not {relevant.dtype}: use relevant > 0")
    scores, relevant = scores.reshape(-1, scores.shape[-1]), relevant.reshape(-1, relevant.shape[-1]).bool()
    wrong = (scores.isnan() | (scores == float("inf")) | (relevant & ~scores.isfinite())).any(1)
    if bool(wrong.any()):
        row = int(wrong.nonzero()[0, 0])
        raise ValueError(
            f"scores of query {row} are NaN, +inf, or -inf for a relevant item: only items that are left out of the "
            "retrieval set may be -inf"
        )
    return scores, relevant
