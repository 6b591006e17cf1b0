"""Beyond the paper: which classes gained and lost, which take each other's ranks, and AP by the size of a class."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.offsetbox import AnnotationBbox, OffsetImage
from matplotlib.ticker import PercentFormatter
from PIL import ImageOps

from smoothap.data.image_set import ImageSet
from smoothap.metrics.confusions import ConfusedPair, Confusions, confusions
from smoothap.paper.analysis import Analysis
from smoothap.plots.drawing import LEGEND, panel_figure, style_axes
from smoothap.plots.palette import LIGHT
from smoothap.plots.rankings import BeforeAfter, ClassChange, class_changes
from smoothap.plots.text import class_words, figure_words
from smoothap.plots.tiles import DOTS_PER_INCH, thumbnail

_SIZES_SHOWN_ALONE = 8  # with more different sizes than this, they are grouped by doubling
_ROW = 0.4  # inches of a class in a list
_TILE = 52  # pixels of its image


def classes(compared: BeforeAfter, *, number: int = 10, pairs: int = 12) -> Analysis:
    """Which classes gained and lost, which take each other's ranks, and AP by class size: what to label or clean next.

    What one class takes from another is an exact share of the AP that it lost: see `smoothap.metrics.confusions`.

    Parameters
    ----------
    number
        How many classes that gained most, and as many that lost most.
    pairs
        How many pairs of classes that take each other's ranks.
    """
    if number < 1 or pairs < 1:
        raise ValueError(f"A figure needs at least one class and one pair, not {number} and {pairs}.")
    images = compared.images
    changes = class_changes(*compared.average_precisions, compared.query_labels)
    if len(changes) < 2:
        raise ValueError(
            f"{images.name} has {len(changes)} classes with two images or more: two are needed to compare."
        )
    confused = confusions(compared.after, images.labels, pairs, is_query=images.is_query, is_gallery=images.is_gallery)
    counts = np.bincount(images.labels, minlength=images.classes)
    names = [class_words(str(name)) for name in images.class_names]
    sizes = size_groups(changes, counts)
    shown = min(number, len(changes) // 2)
    ends = {
        "gained most": [change for change in changes[:shown] if change.after > change.before],
        "lost most": [change for change in changes[: -shown - 1 : -1] if change.after < change.before],
    }
    by_class = {
        change.label: {
            "class": names[change.label],
            "images": int(counts[change.label]),
            "queries": change.queries,
            "AP before": round(change.before, 5),
            "AP after": round(change.after, 5),
            "change": round(change.after - change.before, 5),
            "loses most to": "" if (taker := int(confused.taker[change.label])) < 0 else names[taker],
            "AP it takes": round(float(confused.taken[change.label]) / change.queries, 5),  # of a query, on average
        }
        for change in changes
    }
    rose, fell = (sum(sign * (change.after - change.before) > 0 for change in changes) for sign in (1, -1))
    before, after = compared.mean_average_precisions
    return Analysis(
        name="classes",
        title="Classes: gains, losses, confusions, and size",
        figures={
            "changes": _changes_figure(images, *ends.values()),
            "confusions": _confusions_figure(images, confused.pairs),
            "sizes": _sizes_figure(sizes),
        },
        table=[{"": group, **by_class[change.label]} for group, members in ends.items() for change in members],
        paper="The paper has no analysis of classes.",
        agreement=(
            f"Of {len(changes):,} classes, {rose:,} gained and {fell:,} lost{_sizes_sentence(sizes)}; "
            f"{_confusions_sentence(names, confused)}."
        ),
        numbers={
            "set": images.name,
            "mAP before": before,
            "mAP after": after,
            "classes that gained": rose,
            "classes that lost": fell,
            "confusions": [
                {
                    "losing": names[pair.losing], "taking": names[pair.taking],
                    "AP taken, a query": pair.taken / pair.queries, "ranks taken": pair.ranks, "queries": pair.queries,
                    "AP taken back, a query": pair.taken_back / max(pair.queries_back, 1),
                    "ranks taken back": pair.ranks_back, "queries back": pair.queries_back,
                }
                for pair in confused.pairs
            ],
            "by size": sizes,
            "by class, most gained first": {
                name: [row[name] for row in by_class.values()] for name in by_class[changes[0].label]
            },
        },
    )  # fmt: skip


def size_groups(changes: Sequence[ClassChange], sizes: np.ndarray) -> list[dict[str, Any]]:
    """Classes by how many images they have, one by one or up to each power of two. sizes (classes,)"""
    size = np.array([sizes[change.label] for change in changes])
    alone = len(np.unique(size)) <= _SIZES_SHOWN_ALONE
    upper = size if alone else 2 ** np.ceil(np.log2(size)).astype(int)
    groups: list[dict[str, Any]] = []
    for end in np.unique(upper):
        members = [changes[place] for place in np.flatnonzero(upper == end)]
        before, after = (float(np.mean([getattr(change, name) for change in members])) for name in ("before", "after"))
        group = size[upper == end]
        groups.append(
            {
                "images from": int(group.min()), "to": int(group.max()), "classes": len(members), "AP before": before,
                "AP after": after,
            }
        )  # fmt: skip
    return groups


def _size_words(group: Mapping[str, Any]) -> str:
    smallest, largest = group["images from"], group["to"]
    return f"{smallest}" if smallest == largest else f"{smallest} to {largest}"


def _sizes_sentence(sizes: Sequence[Mapping[str, Any]]) -> str:
    if len(sizes) < 2:
        return ""
    small, large = sizes[0], sizes[-1]
    return (
        f"; classes of {_size_words(small)} images have a mean AP of {100 * small['AP after']:.1f} after training, "
        f"those of {_size_words(large)} {100 * large['AP after']:.1f}"
    )


def _confusions_sentence(names: Sequence[str], confused: Confusions) -> str:
    if not confused.pairs:
        return "no class takes a rank from another"
    worst = confused.pairs[0]
    share = sum(pair.taken + pair.taken_back for pair in confused.pairs) / max(confused.lost.sum(), 1e-12)
    return (
        f"most is lost by {names[worst.losing]} to {names[worst.taking]} "
        f"({100 * worst.taken / worst.queries:.1f} points of AP a query), and the {len(confused.pairs)} pairs shown "
        f"make {100 * share:.1f}% of all the AP that is lost"
    )


def _changes_figure(images: ImageSet, gained: Sequence[ClassChange], lost: Sequence[ClassChange]) -> Figure:
    """Two lists of classes; a line leads from their AP before, hollow, to that after, full."""
    rows = max(1, len(gained), len(lost))
    figure = panel_figure(10.6, 1.2 + _ROW * rows, w_pad=0.2)
    for half, (title, changes) in enumerate((("gained most", gained), ("lost most, or gained least", lost))):
        labels = [change.label for change in changes]
        axes = _list_classes(figure.add_subplot(1, 2, half + 1), images, labels, rows, title)
        if not changes:
            axes.set(xticks=[], xlabel="none")
            continue
        before, after = ([getattr(change, side) for change in changes] for side in ("before", "after"))
        places = range(len(changes))
        colours = [LIGHT["green" if change.after >= change.before else "red"] for change in changes]
        axes.hlines(places, before, after, colors=colours, linewidth=2.4, zorder=1)
        axes.plot(
            before, places, "o", color=LIGHT["card"], markeredgecolor=LIGHT["blue"], markeredgewidth=2, markersize=8,
            clip_on=False, label="before",
        )  # fmt: skip
        axes.plot(after, places, "D", color=LIGHT["green"], markersize=7.5, clip_on=False, label="after")
        axes.set(xlim=(0, 1), xticks=(0, 0.25, 0.5, 0.75, 1), xlabel="mean AP of the class")
        axes.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    named = figure.axes[0 if gained else 1].get_legend_handles_labels()
    figure.legend(*named, loc="outside upper right", ncols=2, fontsize=9.5, **LEGEND)
    return figure


def _confusions_figure(images: ImageSet, pairs: Sequence[ConfusedPair]) -> Figure:
    """Each class with the one it loses AP to: how much, and how much it takes back."""
    figure = panel_figure(8.2, 1.1 + _ROW * max(1, len(pairs)))
    rows, places = max(1, len(pairs)), np.arange(len(pairs))
    losing, axes = figure.subplots(1, 2, width_ratios=(0.01, 1))  # the first is a list alone
    _list_classes(losing, images, [pair.losing for pair in pairs], rows, "")
    losing.set(xticks=[])
    losing.spines[:].set_visible(False)
    losing.set_title("this class", fontsize=10.5, color=LIGHT["ink"], fontweight="bold", ha="right")
    _list_classes(axes, images, [pair.taking for pair in pairs], rows, "")
    axes.set_title("loses AP to this one", x=0, fontsize=10.5, color=LIGHT["ink"], fontweight="bold", ha="right")
    taken = [100 * pair.taken / pair.queries for pair in pairs]
    taken_back = [100 * pair.taken_back / max(1, pair.queries_back) for pair in pairs]
    axes.barh(places - 0.17, taken, 0.3, label="taken from the first", **_colours("red"))
    axes.barh(places + 0.17, taken_back, 0.3, label="taken back by the first", **_colours("blue", hollow=True))
    axes.set_xlim(left=0)
    axes.set_xlabel("points of AP, mean of its queries")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper right", ncols=2, fontsize=9.5, **LEGEND)
    return figure


def _sizes_figure(groups: Sequence[Mapping[str, Any]]) -> Figure:
    """Mean AP before and after over the number of images that a class has, with how many classes that are."""
    figure = Figure(figsize=(max(4.2, 1.4 + 0.85 * len(groups)), 3.4), layout="constrained")
    axes = figure.add_subplot()
    style_axes(axes)
    places = np.arange(len(groups))
    for name, shift, colours in (("before", -0.2, _colours("blue", hollow=True)), ("after", 0.2, _colours("green"))):
        values = [group[f"AP {name}"] for group in groups]
        bars = axes.bar(places + shift, values, 0.38, label=name, **colours)
        axes.bar_label(bars, [f"{100 * value:.0f}" for value in values], padding=2, fontsize=8.5, color=LIGHT["ink"])
    ticks = [f"{_size_words(group).replace(' to ', '–')}\n{group['classes']:,}" for group in groups]
    axes.set_xticks(places, ticks, fontsize=9.5)
    axes.set(ylim=(0, 1.08), yticks=(0, 0.25, 0.5, 0.75, 1), ylabel="mean AP")
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes.set_xlabel("images of a class, and how many classes have that many")
    figure.legend(loc="outside upper left", ncols=2, fontsize=10, **LEGEND)
    return figure


def _colours(colour: str, hollow: bool = False) -> dict[str, Any]:
    """A bar that is full, or hollow with hatching, so that the two differ without colour."""
    filling = {"facecolor": LIGHT["card"], "hatch": "///"} if hollow else {"facecolor": LIGHT[colour]}
    return {"edgecolor": LIGHT[colour], "linewidth": 1.2, **filling}


def _list_classes(axes: Axes, images: ImageSet, labels: Sequence[int], rows: int, title: str) -> Axes:
    """A class in each row of the axes: at the left its name and an image of it."""
    axes.set_ylim(rows - 0.5, -0.5)
    style_axes(axes, title)
    words = [figure_words(str(images.class_names[label]), 66) for label in labels]
    lines = [textwrap.fill(name, 25, max_lines=3, placeholder=" …") for name in words]
    axes.set_yticks(range(len(labels)), lines, fontsize=9)
    axes.tick_params(axis="y", length=0, pad=34)  # room for the images
    axes.grid(axis="x", color=LIGHT["line"], linewidth=0.8)
    axes.set_axisbelow(True)
    for row, label in enumerate(labels):
        picture = thumbnail(images, int(np.flatnonzero(images.labels == label)[0]), _TILE)
        image = OffsetImage(
            np.asarray(ImageOps.expand(picture, 1, LIGHT["line"])), zoom=72 / DOTS_PER_INCH, dpi_cor=True
        )
        where: dict[str, Any] = {
            "xycoords": ("axes fraction", "data"),
            "boxcoords": "offset points",
            "annotation_clip": False,
        }
        box = axes.add_artist(AnnotationBbox(image, (0, row), (-18, 0), frameon=False, **where))
        box.set_in_layout(False)
    return axes
