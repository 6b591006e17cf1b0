"""Which queries and classes to show: the extremes and a random draw, so that a good example is not all one sees."""

from dataclasses import dataclass
from typing import Literal

import numpy as np


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

    before, after, labels (queries,): AP, NaN where there is none, and class. Classes are shown once while there are
    enough of them; the seed draws and breaks ties.
    """
    asked = np.random.default_rng(seed).permutation(np.flatnonzero(np.isfinite(before) & np.isfinite(after)))
    gain = (after - before)[asked]
    gained = -(-number // 3)
    drawn = -(-(number - gained) // 2)
    lost = -(-(number - gained - drawn) // 2)
    failing = number - gained - drawn - lost
    shown: list[int] = []

    def take(order: np.ndarray, wanted: int) -> list[int]:
        chosen = _one_of_each_class(order, labels, wanted, shown)
        shown.extend(chosen)
        return chosen

    best = take(asked[np.argsort(-gain, kind="stable")], gained)
    worst = take(asked[np.argsort(gain, kind="stable")], lost)
    lowest = take(asked[np.argsort(after[asked], kind="stable")], failing)
    groups = [
        Group("Largest gains", "the queries whose AP rose most", best),
        Group("Drawn at random", "neither good nor bad on purpose: what to expect", take(asked, drawn)),
        Group("Largest losses", "the queries whose AP fell most, or rose least", worst),
        Group("Still failing", "the lowest AP of all after training", lowest),
    ]
    return [group for group in groups if group.queries]


Choice = Literal["random", "gained", "lost", "changed"]


def pick_queries(
    before: np.ndarray, after: np.ndarray, labels: np.ndarray, how: Choice, number: int, seed: int = 0
) -> list[int]:
    """Queries at random, or those whose AP rose, fell or changed most; classes once while there are enough of them.

    before, after, labels (queries,): AP, NaN where there is none, and class. The seed draws and breaks ties.
    """
    asked = np.random.default_rng(seed).permutation(np.flatnonzero(np.isfinite(before) & np.isfinite(after)))
    gain = (after - before)[asked]
    wanted = {"random": np.zeros(len(asked)), "gained": gain, "lost": -gain, "changed": np.abs(gain)}[how]
    return _one_of_each_class(asked[np.argsort(-wanted, kind="stable")], labels, number, [])


def _one_of_each_class(order: np.ndarray, labels: np.ndarray, wanted: int, shown: list[int]) -> list[int]:
    """The first queries of an order that are not shown yet, of classes that are not either while there are such."""
    candidates = [int(query) for query in order if query not in shown]
    classes = {int(labels[query]) for query in shown}
    chosen: list[int] = []
    for query in candidates:
        if len(chosen) < wanted and int(labels[query]) not in classes:
            chosen.append(query)
            classes.add(int(labels[query]))
    again = [query for query in candidates if query not in chosen]
    return chosen + again[: wanted - len(chosen)]


@dataclass(frozen=True)
class ClassChange:
    """Mean AP of the queries of one class, before and after."""

    label: int
    queries: int
    before: float
    after: float


def class_changes(before: np.ndarray, after: np.ndarray, labels: np.ndarray) -> list[ClassChange]:
    """Every class that was asked for, the one that gained most first. before, after, labels (queries,)"""
    asked = np.isfinite(before) & np.isfinite(after)
    classes, places, sizes = np.unique(labels[asked], return_inverse=True, return_counts=True)
    means = [np.bincount(places, weights=each[asked], minlength=len(classes)) / sizes for each in (before, after)]
    order = np.argsort(means[0] - means[1], kind="stable")
    return [
        ClassChange(int(classes[each]), int(sizes[each]), float(means[0][each]), float(means[1][each]))
        for each in order
    ]
