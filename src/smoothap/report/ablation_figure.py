"""The ablation as panels: ours with every seed above, the paper's below."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from smoothap.report.curves import dress
from smoothap.report.palette import LIGHT

_NAMES = {"τ": "temperature τ", "|P|": "images of a class |P|", "B": "batch size B"}


def ablation_figure(
    rows: Sequence[Mapping[str, Any]], paper: Mapping[str, Mapping[float, tuple[float, float]]]
) -> Figure:
    """A column for each thing varied; the mean with its spread, and the lowest and highest seed."""
    figure = Figure(figsize=(0.8 + 3.5 * len(paper), 6))
    figure.set_layout_engine("constrained", w_pad=0.12, h_pad=0.1)
    ours = [row for row in rows if row["mAP"] is not None]
    named: list[Any] = []
    above: Axes | None = None
    below: Axes | None = None
    for place, (symbol, reported) in enumerate(paper.items()):
        own = [row for row in ours if row["varied"] == symbol]
        values = [row["value"] for row in own]
        at = range(len(own))
        above = figure.add_subplot(2, len(paper), place + 1, sharey=above)
        above.errorbar(
            at, [row["mAP"] for row in own], [row["spread"] or 0 for row in own], fmt="o-", color=LIGHT["green"],
            linewidth=2.2, markersize=7, capsize=5, label="ours, mean and deviation over seeds",
        )  # fmt: skip
        for end in ("lowest", "highest"):
            above.plot(
                at, [row[end] for row in own], "_", color=LIGHT["ink"], markersize=11,
                label="ours, lowest and highest seed" if end == "lowest" else None,
            )  # fmt: skip
        below = figure.add_subplot(2, len(paper), len(paper) + place + 1, sharey=below)
        known = [spot for spot, value in enumerate(values) if value in reported]
        for which, (name, colour, dash) in enumerate(
            (("the paper, VGGFace2", "blue", "o--"), ("the paper, IJB-C", "red", "s-."))
        ):
            below.plot(
                known, [reported[values[spot]][which] for spot in known], dash, color=LIGHT[colour], linewidth=2.2,
                markersize=6, label=name,
            )  # fmt: skip
        for axes, title in ((above, "ours"), (below, "the paper, Table 5")):
            axes.set_xticks(at, [f"{value:,g}" if value < 1 else f"{value:,.0f}" for value in values])
            axes.set_xlim(-0.4, len(own) - 0.6)
            axes.set_xlabel(_NAMES[symbol])
            axes.yaxis.set_major_locator(MaxNLocator(6, steps=(1, 2, 5, 10)))
            axes.yaxis.set_major_formatter(PercentFormatter(1))
            dress(axes)
            if place == 0:
                axes.set_ylabel("mAP")
                axes.set_title(title, loc="left", fontsize=11.5, color=LIGHT["ink"], fontweight="bold")
                named = [*named, *zip(*axes.get_legend_handles_labels(), strict=True)]
    handles, labels = zip(*named, strict=True)
    columns = (1, 2, 4)[min(len(paper), 3) - 1]  # of names, as the figure has room for
    figure.legend(
        handles, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=10,
        labelcolor=LIGHT["ink"],
    )  # fmt: skip
    return figure
