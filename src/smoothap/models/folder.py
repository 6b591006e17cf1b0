"""A model on disk: one folder with `model.safetensors` and a readable `model.json`, nothing pickled."""

import hashlib
import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

from safetensors.torch import load, save
from torch import Tensor

from smoothap.files import write_atomically

WEIGHTS = "model.safetensors"
DESCRIPTION = "model.json"


def write_model(folder: Path | str, state: dict[str, Tensor], description: dict[str, Any]) -> Path:
    """Write both files; a crash between the two leaves a folder that `read_model` refuses."""
    folder = Path(folder)
    weights = save({name: value.detach().cpu().contiguous() for name, value in state.items()})
    described = {**description, "smoothap": version("smoothap"), "sha256": hashlib.sha256(weights).hexdigest()}
    text = json.dumps(described, indent=2, allow_nan=False) + "\n"
    write_atomically(folder / WEIGHTS, weights)
    write_atomically(folder / DESCRIPTION, text)
    return folder


def read_description(folder: Path | str) -> dict[str, Any]:
    """What `model.json` says: architecture, dimension, transform, data set, figures, version and checksum."""
    file = Path(folder) / DESCRIPTION
    if not file.is_file():
        raise FileNotFoundError(f"No model in {folder}: a model folder holds {WEIGHTS} and {DESCRIPTION}")
    try:
        described = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{file} is damaged: {error}") from error
    wanted = {"architecture": str, "dimension": (int, type(None)), "transform": dict, "sha256": str}
    for name, kind in wanted.items():
        if not isinstance(described, dict) or name not in described or not isinstance(described[name], kind):
            raise ValueError(f"{file} does not describe a model: {name!r} is missing or of the wrong kind")
    return described


def read_model(folder: Path | str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The weights and the description of a model folder; weights that are not those saved, to the byte, are refused."""
    described = read_description(folder)
    file = Path(folder) / WEIGHTS
    if not file.is_file():
        raise FileNotFoundError(f"{folder} has {DESCRIPTION} but no {WEIGHTS}: copy the whole folder")
    weights = file.read_bytes()
    if hashlib.sha256(weights).hexdigest() != described["sha256"]:
        raise ValueError(
            f"{file} is not the file that {DESCRIPTION} was written for: its checksum differs. Copy it again"
        )
    return load(weights), described
