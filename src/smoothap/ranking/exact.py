"""Exact Average Precision, Eq. 5, with ties counted against a positive as scikit-learn does."""

import torch
from torch import Tensor

from smoothap.ranking.scores import check_scores


def average_precision(scores: Tensor, relevant: Tensor) -> Tensor:
    """AP of each query over its whole ranking, in float64; NaN for a query without a relevant item.

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
    precision = (positives_at_least.double() / at_least.double()).masked_fill_(~mask, 0.0)
    return (precision.sum(1) / mask.sum(1)).reshape(scores.shape[:-1])
