"""A new embedding layer that starts as a projection of the training images' own features, not at random.

A random layer loses part of what the backbone knows, and a short training is spent on winning that back. A projection
that looks at the features of the training images keeps it, and gains a little: directions in which images of one class
differ among themselves count for less.
"""

import numpy as np
import torch

from smoothap.data.dataset import ImageDataset, evaluation_batches
from smoothap.distributed import Processes
from smoothap.models import Embedder
from smoothap.progress import Progress
from smoothap.training.evaluation import BATCH_SIZE

_IMAGES = 4096  # enough to know the directions of some thousand features; more would only take longer
_SHRINKAGE = 0.1  # towards a scatter that is equal in all directions: few images know few of them
_POWER = 0.25  # of the scatter; 0 would be principal components, 0.5 the whole discriminant analysis
_SMALL = 0.01  # of the rows for which there are no features left: they learn, and do not disturb


def start_as_projection(model: Embedder, dataset: ImageDataset, *, workers: int = 0) -> None:
    """Let the embedding layer of the model be a projection that fits the features and labels of a set.

    Of a large set some thousand images are looked at, spread over all of it. Rows beyond the number of features stay
    random and small.
    """
    layer = model.embedding
    assert layer is not None
    features, rows = _features(model, dataset, workers)
    weight, bias = projection(features, dataset.images.labels[rows], layer.out_features)
    with torch.no_grad():
        layer.weight.mul_(_SMALL)
        layer.bias.mul_(_SMALL)
        layer.weight[: len(weight)] = torch.from_numpy(weight)
        layer.bias[: len(bias)] = torch.from_numpy(bias)
    model.embedding_start = "projection"


def projection(features: np.ndarray, labels: np.ndarray, dimension: int) -> tuple[np.ndarray, np.ndarray]:
    """A projection of features (n, f) with labels (n,) that keeps what tells classes apart: weight (d, f), bias (d,).

    Half of a linear discriminant analysis: the scatter within classes is evened out with half the exponent that would
    whiten it, then the principal directions of what results are taken. d is `dimension`, or f where that is less;
    directions that no image varies in are filled up with any others at right angles.
    """
    features = features.astype(np.float64)
    mean = features.mean(axis=0)
    _, classes, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    sums = np.zeros((len(sizes), features.shape[1]))
    np.add.at(sums, classes, features)
    within = features - (sums / sizes[:, None])[classes]
    scatter = within.T @ within
    spread = np.trace(scatter) / len(scatter)
    evened = np.eye(len(scatter))
    if spread > 0:  # else every class has one image, or images that are all alike
        scatter = (1 - _SHRINKAGE) * scatter / spread + _SHRINKAGE * evened
        values, directions = np.linalg.eigh(scatter)
        evened = (directions * values**-_POWER) @ directions.T
    centred = (features - mean) @ evened
    _, directions = np.linalg.eigh(centred.T @ centred)  # in rising order of their variance
    weight = directions[:, ::-1][:, :dimension].T @ evened
    weight /= np.linalg.norm(weight, axis=1).mean()
    return weight, -weight @ mean


def _features(model: Embedder, dataset: ImageDataset, workers: int) -> tuple[np.ndarray, np.ndarray]:
    """What the backbone gives for test views of the set, (n, features), and their rows; the same in all processes."""
    processes = Processes.here()
    rows = np.unique(np.linspace(0, len(dataset) - 1, min(len(dataset), _IMAGES)).astype(np.int64))
    batches = evaluation_batches(
        dataset, BATCH_SIZE, rows=rows, rank=processes.rank, ranks=processes.number, workers=workers
    )
    assert model.embedding is not None
    features = np.zeros((len(rows), model.embedding.in_features), np.float32)
    readable = np.zeros(len(rows), np.int64)
    device, mode = next(model.parameters()).device, model.training
    model.eval()
    with Progress("Looking at the features", len(rows) // processes.number, "images", processes.rank == 0) as line:
        for batch in batches:
            places = np.searchsorted(rows, batch.rows.numpy())
            with torch.inference_mode():
                features[places] = model.features(batch.images.to(device)).float().cpu().numpy()
            readable[places] = 1
            line.advance(len(places))
    model.train(mode)
    processes.add_up(features)  # each row has one process that filled it, the others hold zeros
    processes.add_up(readable)
    return features[readable > 0], rows[readable > 0]
