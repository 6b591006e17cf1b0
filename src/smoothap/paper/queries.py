"""Figures 1, 3 and S1 to S6: what single queries find before and after training."""

import difflib
from collections.abc import Sequence
from typing import Any

import numpy as np

from smoothap.data.image_set import ImageSet
from smoothap.paper.analysis import Analysis
from smoothap.plots.layouts import LAYOUTS, Layout, rankings_figure
from smoothap.plots.rankings import BeforeAfter, Choice, RankedRow, pick_queries, rank
from smoothap.plots.text import class_words

_TITLES = {
    "rows": "Ranked rows before and after",
    "column": "The first images of each query",
    "grid": "The first page of results before and after",
    "columns": "Ranked columns before and after",
}
_PAPER = {
    "rows": "Figure 1: for one iNaturalist query Smooth-AP moves the right images to the front: a large rise in AP.",
    "column": "Figure 3: for each iNaturalist query the top 3 after training are all right.",
    "grid": "Figures S1 and S2: for two VGGFace2 queries AP rises by 52.9 and 54.9 points, and of the first 79 far "
    "fewer are wrong, or none.",
    "columns": "Figures S3 to S6: AP rises for every query shown, by 41.8 (SENet-50) and 24.8 (ArcFace) points for a "
    "face; |P| is 11, 5, 7, 11 for Online Products and 985, 20, 28 for iNaturalist.",
}
_REASONS = {
    "random": "drawn at random",
    "gained": "that gained most",
    "lost": "that lost most",
    "changed": "that changed most",
    "failing": "with the lowest AP after training",
    "named": "asked for by name",
}
_RANKS_LISTED = 100
_SIDES = ("before", "after")


def queries(
    compared: BeforeAfter,
    *,
    layout: Layout = "rows",
    query: Sequence[str] = (),
    choose: Choice = "random",
    number: int | None = None,
    first: int | None = None,
    seed: int = 0,
) -> Analysis:
    """Figures 1, 3 and S1 to S6: ranked images of some queries before and after training, with their curves.

    Parameters
    ----------
    layout
        rows: the curve, one row before over one after (Figure 1). column: the first 3 below each query (Figure 3).
        grid: the first 79 from left to right (S1, S2). columns: the first 10 from top to bottom (S3 to S6).
    query
        Names of images, or of classes for their first images.
    choose
        Which queries, where none is named: at random, or those whose AP rose, fell or changed most, or is lowest.
    number
        How many of them; by default 4 rows, 10 columns of 3, 1 grid or 5 columns of 10.
    first
        How many images of each ranking to draw; by default as many as the paper shows.
    """
    first = LAYOUTS[layout].shown if first is None else first
    number = LAYOUTS[layout].queries if number is None else number
    if first < 1 or number < 1:
        raise ValueError(f"A figure needs at least one query and one image of it, not {number} and {first}.")
    images, asked = compared.images, compared.query_rows
    if query:
        rows = [find_query(images, name, asked) for name in query]
    else:
        picked = pick_queries(*compared.average_precisions, compared.query_labels, choose, number, seed)
        rows = [int(asked[place]) for place in picked]
    if not rows:
        raise ValueError(f"No query of {images.name} has another image of its class to find.")
    pairs = [(rank(images, compared.before, row), rank(images, compared.after, row)) for row in rows]
    for before, _ in pairs:
        if not before.positives:
            raise ValueError(
                f"{images.names[before.query]} has no other image of its class in {images.name}: choose a query "
                "that has something to find."
            )
    reason = "named" if query else choose
    table = [_row(images, *pair) for pair in pairs]
    return Analysis(
        name=f"queries-{layout}",
        title=_TITLES[layout],
        figures={"": rankings_figure(images, pairs, layout, first)},
        table=table,
        paper=_PAPER[layout],
        agreement=_agreement(layout, pairs, first, reason, compared),
        numbers={
            "set": images.name,
            "images": len(images),
            "classes": images.classes,
            "chosen": _REASONS[reason],
            "seed": seed,
            "mean AP of all queries": dict(zip(_SIDES, compared.mean_average_precisions, strict=True)),
            "queries": [
                {name: row[name] for name in ("query", "class", "|P|")}
                | {side: _ranking(images, ranked, first) for side, ranked in zip(_SIDES, pair, strict=True)}
                for row, pair in zip(table, pairs, strict=True)
            ],
        },
    )


def find_query(images: ImageSet, name: str, queries: np.ndarray) -> int:
    """The row of a query by the name of its image, or the first query of the class of that name."""
    names, classes = np.asarray(images.names).astype(str), np.asarray(images.class_names).astype(str)
    for matches in (names[queries] == name, classes[images.labels[queries]] == name):
        if matches.any():
            return int(queries[matches][0])
    near = difflib.get_close_matches(name, [*classes.tolist(), *names[queries].tolist()], 1, 0.5)
    hint = f"Did you mean {near[0]!r}?" if near else f"An image is called like {str(names[queries[0]])!r}."
    raise ValueError(f"No query or class of {images.name} is called {name!r}. {hint}")


def _agreement(
    layout: Layout, pairs: Sequence[tuple[RankedRow, RankedRow]], first: int, reason: str, compared: BeforeAfter
) -> str:
    gains = np.array([after.average_precision - before.average_precision for before, after in pairs])
    right_before, right_after = (sum(row.right_among(first) for row in rows) for rows in zip(*pairs, strict=True))
    room = sum(min(first, before.positives) for before, _ in pairs)
    met = (gains > 0) if layout != "column" else np.array([after.right[:first].all() for _, after in pairs])
    verdict = "Agrees" if met.all() else "Agrees in part" if met.any() else "Does not agree"
    if reason not in ("random", "named"):
        verdict = "Chosen by how AP changed, so these show what a change looks like, not how often there is one"
    mean_before, mean_after = compared.mean_average_precisions
    whose = f"{len(pairs)} queries {_REASONS[reason]}" if len(pairs) > 1 else f"one query {_REASONS[reason]}"
    return (
        f"{verdict}: of {whose}, AP rose for {(gains > 1e-9).sum()} and fell for {(gains < -1e-9).sum()} "
        f"(mean change {100 * gains.mean():+.1f} points); of the {room} right images that the first {first} have room "
        f"for, {right_after} are there after training and {right_before} before; over all queries of "
        f"{compared.images.name}, mAP went from {100 * mean_before:.1f} to {100 * mean_after:.1f}."
    )


def _row(images: ImageSet, before: RankedRow, after: RankedRow) -> dict[str, Any]:
    return {
        "query": str(images.names[before.query]),
        "class": class_words(str(images.class_names[images.labels[before.query]])),
        "|P|": before.positives,
        "AP before": round(before.average_precision, 4),
        "AP after": round(after.average_precision, 4),
        "change": round(after.average_precision - before.average_precision, 4),
        "all found by rank, before": before.last_right,
        "after": after.last_right,
    }


def _ranking(images: ImageSet, row: RankedRow, first: int) -> dict[str, Any]:
    """The first images of a ranking, and where the right ones are in all of it, as the JSON file has them."""
    return {
        "AP": row.average_precision,
        "ranks of the right images": (np.flatnonzero(row.right)[:_RANKS_LISTED] + 1).tolist(),
        "first images": [str(images.names[item]) for item in row.items[:first]],
        "right": row.right[:first].tolist(),
        "cosines": row.scores[:first].round(4).tolist(),
    }
