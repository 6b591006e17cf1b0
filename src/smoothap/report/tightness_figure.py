"""The approximation error of each step, one line a temperature."""

from collections.abc import Mapping, Sequence
from itertools import cycle

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from smoothap.report.curves import dress
from smoothap.report.palette import LIGHT

_LOOKS = (("blue", "--"), ("green", "-"), ("red", "-."), ("soft", ":"))


def tightness_figure(curves: Mapping[float, Sequence[Mapping[str, float]]]) -> Figure:
    """AP_e against the step, as the paper's Figure 4 and by powers of ten, where the small ones can be told apart."""
    figure = Figure(figsize=(10, 3.9))
    figure.set_layout_engine("constrained", w_pad=0.12, h_pad=0.08)
    for place, scale in enumerate(("linear", "log")):
        axes = figure.add_subplot(1, 2, place + 1)
        for (tau, curve), (colour, dash) in zip(curves.items(), cycle(_LOOKS), strict=False):
            axes.plot(
                [row["step"] for row in curve], [row["approximation_error"] for row in curve], dash,
                color=LIGHT[colour], linewidth=2.2, label=f"τ = {tau:g}",
            )  # fmt: skip
        axes.set_yscale(scale)
        if scale == "linear":
            axes.set_ylim(bottom=0)
            axes.legend(frameon=False, fontsize=11, labelcolor=LIGHT["ink"])
            axes.set_ylabel("AP approximation error, AP$_e$")
        else:
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        axes.set_xlabel("training step")
        dress(axes)
        title = "Error of the approximation" if place == 0 else "The same by powers of ten"
        axes.set_title(title, loc="left", fontsize=11.5, color=LIGHT["ink"], fontweight="bold")
    return figure
