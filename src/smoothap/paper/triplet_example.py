"""Section 4's worked example: six violating terms that a triplet loss treats alike and AP does not."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from smoothap.functional import average_precision, smooth_ap
from smoothap.paper.analysis import Analysis, Start
from smoothap.plots.drawing import LEGEND, panel_figure, style_axes
from smoothap.plots.palette import LIGHT

FIFTHS = 5
# The instances in the order of their scores, highest first; s0 to s3 are the positives. The paper gives no scores.
ORDER = ("s0", "s4", "s1", "s2", "s5", "s6", "s7", "s3")
POSITIVE = torch.tensor([name in ("s0", "s1", "s2", "s3") for name in ORDER])
_HIGHEST = 0.9
_FIXED = {"s0": 0.95, "s4": 0.75, "s2": -0.15, "s5": -0.25, "s6": -0.35, "s7": -0.45, "s3": -0.55}
MOVES = ((0.8, 0.5), (0.2, -0.1))  # of s4 - s1, in the paper's words


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
    """AP gained (p, n) when one negative j that is above positive i no longer does; 0 for every other pair."""
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
            "In this batch no negative is above a positive, so there is nothing to spend on: give a larger "
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


def triplet_example(
    start: Start = Start(), *, batch_size: int = 128, tau: float = 0.01, step: float = 0.02, margin: float = 0.1
) -> Analysis:
    """Section 4: six violating terms with their gradients, and what two moves of s4 - s1 are worth to either loss.

    Parameters
    ----------
    data
        NAME or NAME:PATH: see the same on all violating terms of a batch of these images too.
    step
        The distance of neighbouring scores.
    margin
        Of the triplet loss.
    """
    if not step > 0:
        raise ValueError(f"step is the distance of neighbouring scores and must be positive, such as 0.02, not {step}")
    scores = _HIGHEST - step * torch.arange(len(ORDER), dtype=torch.float64)
    gradients, precision = term_gradients(scores, POSITIVE, tau), float(average_precision(scores, POSITIVE))
    positives, rows = POSITIVE.nonzero()[:, 0].tolist(), {}
    for j, row in violating_terms(scores).T.nonzero().tolist():
        i = positives[row]
        exchanged = scores.clone()
        exchanged[[i, j]] = scores[[j, i]]
        difference = float(scores[j] - scores[i])
        rows[f"{ORDER[j]} - {ORDER[i]}"] = {
            "term": f"{ORDER[j]} - {ORDER[i]}",
            "D": difference,
            "triplet gradient": 1.0 if difference + margin > 0 else 0.0,
            "Smooth-AP gradient": float(gradients[row, j]),
            "AP gained if exchanged": float(average_precision(exchanged, POSITIVE)) - precision,
        }
    moves = [_move(high, low, tau, margin) for high, low in MOVES]
    differences = [round(0.85 - 0.005 * place, 4) for place in range(211)]  # where s1 stays above s2
    moved = torch.stack([_with_difference(difference) for difference in differences])
    curves = {
        "difference": differences,
        "triplet": [max(difference + margin, 0.0) for difference in differences],
        "smooth": (1 - smooth_ap(moved, POSITIVE.expand_as(moved), tau)).tolist(),
        "exact": (1 - average_precision(moved, POSITIVE.expand_as(moved))).tolist(),
    }
    first, last = rows["s4 - s1"], rows["s7 - s3"]
    ratio, worth = (first[name] / last[name] for name in ("Smooth-AP gradient", "AP gained if exchanged"))
    numbers: dict[str, Any] = {
        "tau": tau, "margin": margin, "scores": dict(zip(ORDER, scores.tolist(), strict=True)),
        "average_precision": precision, "moves": moves,
        "scores_of_the_moves": _FIXED, "curves": curves, "gradient_ratio": ratio, "worth_ratio": worth,
    }  # fmt: skip
    table = list(rows.values())
    figures, measured = {"": _figure(table, curves, moves, tau, margin)}, ""
    if start.data:
        spent = spending(*start.embedded(batch_size), tau=tau, margin=margin)
        numbers["spending"] = asdict(spent)
        figures["batch"] = _spending_figure(spent, start.data, tau)
        measured = (
            f" Of the {spent.terms:,} violating terms in a batch of {spent.batch} ({start.data}), the fifth that is "
            f"worth most AP receives {100 * spent.shares['Smooth-AP'][0]:.0f}% of Smooth-AP's gradient and "
            f"{100 * spent.shares['triplet'][0]:.0f}% of the triplet loss's."
        )
    agrees = (
        len({row["triplet gradient"] for row in table}) == 1 and ratio > 1
        and abs(moves[0]["triplet loss lost"] - moves[1]["triplet loss lost"]) < 1e-6
        and moves[1]["Smooth-AP gained"] > moves[0]["Smooth-AP gained"]
    )  # fmt: skip
    return Analysis(
        name="triplet-example",
        title="Six violating terms under a triplet loss and under Smooth-AP",
        table=table,
        figures=figures,
        paper=(
            "Section 4: a triplet loss treats the six violating terms equally, an AP loss should spend more on s4 - s1 "
            "than on s7 - s3; reducing s4 - s1 from 0.8 to 0.5 is the same to a triplet loss as from 0.2 to -0.1, "
            "though only the latter changes the order. The paper gives no numbers."
        ),
        agreement=(
            f"{'Agrees' if agrees else 'Does not agree'}: at the same distance s4 - s1 receives {ratio:.1f} times "
            f"the gradient of s7 - s3 (exchanging them is worth {worth:.1f} times as much AP), and the two moves lower "
            f"the triplet loss by {moves[0]['triplet loss lost']:.1f} and {moves[1]['triplet loss lost']:.1f} but "
            f"raise AP by {moves[0]['AP gained']:.3f} and {moves[1]['AP gained']:.3f}; the scores are ours (steps of "
            f"{step:g}), and a term more than about {10 * tau:g} wide receives next to nothing from Smooth-AP, however "
            f"high it ranks.{measured}"
        ),
        numbers=numbers,
    )


def violating_terms(scores: Tensor) -> Tensor:
    """Whether s_j - s_i > 0 for a positive i and a negative j of the example: scores (8,) -> (4, 8)."""
    return (scores[None, :] > scores[POSITIVE][:, None]) & ~POSITIVE


def _with_difference(difference: float) -> Tensor:
    """The scores (8,) in the paper's order, all but s1 held fixed, with this s4 - s1."""
    scores = _FIXED | {"s1": _FIXED["s4"] - difference}
    return torch.tensor([scores[name] for name in ORDER], dtype=torch.float64)


def _move(start: float, end: float, tau: float, margin: float) -> dict[str, float]:
    """What a fall of s4 - s1 is worth to either loss and to AP."""
    before, after = _with_difference(start), _with_difference(end)
    terms = violating_terms(before)
    triplet = [
        float((scores[None, :] - scores[POSITIVE][:, None] + margin).clamp(min=0)[terms].sum())
        for scores in (before, after)
    ]
    return {
        "from": start,
        "to": end,
        "triplet loss lost": triplet[0] - triplet[1],
        "Smooth-AP gained": float(smooth_ap(after, POSITIVE, tau) - smooth_ap(before, POSITIVE, tau)),
        "AP gained": float(average_precision(after, POSITIVE) - average_precision(before, POSITIVE)),
    }


def _figure(
    rows: Sequence[Mapping[str, Any]],
    curves: Mapping[str, Sequence[float]],
    moves: Sequence[Mapping[str, float]],
    tau: float,
    margin: float,
) -> Figure:
    """Left the gradient of each term under both losses; right both losses against s4 - s1, with the two moves."""
    figure = panel_figure(11.5, 5.6, h_pad=0.1)
    grid = figure.add_gridspec(2, 2, width_ratios=(1, 1.25))
    terms = [row["term"].replace("-", "−") for row in rows]
    for place, (values, title, colour) in enumerate(
        (
            ([row["triplet gradient"] for row in rows], "Triplet loss: gradient of each term", "blue"),
            ([row["Smooth-AP gradient"] for row in rows], f"Smooth-AP, τ = {tau:g}: gradient of each term", "green"),
        )
    ):
        axes = figure.add_subplot(grid[place, 0], ylim=(0, 1.18 * max(*values, 1e-9)))
        bars = axes.bar(terms, values, color=LIGHT[colour], width=0.62)
        labels = [f"{value:.3g}" if value > 5e-4 else "≈ 0" for value in values]
        axes.bar_label(bars, labels, fontsize=10, color=LIGHT["ink"], padding=2)
        style_axes(axes, title)
    triplet, exact = figure.add_subplot(grid[0, 1]), figure.add_subplot(grid[1, 1])
    for axes, name, colour, dash, label in (
        (triplet, "triplet", "blue", "-", f"max(s4 − s1 + {margin:g}, 0)"),
        (exact, "exact", "ink", ":", "1 − AP"),
        (exact, "smooth", "green", "-", f"Smooth-AP, τ = {tau:g}"),
    ):
        axes.plot(curves["difference"], curves[name], dash, color=LIGHT[colour], linewidth=2.4, label=label)
    exact.set_xlabel("s4 − s1, falling as training goes on")
    for axes, title, changes in (
        (triplet, "Triplet loss of s4 − s1", [-move["triplet loss lost"] for move in moves]),
        (exact, "1 − AP of the example", [-move["AP gained"] for move in moves]),
    ):
        low, high = axes.get_ylim()
        axes.set_ylim(low, high + 0.24 * (high - low))
        for move, change, colour in zip(moves, changes, ("soft", "red"), strict=True):
            start, end = move["from"], move["to"]
            axes.axvspan(end, start, color=LIGHT[colour], alpha=0.16, linewidth=0)
            text = f"{start:g} → {end:g}\n" + (f"{change:+.3f}" if abs(change) > 5e-4 else "±0")
            axes.text(
                (end + start) / 2, 0.98, text.replace("-", "−"), transform=axes.get_xaxis_transform(),
                ha="center", va="top", fontsize=10.5, color=LIGHT["ink"],
            )  # fmt: skip
        axes.set_xlim(max(curves["difference"]), min(curves["difference"]))
        axes.legend(fontsize=10, loc="lower left", **LEGEND)
        style_axes(axes, title)
    return figure


def _spending_figure(spent: Spending, data: str, tau: float) -> Figure:
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
