"""Masked arrays of numpy, which lose their mask when they become tensors or plain arrays."""

import numpy as np


def refuse_masked(values: object, name: str) -> None:
    """Refuse a masked array: what its mask hides would count like everything else."""
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(
            f"{name} is a masked array, whose mask would be lost: leave the masked rows out before the call"
        )
