"""The operating region: its share of the differences against the batch size, and where it lies on the slope."""

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter, NullLocator, PercentFormatter

from smoothap.report.curves import dress
from smoothap.report.palette import LIGHT

_LOOKS = (("blue", "o", "--"), ("green", "s", "-"), ("red", "^", "-."), ("soft", "D", ":"))


def operating_share_figure(rows: Sequence[Mapping[str, Any]], tau: float) -> Figure:
    """P, the negatives near a positive, and the positives that have one, against the batch size; a line a model."""
    figure = Figure(figsize=(11.5, 3.9))
    figure.set_layout_engine("constrained", w_pad=0.12, h_pad=0.08)
    panels = (
        ("P, full matrix", f"P: share of all differences\nin the region, τ = {tau:g}", True),
        ("negatives near a positive", "Negatives in the region\nof a positive, on average", False),
        ("positives with one", "Positives with at least\none negative in the region", True),
    )
    models = list(dict.fromkeys(row["model"] for row in rows))
    for place, (column, title, is_share) in enumerate(panels):
        axes = figure.add_subplot(1, 3, place + 1)
        for model, (colour, marker, dash) in zip(models, cycle(_LOOKS), strict=False):
            own = [row for row in rows if row["model"] == model]
            sizes = [row["B"] for row in own]
            axes.plot(
                sizes, [row[column] for row in own], dash, marker=marker, color=LIGHT[colour], linewidth=2.2,
                markersize=6, label=model,
            )  # fmt: skip
            if place == 0:
                axes.plot(sizes, [row["P, i != j"] for row in own], ":", color=LIGHT[colour], linewidth=1.6)
        axes.set_xscale("log", base=2)
        sizes = sorted({row["B"] for row in rows})
        axes.set_xticks(sizes, [f"{size:,}" for size in sizes], rotation=35)
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xlabel("batch size")
        if is_share:
            axes.set_ylim(0, 1.18 * max(max(row[column], row["P, i != j"] if place == 0 else 0) for row in rows))
            axes.yaxis.set_major_formatter(PercentFormatter(1))
        else:
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axes.yaxis.set_minor_formatter(NullFormatter())
        dress(axes)
        axes.set_title(title, loc="left", fontsize=11.5, color=LIGHT["ink"], fontweight="bold")
        if place == 0:
            axes.plot([], [], ":", color=LIGHT["soft"], linewidth=1.6, label="without i = j and the query")
            axes.legend(frameon=False, fontsize=9.5, labelcolor=LIGHT["ink"], loc="best")
    return figure


def sigmoid_slope_figure(tau: float, gradient: float, width: float) -> Figure:
    """dG/dD with the operating region marked, as it is and by powers of ten, where its edge can be seen."""
    figure = Figure(figsize=(9, 3.7))
    figure.set_layout_engine("constrained", w_pad=0.12, h_pad=0.08)
    reach = 2 * width if width else 10 * tau
    differences = np.linspace(-reach, reach, 801)
    values = 1 / (1 + np.exp(-differences / tau))
    slopes = np.maximum(values * (1 - values) / tau, 1e-12)
    for place, scale in enumerate(("linear", "log")):
        axes = figure.add_subplot(1, 2, place + 1)
        axes.axvspan(-width, width, color=LIGHT["green"], alpha=0.15, linewidth=0)
        axes.plot(differences, slopes, color=LIGHT["blue"], linewidth=2.4)
        axes.set_xlim(-reach, reach)
        axes.set_yscale(scale)
        if scale == "log":
            axes.axhline(gradient, color=LIGHT["red"], linewidth=1.6, linestyle="--")
            axes.text(-0.97 * reach, 1.4 * gradient, f"{gradient:g}", color=LIGHT["red"], fontsize=10.5)
            axes.set_ylim(1e-3 * gradient, 4 * slopes.max())
        else:
            axes.set_ylim(0, 1.12 * slopes.max())
            axes.text(
                1.08 * width, 0.8 * slopes.max(), f"operating\nregion:\n±{width:.3f}", color=LIGHT["green"],
                fontsize=10.5, fontweight="bold", va="center",
            )  # fmt: skip
        axes.set_xlabel("difference of two scores, D")
        axes.set_ylabel("dG(D; τ)/dD")
        dress(axes)
        title = f"Slope of the sigmoid, τ = {tau:g}" if place == 0 else "The same by powers of ten"
        axes.set_title(title, loc="left", fontsize=11.5, color=LIGHT["ink"], fontweight="bold")
    return figure
