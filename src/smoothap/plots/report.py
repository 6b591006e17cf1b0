"""The report of a training run: one HTML file that needs nothing else, to read, to print and to send."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from smoothap.data.image_set import ImageSet
from smoothap.metrics import Report
from smoothap.metrics.bootstrap import Difference, Interval
from smoothap.plots.curves import loss_figure, precision_recall_figure, validation_figure
from smoothap.plots.drawing import inline_svg
from smoothap.plots.html import percent, write_page
from smoothap.plots.rankings import BeforeAfter, ClassChange, RankedRow, check_rows, choose_queries, class_changes, rank
from smoothap.plots.text import class_words
from smoothap.plots.tiles import MARKS, data_uri, thumbnail

SHOWN = 12  # images of a ranked row
_CLASSES = 8  # that gained most, and as many that lost


def write_report(
    path: Path,
    compared: BeforeAfter,
    *,
    title: str,
    curve: Sequence[dict[str, Any]],
    command: str,
    note: str = "",
    seed: int = 0,
    queries: int = 12,
) -> Path:
    """Write what training did to the retrieval of a test set as one self-contained HTML page.

    `curve` has a dict for each step with "step", "loss" and now and then "validation_map"; `note` is first under
    the results; `seed` draws the queries that are shown.
    """
    test_set, rows = compared.images, compared.query_rows
    before, after = compared.before_report, compared.after_report
    for embeddings, report in ((compared.before, before), (compared.after, after)):
        check_rows(test_set, embeddings)
        if len(report.average_precision) != len(rows):
            raise ValueError(
                f"the report is of {len(report.average_precision):,} queries and {test_set.name} has {len(rows):,}: "
                "give the reports of these embeddings"
            )
    loss, validation = loss_figure(curve), validation_figure(curve)
    groups = [
        (group, [_card(compared, int(rows[place])) for place in group.queries])
        for group in choose_queries(*compared.average_precisions, compared.query_labels, queries, seed)
    ]
    changes = class_changes(*compared.average_precisions, compared.query_labels)
    ends = min(_CLASSES, len(changes) // 2)  # none where there is only one class
    class_tables = {
        "Gained most": [_class_row(test_set, change) for change in changes[:ends]],
        "Lost most or gained least": [_class_row(test_set, change) for change in changes[: -ends - 1 : -1]],
    }
    sections = {
        "results": ("Results", True),
        "learning": ("Learning curve", loss or validation),
        "queries": ("Queries before and after", groups),
        "classes": ("Classes", ends),
    }
    return write_page(
        path,
        "plots/report.html",
        title=title,
        contents={name: heading for name, (heading, content) in sections.items() if content},
        test_set=test_set,
        introduction=_introduction(test_set, len(rows), after),
        marks={kind: "M" + "L".join(f"{x} {y}" for x, y in points) for kind, points in MARKS.items()},
        metrics=_metrics(before, after),
        counts=f"{note} {_counts(before, after)}".strip(),
        loss=loss and inline_svg(loss, f"Training loss of {len(curve):,} steps"),
        validation=validation and inline_svg(validation, "mAP on the validation classes during training"),
        groups=groups,
        seed=seed,
        classes=len(changes),
        class_tables=class_tables if ends else {},
        command=command,
    )


def _introduction(test_set: ImageSet, queries: int, report: Report) -> str:
    if test_set.is_gallery is None:
        protocol = "Each image is the query in turn and all the others are ranked."
    else:
        protocol = f"{queries:,} queries are ranked against {int(test_set.is_gallery.sum()):,} images."
    skipped = f" {report.skipped:,} have no other image of their class and are left out." if report.skipped else ""
    words = f"{len(test_set):,} images of {test_set.classes:,} classes that were not in training. {protocol}{skipped}"
    return f"{words} {report.about_copies()}".rstrip()


def _metrics(before: Report, after: Report) -> list[tuple[str, Interval, Interval, Difference]]:
    """Name, before, after and their difference, each with its interval, the main ones first."""
    names = {metric: title for title, metric in after.main_metrics().items() if metric in before.metrics()}
    names |= {
        "map_at_r": "mAP@R",
        "r_precision": "R-precision",
        "class_mean_average_precision": "mAP, mean over classes",
    }
    old, new = (report.intervals([*names]) for report in (before, after))
    return [(name, old[figure], new[figure], after.compare(before, figure)) for figure, name in names.items()]


def _counts(before: Report, after: Report) -> str:
    gain = after.average_precision - before.average_precision
    return (
        f"AP rose for {np.sum(gain > 1e-9):,} of {after.queries:,} queries, fell for {np.sum(gain < -1e-9):,} "
        f"and stayed for {np.sum(np.abs(gain) <= 1e-9):,}."
    )


def _card(compared: BeforeAfter, query: int) -> dict[str, Any]:
    """One query as in the paper's Figure 1: |P|, AP, the precision-recall curves, and the ranked rows."""
    images = compared.images
    before, after = rank(images, compared.before, query), rank(images, compared.after, query)
    change = f"AP {percent(before.average_precision)} → {percent(after.average_precision)}"
    curves = precision_recall_figure(before, after)
    return {
        "name": _class_name(images, query),
        "change": change,
        "positives": before.positives,
        "curve": inline_svg(curves, f"Precision-recall curves before and after: {change}"),
        "words": f"Query: class {_class_name(images, query)}, {images.names[query]}",
        "image": data_uri(thumbnail(images, query, 112)),
        "rankings": [_ranking(images, "Before", before), _ranking(images, "After", after)],
    }


def _ranking(images: ImageSet, title: str, row: RankedRow) -> dict[str, Any]:
    first = min(SHOWN, len(row.items))
    words = (
        f"AP {percent(row.average_precision)}, {row.right_among(first)} of {row.positives:,} right ones among the "
        f"first {first}, all by rank {row.last_right:,}"
    )
    return {"title": title, "words": words, "tiles": [_tile(images, row, place) for place in range(first)]}


def _tile(images: ImageSet, row: RankedRow, place: int) -> dict[str, Any]:
    """One image of a ranked row; its words are told on hover and to screen readers."""
    item, kind, score = int(row.items[place]), "right" if row.right[place] else "wrong", float(row.scores[place])
    class_name, name = _class_name(images, item), str(images.names[item])
    return {
        "kind": kind,
        "class_name": class_name,
        "name": name,
        "score": score,
        "words": f"Rank {place + 1}, {kind}: class {class_name}, {name}, cosine {score:.3f}",
        "image": data_uri(thumbnail(images, item, 80)),
    }


def _class_row(images: ImageSet, change: ClassChange) -> dict[str, Any]:
    first = int(np.flatnonzero(images.labels == change.label)[0])
    image = data_uri(thumbnail(images, first, 40))
    return {"image": image, "name": _class_name(images, first), "before": change.before, "after": change.after}


def _class_name(images: ImageSet, row: int) -> str:
    return class_words(str(images.class_names[images.labels[row]]))
