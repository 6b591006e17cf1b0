"""Precision-recall and learning curves."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from smoothap.plots.drawing import style_axes
from smoothap.plots.palette import LIGHT
from smoothap.plots.rankings import RankedRow, precision_recall

_GRID = 1000  # a curve is drawn to this many steps of recall: finer than any screen


def draw_precision_recall(axes: Axes, before: RankedRow, after: RankedRow) -> None:
    """Both curves of one query over the full ranking: before in blue and dashed, after in green."""
    for row, colour, dash, label in ((before, "blue", "--", "before"), (after, "green", "-", "after")):
        curve = precision_recall(row.scores, row.right)
        visible = np.append(True, np.diff(np.floor(curve.recall * _GRID)) > 0)
        axes.plot(
            curve.recall[visible], curve.precision[visible], dash, color=LIGHT[colour], linewidth=2.2,
            drawstyle="steps-pre", clip_on=False, label=f"{label}, AP {100 * row.average_precision:.1f}%",
        )  # fmt: skip
    axes.set(xlim=(0, 1), ylim=(0, 1), xticks=(0, 0.5, 1), yticks=(0, 0.5, 1), xlabel="recall", ylabel="precision")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(PercentFormatter(1, decimals=0))
    style_axes(axes)


def precision_recall_figure(before: RankedRow, after: RankedRow) -> Figure:
    """A small figure of one query's two curves."""
    figure = Figure(figsize=(2.5, 2.1), layout="constrained")
    draw_precision_recall(figure.add_subplot(), before, after)
    return figure


def loss_figure(curve: Sequence[dict[str, Any]]) -> Figure | None:
    """The loss of each step, thin, and its running mean over a twentieth of them; None where none was recorded."""

    def draw(axes: Axes, steps: np.ndarray, losses: np.ndarray) -> None:
        window = max(1, len(losses) // 20)
        mean = np.convolve(losses, np.full(window, 1 / window), "valid")
        axes.plot(steps, losses, color=LIGHT["blue"], linewidth=1, alpha=0.45)
        axes.plot(steps[window - 1 :], mean, color=LIGHT["blue"], linewidth=2.4)
        axes.set_ylim(0, 1.08 * max(losses.max(), 1e-9))

    return _curve_figure(curve, "loss", "training loss", draw)


def validation_figure(curve: Sequence[dict[str, Any]]) -> Figure | None:
    """mAP on the validation classes wherever it was measured; None where it never was."""

    def draw(axes: Axes, steps: np.ndarray, values: np.ndarray) -> None:
        axes.plot(steps, values, "o-", color=LIGHT["green"], linewidth=2.4, markersize=5)
        low, high = values.min(), values.max()
        room = max(high - low, 0.02)
        axes.set_ylim(max(0, low - 0.15 * room), high + 0.25 * room)
        axes.annotate(
            f"{100 * high:.1f}%", (steps[values.argmax()], high), (0, 7), textcoords="offset points", ha="center",
            color=LIGHT["ink"], fontsize=10,
        )  # fmt: skip
        axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0 if room > 0.05 else 1))

    return _curve_figure(curve, "validation_map", "validation mAP", draw)


def _curve_figure(curve: Sequence[dict[str, Any]], name: str, label: str, draw: Callable[..., None]) -> Figure | None:
    """A figure over the steps whose rows hold a finite value of this name; None where there are none."""
    rows = [(row["step"], row[name]) for row in curve if row.get(name) is not None and math.isfinite(row[name])]
    if not rows:
        return None
    figure = Figure(figsize=(4.6, 2.5), layout="constrained")
    axes = figure.add_subplot(xlabel="step", ylabel=label)
    style_axes(axes)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True, steps=(1, 2, 2.5, 5, 10)))
    draw(axes, *np.array(rows, np.float64).T)
    return figure
