"""The search of a method's numbers: trials drawn at random, ranges that move where the best is at an edge.

Which value is the best is said by whole trainings alone; this module draws values and judges where the best one is.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp, log

import numpy as np

from smoothap.benchmark.methods import Method, Parameter

RATE = "learning_rate"
Values = Mapping[str, float]
_EDGE = 1 / 8  # of a range: how near to its end the best value is said to be at an edge
_DECADES = 10.0  # the learning rate is drawn from a tenth to ten times that of the plan


@dataclass(frozen=True)
class Range:
    """Where a parameter is drawn from."""

    parameter: Parameter
    low: float
    high: float

    @classmethod
    def first(cls, parameter: Parameter) -> "Range":
        return cls(parameter, parameter.low, parameter.high)

    @property
    def ends(self) -> tuple[float, float]:
        """Both ends in the measure in which values are drawn evenly."""
        return self._measure(self.low), self._measure(self.high)

    def value(self, place: float) -> float:
        """The value at a place from 0 to 1, to three digits, so that it can be written down and given again."""
        low, high = self.ends
        value = self._back(low + place * (high - low))
        if self.parameter.whole:
            return round(value)
        return float(f"{min(max(value, self.parameter.least), self.parameter.most):.3g}")

    def around(self, value: float) -> "Range":
        """As wide a range with the value in its middle, as far as the parameter's limits allow."""
        low, high = self.ends
        width, middle = high - low, self._measure(value)
        least, most = self._measure(self.parameter.least), self._measure(self.parameter.most)
        begin = max(least, min(middle - width / 2, most - width))
        return replace(self, low=self._back(begin), high=self._back(min(begin + width, most)))

    def edge(self, value: float, tried: Sequence["Range"]) -> str:
        """Whether the value is at the "low" or "high" end of all that was tried; a limit of its meaning is none."""
        ends = [each.ends for each in tried]
        width = ends[0][1] - ends[0][0]
        low, high, place = min(low for low, _ in ends), max(high for _, high in ends), self._measure(value)
        parameter = self.parameter
        if place < low + _EDGE * width and min(each.low for each in tried) > parameter.least:
            return "low"
        if place > high - _EDGE * width and max(each.high for each in tried) < parameter.most:
            return "high"
        return ""

    def _measure(self, value: float) -> float:
        if not self.parameter.logarithmic:
            return value
        return log(value) if value > 0 else -np.inf

    def _back(self, measure: float) -> float:
        return exp(measure) if self.parameter.logarithmic else measure


@dataclass(frozen=True)
class Trial:
    """A whole training with some values, and its mAP on validation classes; NaN where it failed."""

    values: Values
    validation_map: float
    last_validation_map: float = 0.0


@dataclass(frozen=True)
class Chosen:
    """The values that a method is trained with in the end, and at which edges of its ranges they still lie."""

    values: Values
    edges: Mapping[str, str] = field(default_factory=dict)
    trials: Sequence[Trial] = ()


class Search:
    """The trials of one method: what to try next, and what was best."""

    def __init__(self, method: Method, learning_rate: float, *, rate_only: bool = False, seed: int = 0) -> None:
        rate = Parameter(RATE, learning_rate / _DECADES, learning_rate * _DECADES)
        parameters = (rate,) if rate_only else (rate, *method.tuned)
        self.method, self.trials = method, list[Trial]()
        self._seed, self._tried = seed, [tuple(map(Range.first, parameters))]

    def draw(self, trials: int) -> list[Values]:
        """The values of the next trials, in the newest ranges: of each range every part of `trials` equal ones once."""
        digest = hashlib.sha256(f"{self._seed} {self.method.name} {len(self._tried)}".encode()).digest()
        random = np.random.default_rng(list(digest))
        places = [(random.permutation(trials) + random.random(trials)) / trials for _ in self._tried[-1]]
        return [
            {each.parameter.name: each.value(float(at)) for each, at in zip(self._tried[-1], drawn, strict=True)}
            | dict(self.method.fixed)
            for drawn in zip(*places, strict=True)
        ]

    @property
    def best(self) -> Trial | None:
        """The trial with the highest validation mAP; of equals that with the higher at its end, then the lower rate."""
        finished = [trial for trial in self.trials if not np.isnan(trial.validation_map)]
        return max(
            finished,
            key=lambda trial: (trial.validation_map, trial.last_validation_map, -trial.values[RATE]),
            default=None,
        )

    def edges(self) -> dict[str, str]:
        """The parameters whose best value is at an end of what was tried, and at which."""
        if (best := self.best) is None:
            return {}
        columns = {ranges[0].parameter.name: ranges for ranges in zip(*self._tried, strict=True)}
        found = {name: ranges[0].edge(best.values[name], ranges) for name, ranges in columns.items()}
        return {name: end for name, end in found.items() if end}

    def go_on(self) -> None:
        """Take new ranges: those with the best value at an edge are moved to have it in their middle."""
        edges, best = self.edges(), self.best
        self._tried.append(
            tuple(
                each.around(best.values[each.parameter.name])
                if best is not None and each.parameter.name in edges
                else each
                for each in self._tried[-1]
            )
        )

    def chosen(self) -> Chosen | None:
        """The best values with their edges; None where every trial failed."""
        return None if (best := self.best) is None else Chosen(best.values, self.edges(), tuple(self.trials))
