"""A new embedding layer that starts as a projection of the training images' own features, not at random.

A random layer loses part of what the backbone knows, and a short training is spent on winning that back. The principal
directions of the features of the training images lose next to nothing, so that step 0 ranks as well as the backbone.
"""

import numpy as np
import torch

from smoothap.data.dataset import ImageDataset, evaluation_batches
from smoothap.distributed import Processes
from smoothap.models import Embedder
from smoothap.progress import Progress
from smoothap.training.evaluation import BATCH_SIZE

_IMAGES = 4096  # enough to know the directions of some thousand features; more would only take longer
_SMALL = 0.01  # of the rows for which there are no features left: they learn, and do not disturb


def start_as_projection(model: Embedder, dataset: ImageDataset, *, workers: int = 0) -> None:
    """Let the embedding layer of the model be the projection onto the principal directions of the features of a set.

    Of a large set some thousand images are looked at, spread over all of it. Where there are fewer images than
    directions, the others are any that stand at right angles; rows beyond the number of features stay random and small.
    """
    layer = model.embedding
    assert layer is not None
    weight, bias = projection(_features(model, dataset, workers), layer.out_features)
    with torch.no_grad():
        layer.weight.mul_(_SMALL)
        layer.bias.mul_(_SMALL)
        layer.weight[: len(weight)] = torch.from_numpy(weight)
        layer.bias[: len(bias)] = torch.from_numpy(bias)
    model.embedding_start = "projection"


def projection(features: np.ndarray, dimension: int) -> tuple[np.ndarray, np.ndarray]:
    """The centred projection of features (n, f) onto their first principal directions: weight (d, f), bias (d,).

    d is `dimension`, or f where that is less.
    """
    mean = features.mean(axis=0, dtype=np.float64)
    centred = features - mean
    _, directions = np.linalg.eigh(centred.T @ centred)  # in rising order of their variance
    weight = directions.T[::-1][:dimension]
    return weight, -weight @ mean


def _features(model: Embedder, dataset: ImageDataset, workers: int) -> np.ndarray:
    """What the backbone gives for the test views of up to `_IMAGES` images, (n, features), the same in all processes."""
    processes = Processes.here()
    rows = np.unique(np.linspace(0, len(dataset) - 1, min(len(dataset), _IMAGES)).astype(np.int64))
    batches = evaluation_batches(
        dataset, BATCH_SIZE, rows=rows, rank=processes.rank, ranks=processes.number, workers=workers
    )
    assert model.embedding is not None
    features = np.zeros((len(rows), model.embedding.in_features), np.float32)
    readable = np.zeros(len(rows), np.int64)
    device = next(model.parameters()).device
    training = model.training
    model.eval()
    with Progress("Looking at the features", len(rows) // processes.number, "images", processes.rank == 0) as line:
        for batch in batches:
            places = np.searchsorted(rows, batch.rows.numpy())
            with torch.inference_mode():
                features[places] = model.features(batch.images.to(device)).float().cpu().numpy()
            readable[places] = 1
            line.advance(len(places))
    model.train(training)
    processes.add_up(features)  # each row has one process that filled it, the others hold zeros
    processes.add_up(readable)
    return features[readable > 0]
