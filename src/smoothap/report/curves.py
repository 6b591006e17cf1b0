"""Precision-recall and learning curves: one drawing for files as PNG and SVG and for pages that bring their colours."""

import io
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from smoothap.files import write_atomically
from smoothap.report.markup import Markup, escaped
from smoothap.report.palette import LIGHT
from smoothap.report.ranking_rows import RankedRow

_GRID = 1000  # a curve is drawn to this many steps of recall: finer than any screen


def draw_precision_recall(axes: Axes, before: RankedRow, after: RankedRow) -> None:
    """Both curves of one query over the full ranking: before in blue and dashed, after in green."""
    for row, colour, dash, label in ((before, "blue", "--", "before"), (after, "green", "-", "after")):
        recall, precision = _steps(row)
        axes.plot(
            recall, precision, dash, color=LIGHT[colour], linewidth=2.2, drawstyle="steps-pre", clip_on=False,
            label=f"{label}, AP {100 * row.average_precision:.1f}%",
        )  # fmt: skip
    axes.set(xlim=(0, 1), ylim=(0, 1), xticks=(0, 0.5, 1), yticks=(0, 0.5, 1), xlabel="recall", ylabel="precision")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(PercentFormatter(1, decimals=0))
    dress(axes)


def precision_recall_figure(before: RankedRow, after: RankedRow) -> Figure:
    """A small figure of one query's two curves."""
    figure = Figure(figsize=(2.5, 2.1), layout="constrained")
    draw_precision_recall(figure.add_subplot(), before, after)
    return figure


def loss_figure(curve: Sequence[dict[str, Any]]) -> Figure | None:
    """The loss of each step, thin, and its running mean over a twentieth of them; None where none was recorded."""
    steps, losses = _recorded(curve, "loss")
    if not len(steps):
        return None
    figure, axes = _curve_axes("training loss")
    window = max(1, len(losses) // 20)
    mean = np.convolve(losses, np.full(window, 1 / window), "valid")
    axes.plot(steps, losses, color=LIGHT["blue"], linewidth=1, alpha=0.45)
    axes.plot(steps[window - 1 :], mean, color=LIGHT["blue"], linewidth=2.4)
    axes.set_ylim(0, 1.08 * max(losses.max(), 1e-9))
    return figure


def validation_figure(curve: Sequence[dict[str, Any]]) -> Figure | None:
    """mAP on the validation classes wherever it was measured; None where it never was."""
    steps, found = _recorded(curve, "validation_map")
    if not len(steps):
        return None
    figure, axes = _curve_axes("validation mAP")
    axes.plot(steps, found, "o-", color=LIGHT["green"], linewidth=2.4, markersize=5)
    low, high = found.min(), found.max()
    room = max(high - low, 0.02)
    axes.set_ylim(max(0, low - 0.15 * room), high + 0.25 * room)
    best = int(found.argmax())
    axes.annotate(
        f"{100 * high:.1f}%", (steps[best], high), (0, 7), textcoords="offset points", ha="center",
        color=LIGHT["ink"], fontsize=10,
    )  # fmt: skip
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0 if room > 0.05 else 1))
    return figure


def dress(axes: Axes) -> None:
    """The looks of all our axes: two sides, soft labels that can be read on a phone."""
    axes.patch.set_visible(False)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(LIGHT["soft"])
    axes.tick_params(colors=LIGHT["soft"], labelcolor=LIGHT["ink"], labelsize=10)
    for label in (axes.xaxis.label, axes.yaxis.label):
        label.set(color=LIGHT["ink"], fontsize=10.5)


def inline_svg(figure: Figure, description: str) -> Markup:
    """The figure as an element of a page, in the page's colours and described in words for those who cannot see it."""
    drawing = _rendered(figure, "svg", transparent=True).decode()
    opening, inside = drawing[drawing.index("<svg") :].split(">", 1)
    box = re.search(r'viewBox="[^"]*"', opening)
    assert box is not None
    for name, colour in LIGHT.items():
        inside = inside.replace(colour, f"var(--{name})")
    inside = re.sub(r"font: [^;\"]*?([0-9.]+px)[^;\"]*", r"font-size: \1", inside)  # in the letters of the page
    inside = inside.replace("xlink:href", "href")
    return Markup(f'<svg {box[0]} role="img" aria-label="{escaped(description)}">{inside}')


def save_figure(figure: Figure, path: Path | str) -> Path:
    """Write a figure; the suffix says as what, such as .png or .svg."""
    path = Path(path)
    return write_atomically(path, _rendered(figure, path.suffix.removeprefix("."), facecolor="white"))


def _rendered(figure: Figure, kind: str, **options: Any) -> bytes:
    """The figure as a file: text stays text, and the same figure gives the same bytes every time."""
    if kind == "svg":
        options["metadata"] = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    stream = io.BytesIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "smoothap"}):
        figure.savefig(stream, format=kind, dpi=160 if kind != "svg" else "figure", **options)
    return stream.getvalue()


def _steps(row: RankedRow) -> tuple[np.ndarray, np.ndarray]:
    """Recall and precision of the curve's steps, as fine as one can see."""
    precision, recall = row.precision_recall_steps()
    visible = np.append(True, np.diff(np.floor(recall * _GRID)) > 0)
    return recall[visible], precision[visible]


def _recorded(curve: Sequence[dict[str, Any]], name: str) -> tuple[np.ndarray, np.ndarray]:
    """Steps and values of the rows that hold a finite one."""
    rows = [(each["step"], each[name]) for each in curve if each.get(name) is not None and math.isfinite(each[name])]
    columns = np.array(rows, np.float64).reshape(-1, 2)
    return columns[:, 0], columns[:, 1]


def _curve_axes(label: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(4.6, 2.5), layout="constrained")
    axes = figure.add_subplot()
    dress(axes)
    axes.set_xlabel("step")
    axes.set_ylabel(label)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True, steps=(1, 2, 2.5, 5, 10)))
    return figure, axes
