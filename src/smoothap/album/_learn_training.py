"""What collections say of an album's photos, and a linear projection of its vectors that is trained on it by Smooth-AP.

It starts as the principal components of the album's own vectors, which rank the photos about as before. The photos of
the collections are ranked among each other and among photos of the album that nobody has marked.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from smoothap.album.collections import Collection
from smoothap.album.photos import Photos
from smoothap.album.projection import Projection
from smoothap.album.vectors import Vectors
from smoothap.losses import SmoothAP

DIMENSION = 256
STEPS, TAU = 100, 0.1
_RATE = 0.018  # for weights of 1: those of a row of unit length are smaller by the root of their number
_BATCH, _UNMARKED = 320, 256  # photos of a step: marked ones, and those that nobody has marked
_COMPONENTS_OF = 8192  # photos


@dataclass(frozen=True, eq=False)
class Lessons:
    """Marked photos: rows (n,) of the album, with a column for each collection, member (n, c) bool.

    Two photos that share a collection belong together; all others do not. What is marked as wrong is in none.
    """

    names: tuple[str, ...]
    rows: np.ndarray
    member: np.ndarray

    @classmethod
    def of(cls, collections: Mapping[str, Collection], photos: Photos) -> "Lessons":
        """The marks of collections with at least two photos, of the photos that the album has."""
        taught = [one for one in collections.values() if len(one.right) > 1]
        ids = np.array(sorted({photo for one in taught for photo in (*one.right, *one.wrong)}), np.int64)
        ids = ids[np.isin(ids, photos.ids)]
        member = np.zeros((len(ids), len(taught)), bool)
        for column, one in enumerate(taught):
            member[:, column] = np.isin(ids, one.right)
        return cls(tuple(one.name for one in taught), np.searchsorted(photos.ids, ids), member)

    @property
    def sizes(self) -> np.ndarray:
        """How many photos each collection has. (c,)"""
        return self.member.sum(axis=0)

    def subset(self, chosen: np.ndarray) -> "Lessons":
        """The lessons of some of the marked photos: a mask or places among them."""
        return Lessons(self.names, self.rows[chosen], self.member[chosen])

    def without(self, columns: np.ndarray) -> "Lessons":
        """The lessons without some collections (c,) bool, and without the photos that only these have."""
        left = Lessons(self.names, self.rows, self.member & ~columns)
        return left.subset(~(self.member & columns).any(axis=1))

    def together(self) -> np.ndarray:
        """Which photos share a collection, none with itself. (n, n) bool"""
        shared = (self.member.astype(np.float32) @ self.member.T.astype(np.float32)) > 0
        np.fill_diagonal(shared, False)
        return shared

    def folds(self, number: int, seed: int = 0) -> np.ndarray:
        """A fold for each photo (n,), so that each collection is spread evenly over them."""
        random, folds = np.random.default_rng(seed), np.full(len(self.rows), -1)
        for column in range(len(self.names)):
            places = random.permutation(np.flatnonzero(self.member[:, column] & (folds < 0)))
            folds[places] = (np.arange(len(places)) + random.integers(number)) % number
        alone = np.flatnonzero(folds < 0)
        folds[alone] = random.permutation(np.arange(len(alone)) % number)
        return folds


def principal_components(vectors: Vectors) -> Projection:
    """What a training begins with: those of vectors (n, d), without the mean taken off."""
    rows = np.linspace(0, len(vectors) - 1, min(len(vectors), _COMPONENTS_OF)).astype(np.int64)
    some = torch.from_numpy(np.asarray(vectors[rows], np.float64))
    _, directions = torch.linalg.eigh(some.T @ some)  # in rising order of what lies along them
    weight = directions.flip(1)[:, : min(DIMENSION, vectors.shape[1])].T.float().contiguous().numpy()
    return Projection(weight, np.zeros(len(weight), np.float32))


def train_projection(
    vectors: Vectors,
    lessons: Lessons,
    start: Projection,
    unmarked: np.ndarray,
    step: Callable[[], None],
    seed: int = 0,
) -> Projection:
    """Train on the album's vectors (n, d), also on those in `unmarked` rows; `step` is called after each step."""
    weight = torch.tensor(start.weight, requires_grad=True)
    bias = torch.tensor(start.bias, requires_grad=True)
    optimiser = torch.optim.Adam([weight, bias], lr=_RATE / weight.shape[1] ** 0.5)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, STEPS)
    loss = SmoothAP(TAU)
    marked = torch.from_numpy(np.asarray(vectors[lessons.rows], np.float32))
    random = np.random.default_rng(seed)
    for _ in range(STEPS):
        places = _batch(lessons, random)
        others = random.choice(unmarked, min(_UNMARKED, len(unmarked)), replace=False)
        photos = torch.cat([marked[places], torch.from_numpy(np.asarray(vectors[np.sort(others)], np.float32))])
        embeddings = normalize(photos @ weight.T + bias, dim=1)
        optimiser.zero_grad()
        _loss(loss, embeddings, lessons.subset(places)).backward()
        optimiser.step()
        schedule.step()
        step()
    return Projection(weight.detach().numpy(), bias.detach().numpy())


def _batch(lessons: Lessons, random: np.random.Generator) -> np.ndarray:
    """Places of the photos of a step: all of them if they are few, else as many of each collection as there is room."""
    number = len(lessons.rows)
    if number <= _BATCH:
        return np.arange(number)
    columns = random.permutation(len(lessons.names))
    each = max(4, _BATCH // len(columns))
    chosen: list[np.ndarray] = [random.choice(number, _BATCH // 8, replace=False)]  # wrong ones too
    for column in columns[: _BATCH // each]:
        places = np.flatnonzero(lessons.member[:, column])
        chosen.append(random.permutation(places)[:each])
    return np.unique(np.concatenate(chosen))


def _loss(loss: SmoothAP, embeddings: Tensor, lessons: Lessons) -> Tensor:
    """The loss of the marked photos, which come first, among all embeddings (m, k)."""
    positives, marked = torch.zeros(len(embeddings), len(embeddings), dtype=torch.bool), len(lessons.rows)
    positives[:marked, :marked] = torch.from_numpy(lessons.together())
    return loss(embeddings, positives=positives)
