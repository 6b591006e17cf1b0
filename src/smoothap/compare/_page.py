"""The page of a comparison: one HTML file with the table, a bar chart and the learning curves."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from markupsafe import Markup
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from smoothap.compare._table import TableRow
from smoothap.compare.runner import Outcome
from smoothap.report import document
from smoothap.report.drawing import inline_svg, style_axes
from smoothap.report.palette import LIGHT

OURS = "smooth-ap"  # the method that is drawn in green
_ACROSS = 4  # small curves side by side


def write_page(
    path: Path,
    *,
    title: str,
    introduction: str,
    tables: dict[str, list[TableRow]],
    warnings: dict[str, str],
    outcomes: Sequence[Outcome],
    command: str,
) -> Path:
    """Write the comparison as one self-contained page."""
    headings = ["Results"] if len(tables) == 1 else [f"Results: {protocol}" for protocol in tables]
    contents = {f"test-{number}": heading for number, heading in enumerate(headings)}
    trained = [outcome for outcome in outcomes if outcome.results]
    if trained:
        contents["learning"] = "Learning curves"
    return document.write_page(
        path,
        "compare/page.html",
        title=title,
        lead=introduction,
        contents=contents | {"methods": "Methods and the paper's numbers"},
        protocols=[(rows, _bars(rows, outcomes), warnings[protocol]) for protocol, rows in tables.items()],
        curves=inline_svg(_curves_figure(trained), f"Learning curves of {len(trained)} methods") if trained else "",
        methods=[outcome.method for outcome in outcomes],
        command=command,
    )


def _bars(rows: Sequence[TableRow], outcomes: Sequence[Outcome]) -> Markup | None:
    trained = [
        (row, OURS in outcome.method.name) for row, outcome in zip(rows[1:], outcomes, strict=True) if row.metrics
    ]
    if not trained:
        return None
    trained.sort(key=lambda pair: pair[0].metrics["mAP"].mean)
    baseline, best = rows[0].metrics["mAP"].mean, trained[-1][0]
    return inline_svg(
        _bar_figure([row for row, _ in trained], [is_ours for _, is_ours in trained], baseline),
        f"mAP of {len(trained)} methods; the best is {best.title} with {best.metrics['mAP'].mean:.1f}, untrained is "
        f"{baseline:.1f}",
    )


def _bar_figure(rows: Sequence[TableRow], ours: Sequence[bool], baseline: float) -> Figure:
    """Horizontal bars, the longest first; a dashed line is the untrained network."""
    figure = Figure(figsize=(7.4, 0.6 + 0.3 * len(rows)), layout="constrained")
    axes = figure.add_subplot(xlabel="mAP on the test classes, per cent")
    places = np.arange(len(rows))
    values = np.array([row.metrics["mAP"].mean for row in rows])
    spreads = np.nan_to_num([row.metrics["mAP"].spread for row in rows])
    axes.barh(places, values, height=0.66, color=[LIGHT["green" if is_ours else "blue"] for is_ours in ours])
    drawn = spreads > 0
    axes.errorbar(
        values[drawn], places[drawn], xerr=spreads[drawn], fmt="none", ecolor=LIGHT["ink"], elinewidth=1.4, capsize=3
    )
    axes.axvline(baseline, color=LIGHT["soft"], linestyle="--", linewidth=1.4)
    for place, value, spread in zip(places, values, spreads, strict=True):
        axes.annotate(
            f"{value:.1f}", (value + spread, place), (5, 0), textcoords="offset points", va="center",
            color=LIGHT["ink"], fontsize=10,
        )  # fmt: skip
    axes.set_yticks(places, [row.title for row in rows])
    axes.set(xlim=(0, 1.12 * max(baseline, *(values + spreads))), ylim=(-0.6, len(rows) - 0.4))
    style_axes(axes)
    return figure


def _curves_figure(outcomes: Sequence[Outcome]) -> Figure:
    """A small curve for each method, its seeds thin and their mean thick, with Smooth-AP's beside it in green."""
    curves: list[np.ndarray] = []  # steps and mAP in per cent of all seeds, (seeds, n, 2)
    for outcome in outcomes:
        shortest = min(len(result.curve) for result in outcome.results)
        curves.append(np.array([result.curve[:shortest] for result in outcome.results]) * (1, 100))
    across = min(_ACROSS, len(curves))
    down = -(-len(curves) // across)
    figure = Figure(figsize=(2.5 * across + 0.4, 1.75 * down + 0.4), layout="constrained")
    everything = np.concatenate([of_seeds[..., 1].ravel() for of_seeds in curves])
    low, high = float(everything.min()), float(everything.max())
    room = 0.06 * max(high - low, 1.0)
    methods = [outcome.method for outcome in outcomes]
    ours = next((of_seeds for method, of_seeds in zip(methods, curves, strict=True) if method.name == OURS), None)
    for place, (method, of_seeds) in enumerate(zip(methods, curves, strict=True)):
        axes = figure.add_subplot(down, across, place + 1, ylim=(low - room, high + room))
        if ours is not None and of_seeds is not ours:
            axes.plot(*ours.mean(0).T, color=LIGHT["green"], linewidth=1.6, linestyle="--")
        colour = LIGHT["green" if of_seeds is ours else "blue"]
        for curve in of_seeds:
            axes.plot(*curve.T, color=colour, linewidth=0.9, alpha=0.5)
        axes.plot(*of_seeds.mean(0).T, "o-", color=colour, linewidth=2.2, markersize=3)
        axes.xaxis.set_major_locator(MaxNLocator(3, integer=True))
        axes.yaxis.set_major_locator(MaxNLocator(4))
        style_axes(axes)
        axes.tick_params(labelsize=9)
        axes.set_title(method.title, color=LIGHT["ink"], fontsize=9.5)
        if place % across == 0:
            axes.set_ylabel("val. mAP", fontsize=9)
        if place >= len(curves) - across:
            axes.set_xlabel("step", fontsize=9)
    return figure
