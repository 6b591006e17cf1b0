"""Ranked rows before and after as one figure for a document, laid out as the paper's Figure 1."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from smoothap.data.image_set import ImageSet
from smoothap.report.curves import draw_precision_recall
from smoothap.report.palette import LIGHT
from smoothap.report.ranking_rows import RankedRow, rank
from smoothap.report.tiles import row_picture


def before_after_figure(
    images: ImageSet, before: np.ndarray, after: np.ndarray, queries: Sequence[int], first: int = 10
) -> Figure:
    """Each query's curves at the left, its first images before over after at the right; `save_figure` writes it.

    before (n, d), after (n, e): embeddings of the images; queries: their rows to show. Names from the data are left
    out, since a font may not have their letters.
    """
    figure = Figure(figsize=(2.8 + 0.82 * (first + 1), 2.4 * len(queries)))
    figure.set_layout_engine("constrained", h_pad=0.08, w_pad=0.08)
    widths = (2.5, 0.82 * (first + 1))
    grid = figure.add_gridspec(2 * len(queries), 2, width_ratios=widths)
    for place, query in enumerate(queries):
        rows = rank(images, before, query), rank(images, after, query)
        curves = figure.add_subplot(grid[2 * place : 2 * place + 2, 0])
        draw_precision_recall(curves, *rows)
        curves.set_title(f"|P| = {rows[0].positives:,}", color=LIGHT["ink"], fontsize=10.5)
        for half, (title, colour, row) in enumerate(zip(("before", "after"), ("blue", "green"), rows, strict=True)):
            _draw_row(figure.add_subplot(grid[2 * place + half, 1]), images, row, first, title, LIGHT[colour])
    return figure


def _draw_row(axes: Axes, images: ImageSet, row: RankedRow, first: int, title: str, colour: str) -> None:
    axes.imshow(row_picture(images, row, first))
    axes.set_axis_off()
    text = f"{title}, AP {100 * row.average_precision:.1f}%"
    axes.set_title(text, loc="left", color=colour, fontsize=11, fontweight="bold", pad=4)
