"""Time and memory of the losses against the batch size."""

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from smoothap.report.curves import dress
from smoothap.report.palette import LIGHT

_LOOKS = (("blue", "o", "--"), ("red", "^", "-."), ("soft", "D", ":"), ("green", "s", "-"))


def cost_figure(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """Milliseconds and megabytes by powers of ten; the backbone's time and the paper's figures beside ours."""
    figure = Figure(figsize=(11, 4.4))
    figure.set_layout_engine("constrained", w_pad=0.12, h_pad=0.08)
    sizes = sorted({row["B"] for row in rows})
    losses = list(dict.fromkeys(row["loss"] for row in rows))
    has_memory = any(row["peak MB"] is not None for row in rows)
    panels = [("loss ms", "Forward and backward of the loss, ms")]
    panels += [("peak MB", "Growth of the peak memory, MB")] if has_memory else []
    for place, (column, title) in enumerate(panels):
        axes = figure.add_subplot(1, len(panels), place + 1)
        for loss, (colour, marker, dash) in zip(losses, cycle(_LOOKS), strict=False):
            own = [row for row in rows if row["loss"] == loss and row[column] is not None]
            axes.plot(
                [row["B"] for row in own], [max(row[column], 0.1) for row in own], dash, marker=marker,
                color=LIGHT[colour], linewidth=2.2, markersize=6, label=loss,
            )  # fmt: skip
            reported = [row for row in own if row["paper loss ms"] is not None] if column == "loss ms" else []
            axes.plot(
                [row["B"] for row in reported], [row["paper loss ms"] for row in reported], marker, mfc="none",
                mew=1.8, markersize=10, color=LIGHT[colour],
            )  # fmt: skip
        if column == "loss ms":
            backbone = {row["B"]: row["backbone ms"] for row in rows}
            axes.plot(list(backbone), list(backbone.values()), "-", color=LIGHT["ink"], linewidth=1.4, label="backbone")
            if any(row["paper loss ms"] for row in rows):
                axes.plot([], [], "o", mfc="none", mew=1.8, markersize=9, color=LIGHT["soft"], label="the paper's, GPU")
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
        axes.set_xlabel("batch size")
        axes.grid(True, color=LIGHT["line"], linewidth=0.8)
        dress(axes)
        axes.set_title(title, loc="left", fontsize=11.5, color=LIGHT["ink"], fontweight="bold")
        if place == 0:
            figure.legend(
                *axes.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False, fontsize=10,
                labelcolor=LIGHT["ink"],
            )  # fmt: skip
    return figure
