"""Clusters of the training images: features of the backbone, and k-means with a seed."""

from collections.abc import Generator
from contextlib import contextmanager

import numpy as np

from smoothap.data.dataset import ImageDataset
from smoothap.models import Embedder
from smoothap.training.evaluation import Embedded, embed_set

_ROUNDS = 30  # of k-means; it rarely moves after ten


def backbone_features(model: Embedder, dataset: ImageDataset) -> Embedded:
    """The unit features below the embedding layer, of the test views of a set."""
    with _without_embedding_layer(model):
        return embed_set(model, dataset, shown=False)


def k_means(vectors: np.ndarray, clusters: int, seed: tuple[int, ...]) -> np.ndarray:
    """The cluster (n,) of each of the vectors (n, d): at most `clusters`, the same for the same seed."""
    random = np.random.default_rng(seed)
    vectors = np.ascontiguousarray(vectors, np.float64)
    clusters = min(clusters, len(vectors))
    centres = vectors[random.integers(len(vectors))][None]
    for _ in range(clusters - 1):  # k-means++: far from the centres so far, by chance
        nearest = _distances(vectors, centres).min(1)
        total = nearest.sum()
        chosen = random.choice(len(vectors), p=nearest / total) if total > 0 else random.integers(len(vectors))
        centres = np.concatenate([centres, vectors[chosen][None]])
    found = _distances(vectors, centres).argmin(1)
    for _ in range(_ROUNDS):
        sizes = np.bincount(found, minlength=clusters)
        sums = np.stack([vectors[found == each].sum(0) for each in range(clusters)])
        centres = np.where(sizes[:, None] > 0, sums / np.maximum(sizes, 1)[:, None], centres)
        before, found = found, _distances(vectors, centres).argmin(1)
        if np.array_equal(before, found):
            break
    return found


def _distances(vectors: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Squared distances, (n, clusters)."""
    squares = (vectors**2).sum(1)[:, None] + (centres**2).sum(1)[None] - 2 * vectors @ centres.T
    return np.maximum(squares, 0)


@contextmanager
def _without_embedding_layer(model: Embedder) -> Generator[None]:
    layer, dimension = model.embedding, model.dimension
    if layer is None:
        yield
        return
    model.embedding, model.dimension = None, layer.in_features
    try:
        yield
    finally:
        model.embedding, model.dimension = layer, dimension
