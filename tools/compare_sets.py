"""Several comparisons side by side: what each method has above Smooth-AP on each set, as a Markdown table and a figure.

    python tools/compare_sets.py emoji=docs/comparisons/emoji.json photos=docs/comparisons/shop_photos.json
                                 --figure docs/figures/compare_sets.png

Each file is the results.json of a `smoothap compare` with one test protocol.
"""

import argparse
import json
from pathlib import Path

import numpy as np

from smoothap.benchmark.statistics import Estimate
from smoothap.benchmark.table import MAIN, OURS, plus_minus
from smoothap.plots.drawing import panel_figure, style_axes
from smoothap.plots.html import LIGHT

_FAR = -6.0  # the left end of the figure
Row = dict[str, Estimate | None]  # by the name of the set; None: Smooth-AP itself, or a method that failed


def read_differences(file: Path) -> tuple[Estimate, dict[str, tuple[str, Estimate | None]]]:
    """The mAP of Smooth-AP, and by the names of the other methods their titles and what they have above it."""
    (rows,) = json.loads(file.read_text(encoding="utf-8"))["tables"].values()
    ours = next(Estimate(**row["metrics"][MAIN]) for row in rows if row["name"] == OURS)
    others = (row for row in rows[1:] if row["name"] != OURS)
    return ours, {
        row["name"]: (row["title"], Estimate(**row["differences"][MAIN]) if row["differences"] else None)
        for row in others
    }


def ordered(sets: dict[str, dict[str, tuple[str, Estimate | None]]]) -> dict[str, Row]:
    """The differences by the title of the method and the set, the best on average first."""
    titles = {name: title for of_set in sets.values() for name, (title, _) in of_set.items()}
    rows = {
        title: {each: of_set.get(name, ("", None))[1] for each, of_set in sets.items()}
        for name, title in titles.items()
    }

    def mean(title: str) -> float:
        return float(np.mean([value.value for value in rows[title].values() if value is not None]))

    return {title: rows[title] for title in sorted(rows, key=mean, reverse=True)}


def draw(rows: dict[str, Row], sets: list[str], file: Path) -> None:
    """Dots with intervals, a panel for each set; of what is far below there is the number alone."""
    figure = panel_figure(4.4 + 2.1 * len(sets), 1.0 + 0.27 * len(rows))
    panels = figure.subplots(1, len(sets), sharey=True, sharex=True, squeeze=False)[0]
    places = np.arange(len(rows))[::-1]
    for axes, each in zip(panels, sets, strict=True):
        axes.axvline(0, color=LIGHT["green"], linestyle="--", linewidth=1.2)
        for place, row in zip(places, rows.values(), strict=True):
            if (value := row[each]) is None:
                continue
            if value.value < _FAR:
                axes.text(_FAR, place, f" ◂ {value.value:.1f}".replace("-", "−"), va="center", color=LIGHT["blue"])
            else:
                colour = LIGHT["blue" if value.low > 0 or value.high < 0 else "soft"]
                axes.plot([value.low, value.high], [place, place], color=colour, linewidth=1.8)
                axes.plot(value.value, place, "o", color=colour, markersize=5)
        axes.set(xlim=(_FAR, 2.5), ylim=(-0.7, len(rows) - 0.3))
        axes.set_yticks(places, list(rows))
        axes.grid(axis="y", color=LIGHT["line"], linewidth=0.8)
        axes.set_axisbelow(True)
        style_axes(axes, each)
    figure.supxlabel("mAP above that of Smooth-AP, in points", fontsize=10.5, color=LIGHT["ink"])
    figure.savefig(file, dpi=140)


def main() -> None:
    """Print the table; write the figure where it is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="+", help="NAME=FILE")
    parser.add_argument("--figure", type=Path)
    options = parser.parse_args()
    files = {name: Path(file) for name, _, file in (each.partition("=") for each in options.sets)}
    found = {name: read_differences(file) for name, file in files.items()}
    rows = ordered({name: differences for name, (_, differences) in found.items()})
    print(f"| method | {' | '.join(files)} |\n| --- |{' ---: |' * len(files)}")
    print(f"| Smooth-AP, mAP | {' | '.join(plus_minus(ours) or '' for ours, _ in found.values())} |")
    for title, row in rows.items():
        print(f"| {title} | {' | '.join(plus_minus(row[name], sign='+') or '' for name in files)} |")
    if options.figure is not None:
        draw(rows, list(files), options.figure)


if __name__ == "__main__":
    main()
