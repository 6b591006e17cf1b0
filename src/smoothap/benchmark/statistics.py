"""What several runs of a method say together: the mean, and an interval over seeds, splits and test classes.

A run's metric is a ratio of sums over its test classes. What each run and each class is off by adds up to two
variances, one between repeats (seeds, or splits where there are several) and one between classes; docs/maths.md has
the formulas. Two methods are compared in pairs: the same seeds, the same splits, the same queries.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import stdtr, stdtrit

from smoothap.data.benchmark import Benchmark
from smoothap.metrics import Report

LEVEL = 0.95


class ClassSums(NamedTuple):
    """A metric of one run over its test classes: the sum over the queries of each class, and how many they are."""

    split: int
    seed: int
    names: np.ndarray  # (c,), the same for the same class in every split
    sums: np.ndarray  # (c,)
    queries: np.ndarray  # (c,)

    def minus(self, other: "ClassSums") -> "ClassSums":
        """The difference to another run, query by query of the same test."""
        if not np.array_equal(self.names, other.names) or not np.array_equal(self.queries, other.queries):
            raise ValueError("The two runs were not tested on the same queries, and cannot be compared in pairs.")
        return self._replace(sums=self.sums - other.sums)


@dataclass(frozen=True)
class Estimate:
    """A mean with its 95% interval; `error` and `freedom` are those of its t distribution."""

    value: float
    low: float
    high: float
    error: float = 0.0
    freedom: float = np.inf

    @property
    def chance(self) -> float:
        """The probability of a value as far from 0 as this one, were 0 the truth."""
        if self.error == 0:
            return float(self.value == 0)
        return float(2 * stdtr(self.freedom, -abs(self.value) / self.error))


def estimate(runs: Sequence[ClassSums]) -> Estimate:
    """The mean over the runs, in which every split counts the same, with an interval over repeats and classes.

    With one split the repeats are its seeds; with several they are the splits, each the mean of its seeds. A single run
    has an interval over classes alone.
    """
    several = len({run.split for run in runs}) > 1
    repeat_of = [run.split if several else run.seed for run in runs]
    repeats, repeat = np.unique(repeat_of, return_inverse=True)
    names, place = np.unique(np.concatenate([run.names for run in runs]), return_inverse=True)
    places = np.split(place, np.cumsum([len(run.names) for run in runs])[:-1])
    share = 1 / (len(repeats) * np.bincount(repeat)[repeat])  # of each run in the mean
    value = float(sum(part * run.sums.sum() / run.queries.sum() for part, run in zip(share, runs, strict=True)))
    weights, off = np.zeros((2, len(repeats), len(names)))  # how far each class of each repeat draws the mean away
    for number, part, run, where in zip(repeat, share, runs, places, strict=True):
        weights[number, where] += part * run.queries / run.queries.sum()
        off[number, where] += part * (run.sums - value * run.queries) / run.queries.sum()
    of_class, of_repeat = off.sum(0), off.sum(1)
    between_classes = _sum_of_squares(of_class, len(names))
    between_repeats = _sum_of_squares(of_repeat, len(repeats))
    with np.errstate(invalid="ignore"):
        expected = weights / weights.sum(1, keepdims=True) * of_repeat[:, None] + np.nan_to_num(
            weights / weights.sum(0) * of_class
        )
    rest = np.where(weights > 0, off - expected, 0.0)
    in_both = (rest**2).sum() * _unbiased(len(names)) * _unbiased(len(repeats))  # counted by both of the others
    variance = max(between_classes + between_repeats - in_both, between_classes, between_repeats)
    if variance <= 0:
        return Estimate(value, value, value)
    shares = [(between_classes, len(names)), (between_repeats, len(repeats))]
    freedom = variance**2 / sum(part**2 / (count - 1) for part, count in shares if count > 1)  # Satterthwaite
    error = float(np.sqrt(variance))
    reach = float(stdtrit(freedom, (1 + LEVEL) / 2)) * error
    return Estimate(value, value - reach, value + reach, error, float(freedom))


def difference(runs: Sequence[ClassSums], others: Sequence[ClassSums]) -> Estimate | None:
    """How much better `runs` are than `others`, in pairs of the same split and seed; None where there is no pair."""
    partner = {(other.split, other.seed): other for other in others}
    pairs = [run.minus(partner[run.split, run.seed]) for run in runs if (run.split, run.seed) in partner]
    return estimate(pairs) if pairs else None


@dataclass(frozen=True)
class Spread:
    """Where the uncertainty of a mean comes from; NaN where it was not repeated."""

    seeds: float  # the standard deviation between seeds of one split
    splits: float  # the standard deviation between the means of splits
    classes: float  # the standard error over the test classes of one run


def spread(runs: Sequence[ClassSums]) -> Spread:
    """How much a metric differs between seeds, between splits, and by the choice of test classes."""
    of_split = [
        np.array([run.sums.sum() / run.queries.sum() for run in runs if run.split == split])
        for split in sorted({run.split for run in runs})
    ]
    free = sum(len(values) - 1 for values in of_split)
    squares = sum(float(((values - values.mean()) ** 2).sum()) for values in of_split)
    means = [values.mean() for values in of_split]
    return Spread(
        float(np.sqrt(squares / free)) if free else float("nan"),
        float(np.std(means, ddof=1)) if len(means) > 1 else float("nan"),
        float(np.mean([estimate([run]).error for run in runs])),
    )


def groups(means: Sequence[float], chances: np.ndarray) -> list[str]:
    """A word of letters for each method: two that share a letter cannot be told apart at 5%, by Holm's rule.

    chances (n, n): that of each pair of methods. Letters follow the means, "a" has the best.
    """
    count = len(means)
    pairs = sorted((float(chances[one, two]), one, two) for one in range(count) for two in range(one + 1, count))
    sets = [frozenset(range(count))]
    for done, (chance, one, two) in enumerate(pairs):
        if not chance < (1 - LEVEL) / (len(pairs) - done):
            break
        parts = {part for each in sets for part in ((each - {one}, each - {two}) if {one, two} <= each else (each,))}
        sets = [each for each in parts if not any(each < other for other in parts)]
    order = sorted(range(count), key=lambda method: -means[method])
    rank = {method: place for place, method in enumerate(order)}
    sets.sort(key=lambda members: sorted(rank[method] for method in members))
    return [
        "".join(_letter(number) for number, members in enumerate(sets) if method in members) for method in range(count)
    ]


def _sum_of_squares(parts: np.ndarray, count: int) -> float:
    return float((parts**2).sum()) * _unbiased(count)


def _unbiased(count: int) -> float:
    return count / (count - 1) if count > 1 else 0.0


def _letter(number: int) -> str:
    return "abcdefghijklmnopqrstuvwxyz"[number] if number < 26 else f"({number + 1})"


def sums_by_class(benchmark: Benchmark, reports: Mapping[str, Report]) -> dict[str, dict[str, list[Any]]]:
    """For each test protocol, its classes by name, how many queries each has, and the sum of every metric over them."""
    found = {}
    for protocol, report in reports.items():
        images = benchmark.tests[benchmark.averages.get(protocol, (protocol,))[0]]
        found[protocol] = _sums(report, images.label_sets()[1])
    return found


def _sums(report: Report, names: "np.ndarray | list[str]") -> dict[str, list[Any]]:
    counted = report.first_hit_rank > 0
    present, place = np.unique(report.classes[counted], return_inverse=True)
    columns = {
        "mAP": report.average_precision,
        "mAP@R": report.average_precision_at_r,
        **{f"Recall@{k}": report.first_hit_rank <= k for k in report.recall},
    }
    sums = {name: np.bincount(place, values[counted]).tolist() for name, values in columns.items()}
    return {"names": [str(names[number]) for number in present], "queries": np.bincount(place).tolist(), **sums}
