"""Which loss a training takes: the recipe's own, or a compared method by its name (`--loss`)."""

from collections.abc import Mapping
from dataclasses import replace
from inspect import signature
from typing import Any, NamedTuple

import torch
from torch import nn

from smoothap._core.distributed import Processes
from smoothap.data.image_set import ImageSet
from smoothap.data.samplers import BalancedBatches, Batches
from smoothap.models import Embedder
from smoothap.training.loop import Callbacks
from smoothap.training.recipe import Recipe
from smoothap.training.settings import Settings


class LossParts(NamedTuple):
    """A loss with what it changes in a training."""

    loss: nn.Module
    settings: Settings
    batches: Batches | None  # None: balanced ones
    callbacks: Callbacks | None = None


def check_losses(recipe: Recipe) -> None:
    """An error where a training of the recipe names a loss or an option that there is not."""
    for settings in recipe.trainings().values():
        if settings.loss is not None:
            _method(settings.loss).checked(settings.loss_options)
        elif settings.loss_options:
            raise ValueError("--loss-option belongs to a loss: name it with --loss NAME")
        elif recipe.loss is None:
            raise ValueError("this recipe has no loss, and its settings name none: choose one with --loss NAME")


def chosen_trainings(recipe: Recipe, changes: Mapping[str, Any]) -> dict[str, Settings]:
    """The trainings of the recipe; of one that compares losses, those with the loss that is asked for."""
    trainings, loss = recipe.trainings(), changes.get("loss")
    if loss is None or "loss" not in recipe.varies():
        return trainings
    chosen = {name: settings for name, settings in trainings.items() if settings.loss == loss}
    if not chosen:
        known = ", ".join(str(settings.loss) for settings in trainings.values())
        raise ValueError(f"this recipe has no training with --loss {loss}: it has {known}")
    return chosen


def build_loss(
    recipe: Recipe, settings: Settings, images: ImageSet, model: Embedder, batches: Batches | None, processes: Processes
) -> LossParts:
    """The loss of a training, for its images and its network."""
    if settings.loss is None:
        return LossParts(_own_loss(recipe, settings, images), settings, batches)
    from smoothap.methods import Setup  # its packages are an extra, which other trainings can do without

    if batches is None:
        batches = BalancedBatches(
            images.labels, settings.batch_size, settings.samples_per_class, by_size=settings.by_size,
            seed=settings.seed, rank=processes.rank, ranks=processes.number,
        )  # fmt: skip
    torch.manual_seed(settings.seed)  # proxies and class weights begin as in `smoothap compare`
    parts = _method(settings.loss).parts(Setup(images, model, settings, batches), settings.loss_options)
    if parts.callbacks is not None and processes.number > 1:
        raise ValueError(f"{settings.loss} clusters the training images in one process: train it without torchrun")
    return LossParts(parts.loss, replace(settings, **parts.changes), parts.batches or batches, parts.callbacks)


def _own_loss(recipe: Recipe, settings: Settings, images: ImageSet) -> nn.Module:
    assert recipe.loss is not None  # `check_losses`
    try:
        signature(recipe.loss).bind(settings, images)
    except TypeError:  # a recipe whose loss needs no training images may say so
        return recipe.loss(settings)
    return recipe.loss(settings, images)


def _method(name: str) -> Any:
    from smoothap.methods import METHODS, open_methods

    if name not in METHODS:
        open_methods(name)  # says what was meant
        raise ValueError(f"--loss takes one method: {', '.join(METHODS)}, not {name!r}")
    return METHODS[name]
