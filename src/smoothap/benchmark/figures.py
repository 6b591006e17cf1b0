"""The figures of a comparison: dots with intervals, learning curves, and what the search tried."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

from smoothap.benchmark.runner import Outcome
from smoothap.benchmark.search import RATE
from smoothap.benchmark.statistics import Estimate
from smoothap.benchmark.table import MAIN, OURS, TableRow
from smoothap.plots.drawing import panel_figure, style_axes
from smoothap.plots.palette import LIGHT

_ACROSS = 4  # small figures side by side


def interval_figure(rows: Sequence[TableRow], untrained: float) -> Figure:
    """Dots with 95% intervals, the best on top: mAP, and where Smooth-AP is among them the difference to it.

    A dashed line is the untrained network on the left, no difference on the right; letters are the groups.
    """
    rows = sorted(rows, key=lambda row: row.metrics[MAIN].value)
    compared = any(row.differences for row in rows)
    figure = panel_figure(9.6 if compared else 7.4, 0.9 + 0.27 * len(rows))
    panels = figure.subplots(1, 2 if compared else 1, sharey=True, squeeze=False, width_ratios=(3, 2)[: 1 + compared])[
        0
    ]
    places = np.arange(len(rows))
    _dots(panels[0], rows, [row.metrics[MAIN] for row in rows], untrained)
    panels[0].set(xlabel="mAP on the test classes, per cent", ylim=(-0.7, len(rows) - 0.3))
    panels[0].set_yticks(places, [row.title for row in rows])
    if compared:
        none = Estimate(0.0, 0.0, 0.0)
        _dots(panels[1], rows, [row.differences.get(MAIN, none) for row in rows], 0.0)
        panels[1].set(xlabel="mAP less that of Smooth-AP")
        panels[1].tick_params(left=False)
    for place, row in zip(places, rows, strict=True):
        panels[-1].annotate(
            row.group, (1, place), (6, 0), xycoords=("axes fraction", "data"), textcoords="offset points", va="center",
            color=LIGHT["soft"], fontsize=9.5,
        )  # fmt: skip
    return figure


def _dots(axes: Axes, rows: Sequence[TableRow], values: Sequence[Estimate], line: float) -> None:
    axes.axvline(line, color=LIGHT["soft"], linestyle="--", linewidth=1.2)
    for place, (row, value) in enumerate(zip(rows, values, strict=True)):
        colour = LIGHT["green" if row.name == OURS else "blue"]
        axes.plot([value.low, value.high], [place, place], color=colour, linewidth=1.8, solid_capstyle="butt")
        axes.plot(value.value, place, "o", color=colour, markersize=5.5)
    axes.grid(axis="y", color=LIGHT["line"], linewidth=0.8)
    axes.set_axisbelow(True)
    style_axes(axes)


def curves_figure(outcomes: Sequence[Outcome], batch_size: int, *, over_seconds: bool) -> Figure:
    """A small curve for each method, its runs thin and their mean thick, with Smooth-AP's beside it in green."""
    curves: list[np.ndarray] = []  # images or seconds, and mAP in per cent, of all runs, (runs, n, 2)
    for outcome in outcomes:
        shortest = min(len(result.curve) for result in outcome.results)
        looks = np.array([result.curve[:shortest] for result in outcome.results])
        across = looks[..., 1] if over_seconds else batch_size * looks[..., 0]
        curves.append(np.stack([across, 100 * looks[..., 2]], axis=-1))
    names = [outcome.method.name for outcome in outcomes]
    ours = curves[names.index(OURS)] if OURS in names else None
    everything = np.concatenate([of_runs[..., 1].ravel() for of_runs in curves])
    room = 0.06 * max(float(np.ptp(everything)), 1.0)
    limits = float(everything.min()) - room, float(everything.max()) + room
    figure, panels = _small_panels(outcomes, "seconds" if over_seconds else "images seen", "val. mAP")
    for axes, of_runs in zip(panels, curves, strict=True):
        if ours is not None and of_runs is not ours:
            axes.plot(*ours.mean(0).T, color=LIGHT["green"], linewidth=1.6, linestyle="--")
        colour = LIGHT["green" if of_runs is ours else "blue"]
        for curve in of_runs:
            axes.plot(*curve.T, color=colour, linewidth=0.8, alpha=0.4)
        axes.plot(*of_runs.mean(0).T, "o-", color=colour, linewidth=2, markersize=2.5)
        axes.set_ylim(limits)
        axes.xaxis.set_major_locator(MaxNLocator(3, integer=not over_seconds))
    return figure


def trials_figure(outcomes: Sequence[Outcome]) -> Figure:
    """The validation mAP of every trial over its learning rate; the chosen ones have a ring, a red one at an edge."""
    figure, panels = _small_panels(outcomes, "learning rate", "val. mAP")
    for axes, outcome in zip(panels, outcomes, strict=True):
        for chosen in outcome.chosen.values():
            rates = [trial.values[RATE] for trial in chosen.trials]
            values = [100 * trial.validation_map for trial in chosen.trials]
            axes.plot(rates, values, "o", color=LIGHT["blue"], markersize=3.5, alpha=0.7)
            best = max((value, rate) for value, rate in zip(values, rates, strict=True) if rate == chosen.values[RATE])
            axes.plot(
                best[1], best[0], "o", markersize=9, markerfacecolor="none", markeredgewidth=1.6,
                markeredgecolor=LIGHT["red" if chosen.edges else "green"],
            )  # fmt: skip
        axes.set_xscale("log")
        axes.margins(0.08, 0.12)  # room for the rings
        axes.xaxis.set_major_locator(LogLocator(numticks=4))
        axes.xaxis.set_minor_formatter(NullFormatter())
    return figure


def _small_panels(outcomes: Sequence[Outcome], across: str, up: str) -> tuple[Figure, list[Axes]]:
    """A figure with a small panel for each method, with their titles and the labels of the outer axes."""
    columns = min(_ACROSS, len(outcomes))
    lines = -(-len(outcomes) // columns)
    figure = panel_figure(2.4 * columns + 0.5, 1.7 * lines + 0.5, 0.06, 0.06)
    panels = []
    for place, outcome in enumerate(outcomes):
        axes = figure.add_subplot(lines, columns, place + 1)
        axes.yaxis.set_major_locator(MaxNLocator(4))
        style_axes(axes)
        axes.tick_params(labelsize=8.5)
        title = "\n+ ".join(stage.title.rpartition(" + ")[2] for stage in outcome.method.stages)
        axes.set_title(title if outcome.method.start else outcome.method.title, color=LIGHT["ink"], fontsize=9)
        if place % columns == 0:
            axes.set_ylabel(up, fontsize=9)
        if place >= len(outcomes) - columns:
            axes.set_xlabel(across, fontsize=9)
        panels.append(axes)
    return figure, panels
