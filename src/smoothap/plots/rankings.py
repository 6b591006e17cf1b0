"""A set as networks rank it before and after training: full rankings, curves, and which queries and classes to show."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from smoothap.data.image_set import ImageSet
from smoothap.functional import average_precision
from smoothap.metrics import Report
from smoothap.metrics.cosine import Cosines, given_rows

Choice = Literal["random", "gained", "lost", "changed", "failing"]


@dataclass(frozen=True, eq=False)
class BeforeAfter:
    """The vectors (n, d) and (n, e) of the n images of a set before and after training, and their exact reports.

    Images that cannot be read are not among the n; an instance of several images is its first one.
    """

    images: ImageSet
    before: np.ndarray
    after: np.ndarray
    before_report: Report
    after_report: Report

    @property
    def query_rows(self) -> np.ndarray:
        """The rows of the queries, in the order of the reports. (queries,)"""
        return np.arange(len(self.images)) if self.images.is_query is None else np.flatnonzero(self.images.is_query)

    @property
    def query_labels(self) -> np.ndarray:
        """The classes of the queries. (queries,)"""
        return self.images.labels[self.query_rows]

    @property
    def average_precisions(self) -> tuple[np.ndarray, np.ndarray]:
        """AP of the queries before and after, each (queries,)."""
        return self.before_report.average_precision, self.after_report.average_precision

    @property
    def mean_average_precisions(self) -> tuple[float, float]:
        return self.before_report.mean_average_precision, self.after_report.mean_average_precision


@dataclass(frozen=True, eq=False)
class RankedRow:
    """All items for one query, best first; of equal scores the wrong ones come first, as AP counts them."""

    query: int
    items: np.ndarray  # (m,) int64: rows of the set, the query itself left out
    scores: np.ndarray  # (m,) float64 cosines
    right: np.ndarray  # (m,) bool: of the query's class
    average_precision: float  # NaN where nothing is right

    @property
    def positives(self) -> int:
        """|P|, how many right images there are to find."""
        return int(self.right.sum())

    def right_among(self, first: int) -> int:
        """How many of the first items are right."""
        return int(self.right[:first].sum())

    @property
    def last_right(self) -> int:
        """The rank, from 1, at which every right image has been found."""
        return int(np.flatnonzero(self.right)[-1]) + 1


@dataclass(frozen=True, eq=False)
class PrecisionRecall:
    """Precision and recall (steps,) from recall 0 on where recall rises, so that the area below is the AP."""

    precision: np.ndarray
    recall: np.ndarray
    average_precision: float


def precision_recall(scores: np.ndarray, right: np.ndarray) -> PrecisionRecall:
    """The curve of one query over items in any order, of which at least one is right. scores, right (m,)"""
    thresholds, counts = np.unique(scores[right], return_counts=True)  # items of equal scores are one step
    steps = np.searchsorted(thresholds, scores, side="right")
    listed = np.bincount(steps, minlength=len(thresholds) + 1)[:0:-1].cumsum()
    right_listed = counts[::-1].cumsum()
    precision, recall = right_listed / listed, right_listed / right_listed[-1]
    area = float((precision * counts[::-1]).sum() / right_listed[-1])
    return PrecisionRecall(np.append(precision[0], precision), np.append(0.0, recall), area)


def rank(images: ImageSet, embeddings: np.ndarray, query: int) -> RankedRow:
    """Rank the gallery of a set (by default all other images) for one of its rows, by cosine. embeddings (n, d)"""
    check_rows(images, embeddings)
    items = np.arange(len(images)) if images.is_gallery is None else np.flatnonzero(images.is_gallery)
    items = items[items != query]
    scores = Cosines(given_rows(embeddings).numpy()).between(np.full_like(items, query), items)
    right = images.labels[items] == images.labels[query]
    order = np.lexsort((right, -scores))
    items, scores, right = items[order], scores[order], right[order]
    precision = average_precision(torch.from_numpy(scores), torch.from_numpy(right)).item() if right.any() else np.nan
    return RankedRow(query, items, scores, right, precision)


def check_rows(images: ImageSet, embeddings: np.ndarray) -> None:
    """One vector for each image, or an error."""
    if embeddings.ndim != 2 or len(embeddings) != len(images):
        raise ValueError(
            f"embeddings must have a row for each of the {len(images):,} images of {images.name}, "
            f"not the shape {tuple(embeddings.shape)}: embed this set, in its order"
        )


@dataclass(frozen=True)
class Group:
    """Some queries and the reason why they were chosen."""

    title: str
    reason: str
    queries: list[int]  # places in the arrays of Average Precision


def choose_queries(
    before: np.ndarray, after: np.ndarray, labels: np.ndarray, number: int = 12, seed: int = 0
) -> list[Group]:
    """A third that gained most, a third at random, and of the rest those that lost most and those that still fail.

    before, after, labels (queries,): AP, NaN where there is none, and class.
    """
    gained = -(-number // 3)
    drawn = -(-(number - gained) // 2)
    lost = -(-(number - gained - drawn) // 2)
    failing = number - gained - drawn - lost
    shares: dict[Choice, int] = {"gained": gained, "lost": lost, "failing": failing, "random": drawn}
    chosen: dict[Choice, list[int]] = {}
    for how, share in shares.items():
        shown = [query for queries in chosen.values() for query in queries]
        chosen[how] = pick_queries(before, after, labels, how, share, seed, shown)
    groups = [
        Group("Largest gains", "the queries whose AP rose most", chosen["gained"]),
        Group("Drawn at random", "neither good nor bad on purpose: what to expect", chosen["random"]),
        Group("Largest losses", "the queries whose AP fell most, or rose least", chosen["lost"]),
        Group("Still failing", "the lowest AP of all after training", chosen["failing"]),
    ]
    return [group for group in groups if group.queries]


def pick_queries(
    before: np.ndarray,
    after: np.ndarray,
    labels: np.ndarray,
    how: Choice,
    number: int,
    seed: int = 0,
    shown: Sequence[int] = (),
) -> list[int]:
    """Queries at random, whose AP rose, fell or changed most, or is lowest after; none of those that are `shown`.

    before, after, labels (queries,): AP, NaN where there is none, and class. Classes are shown once while there are
    enough of them; the seed draws and breaks ties.
    """
    drawn = np.random.default_rng(seed).permutation(np.flatnonzero(np.isfinite(before) & np.isfinite(after)))
    gain = (after - before)[drawn]
    wanted = {"random": 0 * gain, "gained": gain, "lost": -gain, "changed": np.abs(gain), "failing": -after[drawn]}[how]
    candidates = [int(query) for query in drawn[np.argsort(-wanted, kind="stable")] if query not in shown]
    classes = {int(labels[query]) for query in shown}
    chosen: list[int] = []
    for query in candidates:
        if len(chosen) < number and int(labels[query]) not in classes:
            chosen.append(query)
            classes.add(int(labels[query]))
    again = [query for query in candidates if query not in chosen]
    return chosen + again[: number - len(chosen)]


@dataclass(frozen=True)
class ClassChange:
    """Mean AP of the queries of one class, before and after."""

    label: int
    queries: int
    before: float
    after: float


def class_changes(before: np.ndarray, after: np.ndarray, labels: np.ndarray) -> list[ClassChange]:
    """Every class that was asked for, the one that gained most first. before, after, labels (queries,)"""
    known = np.isfinite(before) & np.isfinite(after)
    classes, places, sizes = np.unique(labels[known], return_inverse=True, return_counts=True)
    old, new = (np.bincount(places, precisions[known], len(classes)) / sizes for precisions in (before, after))
    order = np.argsort(old - new, kind="stable")
    return [
        ClassChange(int(classes[place]), int(sizes[place]), float(old[place]), float(new[place])) for place in order
    ]
