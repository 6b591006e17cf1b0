"""Scores in full float32: at a temperature of 0.01, the rounding errors of TF32 or bfloat16 would change ranks."""

from collections.abc import Generator
from contextlib import contextmanager

import torch

# Where torch lets products of float32 be rounded to TF32 or bfloat16; new in torch 2.9, beside the older setting.
_PRODUCTS = [
    place
    for place in (torch.backends.cuda.matmul, getattr(torch.backends.mkldnn, "matmul", None))
    if hasattr(place, "fp32_precision")
]


# Where an NVIDIA GPU may round what networks multiply; for convolutions torch lets it by default.
_NETWORKS = (torch.backends.cuda.matmul, *(getattr(torch.backends.cudnn, name, None) for name in ("conv", "rnn")))


@contextmanager
def float32_networks(*, tf32: bool = False) -> Generator[None]:
    """Inside, a network in float32 is computed in float32; or with `tf32` in TF32, which rounds as float16 does."""
    if not all(hasattr(place, "fp32_precision") for place in _NETWORKS):  # a torch before 2.9
        places, name, value = (torch.backends.cuda.matmul, torch.backends.cudnn), "allow_tf32", tf32
    else:
        places, name, value = _NETWORKS, "fp32_precision", "tf32" if tf32 else "ieee"
    chosen = [getattr(place, name) for place in places]
    for place in places:
        setattr(place, name, value)
    try:
        yield
    finally:
        for place, before in zip(places, chosen, strict=True):
            setattr(place, name, before)


@contextmanager
def full_precision(device_type: str) -> Generator[None]:
    """Inside, no autocast, and products of float32 matrices are float32 throughout, whatever the user chose outside."""
    if torch.is_autocast_enabled(device_type):
        with torch.autocast(device_type, enabled=False), full_precision(device_type):
            yield
        return
    chosen = [place.fp32_precision for place in _PRODUCTS]
    try:
        older = torch.get_float32_matmul_precision()
    except RuntimeError:  # the user chose by the newer setting, so that the older one has no name for it
        older = None
    if older == "highest" and not set(chosen) & {"tf32", "bf16"}:
        yield
        return
    torch.set_float32_matmul_precision("highest")  # sets the newer ones too
    try:
        yield
    finally:
        if older is not None:
            torch.set_float32_matmul_precision(older)
        for place, precision in zip(_PRODUCTS, chosen, strict=True):
            if place.fp32_precision != precision:
                place.fp32_precision = precision
