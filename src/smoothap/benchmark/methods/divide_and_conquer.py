"""Divide and Conquer the Embedding Space (Sanakoyeu et al., CVPR 2019).

The training images are cut into K clusters and the embedding into K slices. A batch comes from one cluster, and the
margin loss sees the slice of that cluster alone, so that each slice learns to tell similar images apart. Every two
epochs the images are clustered again by the features below the embedding layer, and each new cluster is given the slice
of the old one that it shares most images with. Three stages, as in the released code: a slice learns alone (80 of its
200 epochs), the whole embedding learns from batches of one cluster (110), and from batches of all images (the last 10).
As there, the boundary beta of the margin loss stays at 1.2, its negatives are the nearest at a distance of at least
0.5, as many as an anchor has positives, and a class's only image in a cluster is left out of it.
"""

from collections.abc import Iterator
from itertools import chain, count, islice

import numpy as np
import torch
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits
from torch import Tensor, nn
from torch.nn.functional import normalize

from smoothap.benchmark.methods.baselines import NearestMiner, margin_loss
from smoothap.data.dataset import ImageDataset
from smoothap.data.samplers import Batches, Draw
from smoothap.models import Embedder
from smoothap.models.embedding import Embedded, embed_set

_RECLUSTER_EVERY = 2  # epochs
_ROUNDS = 30  # of k-means; it rarely moves after ten


class SlicedMargin(nn.Module):
    """The margin loss of one slice of the embedding, or of all of it; `cluster_of_row` says which image learns where.

    The training loop calls it before every epoch, where it renews the clusters every second time, and before every
    step. Batches are of one cluster for `divided_steps`, and slices learn apart for `sliced_steps` of them. The buffers
    are all that the method remembers, so that a training that was cut off goes on as it would have.
    """

    cluster_of_row: Tensor
    step: Tensor

    def __init__(
        self, dimension: int, clusters: int, images: int, *, divided_steps: int, sliced_steps: int, seed: int = 0
    ) -> None:
        super().__init__()
        if dimension < 2 * clusters:
            raise ValueError(
                f"an embedding of {dimension} dimensions is too short for {clusters} slices: take --dimension "
                f"{2 * clusters} or more"
            )
        self.clusters, self.divided_steps, self.sliced_steps, self._seed = clusters, divided_steps, sliced_steps, seed
        self.margin = margin_loss(None, miner=NearestMiner())
        self.register_buffer("cluster_of_row", torch.full((images,), -1))  # -1: in none
        self.register_buffer("step", torch.tensor(0))
        self._slice: int | None = None  # that learns from this batch, None for all

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        if self._slice is None or self._slice < 0:
            return self.margin(embeddings, labels)
        part = embeddings.tensor_split(self.clusters, dim=1)[self._slice]
        return self.margin(normalize(part, dim=1), labels)

    def before_epoch(self, epoch: int, model: Embedder, dataset: ImageDataset) -> None:
        """Cluster the training images again; a cluster keeps the slice of the one it comes from."""
        if epoch % _RECLUSTER_EVERY or int(self.step) >= self.divided_steps:
            return
        embedded = features_behind(model, dataset)
        clusters = np.full(len(dataset), -1)
        clusters[embedded.rows] = k_means(embedded.vectors, self.clusters, (self._seed, epoch))
        before = self.cluster_of_row.cpu().numpy()
        if (before >= 0).any():
            clusters = _matched(clusters, before, self.clusters)
        self.cluster_of_row.copy_(torch.from_numpy(_without_singletons(clusters, dataset.images.labels)))

    def before_step(self, rows: Tensor) -> None:
        """Take note of the batch that comes: which slice it is for."""
        alone = int(self.step) < self.sliced_steps
        self._slice = int(self.cluster_of_row[rows[0]]) if alone else None
        self.step += 1


class ClusterBatches:
    """Batches of one cluster each, every cluster equally often, for `divided_steps`; then the shared ones."""

    def __init__(
        self,
        loss: SlicedMargin,
        labels: np.ndarray,
        shared: Batches,
        batch_size: int,
        samples_per_class: int,
        *,
        seed: int,
    ) -> None:
        self._loss, self._labels, self._shared, self._seed = loss, labels, shared, seed
        self._batch_size, self._per_class = batch_size, samples_per_class

    def __len__(self) -> int:
        return len(self._shared)

    def draws(self, epoch: int, first_step: int = 0) -> Iterator[list[Draw]]:
        """Every batch of the epoch from `first_step` on, of the clusters as they are now."""
        first, steps = epoch * len(self), len(self)
        divided = min(max(self._loss.divided_steps - first, 0), steps)
        cluster_of_row = self._loss.cluster_of_row.cpu().numpy()
        filled = np.unique(cluster_of_row[cluster_of_row >= 0])
        if not len(filled):
            divided = 0
        for step in range(first_step, divided):
            turn, place = divmod(first + step, len(filled))
            order = np.random.default_rng((self._seed, turn)).permutation(filled)
            rows = self._rows(np.flatnonzero(cluster_of_row == order[place]), (self._seed, epoch, step))
            start = step * self._batch_size
            yield [Draw(row, (self._seed, epoch, start + number)) for number, row in enumerate(rows)]
        yield from self._shared.draws(epoch, max(first_step, divided))

    def _rows(self, members: np.ndarray, seed: tuple[int, ...]) -> list[int]:
        """A batch out of a cluster: up to `samples_per_class` images of one class after the other, round and round."""
        random = np.random.default_rng(seed)
        labels = self._labels[members]
        of_class = [random.permutation(members[labels == label]) for label in random.permutation(np.unique(labels))]
        handfuls = (
            images.take(range(turn, turn + min(self._per_class, len(images))), mode="wrap").tolist()
            for turn in count(0, self._per_class)
            for images in of_class
        )
        return list(islice(chain.from_iterable(handfuls), self._batch_size))


def _without_singletons(cluster_of_row: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The clusters without images that are the only one of their class there: they have no positive."""
    _, place, sizes = np.unique(np.stack([cluster_of_row, labels]), axis=1, return_inverse=True, return_counts=True)
    return np.where(sizes[place.reshape(-1)] > 1, cluster_of_row, -1)


def _matched(new: np.ndarray, old: np.ndarray, clusters: int) -> np.ndarray:
    """The new clusters under the numbers of the old ones, largest common part first."""
    in_both = (new >= 0) & (old >= 0)
    shared = np.zeros((clusters, clusters))
    np.add.at(shared, (new[in_both], old[in_both]), 1)
    old_number = np.full(clusters, -1)
    for _ in range(clusters):
        row, column = np.unravel_index(shared.argmax(), shared.shape)
        old_number[row] = column
        shared[row], shared[:, column] = -1, -1
    return np.where(new >= 0, old_number[new], -1)


def features_behind(model: Embedder, dataset: ImageDataset, layer: nn.Linear | None = None) -> Embedded:
    """The unit features below the embedding layer, or behind another layer instead, of the test views of a set."""
    own, dimension = model.embedding, model.dimension
    model.embedding, model.dimension = layer, model.feature_dimension if layer is None else layer.out_features
    try:
        return embed_set(model, dataset, shown=False)
    finally:
        model.embedding, model.dimension = own, dimension


def k_means(vectors: np.ndarray, clusters: int, seed: tuple[int, ...]) -> np.ndarray:
    """The cluster (n,) of each of the vectors (n, d): at most `clusters`, the same for the same seed."""
    state = int(np.random.SeedSequence(seed).generate_state(1)[0])
    solver = KMeans(min(clusters, len(vectors)), n_init=1, max_iter=_ROUNDS, random_state=state)
    with threadpool_limits(1):  # several threads add up in the order in which they end, which changes the last bits
        return solver.fit_predict(vectors)
