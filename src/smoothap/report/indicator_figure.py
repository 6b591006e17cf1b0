"""The relaxations of the indicator side by side, laid out as the paper's Figure 2."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from smoothap.report.curves import dress
from smoothap.report.palette import LIGHT


def indicator_figure(differences: Sequence[float], curves: Mapping[str, tuple[list[float], list[float]]]) -> Figure:
    """First row: each relaxation over the indicator, dotted; second row: their derivatives, each on its own scale."""
    figure = Figure(figsize=(2.35 * len(curves), 4.8))
    figure.set_layout_engine("constrained", w_pad=0.06, h_pad=0.08)
    step = (np.asarray(differences) > 0).astype(float)
    for place, (name, (values, slopes)) in enumerate(curves.items()):
        above = figure.add_subplot(2, len(curves), place + 1)
        above.plot(differences, step, ":", color=LIGHT["soft"], linewidth=1.6)
        above.plot(differences, values, color=LIGHT["blue"], linewidth=2.4)
        above.set_ylim(-0.1, 2.1)
        above.set_title(f"({'abcdefghij'[place]}) {name}", fontsize=11, color=LIGHT["ink"], fontweight="bold")
        below = figure.add_subplot(2, len(curves), len(curves) + place + 1)
        below.plot(differences, slopes, color=LIGHT["green"], linewidth=2.4)
        steepest = max(slopes) if place and slopes[-1] < 0.5 * max(slopes) else 10.5
        below.set_ylim(-0.05 * steepest, 1.12 * steepest)
        for axes in (above, below):
            axes.set_xlim(min(differences), max(differences))
            axes.set_xticks((-0.5, 0, 0.5), ("−0.5", "0", "0.5"))
            dress(axes)
        below.set_xlabel("x")
        if place == 0:
            below.set_yticks((0,), ("0",))
            above.set_ylabel("value")
            below.set_ylabel("derivative")
            below.annotate(
                "0 everywhere,\nundefined at 0", (0, 0), (0, 12), textcoords="offset points", ha="center", va="bottom",
                fontsize=10, color=LIGHT["ink"],
            )  # fmt: skip
    return figure
