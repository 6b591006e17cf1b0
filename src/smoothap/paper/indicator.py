"""Figure 2: what may stand for the indicator, and the slopes that training would get from each."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from smoothap.functional import average_precision
from smoothap.functional.diagnostics import NEGLIGIBLE_GRADIENT
from smoothap.functional.indicators import Exponential, Indicator, Linear, Sigmoid, Step
from smoothap.losses import SmoothAP
from smoothap.paper.analysis import Analysis, Start
from smoothap.plots.drawing import panel_figure, style_axes
from smoothap.plots.palette import LIGHT

TEMPERATURES = (0.001, 0.01, 0.1)
_REACH = 0.5
_POINTS = 1001


def relaxations(width: float = 0.2) -> dict[str, Indicator]:
    """The six of Figure 2 by name; `width` is that of the linear and the exponential one."""
    sigmoids: dict[str, Indicator] = {f"sigmoid, τ = {tau:g}": Sigmoid(tau) for tau in TEMPERATURES}
    return {"indicator": Step(), **sigmoids, "linear": Linear(width), "exponential": Exponential(width)}


def indicator(start: Start = Start(), *, batch_size: int = 128, width: float = 0.2) -> Analysis:
    """Figure 2: the indicator, sigmoids at three temperatures, linear and exponential relaxations, and their slopes.

    Parameters
    ----------
    data
        NAME or NAME:PATH: measure on a batch of these images too how far the AP that each relaxation gives is from AP,
        and how much of the batch would receive a gradient.
    width
        Of the linear and the exponential relaxation.
    """
    differences = torch.linspace(-_REACH, _REACH, _POINTS, dtype=torch.float64)
    possible = torch.linspace(-2, 2, 4001, dtype=torch.float64)  # cosines differ by at most 2
    batch = start.embedded(batch_size) if start.data else None
    curves: dict[str, tuple[list[float], list[float]]] = {}
    rows: list[dict[str, Any]] = []
    for name, function in relaxations(width).items():
        value, slope = function.with_slope(differences.clone())
        curves[name] = (value.tolist(), slope.tolist())
        within = possible[function.with_slope(possible.clone())[1] > NEGLIGIBLE_GRADIENT]
        rows.append(
            {
                "relaxation": name,
                "off by, within 0.5": float((value - (differences > 0).double()).abs().max()),
                "steepest": float(slope.max()),
                "slope from": float(within.min()) if len(within) else None,
                "slope to": float(within.max()) if len(within) else None,
            }
        )
        if batch is not None:
            error, sloped = fit_on_batch(function, *batch)
            rows[-1] |= {"AP_e": error, "terms with a slope": sloped}
    return Analysis(
        name="indicator",
        title="Relaxations of the indicator and their derivatives",
        table=rows,
        figures={"": _figure(differences, curves)},
        paper=(
            "Figure 2 (without numbers): the indicator, three sigmoids with increasing temperatures, a linear and an "
            "exponential relaxation, with derivatives; a small tau has a small operating region and a tight "
            "approximation, a large one a large region and a loose approximation."
        ),
        agreement=_agreement(rows, width),
        numbers={
            "differences": f"{_POINTS} from {-_REACH} to {_REACH}", "gradient": NEGLIGIBLE_GRADIENT, "width": width,
            "data": start.data, "batch": None if batch is None else batch_size,
        },
    )  # fmt: skip


def fit_on_batch(function: Indicator, embeddings: Tensor, labels: Tensor) -> tuple[float, float]:
    """AP_e (Eq. 8) with a relaxation, and the share of the terms of a positive and a negative that it gives a slope."""
    scores = embeddings @ embeddings.T
    same = labels[:, None] == labels[None, :]
    itself = torch.eye(len(labels), dtype=torch.bool, device=labels.device)
    others = scores.masked_fill(itself, -2.0)  # below every cosine: the query ranks last in its own list
    exact = average_precision(others, same & ~itself)
    there = exact.isfinite()
    relaxed = 1 - SmoothAP(indicator=function, reduction="none")(embeddings, labels).double()
    sloped = terms = 0
    for query in range(len(labels)):
        differences = scores[query, ~same[query]][None, :] - scores[query, same[query] & ~itself[query]][:, None]
        slope = function.with_slope(differences.clone())[1]
        sloped += int((slope.abs() > NEGLIGIBLE_GRADIENT).sum())
        terms += slope.numel()
    return float((relaxed - exact)[there].abs().mean()), sloped / max(1, terms)


def _agreement(rows: Sequence[Mapping[str, Any]], width: float) -> str:
    sigmoids = rows[1 : 1 + len(TEMPERATURES)]
    reach = [row["slope to"] or 0.0 for row in sigmoids]
    reaches = ", ".join(f"±{end:.3g} at tau {tau:g}" for tau, end in zip(TEMPERATURES, reach, strict=True))
    widens = all(one < other for one, other in pairwise(reach))
    loosens = all(one.get("AP_e", 0) <= other.get("AP_e", 0) for one, other in pairwise(sigmoids))
    errors = ", ".join(f"{row['AP_e']:.3g} ({row['relaxation']})" for row in rows[1:] if "AP_e" in row)
    measured = f"; on a batch AP_e is {errors}" if errors else ""
    return (
        f"{'Agrees' if widens and loosens else 'Does not agree'}: the slope is above {NEGLIGIBLE_GRADIENT:g} within "
        f"{reaches}, and the linear and exponential ones keep a slope however far a negative is above{measured}. The "
        f"paper does not give the formulas of the last two: ours are the hinge max(0, 1 + x / {width:g}) and "
        f"e^(x / {width:g})."
    )


def _figure(differences: Tensor, curves: Mapping[str, tuple[list[float], list[float]]]) -> Figure:
    """First row: each relaxation over the indicator, dotted; second row: their derivatives, each on its own scale."""
    figure = panel_figure(2.35 * len(curves), 4.8, w_pad=0.06)
    for place, (name, (values, slopes)) in enumerate(curves.items()):
        above = figure.add_subplot(2, len(curves), place + 1)
        above.plot(differences, differences > 0, ":", color=LIGHT["soft"], linewidth=1.6)
        above.plot(differences, values, color=LIGHT["blue"], linewidth=2.4)
        above.set_ylim(-0.1, 2.1)
        above.set_title(f"({'abcdefghij'[place]}) {name}", fontsize=11, color=LIGHT["ink"], fontweight="bold")
        below = figure.add_subplot(2, len(curves), len(curves) + place + 1, xlabel="x")
        below.plot(differences, slopes, color=LIGHT["green"], linewidth=2.4)
        steepest = max(slopes) if place and slopes[-1] < 0.5 * max(slopes) else 10.5
        below.set_ylim(-0.05 * steepest, 1.12 * steepest)
        for axes in (above, below):
            axes.set_xlim(-_REACH, _REACH)
            axes.set_xticks((-0.5, 0, 0.5), ("−0.5", "0", "0.5"))
            style_axes(axes)
        if place == 0:
            below.set_yticks((0,), ("0",))
            above.set_ylabel("value")
            below.set_ylabel("derivative")
            below.annotate(
                "0 everywhere,\nundefined at 0", (0, 0), (0, 12), textcoords="offset points", ha="center", va="bottom",
                fontsize=10, color=LIGHT["ink"],
            )  # fmt: skip
    return figure
