"""Cross-validation: what learning does for photos, and for things, that were left out of it.

Photos are left out in halves, twice over: how well does a photo that was not learnt from find the others of its
collection? Whole collections are left out too: things that the album is not taught should not suffer. Each photo left
out is ranked among all others that are left out with it and some photos of the album that nobody has marked. Of these,
a few may belong to the collection after all; that lowers the figures before and after alike, so that not many are
taken.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
import torch

from smoothap.album._learn_training import Lessons, train_projection
from smoothap.album.calibration import Calibration, calibrate, merged
from smoothap.album.projection import Projection
from smoothap.album.vectors import Vectors, unit_vectors
from smoothap.functional import average_precision
from smoothap.metrics.bootstrap import Interval, class_intervals

STRENGTHS = 0.25, 0.5, 0.75, 1.0  # shares of the way from the start to the trained projection
LEAST_GAIN = 0.01  # of mAP, for what it is taught: less is not worth a change
TOLERATED_LOSS = 0.01  # of mAP, for things that the album is not taught
# Few collections say little about other things: with fewer than this, the projection goes no further than this.
_FEW_COLLECTIONS, _FOR_FEW = 10, 0.5
_PHOTO_FOLDS, _TIMES, _MOST_COLLECTION_FOLDS = 2, 2, 3
_RANKED_AMONG, _QUERIES = 512, 20  # photos that nobody has marked, and queries of a collection in a fold, at most


@dataclass(frozen=True)
class Check:
    """What to expect of learning at the strength that is best for what was left out.

    Gains of mAP with their intervals over collections: `taught` for photos that were left out, `untaught` for
    collections that were; `before` and `after` are mAP for the former. `calibration` is what scores mean then, learnt
    from the collections that were left out.
    """

    strength: float
    taught: Interval
    untaught: Interval
    before: float
    after: float
    calibration: Calibration | None

    @property
    def is_clear(self) -> bool:
        """Whether learning helps beyond doubt, and does no harm to what is not taught."""
        return self.taught.low > 0 and self.taught.value >= LEAST_GAIN and self.untaught.value >= -TOLERATED_LOSS


# Marked photos that are left out of a training (n,) bool, the collections (c,) bool that are asked for, what is taught.
_Fold = tuple[np.ndarray, np.ndarray, Lessons]


def trainings(lessons: Lessons) -> int:
    """How many trainings a check takes."""
    return _TIMES * _PHOTO_FOLDS + _collection_folds(lessons)


def check(
    vectors: Vectors, lessons: Lessons, start: Projection, unmarked: np.ndarray, step: Callable[[], None]
) -> Check:
    """Cross-validate on the album's vectors (n, d); `step` is called after each step of each training."""

    def rank(left_out: np.ndarray, asked: np.ndarray, taught: Lessons) -> _Ranked:
        end = train_projection(vectors, taught, start, unmarked, step)
        return _ranked(vectors, lessons, left_out, asked, others, start, end)

    others = np.sort(np.random.default_rng(0).permutation(unmarked)[:_RANKED_AMONG])
    halves, parts = [[rank(*fold) for fold in folds(lessons)] for folds in (_halves, _parts)]
    taught, untaught = _mean_precisions(halves), _mean_precisions(parts)  # (collections, 1 + strengths)
    harmless = (untaught[:, 1:] - untaught[:, :1]).mean(axis=0) >= -TOLERATED_LOSS / 2
    gains = np.where(harmless, (taught[:, 1:] - taught[:, :1]).mean(axis=0), -np.inf)
    if len(taught) < _FEW_COLLECTIONS:
        gains[np.array(STRENGTHS) > _FOR_FEW] = -np.inf
    chosen = int(gains.argmax())  # the least, where none is harmless
    sums = [
        (precisions[:, 1 + chosen] - precisions[:, 0], np.ones(len(precisions))) for precisions in (taught, untaught)
    ]
    gained, lost = (class_intervals([one])[0] for one in sums)
    before, after = taught[:, [0, 1 + chosen]].mean(axis=0).tolist()
    return Check(STRENGTHS[chosen], gained, lost, before, after, _calibration(parts, lessons, STRENGTHS[chosen]))


def _halves(lessons: Lessons) -> Iterator[_Fold]:
    for seed, fold in product(range(_TIMES), range(_PHOTO_FOLDS)):
        left_out = lessons.folds(_PHOTO_FOLDS, seed) == fold
        yield left_out, np.ones(len(lessons.names), bool), lessons.subset(~left_out)


def _parts(lessons: Lessons) -> Iterator[_Fold]:
    number = _collection_folds(lessons)
    folds = np.random.default_rng(1).permutation(np.arange(len(lessons.names)) % number)
    for fold in range(number):
        columns = folds == fold
        yield (lessons.member & columns).any(axis=1), columns, lessons.without(columns)


def _collection_folds(lessons: Lessons) -> int:
    return min(_MOST_COLLECTION_FOLDS, max(2, len(lessons.names) // 3))


@dataclass(frozen=True, eq=False)
class _Ranked:
    """A fold after its training: AP (queries, 1 + strengths) of each query before it and at each strength.

    collections (queries,): which of them a query asks for; member (m, c): who of the photos left out is in which of
    those that were asked for; `begin` and `end` (m, k): these photos as the training began and ended with them.
    """

    precisions: np.ndarray
    collections: np.ndarray
    member: np.ndarray
    begin: np.ndarray
    end: np.ndarray


def _ranked(
    vectors: Vectors,
    lessons: Lessons,
    left_out: np.ndarray,
    asked: np.ndarray,
    others: np.ndarray,
    start: Projection,
    trained: Projection,
) -> _Ranked:
    """The photos that were left out, ranked among each other and the `others`, rows of the album."""
    items = np.asarray(vectors[np.concatenate([lessons.rows[left_out], others])], np.float32)
    begin, end = items @ start.weight.T, items @ trained.weight.T + trained.bias
    member = lessons.member[left_out] & asked
    columns = np.flatnonzero(member.sum(axis=0) > 1)
    queries = {column: _some(np.flatnonzero(member[:, column]), column) for column in columns.tolist()}
    ways = [items, *((1 - strength) * begin + strength * end for strength in STRENGTHS)]
    precisions = [np.concatenate([_precisions(way, places, member[:, column])
                                  for column, places in queries.items()] or [np.empty(0)])
                  for way in map(_units, ways)]  # fmt: skip
    collections = np.repeat([*queries], [len(places) for places in queries.values()]).astype(np.int64)
    return _Ranked(np.stack(precisions, axis=1), collections, member, begin[: len(member)], end[: len(member)])


def _some(places: np.ndarray, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).permutation(places)[:_QUERIES]


def _units(items: np.ndarray) -> np.ndarray:
    return items / np.linalg.norm(items, axis=1, keepdims=True)


def _precisions(items: np.ndarray, queries: np.ndarray, member: np.ndarray) -> np.ndarray:
    """The AP of each of the queries, places among items (m, k), for the members (photos left out,) of a collection."""
    scores = items[queries] @ items.T
    scores[np.arange(len(queries)), queries] = -np.inf
    relevant = np.zeros(scores.shape, bool)
    relevant[:, : len(member)] = member
    relevant[np.arange(len(queries)), queries] = False
    return average_precision(torch.from_numpy(scores), torch.from_numpy(relevant)).numpy()


def _mean_precisions(folds: list[_Ranked]) -> np.ndarray:
    """The mean AP for each collection that was asked for, each counting alike. (collections, 1 + strengths)"""
    collections = np.concatenate([ranked.collections for ranked in folds])
    precisions = np.concatenate([ranked.precisions for ranked in folds])
    asked = np.unique(collections)
    return np.stack([precisions[collections == one].mean(axis=0) for one in asked])


def _calibration(folds: list[_Ranked], lessons: Lessons, strength: float) -> Calibration | None:
    """What scores mean to things that the album was not taught; None where collections share too many photos."""
    source = f"{len(lessons.names)} collections, each left out of the learning in turn"
    parts: list[Calibration] = []
    for ranked in folds:
        one = ranked.member.sum(axis=1) == 1  # of a photo in two collections, no pair is right or wrong for certain
        labels = ranked.member[one].argmax(axis=1)
        if (np.bincount(labels, minlength=1) > 1).sum() > 1:
            mixed = (1 - strength) * ranked.begin[one] + strength * ranked.end[one]
            parts.append(calibrate(unit_vectors(mixed), labels, source))
    return merged(parts) if parts else None
