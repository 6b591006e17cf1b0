"""Section 4's point on a real batch: where a triplet loss and Smooth-AP spend their gradient."""

from dataclasses import dataclass

import torch
from matplotlib.figure import Figure
from torch import Tensor

from smoothap.plots.drawing import LEGEND, panel_figure, style_axes
from smoothap.plots.palette import LIGHT

FIFTHS = 5


@dataclass(frozen=True)
class Spending:
    """The violating terms of a batch in fifths, those that are worth most AP first."""

    terms: int
    batch: int
    shares: dict[str, list[float]]  # for each loss, the share of its gradient that each fifth receives
    worth: list[float]  # for each fifth, the mean gain in AP if one of its terms no longer violates the order


def term_gradients(scores: Tensor, positive: Tensor, tau: float) -> Tensor:
    """The gradient d(1 - AP)/dD_ij (p, n) of one query with scores (n,), where D_ij = s_j - s_i for a positive i.

    Each D_ij is taken for a variable of its own, although they share scores.
    """
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


def spending(embeddings: Tensor, labels: Tensor, *, tau: float, margin: float) -> Spending:
    """Each loss's share over all violating terms of a batch (b, d), in fifths by the AP that undoing one is worth.

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
    if not sum(map(len, worth)):
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
    means = [float(fifth.mean()) for fifth in worths[by_worth].tensor_split(FIFTHS)]
    return Spending(len(by_worth), len(labels), shares, means)


def spending_figure(spent: Spending, data: str, tau: float) -> Figure:
    """The share of each loss's gradient that goes to each fifth of a batch's violating terms, the worthiest first."""
    figure = panel_figure(8.6, 4.2, h_pad=0.1)
    axes = figure.add_subplot()
    names = [f"{place}\n+{1000 * worth:.2g}" for place, worth in enumerate(spent.worth, start=1)]
    for offset, (name, label, colour) in enumerate(
        (("triplet", "Triplet loss", "blue"), ("Smooth-AP", f"Smooth-AP, τ = {tau:g}", "green"))
    ):
        shares = [100 * share for share in spent.shares[name]]
        places = [place + 0.38 * (offset - 0.5) for place in range(len(shares))]
        bars = axes.bar(places, shares, width=0.36, color=LIGHT[colour], label=label)
        axes.bar_label(bars, [f"{share:.0f}%" for share in shares], fontsize=10, color=LIGHT["ink"], padding=2)
    axes.set_xticks(range(len(names)), names)
    axes.set_xlabel("fifths of the violating terms; mean AP that undoing one is worth, in thousandths")
    axes.set_ylabel("share of the loss's gradient, %")
    axes.legend(fontsize=10, **LEGEND)
    style_axes(axes, f"{spent.terms:,} violating terms of a batch of {spent.batch} ({data})")
    return figure
