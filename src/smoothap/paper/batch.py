"""A batch of the user's images, for the analyses that are measured on one."""

from dataclasses import dataclass

import torch
from torch import Tensor

from smoothap.data.image_set import ImageSet
from smoothap.data.names import open_data
from smoothap.data.samplers import BalancedBatches
from smoothap.models import open_model


@dataclass(frozen=True)
class Batch:
    """Which images, and what embeds them: the options of the commands by their names."""

    data: str
    model: str
    weights: str | None = None
    size: int | None = 64
    batch_size: int = 128
    seed: int = 0

    def embedded(self, device: str | None) -> tuple[Tensor, Tensor]:
        """Embeddings (b, d) of length 1 and labels (b,)."""
        images = balanced_images(self.data, self.batch_size, self.seed)
        model = open_model(self.model, size=self.size, weights=self.weights, seed=self.seed).to(device)
        return model.embed(images), torch.from_numpy(images.labels)


def balanced_images(data: str, number: int, seed: int) -> ImageSet:
    """One balanced batch of a set's training images; of its test images where it has no others."""
    benchmark = open_data(data)
    images = benchmark.train_and_validation(seed)[0] if benchmark.train else next(iter(benchmark.tests.values()))
    return images.rows(BalancedBatches(images.labels, number, seed=seed).rows(0)[0])
