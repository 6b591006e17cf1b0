"""Figures of classes: what they gained and lost, which of them take each other's ranks, and AP by their size."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from PIL import Image, ImageOps

from smoothap.data.image_set import ImageSet
from smoothap.metrics.confusions import ConfusedPair
from smoothap.report.canvas import Canvas
from smoothap.report.choice import ClassChange
from smoothap.report.class_words import figure_words
from smoothap.report.curves import dress
from smoothap.report.palette import LIGHT
from smoothap.report.tiles import thumbnail

_ROW, _TILE, _MARGIN = 64, 52, 24
_NAME = 300  # pixels for a name beside its picture


@dataclass(frozen=True)
class SizeGroup:
    """Classes of so many images, and the mean over them of their mean AP."""

    smallest: int
    largest: int
    classes: int
    before: float
    after: float

    @property
    def words(self) -> str:
        return f"{self.smallest}" if self.smallest == self.largest else f"{self.smallest} to {self.largest}"


def changes_figure(images: ImageSet, gained: Sequence[ClassChange], lost: Sequence[ClassChange]) -> Figure:
    """Two lists of classes; a line leads from their AP before, hollow, to that after, full."""
    plot, between, top = 330, 60, 88
    width = _TILE + 14 + _NAME + plot
    rows = max(len(gained), len(lost))
    canvas = Canvas(2 * _MARGIN + 2 * width + between + 20, top + rows * _ROW + 84)
    for half, (title, changes) in enumerate((("gained most", gained), ("lost most, or gained least", lost))):
        left = _MARGIN + half * (width + between)
        canvas.text(left, 26, title, 11.5, fontweight="bold")
        for place, change in enumerate(changes):
            _draw_class(canvas, images, change.label, left, top + place * _ROW)
        axes = _list_axes(canvas, left + _TILE + 14 + _NAME, top, plot, len(changes))
        for place, change in enumerate(changes):
            colour = LIGHT["green"] if change.after >= change.before else LIGHT["red"]
            axes.plot((change.before, change.after), (place, place), color=colour, linewidth=2.4, zorder=1)
        places = range(len(changes))
        axes.plot(
            [change.before for change in changes], places, "o", color=LIGHT["card"], markeredgecolor=LIGHT["blue"],
            markeredgewidth=2, markersize=8, clip_on=False, label="before",
        )  # fmt: skip
        axes.plot(
            [change.after for change in changes], places, "D", color=LIGHT["green"], markersize=7.5, clip_on=False,
            label="after",
        )  # fmt: skip
        axes.set(xlim=(0, 1), xticks=(0, 0.25, 0.5, 0.75, 1), xlabel="mean AP of the class")
        axes.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        if half == 0:
            axes.legend(
                loc="lower left", bbox_to_anchor=(-0.03, 1.0), ncols=2, frameon=False, fontsize=9.5,
                labelcolor=LIGHT["ink"], handletextpad=0.1, columnspacing=1.2, borderaxespad=0.1,
            )  # fmt: skip
    return canvas.figure


def confusions_figure(images: ImageSet, pairs: Sequence[ConfusedPair]) -> Figure:
    """Each class with the one it loses AP to: how much, and how much it takes back."""
    plot, top, second = 420, 96, _TILE + 14 + _NAME
    canvas = Canvas(2 * _MARGIN + 2 * second + plot + 20, top + max(1, len(pairs)) * _ROW + 84)
    canvas.text(_MARGIN, 70, "this class", 10.5, fontweight="bold")
    canvas.text(_MARGIN + second, 70, "loses AP to this one", 10.5, fontweight="bold")
    for place, pair in enumerate(pairs):
        _draw_class(canvas, images, pair.losing, _MARGIN, top + place * _ROW)
        _draw_class(canvas, images, pair.taking, _MARGIN + second, top + place * _ROW)
    axes = _list_axes(canvas, _MARGIN + 2 * second, top, plot, len(pairs))
    places = np.arange(len(pairs))
    for values, shift, colour, hatch, label in (
        ([pair.taken / pair.queries for pair in pairs], -0.17, "red", None, "taken from the first"),
        (
            [pair.taken_back / max(1, pair.queries_back) for pair in pairs],
            0.17,
            "blue",
            "///",
            "taken back by the first",
        ),
    ):
        axes.barh(
            places + shift, 100 * np.array(values), 0.3, label=label, hatch=hatch, edgecolor=LIGHT[colour],
            facecolor=LIGHT["card"] if hatch else LIGHT[colour], linewidth=1.2,
        )  # fmt: skip
    axes.set_xlim(left=0)
    axes.set_xlabel("points of AP, mean of its queries")
    axes.legend(
        loc="lower left", bbox_to_anchor=(-0.02, 1.0), frameon=False, fontsize=9.5, labelcolor=LIGHT["ink"],
        borderaxespad=0.2, labelspacing=0.3,
    )  # fmt: skip
    return canvas.figure


def sizes_figure(groups: Sequence[SizeGroup]) -> Figure:
    """Mean AP before and after over the number of images that a class has, with how many classes that are."""
    figure = Figure(figsize=(max(4.2, 1.4 + 0.85 * len(groups)), 3.4), layout="constrained")
    axes = figure.add_subplot()
    dress(axes)
    places = np.arange(len(groups))
    for name, shift, colour, hatch in (("before", -0.2, "blue", "///"), ("after", 0.2, "green", None)):
        bars = axes.bar(
            places + shift, [getattr(group, name) for group in groups], 0.38, label=name, hatch=hatch,
            edgecolor=LIGHT[colour], facecolor=LIGHT["card"] if hatch else LIGHT[colour], linewidth=1.2,
        )  # fmt: skip
        labels = [f"{100 * getattr(group, name):.0f}" for group in groups]
        axes.bar_label(bars, labels, padding=2, fontsize=8.5, color=LIGHT["ink"])
    ticks = [f"{group.words.replace(' to ', '–')}\n{group.classes:,}" for group in groups]
    axes.set_xticks(places, ticks, fontsize=9.5)
    axes.set(ylim=(0, 1.08), yticks=(0, 0.25, 0.5, 0.75, 1), ylabel="mean AP")
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes.set_xlabel("images of a class, and how many classes have so many")
    figure.legend(loc="outside upper left", ncols=2, frameon=False, fontsize=10, labelcolor=LIGHT["ink"])
    return figure


def _draw_class(canvas: Canvas, images: ImageSet, label: int, left: int, top: int) -> None:
    """An image of the class and its name, in the middle of a row."""
    first = int(np.flatnonzero(images.labels == label)[0])
    picture: Image.Image = ImageOps.expand(thumbnail(images, first, _TILE - 2), 1, LIGHT["line"])
    canvas.picture(picture, left, top + (_ROW - _TILE) // 2)
    lines = textwrap.wrap(figure_words(str(images.class_names[label]), 66), 25, max_lines=3, placeholder=" …") or [""]
    size, height = (9.5, 24) if len(lines) < 3 else (8, 20)
    for place, line in enumerate(lines):
        middle = top + _ROW / 2 + height * (place - (len(lines) - 1) / 2)
        canvas.text(left + _TILE + 14, middle, line, size)


def _list_axes(canvas: Canvas, left: int, top: int, width: int, rows: int) -> Axes:
    """Axes whose whole numbers from 0 stand in the middle of rows."""
    axes = canvas.axes(left, top, width, max(1, rows) * _ROW)
    dress(axes)
    axes.set(ylim=(max(1, rows) - 0.5, -0.5), yticks=[])
    axes.grid(axis="x", color=LIGHT["line"], linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=9)
    return axes
