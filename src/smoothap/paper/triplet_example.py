"""Section 4's worked example: six violating terms that a triplet loss treats alike and AP does not."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from smoothap.functional import average_precision, smooth_ap
from smoothap.paper._violating_terms import spending, spending_figure, term_gradients
from smoothap.paper.analysis import Analysis, column, columns
from smoothap.paper.batch import Batch
from smoothap.paper.command_line import command_line
from smoothap.plots.drawing import LEGEND, panel_figure, style_axes
from smoothap.plots.palette import LIGHT

# The instances in the order of their scores, highest first; s_0 to s_3 are the positives.
ORDER = ("s0", "s4", "s1", "s2", "s5", "s6", "s7", "s3")
POSITIVES = ("s0", "s1", "s2", "s3")
_HIGHEST = 0.9
_FIXED = {"s0": 0.95, "s4": 0.75, "s2": -0.15, "s5": -0.25, "s6": -0.35, "s7": -0.45, "s3": -0.55}
MOVES = ((0.8, 0.5), (0.2, -0.1))  # of s4 - s1, in the paper's words


@dataclass(frozen=True)
class ViolatingTerm:
    """A violating term: a negative that scores `difference` above a positive."""

    term: str = column("term")
    difference: float = column("D")
    triplet_gradient: float = column("triplet gradient")
    smooth_ap_gradient: float = column("Smooth-AP gradient")
    worth: float = column("AP gained if exchanged")


@dataclass(frozen=True)
class Move:
    """What a fall of s4 - s1 is worth to either loss and to AP."""

    start: float = column("from")
    end: float = column("to")
    triplet_loss_lost: float = column("triplet loss lost")
    smooth_ap_gained: float = column("Smooth-AP gained")
    ap_gained: float = column("AP gained")


def scores_in_order(step: float) -> dict[str, float]:
    """The paper gives an order and no scores: ours go down by `step` from one to the next."""
    return {name: _HIGHEST - step * place for place, name in enumerate(ORDER)}


def violating_terms(scores: dict[str, float]) -> list[tuple[str, str]]:
    """(negative j, positive i) for every s_j - s_i > 0, by the name of the negative, then of the positive."""
    negatives = sorted(set(scores) - set(POSITIVES))
    return [(j, i) for j in negatives for i in POSITIVES if scores[j] > scores[i]]


def example_gradients(scores: dict[str, float], tau: float) -> dict[tuple[str, str], float]:
    """d(1 - AP)/dD_ij of every pair of a negative j and a positive i."""
    gradient = term_gradients(*_as_tensors(scores), tau).tolist()
    positives = [name for name in scores if name in POSITIVES]
    return {
        (j, i): gradient[row][column]
        for row, i in enumerate(positives)
        for column, j in enumerate(scores)
        if j not in POSITIVES
    }


def triplet_loss(scores: dict[str, float], terms: list[tuple[str, str]], margin: float) -> float:
    """The paper's L_triplet: the sum over the terms of max(s_j - s_i + margin, 0)."""
    return sum(max(scores[j] - scores[i] + margin, 0.0) for j, i in terms)


def exact_ap(scores: dict[str, float]) -> float:
    """AP of the example with these scores."""
    return float(average_precision(*_as_tensors(scores)))


def smoothed_ap(scores: dict[str, float], tau: float) -> float:
    """Smoothed AP of the example with these scores."""
    return float(smooth_ap(*_as_tensors(scores), tau))


def triplet_example(
    *,
    tau: float = 0.01,
    step: float = 0.02,
    margin: float = 0.1,
    batch: Batch | None = None,
    device: str | None = None,
) -> Analysis:
    """The six terms with their gradients, and what two moves of s4 - s1 by 0.3 are worth to either loss.

    batch: images, to see the same on all violating terms of a real batch.
    """
    if not step > 0:
        raise ValueError(f"step is the distance of neighbouring scores and must be positive, such as 0.02, not {step}")
    scores = scores_in_order(step)
    gradients = example_gradients(scores, tau)
    rows = [
        ViolatingTerm(
            f"{j} - {i}", scores[j] - scores[i], 1.0 if scores[j] - scores[i] + margin > 0 else 0.0, gradients[j, i],
            exact_ap(scores | {j: scores[i], i: scores[j]}) - exact_ap(scores),
        )
        for j, i in violating_terms(scores)
    ]  # fmt: skip
    moves = [_move(start, end, tau, margin) for start, end in MOVES]
    differences = [round(0.85 - 0.005 * place, 4) for place in range(211)]  # where s1 stays above s2
    curves = {
        "difference": differences,
        "triplet": [max(difference + margin, 0.0) for difference in differences],
        "smooth": [1 - smoothed_ap(_with_difference(difference), tau) for difference in differences],
        "exact": [1 - exact_ap(_with_difference(difference)) for difference in differences],
    }
    by_name = {row.term: row for row in rows}
    first, last = by_name["s4 - s1"], by_name["s7 - s3"]
    ratio, worth = first.smooth_ap_gradient / last.smooth_ap_gradient, first.worth / last.worth
    numbers: dict[str, Any] = {
        "tau": tau, "margin": margin, "scores": scores, "average_precision": exact_ap(scores),
        "moves": [columns(move) for move in moves], "scores_of_the_moves": _FIXED, "curves": curves,
        "gradient_ratio": ratio, "worth_ratio": worth,
    }  # fmt: skip
    figures, measured = {"": _figure(rows, curves, moves, tau, margin)}, ""
    if batch is not None:
        spent = spending(*batch.embedded(device), tau=tau, margin=margin)
        numbers["spending"] = asdict(spent)
        figures["batch"] = spending_figure(spent, batch.data, tau)
        measured = (
            f" Of the {spent.terms:,} violating terms in a batch of {spent.batch} ({batch.data}), the fifth that is "
            f"worth most AP receives {100 * spent.shares['Smooth-AP'][0]:.0f}% of Smooth-AP's gradient and "
            f"{100 * spent.shares['triplet'][0]:.0f}% of the triplet loss's."
        )
    agrees = (
        len({row.triplet_gradient for row in rows}) == 1 and ratio > 1
        and abs(moves[0].triplet_loss_lost - moves[1].triplet_loss_lost) < 1e-6
        and moves[1].smooth_ap_gained > moves[0].smooth_ap_gained
    )  # fmt: skip
    return Analysis(
        name="triplet-example",
        title="Six violating terms under a triplet loss and under Smooth-AP",
        numbers=numbers,
        figures=figures,
        table=[columns(row) for row in rows],
        paper=(
            "Section 4: a triplet loss treats the six violating terms equally, an AP loss should spend more on s4 - s1 "
            "than on s7 - s3; reducing s4 - s1 from 0.8 to 0.5 is the same to a triplet loss as from 0.2 to -0.1, "
            "though only the latter changes the order. The paper gives no numbers."
        ),
        agreement=(
            f"{'Agrees' if agrees else 'Does not agree'}: at the same distance s4 - s1 receives {ratio:.1f} times "
            f"the gradient of s7 - s3 (exchanging them is worth {worth:.1f} times as much AP), and the two moves lower "
            f"the triplet loss by {moves[0].triplet_loss_lost:.1f} and {moves[1].triplet_loss_lost:.1f} but "
            f"raise AP by {moves[0].ap_gained:.3f} and {moves[1].ap_gained:.3f}; the scores are ours (steps of "
            f"{step:g}), and a term more than about {10 * tau:g} wide receives next to nothing from Smooth-AP, however "
            f"high it ranks.{measured}"
        ),
        command=command_line("triplet-example", tau=tau, step=step, margin=margin, **(vars(batch) if batch else {})),
    )


def _with_difference(difference: float) -> dict[str, float]:
    """The example in the paper's order, all but s1 held fixed, with this s4 - s1."""
    return _FIXED | {"s1": _FIXED["s4"] - difference}


def _move(start: float, end: float, tau: float, margin: float) -> Move:
    before, after = _with_difference(start), _with_difference(end)
    terms = violating_terms(before)
    return Move(
        start,
        end,
        triplet_loss(before, terms, margin) - triplet_loss(after, terms, margin),
        smoothed_ap(after, tau) - smoothed_ap(before, tau),
        exact_ap(after) - exact_ap(before),
    )


def _as_tensors(scores: dict[str, float]) -> tuple[Tensor, Tensor]:
    positive = torch.tensor([name in POSITIVES for name in scores])
    return torch.tensor(list(scores.values()), dtype=torch.float64), positive


def _figure(
    rows: Sequence[ViolatingTerm],
    curves: Mapping[str, Sequence[float]],
    moves: Sequence[Move],
    tau: float,
    margin: float,
) -> Figure:
    """Left the gradient of each term under both losses; right both losses against s4 - s1, with the two moves."""
    figure = panel_figure(11.5, 5.6, h_pad=0.1)
    grid = figure.add_gridspec(2, 2, width_ratios=(1, 1.25))
    terms = [row.term.replace("-", "−") for row in rows]
    for place, (values, title, colour) in enumerate(
        (
            ([row.triplet_gradient for row in rows], "Triplet loss: gradient of each term", "blue"),
            ([row.smooth_ap_gradient for row in rows], f"Smooth-AP, τ = {tau:g}: gradient of each term", "green"),
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
        (triplet, "Triplet loss of s4 − s1", [-move.triplet_loss_lost for move in moves]),
        (exact, "1 − AP of the example", [-move.ap_gained for move in moves]),
    ):
        low, high = axes.get_ylim()
        axes.set_ylim(low, high + 0.24 * (high - low))
        for move, change, colour in zip(moves, changes, ("soft", "red"), strict=True):
            axes.axvspan(move.end, move.start, color=LIGHT[colour], alpha=0.16, linewidth=0)
            text = f"{move.start:g} → {move.end:g}\n" + (f"{change:+.3f}" if abs(change) > 5e-4 else "±0")
            axes.text(
                (move.end + move.start) / 2, 0.98, text.replace("-", "−"), transform=axes.get_xaxis_transform(),
                ha="center", va="top", fontsize=10.5, color=LIGHT["ink"],
            )  # fmt: skip
        axes.set_xlim(max(curves["difference"]), min(curves["difference"]))
        axes.legend(fontsize=10, loc="lower left", **LEGEND)
        style_axes(axes, title)
    return figure
