"""Where tensors live, as properties of a device: nothing else in the package asks whether there is CUDA."""

import os
import sys
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

# Each reading process keeps two batches ready in shared memory, and 16 of them read more images than a card trains on.
_MOST_WORKERS = 16


def chosen_device(device: torch.device | str | None = None) -> torch.device:
    """The device that was asked for, if this machine has it; without one, its accelerator, else the CPU."""
    accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    if device is None:
        return accelerator or torch.device("cpu")
    number = 0 if accelerator is None else torch.accelerator.device_count()
    known = ["cpu", *(f"{accelerator}:{place}" for place in range(number))]
    remedy = f"leave --device out, or say {' or '.join(f'--device {name}' for name in known)}."
    try:
        wanted = torch.device(device)
    except RuntimeError:
        wanted = torch.device("meta")
    if wanted.type == "meta":  # torch's device for shapes alone, which holds no numbers
        raise ValueError(f"There is no device called {str(device)!r}: {remedy}")
    is_accelerator = accelerator is not None and wanted.type == accelerator.type
    # No tensor is made on the accelerator to try it out: each process of torchrun takes a card of its own later.
    present = (wanted.index or 0) < number if is_accelerator else _holds_numbers(wanted)
    if not present:
        missing = "no CUDA" if wanted.type == "cuda" and not is_accelerator else f"no device {device}"
        raise ValueError(f"This machine has {missing}: {remedy}")
    return wanted


def _holds_numbers(device: torch.device) -> bool:
    try:
        return torch.zeros(1, device=device).device.type == device.type
    except Exception:  # each kind of device has its own way to say that it is not there
        return False


def default_workers(device: torch.device) -> int:
    """How many processes should read images for work on a device, unless the user says it.

    For an accelerator the cores that are there, shared with the other processes that torchrun started here; for the
    CPU none, since they would take the cores that the network needs (`benchmarks/loop_speed.py`).
    """
    if device.type == "cpu":
        return 0
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(_MOST_WORKERS, cores // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))))


def lanes_for(device: torch.device) -> int:
    """How many batches are best computed side by side: on the CPU one on each of torch's threads, elsewhere one."""
    return torch.get_num_threads() if device.type == "cpu" else 1


def count_memory(device: torch.device) -> None:
    """Count from here on the memory that `peak_bytes` tells."""
    if hasattr(module := torch.get_device_module(device), "reset_peak_memory_stats"):
        module.reset_peak_memory_stats(device)


def peak_bytes(device: torch.device) -> int:
    """The most that tensors took at a time of the memory of a device; 0 for the CPU, and where a device does not say.

    Of a device with memory of its own, such as a CUDA card, that is what counts, and not the memory of the process.
    """
    module = torch.get_device_module(device)
    return module.max_memory_allocated(device) if hasattr(module, "max_memory_allocated") else 0


def peak_memory(device: torch.device) -> int:
    """The most bytes held at a time: of the device's own memory where it has some, else by this process.

    0 where the system does not say.
    """
    if held := peak_bytes(device):
        return held
    try:
        import resource
    except ModuleNotFoundError:  # Windows
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


@cache
def has_float64(device: torch.device) -> bool:
    """Whether the device computes in float64; Apple's does not."""
    try:
        torch.zeros(1, dtype=torch.float64, device=device)
    except (TypeError, RuntimeError):
        return False
    return True


@cache
def pins_memory(device: torch.device) -> bool:
    """Whether the CPU's memory can be pinned, which lets copies to the device go on beside the work."""
    try:
        return device.type != "cpu" and torch.empty(1, device="cpu").pin_memory().is_pinned()
    except RuntimeError:  # a device without such a thing
        return False


def widest_float(device: torch.device) -> torch.dtype:
    """The float with the most digits that the device computes in."""
    return torch.float64 if has_float64(device) else torch.float32


def on_cpu(*numbers: Tensor) -> list[Tensor]:
    """Whole numbers and flags, each of any shape, on the CPU: brought there in one copy, for which it waits once."""
    if all(tensor.device.type == "cpu" for tensor in numbers):
        return list(numbers)
    together = torch.cat([tensor.long().flatten() for tensor in numbers]).cpu()
    parts = together.split([tensor.numel() for tensor in numbers])
    return [part.view(tensor.shape) for part, tensor in zip(parts, numbers, strict=True)]


def rng_states(device: torch.device) -> list[Tensor]:
    """The state of torch's random numbers: of the CPU, and of the device where it has its own."""
    return [torch.get_rng_state(), *(module.get_rng_state(device) for module in _own_random_numbers(device))]


def set_rng_states(device: torch.device, states: list[Tensor]) -> None:
    """Go on with random numbers from where `rng_states` was called."""
    torch.set_rng_state(states[0])
    for module, state in zip(_own_random_numbers(device), states[1:], strict=True):
        module.set_rng_state(state, device)


def set_seed(device: torch.device, seed: int) -> None:
    """Begin the random numbers of the CPU and of the device again.

    On the CPU alone that is `torch.manual_seed` without what that notes for accelerators which are not there: a trace
    of the calls for each kind of them.
    """
    if device.type == "cpu":
        torch.default_generator.manual_seed(seed)
    else:
        torch.manual_seed(seed)


def _own_random_numbers(device: torch.device) -> list[Any]:
    """The module of a device that draws its own random numbers, such as torch.cuda; none for the CPU."""
    module = torch.get_device_module(device)
    return [module] if device.type != "cpu" and hasattr(module, "get_rng_state") else []


def refuse_layout(values: Tensor, name: str) -> None:
    """Refuse rows that torch does not compute with as they are: without values, sparse ones, and floats of one byte."""
    if values.device.type == "meta":
        raise ValueError(f"{name} is on the device meta, which holds no values: compute it on another device")
    if values.layout != torch.strided:
        raise ValueError(f"{name} is sparse ({values.layout}): use {name}.to_dense()")
    if values.is_floating_point() and values.itemsize == 1:
        raise ValueError(f"{name} is of {values.dtype}, in which torch computes little: use {name}.float()")


def refuse_masked(values: object, name: str) -> None:
    """Refuse a masked array, which loses its mask as a tensor: what that hides would count like everything else."""
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(
            f"{name} is a masked array, whose mask would be lost: leave the masked rows out before the call"
        )
