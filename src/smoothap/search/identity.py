"""Which network made the vectors: an album answers no query of another."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from smoothap.models import Embedder


@dataclass(frozen=True)
class ModelIdentity:
    """What makes two networks the same: the weights to the byte, the architecture, the transform, the dimension."""

    sha256: str
    architecture: str
    dimension: int
    transform: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.architecture}, {self.dimension} numbers, {self.transform.get('size')} px, {self.sha256[:12]}"


def identity_of(model: Embedder) -> ModelIdentity:
    """The identity of a model; its checksum is the one in the `model.json` of the folder it is saved in."""
    from safetensors.torch import save

    state = {name: value.detach().cpu().contiguous() for name, value in model.state_dict().items()}
    transform = json.loads(json.dumps(model.transform.to_dict()))  # as album.json gives it back
    return ModelIdentity(hashlib.sha256(save(state)).hexdigest(), model.architecture, model.dimension, transform)


def load_model(source: Embedder | Path | str) -> Embedder:
    """The model of a folder, or a network with its published weights as NAME or NAME@SIZE."""
    from smoothap.models import open_model

    return open_model(source).eval() if isinstance(source, (Path, str)) else source


def same_model(model: Embedder, wanted: ModelIdentity, where: str) -> Embedder:
    """The model, if it is the one that made the album at `where`."""
    given = identity_of(model)
    if given != wanted:
        raise ValueError(
            f"{where} was made by another model ({wanted}) than the one given ({given}), and their vectors cannot be "
            "compared: give the album's own model, or index the photos again with this one."
        )
    return model


def source_of(model: Embedder | Path | str, album: Path | None) -> str:
    """Where to look for the model again: a folder relative to the album, or the name of published weights."""
    if isinstance(model, (str, Path)):
        if not Path(model).is_dir():
            return f"name:{model}"
        if album is not None:
            return f"folder:{os.path.relpath(Path(model).resolve(), album.resolve())}"
    return ""


def find_model(source: str, wanted: ModelIdentity, album: Path) -> Embedder:
    """The model of an album, from where `source_of` says it was found."""
    kind, _, name = source.partition(":")
    if kind not in ("name", "folder"):
        raise ValueError(f"{album} does not say where its model lies: open it with the model it was made with.")
    place = name if kind == "name" else album / name
    try:
        model = load_model(place)
    except ConnectionError as error:
        raise ValueError(
            f"The model of this album is {place} with its published weights, which are not on this machine and "
            "cannot be fetched: run this once with a network, or fetch the weights elsewhere and make the album "
            f"again (smoothap index PHOTOS --model {str(place).replace('@', ' --size ')} --weights FILE --out ALBUM)."
        ) from error
    except ValueError as error:
        raise ValueError(
            f"The model of this album ({wanted}) is not at {place} any more: open the album with model=FOLDER "
            "(--model FOLDER on the command line)."
        ) from error
    return same_model(model, wanted, str(album))
