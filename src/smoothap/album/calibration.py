"""From a score to what it means: which share of the right photos is above it, and how many wrong ones do."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from smoothap._core.files import Kinds, wrong_field
from smoothap.album.ranked_lists import ranked_lists
from smoothap.metrics.cosine import Cosines, certain_places, error_bound

POINTS = 512  # of the curve that is kept
_CURVES = "scores", "recall", "false_positive_rate"
_KINDS: Kinds = {**dict.fromkeys(_CURVES, list), "right_per_query": (int, float), "source": str, "queries": int}


@dataclass(frozen=True, eq=False)
class Calibration:
    """Recall and false positives by score, measured on labelled photos that the album need not hold.

    scores (p,) rising; recall (p,): the mean over queries of the share of right photos at or above each score;
    false_positive_rate (p,): the share of wrong photos at or above it. `right_per_query` is how many right photos a
    query had, `photos` how many photos the album has to search: precision depends on both. `ranked` is the same for
    lists that are ranked by neighbourhood.
    """

    scores: np.ndarray
    recall: np.ndarray
    false_positive_rate: np.ndarray
    right_per_query: float
    photos: int
    source: str
    queries: int
    ranked: "Calibration | None" = None

    def score_for_recall(self, recall: float) -> float:
        """The highest score at or above which this share of the right photos is expected: the shortest such list."""
        if not 0 < recall <= 1:
            raise ValueError(f"A recall is a share above 0 and up to 1, such as 0.95, not {recall}.")
        enough = np.flatnonzero(self.recall >= recall - 1e-12)
        return float(self.scores[enough[-1]]) if len(enough) else float(self.scores[0])

    def recall_at(self, score: float) -> float:
        """The share of the right photos expected at or above the score."""
        return float(np.interp(score, self.scores, self.recall, left=1.0, right=0.0))

    def precision_at(self, score: float) -> float:
        """The share of right photos expected in the list of all at or above the score."""
        right = self.right_per_query * self.recall_at(score)
        rate = float(np.interp(score, self.scores, self.false_positive_rate, left=1.0, right=0.0))
        wrong = max(self.photos - self.right_per_query, 0.0) * rate
        return right / (right + wrong) if right + wrong else 1.0

    def to_dict(self) -> dict[str, Any]:
        """Plain values, fit for json; how many photos the album has is not part of it."""
        return {
            "scores": [float(value) for value in self.scores],
            "recall": [round(float(value), 7) for value in self.recall],
            "false_positive_rate": [float(f"{value:.6g}") for value in self.false_positive_rate],
            "right_per_query": self.right_per_query,
            "source": self.source,
            "queries": self.queries,
            **({} if self.ranked is None else {"ranked": self.ranked.to_dict()}),
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any], photos: int) -> "Calibration":
        """What `to_dict` described, for an album of this many photos."""
        plain, *ranked = (cls._of_lists(one, photos) for one in (values, values.get("ranked")) if one is not None)
        return replace(plain, ranked=ranked[0] if ranked else None)

    @classmethod
    def _of_lists(cls, values: Any, photos: int) -> "Calibration":
        """Of one kind of lists."""
        right = isinstance(values, dict) and wrong_field(values, _KINDS) is None
        curves = [values[name] for name in _CURVES] if right else []
        right = right and all(curve and len(curve) == len(curves[0]) for curve in curves)
        right = right and 0 <= values["right_per_query"] < np.inf
        if not right or not all(type(one) in (int, float) and abs(one) <= 2 for curve in curves for one in curve):
            raise ValueError(
                "The album's calibration is damaged: calibrate it again (smoothap index --calibrate DATA)."
            )
        scores, recall, rate = (np.array(curve, float) for curve in curves)
        return cls(scores, recall, rate, values["right_per_query"], photos, values["source"], values["queries"])


class NotCalibrated(ValueError):  # noqa: N818
    """What scores mean is asked of an album that does not know it."""


def least_score(calibration: Calibration | None, recall: float | None, min_score: float | None) -> float | None:
    """The least score of a list that is expected to hold a share of the right photos, if one is asked for."""
    if recall is None:
        return min_score
    if calibration is None:
        raise NotCalibrated(
            "This album is not calibrated, so no recall can be asked for: run smoothap index with --calibrate DATA."
        )
    return max(calibration.score_for_recall(recall), -np.inf if min_score is None else min_score)


def calibrate(vectors: np.ndarray, labels: np.ndarray, source: str) -> Calibration:
    """Measure on labelled vectors (n, d) of length 1, labels (n,): each queries all others, in both kinds of lists.

    The scores of right pairs are taken one by one, those of wrong ones counted in tiles: nothing of n x n is kept.
    """
    _, classes = np.unique(np.asarray(labels), return_inverse=True)
    sizes = np.bincount(classes)
    if not (sizes > 1).any():
        raise ValueError(f"{source} has no class with two photos: calibration needs right pairs.")
    if len(sizes) < 2:
        raise ValueError(f"{source} has one class only: calibration needs wrong pairs too.")
    order = np.argsort(classes, kind="stable")
    rows, classes = np.asarray(vectors, np.float32)[order], classes[order]
    cosines, starts = Cosines(rows), np.concatenate([[0], np.cumsum(sizes)])
    right = _right_pairs(cosines, starts)
    plain = _measured(cosines, classes, *right, right[0], source)
    return replace(plain, ranked=_measured(cosines, classes, *_ranked_pairs(rows, classes), right[0], source))


def _measured(
    cosines: Cosines, classes: np.ndarray, right: np.ndarray, weights: np.ndarray, plain: np.ndarray, source: str
) -> Calibration:
    """Recall and false positives of lists in which right pairs have these scores, and had the `plain` ones.

    A ranked list has the scores of the plain list in other places: there are as many pairs from a score on.
    """
    sizes = np.bincount(classes)
    queries = int(sizes[sizes > 1].sum())
    # Scores at even steps of recall: the curve is finest where it is asked for.
    rising = np.argsort(right, kind="stable")
    missed = np.cumsum(weights[rising]) / queries  # the share below or at each score
    steps = np.linspace(0, 1, POINTS)
    chosen = np.unique(right[rising][np.minimum(np.searchsorted(missed, steps), len(missed) - 1)])
    below = np.concatenate([[0.0], missed])[np.searchsorted(right[rising], chosen, side="left")]
    counts, pairs = _wrong_pairs(cosines, classes, chosen)
    if right is not plain:
        had, have = (len(some) - np.searchsorted(np.sort(some), chosen, side="left") for some in (plain, right))
        counts = np.maximum(counts + had - have, 0)
    mean_right = float((sizes * (sizes - 1)).sum() / queries)
    return Calibration(chosen, 1 - below, counts / pairs, mean_right, len(classes), source, queries)


def _ranked_pairs(vectors: np.ndarray, classes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The score in the place of each right photo of each query, ranked by neighbourhood, and its weight."""
    scores, weights = [], []
    for row, order, of_places in ranked_lists(vectors):
        places = np.flatnonzero(classes[order] == classes[row])
        scores.append(of_places[places])
        weights.append(np.full(len(places), 1 / max(len(places), 1)))
    return np.concatenate(scores), np.concatenate(weights)


def merged(parts: Sequence[Calibration]) -> Calibration:
    """One calibration of several, each counting by its queries."""
    weights = np.array([part.queries for part in parts], float) / sum(part.queries for part in parts)
    scores = np.unique(np.concatenate([part.scores for part in parts]))
    scores = scores[np.unique(np.linspace(0, len(scores) - 1, POINTS).astype(int))]

    def mean(curve: str) -> np.ndarray:
        curves = (np.interp(scores, part.scores, getattr(part, curve), left=1.0, right=0.0) for part in parts)
        return sum((weight * values for weight, values in zip(weights, curves, strict=True)), np.zeros(len(scores)))

    right = float(sum(weight * part.right_per_query for weight, part in zip(weights, parts, strict=True)))
    queries, first = sum(part.queries for part in parts), parts[0]
    ranked = [part.ranked for part in parts if part.ranked is not None]
    return Calibration(
        scores, mean("recall"), mean("false_positive_rate"), right, first.photos, first.source, queries,
        merged(ranked) if ranked else None,
    )  # fmt: skip


def _right_pairs(cosines: Cosines, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The score of each query with each of its right photos, and the weight that makes queries count alike."""
    scores: list[np.ndarray] = []
    weights: list[np.ndarray] = []
    for first, size in zip(starts, np.diff(starts), strict=False):
        if size < 2:
            continue
        pairs = np.argwhere(~np.eye(size, dtype=bool))
        scores.append(cosines.between(first + pairs[:, 0], first + pairs[:, 1]))
        weights.append(np.full(size * (size - 1), 1 / (size - 1)))
    return np.concatenate(scores), np.concatenate(weights)


def _wrong_pairs(cosines: Cosines, classes: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, int]:
    """How many pairs of two classes score at or above each of `at` (p,), and how many such pairs there are."""
    counts = np.zeros(len(at) + 1, np.int64)
    vectors, bound = np.asarray(cosines.vectors), error_bound(cosines.vectors.shape[1], torch.float32)
    pairs, rows = 0, max(1, 4_000_000 // len(vectors))
    for first in range(0, len(vectors), rows):
        part = slice(first, first + rows)
        block = vectors[part] @ vectors.T
        across, down = np.nonzero(classes[part, None] != classes[None, :])
        places = certain_places(block[across, down], at, bound, partial(_scores, cosines, first + across, down))
        counts += np.bincount(places, minlength=len(at) + 1)
        pairs += len(across)
    return counts[::-1].cumsum()[::-1][1:], pairs


def _scores(cosines: Cosines, first: np.ndarray, second: np.ndarray, places: np.ndarray) -> np.ndarray:
    return cosines.between(first[places], second[places])
