"""The page of a comparison: one HTML file with the table, a bar chart and the learning curves."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from smoothap.compare.runner import Outcome
from smoothap.compare.table import Row
from smoothap.files import write_atomically
from smoothap.methods import Method
from smoothap.report.comparison import Bar, Curve, bar_figure, curves_figure
from smoothap.report.curves import inline_svg
from smoothap.report.document import document
from smoothap.report.markup import Markup, element, joined, named

OURS = "smooth-ap"  # the method that is drawn in green


def write_page(
    path: Path,
    *,
    title: str,
    introduction: str,
    tables: dict[str, list[Row]],
    outcomes: Sequence[Outcome],
    command: str,
) -> Path:
    """Write the comparison as one self-contained page."""
    sections: list[tuple[str, str, Markup]] = []
    for number, (protocol, rows) in enumerate(tables.items()):
        content = joined(_bars(rows, outcomes), _table(rows))
        sections.append((f"test-{number}", "Figures" if len(tables) == 1 else f"Figures: {protocol}", content))
    if curves := _curves(outcomes):
        sections.append(("learning", "Learning curves", curves))
    sections.append(("methods", "Methods and the paper's figures", _methods([each.method for each in outcomes])))
    sections.append(("command", "The command", element("pre", element("code", command), tabindex=0)))
    links = [element("li", element("a", heading, href=f"#{name}")) for name, heading, _ in sections]
    content = (
        element("a", "Skip to the figures", href="#test-0", class_="skip"),
        element("header", element("h1", named(title)), element("p", introduction, class_="lead")),
        element("nav", element("ul", *links), aria_label="Contents"),
        element("main", *(element("section", element("h2", heading), content, id=name)
                          for name, heading, content in sections)),
    )  # fmt: skip
    return write_atomically(path, document(title, *content))


def _bars(rows: Sequence[Row], outcomes: Sequence[Outcome]) -> Markup:
    bars = [
        Bar(row.title, row.figures["mAP"].mean, row.figures["mAP"].spread, OURS in outcome.method.name)
        for row, outcome in zip(rows[1:], outcomes, strict=True)
        if row.figures
    ]
    if not bars:
        return Markup("")
    baseline = rows[0].figures["mAP"].mean
    best = max(bars, key=lambda bar: bar.value)
    drawn = inline_svg(
        bar_figure(bars, baseline, "mAP on the test classes, per cent"),
        f"mAP of {len(bars)} methods; the best is {best.name} with {best.value:.1f}, untrained is {baseline:.1f}",
    )
    note = (
        "The mean over the seeds, with the standard deviation between them as a line; green: Smooth-AP; the dashed "
        f"line is the untrained network, {baseline:.1f}."
    )
    return joined(element("div", drawn, class_="card chart"), element("p", note, class_="note"))


def _table(rows: Sequence[Row]) -> Markup:
    names = list(rows[0].figures)
    head = ["Method", *names, "Seconds", "Peak MB", "Steps", "Learning rate"]
    lines: list[str] = []
    for row in rows:
        cells = [element("th", row.title, scope="row")]
        if row.figures:
            cells += [element("td", text, class_="number") for text in row.cells(names)]
        else:
            cells.append(element("td", f"failed: {row.failure}", colspan=len(names) + 4))
        lines.append(element("tr", *cells))
    header = element("tr", *(element("th", name, scope="col") for name in head))
    table = element("table", element("thead", header), element("tbody", *lines), class_="figures")
    seeds = max((row.seeds for row in rows), default=0)
    note = (
        f"Per cent, {seeds} seed{'s' if seeds != 1 else ''}, mean ± standard deviation. Seconds: training with "
        "validation, both stages where there are two. Peak MB: of the process that trained and tested."
    )
    return joined(element("div", table, class_="wide"), element("p", note, class_="note"))


def _curves(outcomes: Sequence[Outcome]) -> Markup:
    curves = {outcome.method.name: curve for outcome in outcomes if (curve := _curve(outcome)) is not None}
    if not curves:
        return Markup("")
    drawn = curves_figure(list(curves.values()), curves.get(OURS), "val. mAP")
    note = "mAP on the validation classes, per cent: each seed thin, their mean thick; dashed green is Smooth-AP."
    return joined(
        element("div", inline_svg(drawn, f"Learning curves of {len(curves)} methods"), class_="card chart"),
        element("p", note, class_="note"),
    )


def _curve(outcome: Outcome) -> Curve | None:
    """The validation figures of the seeds, as far as the shortest of them goes."""
    found = [np.array(result["curve"], np.float64) for result in outcome.results]
    if not found:
        return None
    length = min(len(each) for each in found)
    return Curve(outcome.method.title, found[0][:length, 0], np.stack([100 * each[:length, 1] for each in found]))


def _methods(methods: Sequence[Method]) -> Markup:
    """What each method was set to, and every figure of the paper for it, on the paper's own data sets."""
    lines: list[str] = []
    for method in methods:
        figures = [
            f"Table {each.table}, {each.data_set}{f', {each.note}' if each.note else ''}: "
            + ", ".join(f"{name} {value:.1f}" for name, value in each.metrics.items())
            for each in method.paper
        ]
        told = [element("div", text) for text in figures or ["not in the paper"]]
        lines.append(element("tr", element("th", method.title, scope="row"), element("td", method.settings),
                             element("td", *told)))  # fmt: skip
    header = element("tr", *(element("th", name, scope="col") for name in ("Method", "Settings", "In the paper")))
    return element("div", element("table", element("thead", header), element("tbody", *lines)), class_="wide")
