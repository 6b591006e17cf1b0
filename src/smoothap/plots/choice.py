"""Which queries and classes to show: the extremes and a random draw, so that a good example is not all one sees."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np


@dataclass(frozen=True)
class Group:
    """Some queries and the reason why they were chosen."""

    title: str
    reason: str
    queries: list[int]  # places in the arrays of Average Precision


Choice = Literal["random", "gained", "lost", "changed", "failing"]


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
