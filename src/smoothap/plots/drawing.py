"""What all figures share: their looks, and how they are written to files and into pages."""

import io
import re
from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import matplotlib as mpl
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from smoothap._core.files import write_atomically
from smoothap.plots.html import escaped
from smoothap.plots.palette import LIGHT

Style = tuple[str, str, str]  # of a line: its colour, its marker and its dashes
LINE_STYLES: tuple[Style, ...] = (("blue", "o", "--"), ("green", "s", "-"), ("red", "^", "-."), ("soft", "D", ":"))
PLAIN = FuncFormatter(lambda value, _: f"{value:g}")  # of the ticks of an axis by powers of ten
LEGEND: dict[str, Any] = {"frameon": False, "labelcolor": LIGHT["ink"]}


def panel_figure(width: float, height: float, w_pad: float = 0.12, h_pad: float = 0.08) -> Figure:
    """An empty figure, in inches, for several panels with room between them."""
    figure = Figure(figsize=(width, height))
    figure.set_layout_engine("constrained", w_pad=w_pad, h_pad=h_pad)
    return figure


def style_axes(axes: Axes, title: str = "") -> None:
    """The looks of all our axes: two sides, soft labels that can be read on a phone, the title at the left."""
    axes.patch.set_visible(False)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(LIGHT["soft"])
    axes.tick_params(colors=LIGHT["soft"], labelcolor=LIGHT["ink"], labelsize=10)
    for label in (axes.xaxis.label, axes.yaxis.label):
        label.set(color=LIGHT["ink"], fontsize=10.5)
    if title:
        axes.set_title(title, loc="left", fontsize=11.5, color=LIGHT["ink"], fontweight="bold")


def draw_lines(
    axes: Axes, curves: Mapping[str, tuple[Sequence[float], Sequence[float]]], *, styles: Sequence[Style], **looks: Any
) -> None:
    """A line of (x, y) under each name, in the styles one after the other: a colour, a marker and dashes."""
    for (name, (x, y)), (colour, marker, dash) in zip(curves.items(), cycle(styles), strict=False):
        axes.plot(x, y, dash, marker=marker, color=LIGHT[colour], linewidth=2.2, markersize=6, label=name, **looks)


def doubling_axis(axes: Axes, values: Sequence[int], **looks: Any) -> None:
    """An axis on which each doubling takes the same room, with a tick at each value."""
    axes.set_xscale("log", base=2)
    axes.set_xticks(values, [f"{value:,}" for value in values], **looks)
    axes.xaxis.set_minor_locator(NullLocator())


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


def save_figure(figure: Figure, path: Path) -> Path:
    """Write a figure; the suffix says as what, such as .png or .svg."""
    return write_atomically(path, _rendered(figure, path.suffix.removeprefix("."), facecolor="white"))


def _rendered(figure: Figure, kind: str, **options: Any) -> bytes:
    """The figure as a file: text stays text, and the same figure gives the same bytes every time."""
    if kind == "svg":
        options["metadata"] = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    stream = io.BytesIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "smoothap"}):
        figure.savefig(stream, format=kind, dpi=160 if kind != "svg" else "figure", **options)
    return stream.getvalue()
