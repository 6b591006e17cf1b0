"""Beyond the paper: which classes gained and lost, which take each other's ranks, and AP by the size of a class."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from smoothap.analysis.analysis import Analysis
from smoothap.experiments.before_after import BeforeAfter
from smoothap.metrics.confusions import ConfusedPair, Confusions, confusions
from smoothap.report.choice import ClassChange, class_changes
from smoothap.report.class_figures import SizeGroup, changes_figure, confusions_figure, sizes_figure
from smoothap.report.class_words import class_words

_SIZES_SHOWN_ALONE = 8  # with more different sizes than this, they are grouped by doubling


def classes_analysis(compared: BeforeAfter, *, number: int = 10, pairs: int = 12, command: str = "") -> Analysis:
    """`number` classes from both ends of the list of changes, and `pairs` of classes after training that take most AP.

    What class b takes from class a is an exact share of the AP that a lost: see `smoothap.metrics.confusions`.
    """
    if number < 1 or pairs < 1:
        raise ValueError(f"A figure needs at least one class and one pair, not {number} and {pairs}.")
    images = compared.images
    labels = images.labels[compared.query_rows]
    changes = class_changes(compared.before_report.average_precision, compared.after_report.average_precision, labels)
    if len(changes) < 2:
        raise ValueError(
            f"{images.name} has {len(changes)} classes with two images or more: two are needed to compare."
        )
    found = confusions(compared.after, images.labels, pairs, is_query=images.is_query, is_gallery=images.is_gallery)
    sizes = size_groups(changes, np.bincount(images.labels, minlength=images.classes))
    shown = min(number, len(changes) // 2)
    gained = [change for change in changes[:shown] if change.after > change.before]
    lost = [change for change in changes[: -shown - 1 : -1] if change.after < change.before]
    return Analysis(
        name="classes",
        title="Classes: gains, losses, confusions, and size",
        numbers=_numbers(compared, changes, found, sizes),
        figures={
            "changes": changes_figure(images, gained, lost),
            "confusions": confusions_figure(images, found.pairs),
            "sizes": sizes_figure(sizes),
        },
        table=[
            _line(compared, group, change, found)
            for group, some in (("gained most", gained), ("lost most", lost))
            for change in some
        ],
        paper="The paper has no analysis of classes.",
        agreement=_summary(compared, changes, found, sizes),
        command=command,
    )


def size_groups(changes: Sequence[ClassChange], sizes: np.ndarray) -> list[SizeGroup]:
    """Classes by how many images they have, one by one or up to each power of two. sizes (classes,)"""
    size = np.array([sizes[change.label] for change in changes])
    alone = len(np.unique(size)) <= _SIZES_SHOWN_ALONE
    upper = size if alone else 2 ** np.ceil(np.log2(size)).astype(int)
    groups: list[SizeGroup] = []
    for end in np.unique(upper):
        members = [change for change, each in zip(changes, upper, strict=True) if each == end]
        means = [float(np.mean([getattr(change, name) for change in members])) for name in ("before", "after")]
        smallest = int(size[upper == end].min())
        groups.append(SizeGroup(smallest, int(size[upper == end].max()), len(members), means[0], means[1]))
    return groups


def _line(compared: BeforeAfter, group: str, change: ClassChange, found: Confusions) -> dict[str, Any]:
    taker = int(found.taker[change.label])
    return {
        "": group,
        "class": _name(compared, change.label),
        "images": int((compared.images.labels == change.label).sum()),
        "AP before": round(change.before, 4),
        "AP after": round(change.after, 4),
        "change": round(change.after - change.before, 4),
        "loses most to": "" if taker < 0 else _name(compared, taker),
        "AP it takes": round(float(found.taken[change.label]) / change.queries, 4),
    }


def _numbers(
    compared: BeforeAfter, changes: Sequence[ClassChange], found: Confusions, sizes: Sequence[SizeGroup]
) -> dict[str, Any]:
    taken = [int(each) for each in found.taker]
    return {
        "set": compared.images.name,
        "mAP before": compared.before_report.mean_average_precision,
        "mAP after": compared.after_report.mean_average_precision,
        "classes that gained": sum(change.after > change.before for change in changes),
        "classes that lost": sum(change.after < change.before for change in changes),
        "confusions": [_pair(compared, pair) for pair in found.pairs],
        "by size": [
            {"images from": each.smallest, "to": each.largest, "classes": each.classes, "AP before": each.before,
             "AP after": each.after}
            for each in sizes
        ],
        "by class, most gained first": {
            "class": [str(compared.images.class_names[change.label]) for change in changes],
            "queries": [change.queries for change in changes],
            "AP before": [round(change.before, 5) for change in changes],
            "AP after": [round(change.after, 5) for change in changes],
            "loses most to": [
                "" if taken[change.label] < 0 else str(compared.images.class_names[taken[change.label]])
                for change in changes
            ],
            "AP it takes": [round(float(found.taken[change.label]) / change.queries, 5) for change in changes],
        },
    }  # fmt: skip


def _pair(compared: BeforeAfter, pair: ConfusedPair) -> dict[str, Any]:
    return {
        "losing": _name(compared, pair.losing),
        "taking": _name(compared, pair.taking),
        "AP taken, a query": pair.taken / pair.queries,
        "ranks taken": pair.ranks,
        "queries": pair.queries,
        "AP taken back, a query": pair.taken_back / max(pair.queries_back, 1),
        "ranks taken back": pair.ranks_back,
        "queries back": pair.queries_back,
    }


def _summary(
    compared: BeforeAfter, changes: Sequence[ClassChange], found: Confusions, sizes: Sequence[SizeGroup]
) -> str:
    gained = sum(change.after > change.before for change in changes)
    lost = sum(change.after < change.before for change in changes)
    told = f"Of {len(changes):,} classes, {gained:,} gained and {lost:,} lost"
    if len(sizes) > 1:
        told += (
            f"; classes of {sizes[0].words} images have a mean AP of {100 * sizes[0].after:.1f} after training, those "
            f"of {sizes[-1].words} {100 * sizes[-1].after:.1f}"
        )
    if not found.pairs:
        return f"{told}; no class takes a rank from another."
    worst = found.pairs[0]
    share = sum(pair.taken + pair.taken_back for pair in found.pairs) / max(found.lost.sum(), 1e-12)
    return (
        f"{told}; most is lost by {_name(compared, worst.losing)} to {_name(compared, worst.taking)} "
        f"({100 * worst.taken / worst.queries:.1f} points of AP a query), and the {len(found.pairs)} pairs shown make "
        f"{100 * share:.1f}% of all the AP that is lost."
    )


def _name(compared: BeforeAfter, label: int) -> str:
    return class_words(str(compared.images.class_names[label]))
