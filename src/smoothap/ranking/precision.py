"""Scores in full float32: a temperature of 0.01 turns the rounding of TF32 or bfloat16 into ranks."""

from collections.abc import Generator
from contextlib import contextmanager

import torch


@contextmanager
def full_precision() -> Generator[None]:
    """Products of float32 matrices inside are float32 throughout, whatever speed the user chose elsewhere."""
    chosen = torch.get_float32_matmul_precision()
    if chosen == "highest":
        yield
        return
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(chosen)
