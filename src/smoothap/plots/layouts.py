"""Ranked images before and after, laid out as the paper's Figures 1, 3, and S1 to S6."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from smoothap.data.image_set import ImageSet
from smoothap.plots.curves import draw_precision_recall
from smoothap.plots.drawing import LEGEND
from smoothap.plots.palette import LIGHT
from smoothap.plots.rankings import RankedRow
from smoothap.plots.text import figure_words
from smoothap.plots.tiles import DOTS_PER_INCH, FRAMES, arranged, ranked_tiles, tile

Layout = Literal["rows", "column", "grid", "columns"]
Pair = tuple[RankedRow, RankedRow]  # one query before and after

_SIDES = {"B": ("before", "blue"), "A": ("after", "green")}
_LABELS = 90  # pixels for what is left of the first query
_KEY = {"query": "query", "right": "✓ of its class", "wrong": "✗ of another class"}


@dataclass(frozen=True)
class Arrangement:
    """Where the parts of a query go: C its curves, Q its image, B and A the rankings before and after, T their counts.

    `widths` and `heights` name the part that each column and each row of the mosaic is as large as.
    """

    mosaic: str
    widths: str
    heights: str
    below: bool  # whether one query is below the other, or beside it
    side: int  # of a tile, in pixels, as all that follows
    gap: int
    tiles: int | None  # in a line; None for all of them
    curve: tuple[int, int]
    shown: int  # images of a ranking, as in the paper
    queries: int


LAYOUTS: dict[Layout, Arrangement] = {
    "rows": Arrangement("CQB;CQA", "CQB", "BA", True, 96, 8, None, (236, 200), 10, 4),  # Figure 1
    "column": Arrangement("Q;B;A", "Q", "QBA", False, 96, 8, 1, (0, 0), 3, 10),  # Figure 3
    "grid": Arrangement("BA;CT", "BA", "BC", True, 64, 6, 10, (460, 250), 79, 1),  # Figures S1 and S2
    "columns": Arrangement("QQ;BA;CC", "BA", "QBC", False, 72, 6, 1, (150, 170), 10, 5),  # Figures S3 to S6
}


def rankings_figure(images: ImageSet, pairs: Sequence[Pair], layout: Layout, first: int | None = None) -> Figure:
    """The `first` images of each ranking, one query after the other; a line at the bottom explains the frames."""
    plan = LAYOUTS[layout]
    first = plan.shown if first is None else first
    pictures = [_pictures(images, pair, plan, first) for pair in pairs]
    largest = {part: np.max([each[part].shape[1::-1] for each in pictures], axis=0) for part in "QBA"}
    largest |= {"C": np.array(plan.curve)}
    widths, heights = (
        [int(largest[part][axis]) for part in parts] for axis, parts in enumerate((plan.widths, plan.heights))
    )
    block = np.array([sum(widths) + 36 * len(widths), sum(heights) + 60 * len(heights) + 60])
    width, height = block * ((1, len(pairs)) if plan.below else (len(pairs), 1)) + (_LABELS, 60)
    figure = Figure(figsize=(width / DOTS_PER_INCH, height / DOTS_PER_INCH), dpi=DOTS_PER_INCH, layout="constrained")
    if plan.below:
        blocks = figure.subfigures(len(pairs), 1, squeeze=False).flat
    else:
        ratios = [block[0] + _LABELS, *[block[0]] * (len(pairs) - 1)]
        blocks = figure.subfigures(1, len(pairs), squeeze=False, width_ratios=ratios).flat
    for place, (pair, part, within) in enumerate(zip(pairs, pictures, blocks, strict=True)):
        class_name = str(images.class_names[images.labels[pair[0].query]])
        name = {
            "column": "",
            "columns": f"({chr(ord('a') + place % 26)}) {figure_words(class_name, 13, explained=False)}\n",
        }.get(layout, f"{figure_words(class_name, 70)}   ")
        look = {"x": 0.01, "ha": "left", "fontsize": 11} if plan.below else {"fontsize": 9}
        heading = f"{name}|P| = {pair[0].positives:,}"
        within.suptitle(heading, fontweight="bold", color=LIGHT["ink"], parse_math=False, **look)
        panels = within.subplot_mosaic(plan.mosaic, width_ratios=widths, height_ratios=heights)
        for letter, axes in panels.items():
            _draw(axes, letter, pair, part, plan, first, is_first=plan.below or place == 0)
    handles = [Patch(facecolor="white", edgecolor=LIGHT[FRAMES[kind]], linewidth=2) for kind in _KEY]
    figure.legend(
        handles,
        _KEY.values(),
        loc="outside lower center",
        ncols=len(_KEY),
        fontsize=9,
        handlelength=1,
        handleheight=1,
        **LEGEND,
    )
    return figure


def _pictures(images: ImageSet, pair: Pair, plan: Arrangement, first: int) -> dict[str, np.ndarray]:
    """The query and both rankings as pictures (height, width, 3); a grid begins with the query."""
    query = tile(images, pair[0].query, "query", plan.side)
    leading = [] if "Q" in plan.mosaic else [query]
    parts = {"Q": query}
    for letter, row in zip(_SIDES, pair, strict=True):
        tiles = [*leading, *ranked_tiles(images, row, first, plan.side)]
        parts[letter] = arranged(tiles, plan.tiles or first, plan.gap)
    return {letter: np.asarray(picture) for letter, picture in parts.items()}


def _draw(
    axes: Axes, letter: str, pair: Pair, pictures: dict[str, np.ndarray], plan: Arrangement, first: int, is_first: bool
) -> None:
    """One part of a query; beside one another only the first has labels at its left."""
    if letter == "C":
        draw_precision_recall(axes, *pair)
        axes.tick_params(labelsize=8.5)
        if not is_first:
            axes.set(ylabel="", yticklabels=[])
        return
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    if letter == "T":
        for half, (row, (name, colour)) in enumerate(zip(pair, _SIDES.values(), strict=True)):
            right, shown = row.right_among(first), min(first, len(row.items))
            words = f"{name}: {right} right and {shown - right} wrong among the first {shown};\n"
            words += f"all {row.positives:,} right by rank {row.last_right:,}"
            axes.text(0, 0.8 - 0.4 * half, words, fontsize=10, color=LIGHT[colour], va="center", linespacing=1.6)
        return
    axes.imshow(pictures[letter], interpolation="none")
    if letter == "Q":
        axes.set_title("query", fontsize=9.5, color=LIGHT["blue"])
        return
    row, (name, colour) = pair["BA".index(letter)], _SIDES[letter]
    precision = f"{100 * row.average_precision:.1f}%"
    title = f"{name}, AP {precision}" if plan.below else f"{name}\n{precision}"
    if plan.tiles is None:
        title += f"   {row.right_among(first)} right among the first {min(first, len(row.items))}"
    axes.set_anchor("NW" if plan.below else "N")
    axes.set_title(title, loc="left" if plan.below else "center", fontsize=8.5, color=LIGHT[colour], fontweight="bold")
    if plan.widths == "Q" and is_first:
        ranks = range(min(first, len(row.items)))
        middles = [plan.side / 2 + rank * (plan.side + plan.gap) for rank in ranks]
        axes.set_yticks(middles, [f"rank {rank + 1}" for rank in ranks])
        axes.tick_params(length=0, labelsize=8.5, labelcolor=LIGHT["soft"])
