"""A model on disk: one folder with `model.safetensors` and a readable `model.json`, nothing pickled."""

import hashlib
import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from smoothap.files import rename, write_atomically
from smoothap.sealed_json import SealedJson

WEIGHTS = "model.safetensors"
NEXT_WEIGHTS = "model.safetensors.next"  # those that the description is for, between two steps of a save
DESCRIPTION = "model.json"
FORMAT = 2  # with a checksum of the description itself; 1, without one, is read too
_KINDS = {"architecture": str, "dimension": (int, type(None)), "transform": dict, "sha256": str}
_SEALED = SealedJson("a model", _KINDS, "Copy the folder again", indent=2, older=True)


def write_model(folder: Path | str, state: dict[str, Tensor], description: dict[str, Any]) -> Path:
    """Write both files; a crash at any moment leaves the old model or the new one.

    The new weights wait under a name of their own until the description, which holds their checksum, is written.
    """
    folder = Path(folder)
    weights = save({name: value.detach().cpu().contiguous() for name, value in state.items()})
    described = {**description, "smoothap": version("smoothap"), "sha256": hashlib.sha256(weights).hexdigest()}
    plain = json.loads(json.dumps({**described, "format": FORMAT}, allow_nan=False))  # as it will be read: 1 is "1"
    _end_a_save(folder)
    write_atomically(folder / NEXT_WEIGHTS, weights)
    _SEALED.write(folder / DESCRIPTION, plain)
    rename(folder / NEXT_WEIGHTS, folder / WEIGHTS)
    return folder


def _end_a_save(folder: Path) -> None:
    """If a save was cut off after its description was written, take its last step: those weights are the model."""
    if (folder / NEXT_WEIGHTS).is_file() and (folder / DESCRIPTION).is_file():
        expected = read_description(folder)["sha256"]
        if hashlib.sha256((folder / NEXT_WEIGHTS).read_bytes()).hexdigest() == expected:
            rename(folder / NEXT_WEIGHTS, folder / WEIGHTS)


def read_description(folder: Path | str) -> dict[str, Any]:
    """What `model.json` says: architecture, dimension, transform, data set, figures, version and checksum."""
    file = Path(folder) / DESCRIPTION
    if not file.is_file():
        inner = Path(folder) / "model"  # where a training puts it
        meant = f" Did you mean {inner}?" if (inner / DESCRIPTION).is_file() else ""
        raise FileNotFoundError(f"No model in {folder}: a model folder holds {WEIGHTS} and {DESCRIPTION}.{meant}")
    return _SEALED.read(file)


def read_model(folder: Path | str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The weights and the description of a model folder; weights that are not those saved, to the byte, are refused."""
    folder = Path(folder)
    described = read_description(folder)
    files = [file for file in (folder / WEIGHTS, folder / NEXT_WEIGHTS) if file.is_file()]
    if not files:
        raise FileNotFoundError(f"{folder} has {DESCRIPTION} but no {WEIGHTS}: copy the whole folder")
    for file in files:
        weights = file.read_bytes()
        if hashlib.sha256(weights).hexdigest() == described["sha256"]:
            try:
                return load(weights), described
            except SafetensorError as error:
                raise ValueError(f"{file} is not a whole safetensors file ({error}): copy it again") from error
    raise ValueError(
        f"{files[0]} is not the file that {DESCRIPTION} was written for: its checksum differs. Copy it again"
    )
