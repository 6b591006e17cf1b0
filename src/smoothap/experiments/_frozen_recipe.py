"""A recipe whose training leaves the backbone as it is: the layers behind it learn from features computed once."""

import copy
from dataclasses import replace
from pathlib import Path

import torch

from smoothap._core.distributed import Processes
from smoothap.data.benchmark import Benchmark
from smoothap.models import Embedder
from smoothap.training.frozen import freeze
from smoothap.training.recipe import Recipe, Weights


def frozen_recipe(
    recipe: Recipe, network: Embedder, *, dimension: int, hidden: int, seed: int, views: int, workers: int
) -> Recipe:
    """The recipe with features in the place of images, and what is behind the backbone in the place of the model.

    A layer that `network` has is trained further; else it is a new one of this dimension.
    """

    def data(path: Path) -> Benchmark:
        frozen = freeze(recipe.data(path), network, views=views, workers=workers)
        if Processes.here().rank == 0 and frozen.files:
            print(frozen)
        return frozen.benchmark

    def before(_: Weights) -> Embedder:
        return copy.deepcopy(network.on_features())

    def model(weights: Weights) -> Embedder:
        head = before(weights)
        if head.embedding is None:
            torch.manual_seed(seed)
            head.renew_embedding(dimension, hidden)
        return head

    return replace(recipe, data=data, model=model, before=before)
