"""A new embedding layer that starts as a projection of the training images' own features, not at random.

A random layer loses part of what the backbone knows, and a short training is spent on winning that back. A projection
that looks at the features of the training images keeps it, and gains a little: directions in which images of one class
differ among themselves count for less. Principal components keep it too, and know no classes: what a loss is compared
from.
"""

import numpy as np
import torch

from smoothap.data.dataset import ImageDataset
from smoothap.models import Embedder
from smoothap.models.embedding import embed_set
from smoothap.training.config import HeadInit

_IMAGES = 4096  # enough to know the directions of some thousand features; more would only take longer
_SHRINKAGE = 0.1  # towards a scatter that is equal in all directions, since few images vary in few of them
_POWERS = {"components": 0.0, "projection": 0.25}  # of the scatter; 0.5 would be the whole discriminant analysis
_SMALL = 0.01  # factor on rows beyond the number of features: they disturb little at first, and can learn


def start_as_projection(
    model: Embedder, dataset: ImageDataset, start: HeadInit = "projection", *, workers: int = 0
) -> None:
    """Let the embedding layer of the model be a projection that fits the features and labels of a set.

    Of a large set some thousand images are looked at, spread over all of it. Rows beyond the number of features stay
    random and small.
    """
    layer = model.embedding
    assert layer is not None
    rows = np.unique(np.linspace(0, len(dataset) - 1, min(len(dataset), _IMAGES)).astype(np.int64))
    embedded = embed_set(model, dataset, rows=rows, features=True, workers=workers)
    labels = dataset.images.labels[embedded.rows]
    weight, bias = projection(embedded.vectors, labels, layer.out_features, _POWERS[start])
    with torch.no_grad():
        layer.weight.mul_(_SMALL)
        layer.bias.mul_(_SMALL)
        layer.weight[: len(weight)] = torch.from_numpy(weight)
        layer.bias[: len(bias)] = torch.from_numpy(bias)
    model.head_init = start


def projection(
    features: np.ndarray, labels: np.ndarray, dimension: int, power: float = _POWERS["projection"]
) -> tuple[np.ndarray, np.ndarray]:
    """A projection of features (n, f) with labels (n,) that keeps what tells classes apart: weight (d, f), bias (d,).

    Half of a linear discriminant analysis: the scatter within classes is evened out with half the exponent that would
    whiten it, then the principal directions of what results are taken. d is `dimension`, or f where that is less;
    directions that no image varies in are filled up with others at right angles, the same on every machine. With a
    power of 0 the scatter stays as it is, which leaves the principal components.
    """
    features = features.astype(np.float64)
    mean = features.mean(axis=0)
    evened = _evened(features, labels, power) if power > 0 else None
    centred = features - mean if evened is None else (features - mean) @ evened
    weight = _principal_directions(centred.T @ centred, dimension)
    if evened is not None:
        weight = weight @ evened
    weight = weight / np.linalg.norm(weight, axis=1).mean()
    return weight, -weight @ mean


def _principal_directions(scatter: np.ndarray, dimension: int) -> np.ndarray:
    """The directions (d, f) of most variance, each turned to one side; where there is none, fixed ones at right angles.

    An eigenvector that belongs to a variance of 0, or its sign, is whatever the library and its threads made of it.
    """
    features = len(scatter)
    variances, directions = np.linalg.eigh(scatter)  # in rising order
    number = min(dimension, features)
    known = variances[::-1] > variances[-1] * features * np.finfo(np.float64).eps
    found = directions[:, ::-1][:, : min(number, int(known.sum()))].T
    drawn = np.random.default_rng(0).standard_normal((number + 1, features))
    found = found * np.where(found @ drawn[-1] < 0, -1.0, 1.0)[:, None]
    rest = drawn[len(found) : number]
    for _ in range(2):  # once more for what the first round's rounding leaves
        rest = rest - (rest @ found.T) @ found
        rest = np.linalg.qr(rest.T)[0].T
    return np.concatenate([found, rest])


def class_means(vectors: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mean of the vectors (n, d) of each of m classes, (m, d) in float64, and the class of each vector, (n,)."""
    _, classes, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    sums = np.zeros((len(sizes), vectors.shape[1]))
    np.add.at(sums, classes, vectors)
    return sums / sizes[:, None], classes


def _evened(features: np.ndarray, labels: np.ndarray, power: float) -> np.ndarray | None:
    """The matrix (f, f) that evens out the scatter within classes; None where no two images of a class differ."""
    means, classes = class_means(features, labels)
    within = features - means[classes]
    scatter = within.T @ within
    spread = np.trace(scatter) / len(scatter)
    if spread <= 0:
        return None
    scatter = (1 - _SHRINKAGE) * scatter / spread + _SHRINKAGE * np.eye(len(scatter))
    values, directions = np.linalg.eigh(scatter)
    return (directions * values**-power) @ directions.T
