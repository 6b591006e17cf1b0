"""Embeddings wherever they are (torch or numpy, in memory or mapped from a file), read a tile of rows at a time."""

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

Embeddings: TypeAlias = Tensor | np.ndarray
_ROWS_AT_ONCE = 8192
_SMALL_ENOUGH_TO_HOLD = 1 << 26  # numbers: 256 MB in float32


@dataclass(frozen=True)
class Rows:
    """Rows of a matrix in a given order, of length 1, on a device."""

    matrix: Embeddings
    order: np.ndarray  # (n,) which row stands where
    lengths: np.ndarray | None  # (rows,) to divide by; None: they are all equal, and cosine is the plain product
    dtype: torch.dtype
    device: torch.device
    held: Tensor | None = None  # a small matrix, in order and of length 1

    @classmethod
    def of(cls, matrix: Embeddings, order: np.ndarray, device: torch.device, dtype: torch.dtype, name: str) -> "Rows":
        """Look at every row once; NaN, infinite and zero rows are refused by name."""
        lengths = np.empty(len(matrix))
        for start in range(0, len(matrix), _ROWS_AT_ONCE):
            block = _as_tensor(matrix[start : start + _ROWS_AT_ONCE], dtype)
            part = torch.linalg.vector_norm(block.double(), dim=1).cpu().numpy()
            lengths[start : start + _ROWS_AT_ONCE] = part
            wrong = ~np.isfinite(part) | (part == 0)
            if wrong.any():
                row = int(np.flatnonzero(wrong)[0])
                what = "is all zeros" if part[row] == 0 else "has NaN or infinite values"
                raise ValueError(
                    f"{name} {what} in row {start + row}, which cannot be ranked: embed that image again or drop it"
                )
        # Rows that have one length already, up to rounding, are taken as they are: their ranking is that of the
        # cosine, and dividing would only round them once more.
        tolerance = 8 * torch.finfo(dtype).eps
        even = lengths.max() - lengths.min() <= tolerance * lengths.max()
        rows = cls(matrix, order, None if even else lengths, dtype, device)
        if matrix.shape[0] * matrix.shape[1] > _SMALL_ENOUGH_TO_HOLD:
            return rows
        return replace(rows, held=rows.tile(0, len(order), len(order)))

    def tile(self, start: int, stop: int, size: int) -> Tensor:
        """Rows start ... stop - 1 of the order, and zeros up to `size` rows. (size, d)"""
        if self.held is not None:
            return _padded(self.held[start:stop], size)
        places = self.order[start:stop]
        if isinstance(self.matrix, Tensor):
            block = self.matrix[torch.from_numpy(places).to(self.matrix.device)]
        else:
            block = np.asarray(self.matrix[places])
        rows = _as_tensor(block, self.dtype).to(self.device)
        if self.lengths is not None:
            rows = rows / torch.from_numpy(self.lengths[places]).to(rows)[:, None]
        return _padded(rows, size)


def _padded(rows: Tensor, size: int) -> Tensor:
    return rows if len(rows) == size else torch.cat([rows, rows.new_zeros(size - len(rows), rows.shape[1])])


def _as_tensor(block: Embeddings, dtype: torch.dtype) -> Tensor:
    if isinstance(block, Tensor):
        return block.detach().to(dtype)
    numpy_type = np.float64 if dtype == torch.float64 else np.float32
    return torch.from_numpy(np.array(block, dtype=numpy_type))
