"""Ranked images before and after, laid out as the paper's Figures 1, 3, and S1 to S6."""

from collections.abc import Callable, Sequence
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from smoothap.data.image_set import ImageSet
from smoothap.plots.class_words import figure_words
from smoothap.plots.curves import draw_precision_recall
from smoothap.plots.rankings import RankedRow
from smoothap.plots.tiles import Canvas, arranged, ranked_tiles, tile

Layout = Literal["rows", "column", "grid", "columns"]
Pair = tuple[RankedRow, RankedRow]  # one query before and after

_MARGIN = 24
_AXIS = 92  # what stands left of a curve: percentages and the word precision
_KEY = 52  # the line that explains the frames
_SIDES = (("before", "blue"), ("after", "green"))


def rows_figure(images: ImageSet, pairs: Sequence[Pair], first: int = 10) -> Figure:
    """Figure 1: the curve at the left, the query, and one row before over one row after."""
    side, gap, curve, caption = 96, 8, 236, 30
    left_of_query = _MARGIN + _AXIS + curve + 52
    left_of_rows = left_of_query + side + 28
    heading, block = 44, 2 * (caption + side) + 14
    step = heading + block + 40
    canvas = Canvas(left_of_rows + first * (side + gap) - gap + _MARGIN, 8 + len(pairs) * step + _KEY)
    for place, pair in enumerate(pairs):
        top = 8 + place * step
        canvas.text(_MARGIN, top + heading / 2, _heading(images, pair[0]), 11, fontweight="bold")
        _curve(canvas, pair, _MARGIN + _AXIS, top + heading + caption / 2, curve, block - caption - 30)
        middle = top + heading + (block - side) // 2
        canvas.text(left_of_query + side / 2, middle - caption / 2, "query", 10, "blue", ha="center")
        canvas.picture(tile(images, pair[0].query, "query", side), left_of_query, middle)
        for half, (row, (name, colour)) in enumerate(zip(pair, _SIDES, strict=True)):
            above = top + heading + half * (caption + side + 14)
            right = f"{row.right_among(first)} right among the first {min(first, len(row.items))}"
            canvas.text(left_of_rows, above + caption / 2, f"{name}, AP {_percent(row)}", 10, colour, fontweight="bold")
            canvas.text(left_of_rows + 250, above + caption / 2, right, 9, "soft")
            tiles = arranged(ranked_tiles(images, row, first, side), first, gap)
            canvas.picture(tiles, left_of_rows, above + caption)
    canvas.key(left_of_rows, canvas.height - _KEY + 10)
    return canvas.figure


def column_figure(images: ImageSet, pairs: Sequence[Pair], first: int = 3) -> Figure:
    """Figure 3: each query over its first images, ranked from top to bottom, before and after."""
    side, gap, names, caption = 96, 8, 96, 56
    width = side + 16
    stack = first * (side + gap) - gap
    top_of_tiles = _MARGIN + side + 40 + caption
    canvas = Canvas(_MARGIN + names + len(pairs) * width + 8, top_of_tiles + 2 * (stack + caption) + _KEY - 20)
    canvas.text(_MARGIN, _MARGIN + side / 2, "query", 10, "blue", fontweight="bold")
    for half, (name, colour) in enumerate(_SIDES):
        top = top_of_tiles + half * (stack + caption)
        canvas.text(_MARGIN, top - caption + 28, name, 10, colour, fontweight="bold")
        for place in range(first):
            canvas.text(_MARGIN, top + place * (side + gap) + side / 2, f"rank {place + 1}", 9, "soft")
    for place, pair in enumerate(pairs):
        left = _MARGIN + names + place * width
        canvas.picture(tile(images, pair[0].query, "query", side), left, _MARGIN)
        canvas.text(left + side / 2, _MARGIN + side + 16, f"|P| = {pair[0].positives:,}", 8.5, "soft", ha="center")
        for half, (row, (_, colour)) in enumerate(zip(pair, _SIDES, strict=True)):
            top = top_of_tiles + half * (stack + caption)
            canvas.text(left + side / 2, top - caption + 28, f"AP {_percent(row)}", 8.5, colour, ha="center")
            canvas.picture(arranged(ranked_tiles(images, row, first, side), 1, gap), left, top)
    canvas.key(_MARGIN + names, canvas.height - _KEY + 12)
    return canvas.figure


def grid_figure(images: ImageSet, pairs: Sequence[Pair], first: int = 79) -> Figure:
    """Figures S1 and S2: the query and its first images from left to right in two grids, the curves below."""
    side, gap, columns, between = 64, 6, 10, 44
    width = columns * (side + gap) - gap
    height = -(-(first + 1) // columns) * (side + gap) - gap
    heading, caption, curve = 50, 36, 190
    step = heading + caption + height + 36 + curve + 80
    canvas = Canvas(2 * _MARGIN + 2 * width + between, 8 + len(pairs) * step)
    for place, pair in enumerate(pairs):
        top = 8 + place * step
        canvas.text(_MARGIN, top + heading / 2, _heading(images, pair[0]), 11.5, fontweight="bold")
        below = top + heading + caption + height + 36
        for half, (row, (name, colour)) in enumerate(zip(pair, _SIDES, strict=True)):
            left = _MARGIN + half * (width + between)
            above = top + heading
            canvas.text(left, above + caption / 2 - 4, f"{name}, AP {_percent(row)}", 10.5, colour, fontweight="bold")
            tiles = [tile(images, row.query, "query", side), *ranked_tiles(images, row, first, side)]
            canvas.picture(arranged(tiles, columns, gap), left, above + caption)
            shown = min(first, len(row.items))
            lines = [
                f"{name}: {row.right_among(shown)} right and {shown - row.right_among(shown)} wrong",
                f"among the first {shown}; all {row.positives:,} right by rank {row.last_right:,}",
            ]
            for line, text in enumerate(lines):
                canvas.text(_MARGIN + 530, below + 20 + 76 * half + 26 * line, text, 10, colour if line == 0 else "ink")
        _curve(canvas, pair, _MARGIN + _AXIS, below, 360, curve)
        canvas.key(_MARGIN + 530, below + 168)
    return canvas.figure


def columns_figure(images: ImageSet, pairs: Sequence[Pair], first: int = 10) -> Figure:
    """Figures S3 to S6: each query over its two rankings from top to bottom, the curves below."""
    side, gap, between, block_gap = 72, 6, 16, 84
    block = 2 * side + between
    heading, caption, curve = 64, 34, 150
    stack = first * (side + gap) - gap
    tiles_top = heading + side + 20 + caption
    canvas = Canvas(
        _MARGIN + _AXIS + len(pairs) * (block + block_gap) - block_gap + 40, tiles_top + stack + 48 + curve + 84 + _KEY
    )
    for place, pair in enumerate(pairs):
        left = _MARGIN + _AXIS + place * (block + block_gap)
        middle = left + block / 2
        name = figure_words(_class_of(images, pair[0]), 16, explained=False)
        canvas.text(middle, 22, f"({chr(ord('a') + place % 26)}) {name}", 9.5, fontweight="bold", ha="center")
        canvas.text(middle, 46, f"|P| = {pair[0].positives:,}", 9, "soft", ha="center")
        canvas.picture(tile(images, pair[0].query, "query", side), round(middle - side / 2), heading)
        for half, (row, (title, colour)) in enumerate(zip(pair, _SIDES, strict=True)):
            column = left + half * (side + between)
            above = heading + side + 20
            canvas.text(column + side / 2, above + caption / 2 - 4, title, 9.5, colour, ha="center", fontweight="bold")
            canvas.picture(arranged(ranked_tiles(images, row, first, side), 1, gap), column, tiles_top)
            canvas.text(column + side / 2, tiles_top + stack + 18, _percent(row), 9, colour, ha="center")
        axes = _curve(canvas, pair, left, tiles_top + stack + 48, block, curve)
        if place:
            axes.set(ylabel="", yticklabels=[])
    canvas.text(_MARGIN, tiles_top + stack + 18, "AP", 9, "soft")
    canvas.key(_MARGIN + _AXIS, canvas.height - _KEY + 14)
    return canvas.figure


LAYOUTS: dict[Layout, Callable[[ImageSet, Sequence[Pair], int], Figure]] = {
    "rows": rows_figure,
    "column": column_figure,
    "grid": grid_figure,
    "columns": columns_figure,
}
SHOWN = {"rows": 10, "column": 3, "grid": 79, "columns": 10}  # images of a ranking, as in the paper
QUERIES = {"rows": 4, "column": 10, "grid": 1, "columns": 5}


def _curve(canvas: Canvas, pair: Pair, left: float, top: float, width: float, height: float) -> Axes:
    axes = canvas.axes(left, top, width, height)
    draw_precision_recall(axes, *pair)
    axes.tick_params(labelsize=8.5)
    for label in (axes.xaxis.label, axes.yaxis.label):
        label.set_fontsize(9)
    return axes


def _heading(images: ImageSet, row: RankedRow) -> str:
    return f"{figure_words(_class_of(images, row), 70)}   |P| = {row.positives:,}"


def _class_of(images: ImageSet, row: RankedRow) -> str:
    return str(images.class_names[images.labels[row.query]])


def _percent(row: RankedRow) -> str:
    return f"{100 * row.average_precision:.1f}%"
