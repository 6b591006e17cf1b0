"""Clusters of the training images: features of the backbone, and k-means with a seed."""

import numpy as np
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

from smoothap.data.dataset import ImageDataset
from smoothap.models import Embedder
from smoothap.training.evaluation import Embedded, embed_set

_ROUNDS = 30  # of k-means; it rarely moves after ten


def backbone_features(model: Embedder, dataset: ImageDataset) -> Embedded:
    """The unit features below the embedding layer, of the test views of a set."""
    layer, dimension = model.embedding, model.dimension
    if layer is not None:
        model.embedding, model.dimension = None, layer.in_features
    try:
        return embed_set(model, dataset, shown=False)
    finally:
        model.embedding, model.dimension = layer, dimension


def k_means(vectors: np.ndarray, clusters: int, seed: tuple[int, ...]) -> np.ndarray:
    """The cluster (n,) of each of the vectors (n, d): at most `clusters`, the same for the same seed."""
    state = int(np.random.SeedSequence(seed).generate_state(1)[0])
    solver = KMeans(min(clusters, len(vectors)), n_init=1, max_iter=_ROUNDS, random_state=state)
    with threadpool_limits(1):  # several threads add up in the order in which they end, which changes the last bits
        return solver.fit_predict(vectors)
