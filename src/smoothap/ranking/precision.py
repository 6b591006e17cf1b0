"""Scores in full float32: a temperature of 0.01 turns the rounding of TF32 or bfloat16 into ranks."""

from collections.abc import Generator
from contextlib import contextmanager

import torch


@contextmanager
def full_precision(device_type: str) -> Generator[None]:
    """Inside, no autocast, and products of float32 matrices are float32 throughout, whatever the user chose outside."""
    if torch.is_autocast_enabled(device_type):
        with torch.autocast(device_type, enabled=False), full_precision(device_type):
            yield
        return
    chosen = torch.get_float32_matmul_precision()
    if chosen == "highest":
        yield
        return
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(chosen)
