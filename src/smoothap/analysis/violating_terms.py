"""Section 4's point on a real batch: where a triplet loss and Smooth-AP spend their gradient."""

from typing import Any

import torch
from torch import Tensor

FIFTHS = 5


def term_gradients(scores: Tensor, positive: Tensor, tau: float) -> Tensor:
    """d(1 - AP)/dD_ij (p, n) of one query with scores (n,): each D_ij = s_j - s_i of a positive i on its own."""
    differences = (scores[None, :] - scores[positive][:, None]).requires_grad_()  # Eq. 4
    itself = positive.nonzero()[:, 0][:, None] == torch.arange(len(scores), device=scores.device)
    above = torch.sigmoid(differences / tau) * ~itself  # j != i, Eq. 3
    precision = (1 + (above * positive).sum(1)) / (1 + above.sum(1))
    (gradient,) = torch.autograd.grad(1 - precision.mean(), differences)
    return gradient


def worth_of_terms(scores: Tensor, positive: Tensor) -> Tensor:
    """AP gained (p, n) when one negative j that stands above positive i no longer does; 0 for every other pair."""
    above = scores[None, :] > scores[positive][:, None]
    among, rank = 1 + (above & positive).sum(1).double(), 1 + above.sum(1).double()
    gain = (among / (rank - 1) - among / rank) / len(rank)
    return torch.where(above & ~positive, gain[:, None], 0.0)


def spending(embeddings: Tensor, labels: Tensor, *, tau: float, margin: float) -> dict[str, Any]:
    """Over all violating terms of a batch (b, d), in fifths by the AP that undoing one is worth: each loss's share.

    Every item is a query, and every negative above a positive a violating term.
    """
    all_scores = (embeddings @ embeddings.T).double()
    worth, smooth, triplet = [], [], []
    for query in range(len(labels)):
        others = torch.arange(len(labels), device=labels.device) != query
        scores, positive = all_scores[query, others], labels[others] == labels[query]
        if not positive.any():
            continue
        differences = scores[None, :] - scores[positive][:, None]
        violating = (differences > 0) & ~positive
        worth.append(worth_of_terms(scores, positive)[violating])
        smooth.append(term_gradients(scores, positive, tau)[violating])
        triplet.append((differences + margin > 0).double()[violating])
    if not worth or not sum(len(each) for each in worth):
        raise ValueError(
            "In this batch no negative stands above a positive, so there is nothing to spend on: give a larger "
            "--batch-size, or a model that has been trained less."
        )
    worths = torch.cat(worth)
    by_worth = worths.argsort(descending=True, stable=True)
    shares = {}
    for name, parts in (("triplet", triplet), ("Smooth-AP", smooth)):
        gradients = torch.cat(parts)
        shares[name] = [float(fifth.sum() / gradients.sum()) for fifth in gradients[by_worth].tensor_split(FIFTHS)]
    return {
        "terms": len(by_worth),
        "batch": len(labels),
        "shares": shares,
        "worth": [float(part.mean()) for part in worths[by_worth].tensor_split(FIFTHS)],
    }
