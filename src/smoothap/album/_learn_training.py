"""A linear projection of an album's vectors, trained with Smooth-AP on what its collections say.

It starts as the principal components of the album's own vectors, which rank the photos about as before. The photos of
the collections are ranked among each other and among photos of the album that nobody has marked.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from smoothap.album._training_set import Lessons
from smoothap.album.projection import Projection
from smoothap.album.vectors import Vectors
from smoothap.losses import SmoothAP

DIMENSION = 256
STEPS, TAU = 100, 0.1
_RATE = 0.018  # for weights of 1: those of a row of unit length are smaller by the root of their number
_BATCH, _UNMARKED = 320, 256  # photos of a step: marked ones, and those that nobody has marked
_COMPONENTS_OF = 8192  # photos


@dataclass(frozen=True, eq=False)
class Start:
    """What a training begins with: weight (k, d), and the rows of photos that nobody has marked."""

    weight: np.ndarray
    unmarked: np.ndarray

    @classmethod
    def of(cls, vectors: Vectors, marked: np.ndarray, seed: int = 0) -> "Start":
        """The principal components of vectors (n, d), without the mean taken off, and the rows that are not marked."""
        rows = np.linspace(0, len(vectors) - 1, min(len(vectors), _COMPONENTS_OF)).astype(np.int64)
        some = torch.from_numpy(np.asarray(vectors[rows], np.float64))
        _, directions = torch.linalg.eigh(some.T @ some)  # in rising order of what lies along them
        weight = directions.flip(1)[:, : min(DIMENSION, vectors.shape[1])].T.float()
        unmarked = np.setdiff1d(np.arange(len(vectors)), marked)
        return cls(weight.contiguous().numpy(), unmarked)

    def projection(self) -> Projection:
        """The start itself."""
        return Projection(self.weight, np.zeros(len(self.weight), np.float32))


def train_projection(
    vectors: Vectors, lessons: Lessons, start: Start, step: Callable[[], None], seed: int = 0
) -> Projection:
    """Train on the album's vectors (n, d); `step` is called after each step."""
    weight = torch.tensor(start.weight, requires_grad=True)
    bias = torch.zeros(len(start.weight), requires_grad=True)
    optimiser = torch.optim.Adam([weight, bias], lr=_RATE / weight.shape[1] ** 0.5)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, STEPS)
    loss = SmoothAP(TAU)
    marked = torch.from_numpy(np.asarray(vectors[lessons.rows], np.float32))
    random = np.random.default_rng(seed)
    for _ in range(STEPS):
        places = _batch(lessons, random)
        others = random.choice(start.unmarked, min(_UNMARKED, len(start.unmarked)), replace=False)
        photos = torch.cat([marked[places], torch.from_numpy(np.asarray(vectors[np.sort(others)], np.float32))])
        embeddings = normalize(photos @ weight.T + bias, dim=1)
        optimiser.zero_grad()
        _loss(loss, embeddings, lessons.subset(places)).backward()
        optimiser.step()
        schedule.step()
        step()
    return Projection(weight.detach().numpy(), bias.detach().numpy())


def between(start: Projection, end: Projection, share: float) -> Projection:
    """A projection so far on the way from one to the other."""
    weight, bias = (
        (1 - share) * one + share * other for one, other in ((start.weight, end.weight), (start.bias, end.bias))
    )
    return Projection(weight.astype(np.float32), bias.astype(np.float32))


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
    labels, others = lessons.labels(), len(embeddings) - len(lessons.rows)
    if labels is not None:
        alone = len(lessons.names) + len(lessons.rows) + np.arange(others)
        return loss(embeddings, torch.from_numpy(np.concatenate([labels, alone])))
    together = lessons.together()
    apart = np.column_stack([~together, np.ones((len(together), others), bool)])
    np.fill_diagonal(apart, False)
    pairs = (torch.from_numpy(place) for mask in (together, apart) for place in np.nonzero(mask))
    return loss(embeddings, None, tuple(pairs))
