"""All photos of one thing: how many are still missing from a collection, and which photos are most worth a look next.

A logistic regression on the marked photos, with a kernel on their cosines, says of every other photo how likely it
belongs to the collection; photos drawn from the whole album stand for the many that do not. What it says of each marked
photo when that one is left out, and that hardly any photo far from all members belongs to them, makes chances of this.
The chances of all photos that are not marked add up to the number that is still missing.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from smoothap.album.album import Album
from smoothap.album.collections import Collection
from smoothap.album.photos import Hit
from smoothap.album.vectors import Vectors

WIDTH = 0.2  # of the kernel exp((cosine - 1) / WIDTH): photos further apart tell little of each other
RIDGE = 0.03
DRAWN = 100  # photos of the album that stand for all that do not belong; together they weigh as much as one mark
MOST_MARKS = 400  # that are learnt from, of each kind: the newest
NEAREST = 50_000  # photos: of a larger album those nearest to the members are looked at, the others do not belong
LEAST_RIGHT, LEAST_WRONG = 3, 3  # marks, before anything is said about what is missing
_DRAWS = 400  # of what the correction might be
_NEAR = 2.0  # that many times as many photos as are marked may well belong, and those beyond do not, as far as is known
_BELIEF = 5.0  # what these others weigh in marks, when it comes to how certain the correction is
_UNCERTAINTY = 1.0  # of the variance that marks which know nothing of each other would leave; measured on three sets
_WIDEST = 0.6  # of a range that is announced: a wider one says nothing
_LEAST_SLOPE = 0.1  # a correction makes chances of logits and never turns their order around
_SPREAD = 1.0  # how far the natural logarithm of a collection's size lies from what a calibration saw, as one deviation


@dataclass(frozen=True)
class NextLook:
    """The photos most worth a look for a collection, and how much of it is found; see `find_next`."""

    photos: list[Hit]
    recall: float | None
    lowest: float | None
    highest: float | None
    missing: float | None
    why: str


def find_next(album: Album, collection: Collection, number: int = 20, seen: Iterable[int] = ()) -> NextLook:
    """The photos of the album most worth a look for a collection, and how much of it is found by now.

    The score of each photo is how likely it belongs to the collection; `seen` are ids that were looked at without a
    mark, and are not shown again. `missing` is how many photos of the thing are expected outside of the collection,
    `recall` which share of them is in it, most likely between `lowest` and `highest` (nine times in ten); all four are
    None while there are too few marks to say, and `why` is a sentence about that.
    """
    if not collection.right:
        raise ValueError(f"{collection.name} holds no photos yet: keep one, so that others like it can be found.")
    right, wrong = (album.photos.rows_of(ids) for ids in (collection.right, collection.wrong))
    others = np.setdiff1d(np.arange(len(album)), [*right, *wrong])
    if len(others):
        others = album.searching.around(album.vectors[right].mean(axis=0), others, NEAREST)
    chances, draws = Belonging(album.vectors, right, wrong, others).chances()
    hidden = np.isin(album.photos.ids[others], np.fromiter(seen, np.int64))
    best = np.lexsort((others, -chances))
    shown = best[~hidden[best]][:number]
    rows = others[shown]
    names = zip(album.photos.ids[rows].tolist(), chances[shown].tolist(), *album.photos.named(rows), strict=True)
    photos = [Hit(one, chance, path, label, rank) for rank, (one, chance, path, label) in enumerate(names, start=1)]
    found = len(collection.right)
    if found < LEAST_RIGHT or len(wrong) < LEAST_WRONG:
        why = (
            f"How much is missing can be said from {LEAST_RIGHT} photos on that belong to it and {LEAST_WRONG} that "
            "do not: mark some of each."
        )
        return NextLook(photos, None, None, None, None, why)
    size = None if album.calibration is None else album.calibration.right_per_query + 1
    missing, few, many = expected_missing(found, draws, size)
    recall, lowest, highest = (found / (found + number) for number in (missing, many, few))
    if highest - lowest > _WIDEST:
        return NextLook(photos, None, None, None, None, "Too few marks yet to say how much is missing: mark some more.")
    why = "Expected from your marks" + ("." if size is None else " and the album's calibration.")
    return NextLook(photos, recall, lowest, highest, missing, why)


def expected_missing(found: int, draws: np.ndarray, size: float | None) -> tuple[float, float, float]:
    """How many are missing: the mean, and what nine draws (n,) in ten are between; `size` is that of other collections.

    A draw says how many there are in all; one that is far from the size that others have weighs less.
    """
    weights = np.ones(len(draws))
    if size is not None:
        weights = np.exp(-0.5 * (np.log((found + draws) / size) / _SPREAD) ** 2) + 1e-9
    order = np.argsort(draws)
    share = np.cumsum(weights[order]) / weights.sum()
    few, many = (float(draws[order][np.searchsorted(share, edge)]) for edge in (0.05, 0.95))
    return float((weights * draws).sum() / weights.sum()), few, many


class Belonging:
    """How likely a photo belongs to a collection, learnt from rows of an album's vectors that are right and wrong."""

    def __init__(self, vectors: Vectors, right: np.ndarray, wrong: np.ndarray, others: np.ndarray) -> None:
        right, wrong = right[-MOST_MARKS:], wrong[-MOST_MARKS:]
        drawn = np.random.default_rng(0).choice(others, min(DRAWN, len(others)), replace=False)
        self._rows = np.concatenate([right, wrong, drawn])
        is_right = np.arange(len(self._rows)) < len(right)
        weights = np.ones(len(self._rows))
        weights[len(right) + len(wrong) :] = 1 / max(len(drawn), 1)
        kernel = _kernel(vectors[self._rows], vectors[self._rows])
        self._weights, self._offset, left_out = _kernel_regression(kernel, is_right, weights)
        marks = len(right) + len(wrong)
        self._logits = self._logits_of(vectors, others)
        near = round(max(_NEAR * marks, min(100, len(others) / 4)))
        far = np.sort(self._logits)[: max(len(others) - near, 0)]
        self._mean, self._spread = _correction(left_out[:marks], is_right[:marks], far)

    def _logits_of(self, vectors: Vectors, rows: np.ndarray) -> np.ndarray:
        logits = np.empty(len(rows))
        for start in range(0, len(rows), 4096):
            part = slice(start, start + 4096)
            logits[part] = _kernel(vectors[rows[part]], vectors[self._rows]) @ self._weights + self._offset
        return logits

    def chances(self) -> tuple[np.ndarray, np.ndarray]:
        """The chance of each of the others, (n,), and draws of how many of them belong, (m,)."""
        random = np.random.default_rng(0)
        slopes, offsets = random.multivariate_normal(self._mean, self._spread, _DRAWS).T
        corrections = zip(np.maximum(slopes, _LEAST_SLOPE), offsets, strict=True)
        sums = [_logistic(slope * self._logits + offset).sum() for slope, offset in corrections]
        return _logistic(self._mean[0] * self._logits + self._mean[1]), random.poisson(sums).astype(float)


def _kernel(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    return np.exp((np.asarray(rows @ columns.T, np.float64) - 1) / WIDTH)


def _logistic(values: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-np.clip(values, -40, 40)))


def _kernel_regression(
    kernel: np.ndarray, is_right: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, float, np.ndarray]:
    """Logistic regression by Newton's steps: weights (n,), offset, and the logit of each row as if it were left out."""
    number = len(kernel)
    solution = np.zeros(number + 1)
    system = np.zeros((number + 1, number + 1))
    system[:number, number] = system[number, :number] = 1
    response = np.zeros(number + 1)
    for _ in range(25):
        logits = kernel @ solution[:number] + solution[number]
        chance = _logistic(logits)
        curvature = np.maximum(weights * chance * (1 - chance), 1e-6)
        response[:number] = logits + weights * (is_right - chance) / curvature
        system[:number, :number] = kernel + np.diag(RIDGE / curvature)
        before, solution = solution, np.linalg.solve(system, response)
        if np.abs(solution - before).max() < 1e-4:
            break
    inverse = np.linalg.inv(system)
    left_out = response[:number] - solution[:number] / np.diag(inverse)[:number]
    return solution[:number], float(solution[number]), left_out


def _correction(logits: np.ndarray, is_right: np.ndarray, far: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Slope and offset that make logits into chances, and how uncertain both are: (2,) and (2, 2).

    They are learnt from the logits of marked photos (m,), each as if it were left out, and from those of the many
    photos far from the collection, rising, (n,), which do not belong to it.
    """
    steps = np.linspace(0, len(far) - 1, 64 if len(far) else 0).round().astype(int)
    values = np.concatenate([logits, far[steps]])
    design = np.stack([values, np.ones(len(values))], axis=1)
    is_one = np.concatenate([is_right, np.zeros(len(steps))])
    each, believed = (np.ones(len(values)) for _ in range(2))
    each[len(logits) :], believed[len(logits) :] = len(far) / 64, _BELIEF / 64
    start, prior = np.array([1.0, 0.0]), np.diag([1 / 2.0**2, 1 / 10.0**2])
    mean = start
    for _ in range(60):
        chance = _logistic(design @ mean)
        gradient = design.T @ (each * (is_one - chance)) - prior @ (mean - start)
        step = np.linalg.solve(_curvature(design, each, chance) + prior, gradient)
        mean = mean + step * min(1.0, 1 / max(np.abs(step).max(), 1e-12))
        mean[0] = max(mean[0], _LEAST_SLOPE)
    certainty = _curvature(design, believed, _logistic(design @ mean)) + prior
    return mean, _UNCERTAINTY * np.linalg.inv(certainty)


def _curvature(design: np.ndarray, weights: np.ndarray, chance: np.ndarray) -> np.ndarray:
    return (design * (weights * chance * (1 - chance))[:, None]).T @ design
