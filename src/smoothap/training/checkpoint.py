"""How far a training is, on disk: all that is needed to go on as if nothing had happened.

`checkpoint-STEP.safetensors` holds the tensors of the model, the loss, the optimiser and the memory. `checkpoint.json`
names it, with its checksum, and holds the plain values. The json is replaced in one move when the tensors are safely
on the disk, so a crash at any moment leaves the older checkpoint or the newer one. Nothing is pickled.
Random states are not saved: what a step draws is a function of (seed, step, process).
"""

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from smoothap._core.distributed import Processes
from smoothap._core.files import ChecksummedJson, Kinds, write_atomically
from smoothap.models.cpu import kernels
from smoothap.training.gradients import EmbeddingMemory

FILE = "checkpoint.json"
_COUNTERS = ("step", "best", "best_step", "seconds")  # of `State`
_REMEDY = "Restore it from a copy, or train again elsewhere"
_IMAGES = {"trained_on": "trained on", "validated_on": "validated on"}  # of the config, what `identity` says
_SAME_COLOUR = 1.0  # of 255: two decoders agree in the mean of an image to a tenth of that
_KINDS: Kinds = {
    "step": int, "best": (int, float), "best_step": int, "seconds": float, "config": dict, "kernels": str,
    "threads": int, "groups": list, "scaler": dict, "tensors": str, "sha256": str,
}  # fmt: skip
_SEALED = ChecksummedJson("a checkpoint", _KINDS, _REMEDY)


@dataclass
class State:
    """Everything that changes during training; `step` counts the steps that are done."""

    model: nn.Module
    loss: nn.Module
    optimiser: torch.optim.Optimizer
    scaler: torch.amp.GradScaler
    memory: EmbeddingMemory | None
    step: int = 0
    best: float = -1.0  # mAP on the validation classes
    best_step: int = 0
    seconds: float = 0.0


def exists(folder: Path) -> bool:
    """Whether a training left a checkpoint in the folder."""
    return (folder / FILE).is_file()


def seconds_spent(folder: Path) -> float:
    """How long the training of the folder had taken at its checkpoint, over all the times it was resumed."""
    return _SEALED.read(folder / FILE)["seconds"]


def remove(folder: Path) -> None:
    """Delete the checkpoint of a finished training; its log and its model stay."""
    for file in [folder / FILE, *folder.glob("checkpoint-*.safetensors")]:
        file.unlink(missing_ok=True)


def write(folder: Path, state: State, config: dict[str, Any]) -> None:
    """Put the state into the folder, instead of an older one; values that are not finite are refused."""
    tensors = {f"model.{name}": value for name, value in state.model.state_dict().items()}
    tensors |= {f"loss.{name}": value for name, value in state.loss.state_dict().items()}
    for name, value in tensors.items():
        if value.is_floating_point() and not bool(value.isfinite().all()):
            raise ValueError(f"{name} is no longer finite after step {state.step}; try a lower learning rate")
    optimiser = state.optimiser.state_dict()
    for number, slots in optimiser["state"].items():
        tensors |= {f"optimiser.{number}.{name}": value for name, value in slots.items()}
    if state.memory is not None:
        tensors |= {"memory.embeddings": state.memory.embeddings, "memory.labels": state.memory.labels}
    content = save({name: value.detach().cpu().contiguous() for name, value in tensors.items()})
    file = folder / f"checkpoint-{state.step}.safetensors"
    manifest = {
        **{name: getattr(state, name) for name in _COUNTERS},
        "config": config,
        "kernels": kernels(),
        "threads": torch.get_num_threads(),
        "groups": optimiser["param_groups"],
        "scaler": state.scaler.state_dict(),
        "tensors": file.name,
        "sha256": hashlib.sha256(content).hexdigest(),
    }
    write_atomically(file, content)
    _SEALED.write(folder / FILE, manifest)
    for old in folder.glob("checkpoint-*.safetensors"):
        if old != file:
            old.unlink(missing_ok=True)


def read(folder: Path, state: State, config: dict[str, Any]) -> None:
    """Put what the folder holds into `state`; a changed byte or another training's settings are refused."""
    manifest = _SEALED.read(folder / FILE)
    _refuse_another(folder, manifest["config"], config)
    if manifest["kernels"] != kernels():
        _note(f"layers computed by {manifest['kernels']} and goes on with {kernels()}")
    _use_threads(manifest["threads"])
    if not re.fullmatch(r"checkpoint-\d{1,20}\.safetensors", manifest["tensors"]):
        raise ValueError(f"{folder / FILE} names {manifest['tensors']!r}, which is no file of a checkpoint")
    if not (folder / manifest["tensors"]).is_file():
        raise ValueError(f"{folder} has {FILE} but not {manifest['tensors']}, which belongs to it. {_REMEDY}")
    content = (folder / manifest["tensors"]).read_bytes()
    if hashlib.sha256(content).hexdigest() != manifest["sha256"]:
        raise ValueError(f"{folder / manifest['tensors']} is damaged: its checksum differs. {_REMEDY}")
    try:
        _put(load(content), manifest, state)
    except (SafetensorError, KeyError, TypeError, AttributeError, RuntimeError, ValueError) as error:
        raise ValueError(f"{folder / FILE} is the checkpoint of another training: {error}") from error


def _refuse_another(folder: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    """An error where a training was begun with other settings or on other images."""
    differing = [name for name, value in now.items() if not _is_same(name, before.get(name), value)]
    values = [f"{name} was {before.get(name)} and is {now[name]}" for name in differing if name not in _IMAGES]
    if values:
        raise ValueError(
            f"{folder} holds a training with other settings ({', '.join(values)}): repeat its command, or choose "
            "another folder"
        )
    if differing:
        raise ValueError(
            f"{folder} holds a training that was {_IMAGES[differing[0]]} other images or classes than those that are "
            "given now: repeat its command with the same --data, --test-classes and --test-fraction, or choose another "
            "folder"
        )


def _is_same(name: str, before: Any, now: Any) -> bool:
    if name not in _IMAGES or not isinstance(before, dict):
        return before == now
    colours, others = (np.array(images.get("colours")) for images in (before, now))
    same_colours = colours.shape == others.shape and bool(np.allclose(colours, others, atol=_SAME_COLOUR))
    return before.get("files") == now["files"] and same_colours


def _use_threads(wanted: int) -> None:
    """Go on with the number of threads that the training began with: another sums in another order."""
    here = torch.get_num_threads()
    if wanted == here:
        return
    if not 1 <= wanted <= (os.cpu_count() or 1):
        _note(f"{wanted} threads and goes on with {here}, because this machine has no more than {os.cpu_count()} cores")
        return
    torch.set_num_threads(wanted)
    if Processes.here().rank == 0:
        print(f"This training began with {wanted} threads and goes on with as many, not with {here}.")


def _note(change: str) -> None:
    if Processes.here().rank == 0:
        print(
            f"Note: this training began with {change}, so that its weights will differ in their last bits from those "
            "of one that was not interrupted."
        )


def _put(tensors: dict[str, Tensor], manifest: dict[str, Any], state: State) -> None:
    parts: dict[str, dict[str, Tensor]] = {"model": {}, "loss": {}, "optimiser": {}, "memory": {}}
    for name, value in tensors.items():
        part, _, rest = name.partition(".")
        parts[part][rest] = value
    state.model.load_state_dict(parts["model"])
    state.loss.load_state_dict(parts["loss"])
    slots: dict[int, dict[str, Tensor]] = {}
    for name, value in parts["optimiser"].items():
        number, _, slot = name.partition(".")
        slots.setdefault(int(number), {})[slot] = value
    state.optimiser.load_state_dict({"state": slots, "param_groups": manifest["groups"]})
    state.scaler.load_state_dict(manifest["scaler"])
    if state.memory is not None:
        state.memory.embeddings = parts["memory"]["embeddings"].to(state.memory.embeddings.device)
        state.memory.labels = parts["memory"]["labels"].to(state.memory.labels.device)
    for name in _COUNTERS:
        setattr(state, name, manifest[name])
