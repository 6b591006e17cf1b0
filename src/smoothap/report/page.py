"""The report of a training run: one HTML file that needs nothing else, to read, to print and to send."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from smoothap.data.image_set import ImageSet
from smoothap.files import write_atomically
from smoothap.metrics import Report
from smoothap.report.cards import percent, query_card
from smoothap.report.choice import ClassChange, choose_queries, class_changes
from smoothap.report.class_words import class_words
from smoothap.report.curves import loss_figure, validation_figure
from smoothap.report.document import report_page, table
from smoothap.report.drawing import inline_svg
from smoothap.report.markup import Markup, element, joined, named
from smoothap.report.ranking_rows import check_rows, rank
from smoothap.report.tiles import data_uri, mark_symbols, thumbnail

_CLASSES = 8  # that gained most, and as many that lost


def write_report(
    path: Path,
    *,
    title: str,
    test_set: ImageSet,
    before: np.ndarray,
    after: np.ndarray,
    before_report: Report,
    after_report: Report,
    curve: Sequence[dict[str, Any]],
    command: str,
    seed: int = 0,
    queries: int = 12,
) -> Path:
    """Write what training did to the retrieval of a test set as one self-contained HTML page.

    before (n, d), after (n, e): embeddings of the set; the reports are `evaluate` of them. `curve` has a dict for each
    step with "step", "loss" and now and then "validation_map"; `seed` draws the queries that are shown.
    """
    rows = np.arange(len(test_set)) if test_set.is_query is None else np.flatnonzero(test_set.is_query)
    for embeddings, report in ((before, before_report), (after, after_report)):
        check_rows(test_set, embeddings)
        if len(report.average_precision) != len(rows):
            raise ValueError(
                f"the report is of {len(report.average_precision):,} queries and {test_set.name} has {len(rows):,}: "
                "give the reports of these embeddings"
            )
    precisions = before_report.average_precision, after_report.average_precision
    sections = (
        ("results", "Results", _headline(before_report, after_report)),
        ("learning", "Learning curve", _learning(curve)),
        ("queries", "Queries before and after", _queries(test_set, before, after, rows, precisions, queries, seed)),
        ("classes", "Classes", _classes(test_set, class_changes(*precisions, test_set.labels[rows]))),
    )
    lead = named(test_set.name), _introduction(test_set, len(rows), after_report)
    return write_atomically(path, report_page(title, lead, sections, command))


def _introduction(test_set: ImageSet, queries: int, report: Report) -> str:
    if test_set.is_gallery is None:
        protocol = "Each image is the query in turn and all the others are ranked."
    else:
        protocol = f"{queries:,} queries are ranked against {int(test_set.is_gallery.sum()):,} images."
    skipped = f" {report.skipped:,} have no other image of their class and are left out." if report.skipped else ""
    return f": {len(test_set):,} images of {test_set.classes:,} classes that were not in training. {protocol}{skipped}"


def _headline(before: Report, after: Report) -> Markup:
    """The main results large, all of them in a table, and how many queries gained and lost."""
    results = [("mAP", before.mean_average_precision, after.mean_average_precision)]
    results += [(f"Recall@{k}", before.recall[k], value) for k, value in after.recall.items() if k in before.recall]
    others = [
        ("mAP@R", before.map_at_r, after.map_at_r),
        ("R-precision", before.r_precision, after.r_precision),
        ("mAP, mean over classes", before.class_mean_average_precision, after.class_mean_average_precision),
    ]
    large = [
        element(
            "div",
            element("h3", name),
            element("p", element("span", percent(old), class_="old"), " → ", element("strong", percent(new))),
            _bar("before", old),
            _bar("after", new),
            class_="card",
        )
        for name, old, new in results[:2]
    ]
    gain = after.average_precision - before.average_precision
    counts = (
        f"AP rose for {np.sum(gain > 1e-9):,} of {after.queries:,} queries, fell for {np.sum(gain < -1e-9):,} "
        f"and stayed for {np.sum(np.abs(gain) <= 1e-9):,}."
    )
    explained = (
        "mAP, the mean Average Precision, is 100% when every right image comes before every wrong one. Recall@K is the "
        "share of queries with at least one right image among the first K."
    )
    rows = [
        element("tr", element("th", name, scope="row"), _number(old), _number(new), _signed(old, new))
        for name, old, new in results + others
    ]
    numbers = table(("", "Before", "After", "Change"), rows, class_="results")
    words = element("div", element("p", counts), element("p", explained, class_="note"))
    return joined(element("div", *large, class_="large"), element("div", numbers, words, class_="large"))


def _learning(curve: Sequence[dict[str, Any]]) -> Markup:
    loss, validation = loss_figure(curve), validation_figure(curve)
    drawn: list[str] = []
    notes: list[str] = []
    if loss is not None:
        drawn.append(inline_svg(loss, f"Training loss of {len(curve):,} steps"))
        notes.append("Thin: the loss of each step; thick: its running mean.")
    if validation is not None:
        drawn.append(inline_svg(validation, "mAP on the validation classes during training"))
        notes.append("The validation classes are held out of the training classes; no test class is among either.")
    if not drawn:
        return Markup("")
    cards = [element("div", figure, class_="card") for figure in drawn]
    return joined(element("div", *cards, class_="large"), element("p", " ".join(notes), class_="note"))


def _queries(
    test_set: ImageSet,
    before: np.ndarray,
    after: np.ndarray,
    rows: np.ndarray,
    precisions: tuple[np.ndarray, np.ndarray],
    number: int,
    seed: int,
) -> Markup:
    groups = choose_queries(*precisions, test_set.labels[rows], number, seed)
    if not groups:
        return Markup("")
    frames = [("query", "the query"), ("right", "of its class"), ("wrong", "of another class")]
    legend = [element("span", element("i", class_=f"swatch {kind}"), text) for kind, text in frames]
    lines = [("before", "before"), ("after", "after")]
    legend += [element("span", element("i", class_=f"line {kind}"), text) for kind, text in lines]
    parts = [
        mark_symbols(),
        element("p", *legend, class_="legend"),
        element(
            "p",
            "Ranked from left to right. |P| is how many right images there are to find; the area under a curve is the "
            f"Average Precision. Random choices come from seed {seed}.",
            class_="note",
        ),
    ]
    for group in groups:
        cards = [
            query_card(test_set, rank(test_set, before, query), rank(test_set, after, query))
            for query in (int(rows[place]) for place in group.queries)
        ]
        reason = element("span", f" {group.reason}", class_="reason")
        parts.append(element("section", element("h3", group.title, reason), *cards))
    return joined(*parts)


def _classes(test_set: ImageSet, changes: list[ClassChange]) -> Markup:
    """The ends of the list of classes; nothing where there is only one class."""
    shown = min(_CLASSES, len(changes) // 2)
    if not shown:
        return Markup("")
    tables = [
        _class_table(test_set, "Gained most", changes[:shown]),
        _class_table(test_set, "Lost most or gained least", changes[: -shown - 1 : -1]),
    ]
    note = f"Mean AP of the queries of a class, over all {len(changes):,} classes."
    return joined(element("p", note, class_="note"), element("div", *tables, class_="large"))


def _class_table(test_set: ImageSet, caption: str, changes: list[ClassChange]) -> Markup:
    rows: list[Markup] = []
    for change in changes:
        first = int(np.flatnonzero(test_set.labels == change.label)[0])
        picture = element("img", src=data_uri(thumbnail(test_set, first, 40)), alt="", width=40, height=40)
        name = named(class_words(str(test_set.class_names[change.label])))
        cells = _number(change.before), _number(change.after), _signed(change.before, change.after)
        rows.append(element("tr", element("td", picture), element("th", name, scope="row"), *cells))
    return table(("", "Class", "Before", "After", "Change"), rows, caption=caption)


def _bar(kind: str, share: float) -> Markup:
    width = 0.0 if np.isnan(share) else 100 * share
    return element("div", class_=f"bar {kind}", style=f"width:{width:.1f}%")


def _number(share: float) -> Markup:
    return element("td", percent(share), class_="number")


def _signed(before: float, after: float) -> Markup:
    return element("td", f"{100 * (after - before):+.1f}".replace("-", "−"), class_="number")
