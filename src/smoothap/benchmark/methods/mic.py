"""MIC: Mining Interclass Characteristics (Roth, Brattoli, Ommer, ICCV 2019).

Beside the embedding a second head learns what images of different classes share (pose, background, colour): its
surrogate classes are clusters, first of features from which each class's mean was taken away, then, before every fourth
epoch, of the second head's own vectors. A small network tries to predict the embedding from the second head; its
gradient is reversed before it reaches the two, which makes them independent, so that the embedding need not explain
what the second head does. The second head is left out in the test. Both heads take the margin loss with
distance-weighted sampling. As in the released code, the second head learns in a share of the steps alone (`task_p`),
and a fifth of the images stand for a cluster that is drawn at random (`random_cluster_pick_p`). Differences: there
a batch of clusters follows one of classes, here both heads learn from the same batch; the first clusters are there of
an early layer, here of the last; and there the second head and the network between the heads have weight decay.
"""

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from smoothap.benchmark.methods.baselines import margin_loss
from smoothap.benchmark.methods.divide_and_conquer import features_behind, k_means
from smoothap.data.dataset import ImageDataset
from smoothap.models import Embedder
from smoothap.training.head_init import class_means

_UPDATE_EVERY = 4  # epochs: `--cluster_update_freq 3` counts those between two updates
_RANDOM_SURROGATES = 0.2  # the share of images with a surrogate class at random, `--random_cluster_pick_p`
_SECOND_DIMENSION = 128  # of both heads in the released code: its weights of the reversal go with that many dimensions
_HIDDEN = 512  # numbers in the network that predicts one head from the other
# The released surrogate classes, weight of the reversal and share of the steps in which the second head learns
# (`--shared_num_classes`, `--adv_weights`, `--task_p` in Result_Runs.sh), for each set; those of birds for any other.
_RELEASED = {
    "sop": (50, 250.0, 0.5), "vehicle-id": (50, 250.0, 0.5), "in-shop": (150, 250.0, 0.8), "cars": (150, 500.0, 0.8),
}  # fmt: skip
_OTHERS = (30, 2500.0, 0.8)


def released_numbers(data_set: str) -> tuple[int, float, float]:
    """Surrogate classes, weight of the reversal and share of the second head's steps for a set such as "sop train"."""
    return _RELEASED.get(data_set.partition(" ")[0], _OTHERS)


def with_reversed_gradient(values: Tensor) -> Tensor:
    """The same values forward, to the bit; the opposite gradient backward."""
    return 2 * values.detach() - values


class Independence(nn.Module):
    """A small network that predicts the embedding from the second head; the heads learn to make that impossible."""

    def __init__(self, second_dimension: int, dimension: int) -> None:
        super().__init__()
        self.predict = nn.Sequential(nn.Linear(second_dimension, _HIDDEN), nn.ReLU(), nn.Linear(_HIDDEN, dimension))

    def forward(self, embeddings: Tensor, second: Tensor) -> Tensor:
        """embeddings (b, d), second (b, e), of length 1 -> minus the mean square of their product, times d * d."""
        embeddings, second = with_reversed_gradient(embeddings), with_reversed_gradient(second)
        predicted = normalize(self.predict(second), dim=1)
        return -((embeddings * predicted) ** 2).mean() * embeddings.shape[1] ** 2


class InterclassMining(nn.Module):
    """Both losses and the term between them. The features come from below the embedding layer of `model`.

    The training loop calls it before every epoch, where it renews the surrogate classes every fourth time, and before
    every step, whose chance it seeds.
    """

    surrogate_of_row: Tensor

    def __init__(
        self,
        model: Embedder,
        classes: int,
        images: int,
        *,
        surrogates: int,
        reversal: float,
        second_steps: float,
        seed: int,
    ) -> None:
        super().__init__()
        if model.embedding is None:
            raise ValueError("MIC needs a network with an embedding layer: give it a dimension")
        self.surrogates, self.reversal, self._seed = surrogates, reversal / _SECOND_DIMENSION**2, seed
        self.second_steps = second_steps
        self.main, self.surrogate = margin_loss(classes), margin_loss(surrogates)
        self.second_head = nn.Linear(model.embedding.in_features, _SECOND_DIMENSION)
        self.independence = Independence(_SECOND_DIMENSION, model.dimension)
        self.register_buffer("surrogate_of_row", torch.zeros(images, dtype=torch.long))
        self._rows: Tensor | None = None
        self._features: Tensor | None = None
        model.embedding.register_forward_pre_hook(self._keep)

    def _keep(self, layer: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        self._features = inputs[0]

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        features = self._features
        if features is None or self._rows is None or len(features) != len(embeddings):
            raise ValueError("MIC needs the features of the whole batch: train it in one pass and one process")
        self._features = None
        second = normalize(self.second_head(features.float()), dim=1)
        value = self.main(embeddings, labels) + self.reversal * self.independence(embeddings, second)
        if float(torch.rand(())) >= self.second_steps:
            return value
        return value + self.surrogate(second, with_random_labels(self.surrogate_of_row[self._rows], self.surrogates))

    def before_epoch(self, epoch: int, model: Embedder, dataset: ImageDataset) -> None:
        """Cluster what is left of the features without their class, later the vectors of the second head."""
        if epoch % _UPDATE_EVERY:
            return
        embedded = features_behind(model, dataset, self.second_head if epoch else None)
        features = embedded.vectors if epoch else without_class(embedded.vectors, dataset.images.labels[embedded.rows])
        surrogates = np.zeros(len(dataset), np.int64)
        surrogates[embedded.rows] = k_means(features, self.surrogates, (self._seed, epoch))
        self.surrogate_of_row.copy_(torch.from_numpy(surrogates))

    def before_step(self, rows: Tensor) -> None:
        """Take note of the images of the batch that comes."""
        self._rows = rows


def with_random_labels(labels: Tensor, classes: int) -> Tensor:
    """The labels (b,), a fifth of them replaced by any of the classes."""
    others = torch.randint(classes, labels.shape, device=labels.device)
    return torch.where(torch.rand(labels.shape, device=labels.device) < _RANDOM_SURROGATES, others, labels)


def without_class(vectors: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The vectors (n, d) minus the mean of their class: what the class does not explain."""
    vectors = vectors.astype(np.float64)
    means, classes = class_means(vectors, labels)
    return vectors - means[classes]
