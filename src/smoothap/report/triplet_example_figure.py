"""The six violating terms of the paper's section 4 as bars, and two moves of one term as curves."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from smoothap.report.curves import dress
from smoothap.report.palette import LIGHT

_MOVES = (("0.8 → 0.5", LIGHT["soft"]), ("0.2 → −0.1", LIGHT["red"]))


def triplet_example_figure(
    rows: Sequence[Mapping[str, Any]],
    curves: Mapping[str, Sequence[float]],
    moves: Sequence[Mapping[str, float]],
    tau: float,
    margin: float,
) -> Figure:
    """Left the gradient of each term under both losses; right both losses against s4 - s1, with the two moves."""
    figure = Figure(figsize=(11.5, 5.6))
    figure.set_layout_engine("constrained", w_pad=0.12, h_pad=0.1)
    grid = figure.add_gridspec(2, 2, width_ratios=(1, 1.25))
    terms = [str(row["term"]).replace("-", "−") for row in rows]
    for place, (column, title, colour) in enumerate(
        (
            ("triplet gradient", "Triplet loss: gradient of each term", LIGHT["blue"]),
            ("Smooth-AP gradient", f"Smooth-AP, τ = {tau:g}: gradient of each term", LIGHT["green"]),
        )
    ):
        axes = figure.add_subplot(grid[place, 0])
        values = [row[column] for row in rows]
        bars = axes.bar(terms, values, color=colour, width=0.62)
        axes.bar_label(
            bars,
            [f"{value:.3g}" if value > 5e-4 else "≈ 0" for value in values],
            fontsize=10,
            color=LIGHT["ink"],
            padding=2,
        )
        axes.set_ylim(0, 1.18 * max(*values, 1e-9))
        _named(axes, title)
    for place, (shown, title, change) in enumerate(
        (
            (
                (("triplet", "blue", "-", f"max(s4 − s1 + {margin:g}, 0)"),),
                "Triplet loss of s4 − s1",
                "triplet loss lost",
            ),
            (
                (("exact", "ink", ":", "1 − AP"), ("smooth", "green", "-", f"Smooth-AP, τ = {tau:g}")),
                "1 − AP of the example",
                "AP gained",
            ),
        )
    ):  # fmt: skip
        axes = figure.add_subplot(grid[place, 1])
        for name, colour, dash, label in shown:
            axes.plot(curves["difference"], curves[name], dash, color=LIGHT[colour], linewidth=2.4, label=label)
        low, high = axes.get_ylim()
        axes.set_ylim(low, high + 0.24 * (high - low))
        for move, (name, colour) in zip(moves, _MOVES, strict=True):
            axes.axvspan(move["to"], move["from"], color=colour, alpha=0.16, linewidth=0)
            axes.text(
                (move["to"] + move["from"]) / 2, 0.98, f"{name}\n{_signed(-move[change])}",
                transform=axes.get_xaxis_transform(), ha="center", va="top", fontsize=10.5, color=LIGHT["ink"],
            )  # fmt: skip
        axes.set_xlim(max(curves["difference"]), min(curves["difference"]))
        axes.legend(frameon=False, fontsize=10, labelcolor=LIGHT["ink"], loc="lower left")
        axes.set_xlabel("s4 − s1, falling as training goes on" if place else "")
        _named(axes, title)
    return figure


def spending_figure(spent: Mapping[str, Any], data: str, tau: float) -> Figure:
    """The share of each loss's gradient that goes to each fifth of a batch's violating terms, the worthiest first."""
    figure = Figure(figsize=(8.6, 4.2))
    figure.set_layout_engine("constrained", w_pad=0.12, h_pad=0.1)
    axes = figure.add_subplot()
    names = [f"{place}\n+{1000 * worth:.2g}" for place, worth in enumerate(spent["worth"], start=1)]
    for offset, (name, label, colour) in enumerate(
        (("triplet", "Triplet loss", "blue"), ("Smooth-AP", f"Smooth-AP, τ = {tau:g}", "green"))
    ):
        shares = [100 * share for share in spent["shares"][name]]
        places = [place + 0.38 * (offset - 0.5) for place in range(len(shares))]
        bars = axes.bar(places, shares, width=0.36, color=LIGHT[colour], label=label)
        axes.bar_label(bars, [f"{share:.0f}%" for share in shares], fontsize=10, color=LIGHT["ink"], padding=2)
    axes.set_xticks(range(len(names)), names)
    axes.set_xlabel("fifths of the violating terms; mean AP that undoing one is worth, in thousandths")
    axes.set_ylabel("share of the loss's gradient, %")
    axes.legend(frameon=False, fontsize=10, labelcolor=LIGHT["ink"])
    _named(axes, f"{spent['terms']:,} violating terms of a batch of {spent['batch']} ({data})")
    return figure


def _named(axes: Axes, title: str) -> None:
    dress(axes)
    axes.set_title(title, loc="left", fontsize=11.5, color=LIGHT["ink"], fontweight="bold")


def _signed(value: float) -> str:
    return f"{value:+.3f}".replace("-", "−") if abs(value) > 5e-4 else "±0"
