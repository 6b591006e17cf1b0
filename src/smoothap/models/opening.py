"""What a user calls a model: the folder of a trained one, or a network by its timm name."""

from pathlib import Path

import torch

from smoothap.models.embedder import Embedder


def open_model(
    name: Path | str,
    *,
    dimension: int | None = None,
    size: int | None = None,
    weights: str | None = None,
    seed: int | None = None,
) -> Embedder:
    """The trained model of a folder, or the network NAME or NAME@SIZE with a new embedding layer, drawn by the seed.

    Without a dimension a network gives its own features. `weights` is a file in the place of the published weights, or
    "none" for random ones.
    """
    if Path(name).is_dir():
        return Embedder.load(name)
    architecture, _, side = str(name).partition("@")
    if "/" in architecture or "\\" in architecture or (side and not side.isdecimal()):
        raise ValueError(f"There is no model folder {name}: give the folder that smoothap train wrote, or a timm name")
    if side and size not in (None, int(side)):
        raise ValueError(f"{name} and a size of {size} do not agree: give one of them")
    if seed is not None:
        torch.manual_seed(seed)
    pretrained = True if weights is None else False if weights == "none" else Path(weights)
    return Embedder(architecture, dimension, size=int(side) if side else size, pretrained=pretrained)
