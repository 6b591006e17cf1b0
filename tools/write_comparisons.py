"""Writes docs/comparisons/index.md, the tables of every method on every set, from the results.json files beside it.

    python tools/write_comparisons.py [--figure]

With --figure it also draws docs/figures/compare_sets.png.
"""

import json
import sys
from pathlib import Path

import numpy as np

from smoothap.benchmark.methods import METHODS
from smoothap.benchmark.statistics import Estimate
from smoothap.benchmark.table import MAIN, OURS, plus_minus
from smoothap.plots.drawing import panel_figure, style_axes
from smoothap.plots.html import LIGHT

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "comparisons"
PAGE = FOLDER / "index.md"
FROZEN = {
    "emoji@64": "emoji",
    "glyphs@64": "glyphs",
    "Grocery Store@64": "shop_photos",
    "Caltech-101@64": "caltech101",
}
WHOLE = {"emoji@64": "whole_emoji", "Grocery Store@64": "whole_shop_photos"}
SETS = {
    "emoji@64, last layer": "emoji",
    "glyphs@64, last layer": "glyphs",
    "Grocery Store@64, last layer": "shop_photos",
    "Caltech-101@64, last layer": "caltech101",
    "Grocery Store@64, last layer, four splits": "shop_photos_splits",
    "emoji@64, last layer, parts of ROADMAP": "emoji_tau",
    "emoji@64, whole network": "whole_emoji",
    "Grocery Store@64, whole network": "whole_shop_photos",
}
_FAR = -6.0  # the left end of the figure
Row = dict[str, Estimate | None]  # by the name of the set; None: Smooth-AP itself, or a method that failed
METRICS = (MAIN, "mAP@R", "Recall@1")
HEADING = """# All comparisons

Every method on every set, by mAP on unseen classes, with half of each 95% interval. [Results](../results.md) says what
to take from them and how they were made. Methods that share a letter of their group cannot be told apart; a star marks
a chosen value at the edge of what was tried. `python tools/write_comparisons.py` makes this page from the JSON files
beside it, which hold every trial and run.
"""
TUNED = """The learning rate is searched from a tenth to ten times of `--learning-rate`. Ranges are even in their
logarithm unless they say evenly; a factor multiplies the learning rate of proxies and class weights.
"""


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


def file_of(name: str) -> Path:
    """The results of a comparison."""
    return FOLDER / f"{name}.json"


def side_by_side(sets: dict[str, str]) -> list[str]:
    """What each method has above Smooth-AP on each set, as a table."""
    found = {title: read_differences(file_of(name)) for title, name in sets.items()}
    rows = ordered({title: differences for title, (_, differences) in found.items()})
    lines = [f"| method | {' | '.join(sets)} |", f"| --- |{' ---: |' * len(sets)}"]
    lines.append(f"| Smooth-AP, mAP | {' | '.join(plus_minus(ours) or '' for ours, _ in found.values())} |")
    for title, row in rows.items():
        lines.append(f"| {title} | {' | '.join(plus_minus(row[name], sign='+') or '' for name in sets)} |")
    return lines


def table(name: str) -> list[str]:
    """One comparison: its command, and a row for each method, the best first."""
    results = json.loads(file_of(name).read_text(encoding="utf-8"))
    (rows,) = results["tables"].values()
    untrained, *methods = rows
    methods.sort(key=lambda row: -row["metrics"][MAIN]["value"] if row["metrics"] else 0)
    lines = ["```", results["command"], "```", "", f"[{name}.json]({name}.json)", ""]
    lines += [f"| method | {' | '.join(METRICS)} | to Smooth-AP | group | chosen |"]
    lines += [f"| --- |{' ---: |' * (len(METRICS) + 1)} --- | --- |"]
    for row in (untrained, *methods):
        metrics = [plus_minus(Estimate(**row["metrics"][each])) or "" for each in METRICS]
        difference = plus_minus(Estimate(**row["differences"][MAIN]), sign="+") if row["differences"] else ""
        lines.append(f"| {row['title']} | {' | '.join(metrics)} | {difference} | {row['group']} | {row['chosen']} |")
    return lines


def ranges() -> list[str]:
    """What is searched of each method, as a table."""
    lines = ["| method | searched beside the learning rate |", "| --- | --- |"]
    for method in METHODS.values():
        parts = (
            f"{each.name} {each.low:g} to {each.high:g}{'' if each.logarithmic else ', evenly'}"
            for each in method.tuned
        )
        lines.append(f"| {method.title} | {'; '.join(parts)} |")
    return lines


def page() -> str:
    """The whole page as Markdown."""
    lines = [
        HEADING,
        "## Methods side by side",
        "",
        "Points of mAP above Smooth-AP, in pairs. The last layer alone:",
        "",
    ]
    lines += [*side_by_side(FROZEN), "", "The whole network:", "", *side_by_side(WHOLE)]
    for title, name in SETS.items():
        lines += ["", f"## {title}", "", *table(name)]
    lines += ["", "## What is tuned", "", TUNED, *ranges()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"{PAGE} is up to date.")
    if "--figure" in sys.argv[1:]:
        of_sets = {title: read_differences(file_of(name))[1] for title, name in FROZEN.items()}
        draw(ordered(of_sets), list(FROZEN), ROOT / "docs" / "figures" / "compare_sets.png")
