"""What a loss may bring to the training loop: a module alone, or batches, callbacks and other numbers of its own."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import torch
from torch import Tensor, nn

from smoothap.data.dataset import ImageDataset
from smoothap.data.image_set import ImageSet
from smoothap.data.samplers import Batches
from smoothap.models import Embedder
from smoothap.training.config import TrainingConfig


@dataclass(frozen=True, eq=False)
class TrainingSetup:
    """What a loss is built for: the training images, the network, the config, and batches that it may replace."""

    images: ImageSet
    model: Embedder
    config: TrainingConfig
    batches: Batches

    @property
    def steps(self) -> int:
        """Of the whole training."""
        return self.config.total_steps(len(self.batches))


class Callbacks(Protocol):
    """What a method does besides its loss; what it must remember is in buffers of the loss, which are saved."""

    def before_epoch(self, epoch: int, model: Embedder, dataset: ImageDataset) -> None:
        """Before the batches of an epoch are drawn; not again where a training goes on in the middle of one."""
        ...

    def before_step(self, rows: Tensor) -> None:
        """Before the loss of a batch, with the rows of its images in the set, (b,), over all processes."""
        ...


@dataclass(frozen=True, eq=False)
class LossParts:
    """A loss with what else it brings to the training; `changes` are those of the config."""

    loss: nn.Module
    changes: Mapping[str, Any] = field(default_factory=dict)
    batches: Batches | None = None  # instead of those of the setup
    callbacks: Callbacks | None = None
    name: str = ""  # by which a checkpoint tells it from others, if it has one


class LossBuilder(Protocol):
    """A loss that depends on the training, as one with a proxy for each class does."""

    def __call__(self, setup: TrainingSetup, /) -> nn.Module | LossParts: ...


Loss: TypeAlias = nn.Module | LossBuilder


def build_loss(loss: Loss, setup: TrainingSetup) -> LossParts:
    """The loss for a training; its own parameters, such as proxies, are drawn by the seed."""
    if isinstance(loss, nn.Module):
        return LossParts(loss)
    torch.manual_seed(setup.config.seed)
    built = loss(setup)
    return built if isinstance(built, LossParts) else LossParts(built)


def parameter_groups(loss: nn.Module, config: TrainingConfig) -> list[dict[str, Any]]:
    """The optimiser's groups of parameters that the loss itself learns (proxies, class weights), without weight decay.

    A decay would move the proxies of all classes that are not in a batch, and Adam would make full steps of it. A part
    of the loss with a `learning_rate` learns at that one, all others at `loss_factor` times that of the network.
    """
    own_rates = {
        parameter: float(rate)
        for part in loss.modules()
        if (rate := getattr(part, "learning_rate", None)) is not None
        for parameter in part.parameters()
    }
    shared = config.learning_rate * config.loss_factor
    by_rate: dict[float, list[nn.Parameter]] = {}
    for parameter in loss.parameters():
        by_rate.setdefault(own_rates.get(parameter, shared), []).append(parameter)
    return [{"params": parameters, "lr": rate, "weight_decay": 0.0} for rate, parameters in by_rate.items()]
