"""Figures of several methods side by side: bars with their spread, and a learning curve of each."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from smoothap.report.curves import dress
from smoothap.report.palette import LIGHT

_ACROSS = 4  # small curves side by side


@dataclass(frozen=True)
class Bar:
    """A figure in per cent with its spread, NaN where there is none."""

    name: str
    value: float
    spread: float
    ours: bool = False


@dataclass(frozen=True, eq=False)
class Curve:
    """steps (n,) and values (seeds, n) in per cent of one method."""

    name: str
    steps: np.ndarray
    values: np.ndarray


def bar_figure(bars: Sequence[Bar], baseline: float, label: str) -> Figure:
    """Horizontal bars, the longest first; a dashed line is the untrained network."""
    ordered = sorted(bars, key=lambda bar: bar.value)
    figure = Figure(figsize=(7.4, 0.6 + 0.3 * len(ordered)), layout="constrained")
    axes = figure.add_subplot()
    places = np.arange(len(ordered))
    values = [bar.value for bar in ordered]
    spreads = [0.0 if math.isnan(bar.spread) else bar.spread for bar in ordered]
    colours = [LIGHT["green" if bar.ours else "blue"] for bar in ordered]
    axes.barh(places, values, height=0.66, color=colours)
    drawn = [place for place in places if spreads[place] > 0]
    axes.errorbar(
        [values[place] for place in drawn],
        drawn,
        xerr=[spreads[place] for place in drawn],
        fmt="none",
        ecolor=LIGHT["ink"],
        elinewidth=1.4,
        capsize=3,
    )
    axes.axvline(baseline, color=LIGHT["soft"], linestyle="--", linewidth=1.4)
    for place, value, spread in zip(places, values, spreads, strict=True):
        axes.annotate(
            f"{value:.1f}", (value + spread, place), (5, 0), textcoords="offset points", va="center",
            color=LIGHT["ink"], fontsize=10,
        )  # fmt: skip
    axes.set_yticks(places, [bar.name for bar in ordered])
    axes.set_xlim(0, 1.12 * max([baseline, *(np.add(values, spreads))], default=1))
    axes.set_ylim(-0.6, len(ordered) - 0.4)
    axes.set_xlabel(label)
    dress(axes)
    return figure


def curves_figure(curves: Sequence[Curve], reference: Curve | None, label: str) -> Figure:
    """A small curve for each method, its seeds thin and their mean thick, with the reference beside it in green."""
    across = min(_ACROSS, len(curves))
    down = -(-len(curves) // across)
    figure = Figure(figsize=(2.5 * across + 0.4, 1.75 * down + 0.4), layout="constrained")
    everything = np.concatenate([curve.values.ravel() for curve in curves])
    low, high = float(everything.min()), float(everything.max())
    room = 0.06 * max(high - low, 1.0)
    for place, curve in enumerate(curves):
        axes = figure.add_subplot(down, across, place + 1)
        if reference is not None and reference is not curve:
            axes.plot(reference.steps, reference.values.mean(0), color=LIGHT["green"], linewidth=1.6, linestyle="--")
        colour = LIGHT["green" if reference is curve else "blue"]
        for seed in curve.values:
            axes.plot(curve.steps, seed, color=colour, linewidth=0.9, alpha=0.5)
        axes.plot(curve.steps, curve.values.mean(0), "o-", color=colour, linewidth=2.2, markersize=3)
        axes.set_ylim(low - room, high + room)
        axes.xaxis.set_major_locator(MaxNLocator(3, integer=True))
        axes.yaxis.set_major_locator(MaxNLocator(4))
        dress(axes)
        axes.tick_params(labelsize=9)
        axes.set_title(curve.name, color=LIGHT["ink"], fontsize=9.5)
        if place % across == 0:
            axes.set_ylabel(label, fontsize=9)
        if place >= len(curves) - across:
            axes.set_xlabel("step", fontsize=9)
    return figure
