"""Section 4's worked example: six violating terms that a triplet loss treats alike and AP does not."""

from typing import Any

import torch
from torch import Tensor

from smoothap.analysis.analysis import Analysis
from smoothap.analysis.violating_terms import spending, term_gradients
from smoothap.ranking import average_precision, smooth_ap
from smoothap.report.triplet_example_figure import spending_figure, triplet_example_figure

# The instances in the order of their scores, highest first; s_0 to s_3 are the positives.
ORDER = ("s0", "s4", "s1", "s2", "s5", "s6", "s7", "s3")
POSITIVES = ("s0", "s1", "s2", "s3")
_HIGHEST = 0.9
_FIXED = {"s0": 0.95, "s4": 0.75, "s2": -0.15, "s5": -0.25, "s6": -0.35, "s7": -0.45, "s3": -0.55}
MOVES = ((0.8, 0.5), (0.2, -0.1))  # of s4 - s1, in the paper's words


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
    batch: tuple[Tensor, Tensor] | None = None,
    data: str = "",
    command: str = "smoothap analyse triplet-example",
) -> Analysis:
    """The six terms with their gradients, and what two moves of s4 - s1 by 0.3 are worth to either loss.

    batch: embeddings (b, d) of length 1 and labels (b,) of a real batch, to see the same on all its violating terms.
    """
    if not step > 0:
        raise ValueError(f"step is the distance of neighbouring scores and must be positive, such as 0.02, not {step}")
    scores = scores_in_order(step)
    terms = violating_terms(scores)
    gradients = example_gradients(scores, tau)
    rows: list[dict[str, Any]] = [
        {
            "term": f"{j} - {i}",
            "D": scores[j] - scores[i],
            "triplet gradient": 1.0 if scores[j] - scores[i] + margin > 0 else 0.0,
            "Smooth-AP gradient": gradients[j, i],
            "AP gained if exchanged": exact_ap(scores | {j: scores[i], i: scores[j]}) - exact_ap(scores),
        }
        for j, i in terms
    ]
    moves = [_move(before, after, tau, margin) for before, after in MOVES]
    differences = [round(0.85 - 0.005 * place, 4) for place in range(211)]  # where s1 stays above s2
    curves = {
        "difference": differences,
        "triplet": [max(difference + margin, 0.0) for difference in differences],
        "smooth": [1 - smoothed_ap(_with_difference(difference), tau) for difference in differences],
        "exact": [1 - exact_ap(_with_difference(difference)) for difference in differences],
    }
    numbers = {
        "tau": tau, "margin": margin, "scores": scores, "average_precision": exact_ap(scores), "moves": moves,
        "scores_of_the_moves": _FIXED, "curves": curves,
    }  # fmt: skip
    by_name = {row["term"]: row for row in rows}
    ratio = by_name["s4 - s1"]["Smooth-AP gradient"] / by_name["s7 - s3"]["Smooth-AP gradient"]
    worth = by_name["s4 - s1"]["AP gained if exchanged"] / by_name["s7 - s3"]["AP gained if exchanged"]
    numbers["gradient_ratio"], numbers["worth_ratio"] = ratio, worth
    equal = len({row["triplet gradient"] for row in rows}) == 1
    figures, measured = {"": triplet_example_figure(rows, curves, moves, tau, margin)}, ""
    if batch is not None:
        numbers["spending"] = spent = spending(*batch, tau=tau, margin=margin)
        figures["batch"] = spending_figure(spent, data, tau)
        measured = (
            f" Of the {spent['terms']:,} violating terms in a batch of {spent['batch']} ({data}), the fifth that is "
            f"worth most AP receives {100 * spent['shares']['Smooth-AP'][0]:.0f}% of Smooth-AP's gradient and "
            f"{100 * spent['shares']['triplet'][0]:.0f}% of the triplet loss's."
        )
    agrees = (
        equal and ratio > 1 and abs(moves[0]["triplet loss lost"] - moves[1]["triplet loss lost"]) < 1e-6
        and moves[1]["Smooth-AP gained"] > moves[0]["Smooth-AP gained"]
    )  # fmt: skip
    return Analysis(
        name="triplet-example",
        title="Six violating terms under a triplet loss and under Smooth-AP",
        numbers=numbers,
        figures=figures,
        table=rows,
        paper=(
            "Section 4: a triplet loss treats the six violating terms equally, an AP loss should spend more on s4 - s1 "
            "than on s7 - s3; reducing s4 - s1 from 0.8 to 0.5 is the same to a triplet loss as from 0.2 to -0.1, "
            "though only the latter changes the order. The paper gives no figures."
        ),
        agreement=(
            f"{'Agrees' if agrees else 'Does not agree'}: at the same distance s4 - s1 receives {ratio:.1f} times "
            f"the gradient of s7 - s3 (exchanging them is worth {worth:.1f} times as much AP), and the two moves lower "
            f"the triplet loss by {moves[0]['triplet loss lost']:.1f} and {moves[1]['triplet loss lost']:.1f} but "
            f"raise AP by {moves[0]['AP gained']:.3f} and {moves[1]['AP gained']:.3f}; the scores are ours (steps of "
            f"{step:g}), and a term more than about {10 * tau:g} wide receives next to nothing from Smooth-AP, however "
            f"high it ranks.{measured}"
        ),
        command=command,
    )


def _with_difference(difference: float) -> dict[str, float]:
    """The example in the paper's order, all but s1 held fixed, with s4 - s1 as asked."""
    return _FIXED | {"s1": _FIXED["s4"] - difference}


def _move(before: float, after: float, tau: float, margin: float) -> dict[str, float]:
    start, end = _with_difference(before), _with_difference(after)
    terms = violating_terms(start)
    return {
        "from": before,
        "to": after,
        "triplet loss lost": triplet_loss(start, terms, margin) - triplet_loss(end, terms, margin),
        "Smooth-AP gained": smoothed_ap(end, tau) - smoothed_ap(start, tau),
        "AP gained": exact_ap(end) - exact_ap(start),
    }


def _as_tensors(scores: dict[str, float]) -> tuple[Tensor, Tensor]:
    return (
        torch.tensor(list(scores.values()), dtype=torch.float64),
        torch.tensor([name in POSITIVES for name in scores]),
    )
