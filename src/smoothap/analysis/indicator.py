"""Figure 2: what may stand for the indicator, and the slopes that training would get from each."""

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from smoothap.analysis.analysis import Analysis
from smoothap.losses import SmoothAP
from smoothap.ranking import average_precision
from smoothap.ranking.diagnostics import NEGLIGIBLE_GRADIENT
from smoothap.ranking.indicators import Exponential, Indicator, Linear, Sigmoid, Step
from smoothap.report.indicator_figure import indicator_figure

TEMPERATURES = (0.001, 0.01, 0.1)
_REACH = 0.5
_POINTS = 1001


def relaxations(temperatures: tuple[float, ...] = TEMPERATURES, width: float = 0.2) -> dict[str, Indicator]:
    """The six of Figure 2 by name; `width` is that of the linear and the exponential one."""
    sigmoids: dict[str, Indicator] = {f"sigmoid, τ = {tau:g}": Sigmoid(tau) for tau in temperatures}
    return {"indicator": Step(), **sigmoids, "linear": Linear(width), "exponential": Exponential(width)}


def indicator(
    *,
    temperatures: tuple[float, ...] = TEMPERATURES,
    width: float = 0.2,
    batch: tuple[Tensor, Tensor] | None = None,
    data: str = "",
    command: str = "smoothap analyse indicator",
) -> Analysis:
    """Values and slopes over differences of -0.5 to 0.5; `temperatures` increase.

    batch: embeddings (b, d) of length 1 and labels (b,) of a real batch, to see how far the AP that each relaxation
    gives is from AP there, and how much of it would receive a gradient.
    """
    differences = torch.linspace(-_REACH, _REACH, _POINTS, dtype=torch.float64)
    possible = torch.linspace(-2, 2, 4001, dtype=torch.float64)  # cosines differ by at most 2
    curves: dict[str, tuple[list[float], list[float]]] = {}
    rows: list[dict[str, Any]] = []
    for name, function in relaxations(temperatures, width).items():
        value, slope = function.with_slope(differences.clone())
        curves[name] = (value.tolist(), slope.tolist())
        within = possible[function.with_slope(possible.clone())[1] > NEGLIGIBLE_GRADIENT]
        row: dict[str, Any] = {
            "relaxation": name,
            "off by, within 0.5": float((value - (differences > 0).double()).abs().max()),
            "steepest": float(slope.max()),
            "slope from": float(within.min()) if len(within) else None,
            "slope to": float(within.max()) if len(within) else None,
        }
        if batch is not None:
            row |= on_a_batch(function, *batch)
        rows.append(row)
    numbers: dict[str, Any] = {
        "differences": f"{_POINTS} from {-_REACH} to {_REACH}", "gradient": NEGLIGIBLE_GRADIENT, "width": width,
        "data": data, "batch": None if batch is None else len(batch[0]),
    }  # fmt: skip
    return Analysis(
        name="indicator",
        title="Relaxations of the indicator and their derivatives",
        numbers=numbers,
        figures={"": indicator_figure(differences.tolist(), curves)},
        table=rows,
        paper=(
            "Figure 2 (without numbers): the indicator, three sigmoids with increasing temperatures, a linear and an "
            "exponential relaxation, with derivatives; a small tau has a small operating region and a tight "
            "approximation, a large one a large region and a loose approximation."
        ),
        agreement=_agreement(rows, temperatures, width),
        command=command,
    )


def on_a_batch(function: Indicator, embeddings: Tensor, labels: Tensor) -> dict[str, float]:
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
    return {"AP_e": float((relaxed - exact)[there].abs().mean()), "terms with a slope": sloped / max(1, terms)}


def _agreement(rows: list[dict[str, Any]], temperatures: tuple[float, ...], width: float) -> str:
    sigmoids = rows[1 : 1 + len(temperatures)]
    figures = ", ".join(
        f"±{row['slope to']:.3g} at tau {tau:g}" for tau, row in zip(temperatures, sigmoids, strict=True)
    )
    widens = all(one["slope to"] < other["slope to"] for one, other in pairwise(sigmoids))
    loosens = all(one.get("AP_e", 0) <= other.get("AP_e", 0) for one, other in pairwise(sigmoids))
    measured = ""
    if "AP_e" in rows[0]:
        measured = "; on a batch AP_e is " + ", ".join(f"{row['AP_e']:.3g} ({row['relaxation']})" for row in rows[1:])
    return (
        f"{'Agrees' if widens and loosens else 'Does not agree'}: the slope is above {NEGLIGIBLE_GRADIENT:g} within "
        f"{figures}, and the linear and exponential ones keep a slope however far a negative "
        f"stands above{measured}. The paper does not give the formulas of the last two: ours are the "
        f"hinge max(0, 1 + x / {width:g}) and e^(x / {width:g})."
    )
