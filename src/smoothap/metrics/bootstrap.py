"""How sure a metric is: 95% intervals over classes, and the difference between two reports on the same queries.

The queries of a class share its photos and its difficulty, so that classes are drawn again, not queries: a metric is
a ratio of sums over classes, of a value and of a weight, and a resample counts each class as often as it was drawn.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

RESAMPLES = 10_000
FEW_CLASSES = 200  # with fewer, the spread of each resample is taken into account (docs/maths.md)
_BLOCK = 16_000_000  # draws that are held at a time
_CACHED = 200_000  # counts that stay in the processor's cache while they are made


class Interval(NamedTuple):
    """A metric and the interval that holds its expected value over draws of as many classes, 95 times in 100."""

    value: float
    low: float
    high: float

    @property
    def margin(self) -> float:
        """Half of the interval's length: what is written after ±."""
        return (self.high - self.low) / 2

    def __str__(self) -> str:
        return f"{100 * self.value:.1f} ± {100 * self.margin:.1f}"


class Difference(NamedTuple):
    """How much better one report is than another on the same queries, with its interval.

    `won` and `lost` are the shares of the queries that rank better and worse; the others rank equally well.
    """

    value: float
    low: float
    high: float
    won: float
    lost: float

    @property
    def margin(self) -> float:
        """Half of the interval's length: what is written after ±."""
        return (self.high - self.low) / 2

    @property
    def is_clear(self) -> bool:
        """Whether the interval leaves out 0."""
        return self.low > 0 or self.high < 0

    def __str__(self) -> str:
        return (
            f"{100 * self.value:+.1f} ({100 * self.low:+.1f} to {100 * self.high:+.1f}), "
            f"better for {100 * self.won:.0f}% of the queries, worse for {100 * self.lost:.0f}%"
        )


def class_intervals(
    sums: Sequence[tuple[np.ndarray, np.ndarray]],
    *,
    level: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
    few_classes: int = FEW_CLASSES,
) -> list[Interval]:
    """For each pair of values (c,) and weights (c,) of the same c classes: their ratio and its bootstrap interval.

    From `few_classes` on, the percentiles of the resampled ratios; with fewer, those of their distance in standard
    errors (bootstrap-t), which does not take the spread of a handful of classes for the true one. With fewer than
    3, NaN.
    """
    if not 0 < level < 1:
        raise ValueError(f"level must be a share between 0 and 1, such as 0.95, not {level!r}")
    classes = len(sums[0][0])
    if classes < 3:  # a resample of two is the two, or one of them alone, which has no spread
        return [
            Interval(float(values.sum() / weights.sum()) if classes else math.nan, math.nan, math.nan)
            for values, weights in sums
        ]
    studentised = classes < few_classes
    columns = [_columns(values, weights)[: 5 if studentised else 2] for values, weights in sums]
    distinct, place = np.unique(np.concatenate(columns), axis=0, return_inverse=True)  # most have the same weights
    # Percentiles of sums need no more than float32; the difference of squares in a standard error does.
    drawn = _resampled(distinct.astype(np.float64 if studentised else np.float32), resamples, seed)
    resampled = drawn[place.reshape(len(sums), -1)]
    tails = (1 - level) / 2, (1 + level) / 2
    interval = _studentised if studentised else _percentiles
    return [interval(own.sum(1), drawn, classes, tails) for own, drawn in zip(columns, resampled, strict=True)]


def _columns(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    return np.stack([values, weights, values**2, values * weights, weights**2])


def _percentiles(own: np.ndarray, drawn: np.ndarray, classes: int, tails: tuple[float, float]) -> Interval:
    low, high = np.quantile(drawn[0] / drawn[1], tails)
    return Interval(float(own[0] / own[1]), float(low), float(high))


def _studentised(own: np.ndarray, drawn: np.ndarray, classes: int, tails: tuple[float, float]) -> Interval:
    value, ratios = float(own[0] / own[1]), drawn[0] / drawn[1]
    error, errors = _standard_error(own, classes), _standard_error(drawn, classes)
    known = errors > 1e-12  # a resample of one class alone has no spread
    if not known.any():
        return Interval(value, value, value)
    from_above, from_below = np.quantile((ratios[known] - value) / errors[known], tails)
    return Interval(value, float(value - from_below * error), float(value - from_above * error))


def _standard_error(sums: np.ndarray, classes: int) -> np.ndarray:
    """Of the ratio of the first two of the sums (5, ...), from what each class is off by: value - ratio * weight."""
    values, weights, values_squared, products, weights_squared = sums
    ratio = values / weights
    squares = values_squared - 2 * ratio * products + ratio**2 * weights_squared
    return np.sqrt(np.maximum(squares, 0) * classes / (classes - 1)) / weights


def _resampled(columns: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    """The sums (k, resamples) of columns (k, c) over c classes that are drawn with replacement."""
    random, classes = np.random.default_rng(seed), columns.shape[1]
    sums = np.empty((len(columns), resamples))
    counts = np.empty((min(resamples, max(1, _BLOCK // classes)), classes), columns.dtype)
    step = max(1, _CACHED // classes)
    offsets = classes * np.arange(step)[:, None]
    for start in range(0, resamples, len(counts)):
        part = counts[: resamples - start]
        for rows in np.split(part, range(step, len(part), step)):
            drawn = random.integers(0, classes, rows.shape) + offsets[: len(rows)]
            rows[:] = np.bincount(drawn.ravel(), minlength=rows.size).reshape(rows.shape)
        # by torch: numpy's threads spin, and would wait for each other here on a machine that is busy
        sums[:, start : start + len(part)] = (torch.from_numpy(columns) @ torch.from_numpy(part).T).numpy()
    return sums
