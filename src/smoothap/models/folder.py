"""A model on disk: one folder with `model.safetensors` and a readable `model.json`, nothing pickled."""

import json
import re
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from smoothap._core.files import ChecksummedJson, rename, write_atomically

WEIGHTS = "model.safetensors"
NEXT_WEIGHTS = "model.safetensors.next"  # those that the description is for, between two steps of a save
DESCRIPTION = "model.json"
_KINDS = {"architecture": str, "dimension": (int, type(None)), "transform": dict, "sha256": str}
_SEALED = ChecksummedJson("a model", _KINDS, "Copy the folder again")


def write_model(folder: Path | str, state: dict[str, Tensor], description: dict[str, Any]) -> Path:
    """Write both files; a crash at any moment leaves the old model or the new one.

    The new weights wait under a name of their own until the description, which holds their checksum, is written.
    """
    folder = Path(folder)
    weights = save({name: value.detach().cpu().contiguous() for name, value in state.items()})
    manifest = {**description, "smoothap": version("smoothap"), "sha256": sha256(weights).hexdigest()}
    plain = json.loads(json.dumps(manifest, allow_nan=False))  # as it will be read: 1 is "1"
    waiting = folder / NEXT_WEIGHTS
    left_over = waiting.is_file() and (folder / DESCRIPTION).is_file()
    if left_over and sha256(waiting.read_bytes()).hexdigest() == read_description(folder)["sha256"]:
        rename(waiting, folder / WEIGHTS)  # the last step of a save that was cut off: these weights are the old model
    write_atomically(waiting, weights)
    _SEALED.write(folder / DESCRIPTION, plain)
    rename(waiting, folder / WEIGHTS)
    return folder


def hub_folder(name: str) -> Path:
    """The folder of a model "owner/name" on the Hugging Face hub, fetched into the hub's own cache."""
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        raise FileNotFoundError(
            f"There is no folder {name}, and a model on the hub is called owner/name: give one of both"
        )
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, allow_patterns=[WEIGHTS, DESCRIPTION]))
    except (OSError, ValueError) as error:  # what the hub's client raises, whatever is wrong
        raise FileNotFoundError(
            f"{name} is no folder here, and could not be fetched from the hub ({str(error)[:200]}): copy {WEIGHTS} and "
            f"{DESCRIPTION} of that model into a folder, and give the folder"
        ) from error


def read_description(folder: Path | str) -> dict[str, Any]:
    """What `model.json` says: architecture, dimension, transform, data set, metrics, version and checksum."""
    file = Path(folder) / DESCRIPTION
    if not file.is_file():
        inner = Path(folder) / "model"  # where a training puts it
        meant = f" Did you mean {inner}?" if (inner / DESCRIPTION).is_file() else ""
        raise FileNotFoundError(f"No model in {folder}: a model folder holds {WEIGHTS} and {DESCRIPTION}.{meant}")
    return _SEALED.read(file)


def read_model(folder: Path | str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The weights and the description of a model folder; weights that are not those saved, to the byte, are refused."""
    folder = Path(folder)
    manifest = read_description(folder)
    files = [file for file in (folder / WEIGHTS, folder / NEXT_WEIGHTS) if file.is_file()]
    if not files:
        raise FileNotFoundError(f"{folder} has {DESCRIPTION} but no {WEIGHTS}: copy the whole folder")
    for file in files:
        weights = file.read_bytes()
        if sha256(weights).hexdigest() == manifest["sha256"]:
            try:
                return load(weights), manifest
            except SafetensorError as error:
                raise ValueError(f"{file} is not a whole safetensors file ({error}): copy it again") from error
    raise ValueError(
        f"{files[0]} is not the file that {DESCRIPTION} was written for: its checksum differs. Copy it again"
    )
