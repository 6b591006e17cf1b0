"""What an album learnt: a linear projection of its vectors, whose bits are the same on every machine.

A product in float64 is exact, whatever its order, if both sides are whole numbers whose sums stay below 2^53. So the
vectors and the weights are rounded to steps of 2^-26, far below what float32 keeps of them: one row gives the same
bits alone or among thousands, on any number of threads, and photos that are exact copies stay so.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from smoothap.album.vectors import unit_vectors
from smoothap.metrics.cosine import row_norms

_BITS = 26  # of a vector, and of the longest row of weights: the products of both add up to at most 2^53
_AT_ONCE = 1 << 13  # rows
_OFF = 1e-3  # by which the square of a length may differ from 1


@dataclass(frozen=True, eq=False)
class Projection:
    """Vectors (n, d) of length 1 -> vectors (n, k) of length 1: weight (k, d), bias (k,), both float32."""

    weight: np.ndarray
    bias: np.ndarray

    def __post_init__(self) -> None:
        weight, bias = self.weight, self.bias
        if weight.ndim != 2 or bias.shape != weight.shape[:1] or not weight.size:
            raise ValueError(f"A projection is weights (k, d) with a bias (k,), not {weight.shape} with {bias.shape}.")
        if not (np.isfinite(weight).all() and np.isfinite(bias).all()) or not weight.any():
            raise ValueError("A projection has weights that are finite and not all 0.")

    @property
    def dimension(self) -> int:
        """How many numbers a projected vector has."""
        return len(self.bias)

    def to_array(self) -> np.ndarray:
        """Both as one array (k, d + 1), the bias last."""
        return np.column_stack([self.weight, self.bias]).astype(np.float32)

    @classmethod
    def from_array(cls, array: np.ndarray) -> "Projection":
        """What `to_array` made one."""
        return cls(np.ascontiguousarray(array[:, :-1]), np.ascontiguousarray(array[:, -1]))

    def __call__(self, vectors: np.ndarray) -> np.ndarray:
        """Project vectors (n, d) of length 1. -> (n, k) float32 of length 1"""
        if vectors.ndim != 2 or vectors.shape[1] != self.weight.shape[1]:
            raise ValueError(f"Vectors {vectors.shape} do not go with a projection of {self.weight.shape[1]} numbers.")
        projected = np.empty((len(vectors), self.dimension), np.float32)
        weights = self._whole_weights()
        for start in range(0, len(vectors), _AT_ONCE):
            rows = np.asarray(vectors[start : start + _AT_ONCE], np.float64)
            if (np.abs((rows**2).sum(axis=1) - 1) > _OFF).any():
                raise ValueError("Vectors to project are of length 1, and some are not: divide them by their length.")
            whole = np.rint(np.column_stack([rows, np.ones(len(rows))]) * 2.0**_BITS)
            projected[start : start + len(rows)] = unit_vectors(whole @ weights)
        return projected

    def _whole_weights(self) -> np.ndarray:
        """Weights and bias as whole numbers (d + 1, k), scaled by a power of 2, which leaves directions as they are."""
        weights = self.to_array()
        _, exponent = np.frexp(row_norms(weights).max())
        # A vector with a 1 behind it is the root of 2 long: half a bit, and another half is left for the rounding.
        return np.ascontiguousarray(np.rint(np.ldexp(weights.astype(np.float64), _BITS - int(exponent))).T)


@dataclass(frozen=True)
class Learnt:
    """What an album learnt from its collections: how many, of how many photos, and what came of it.

    `gain` is by how much mAP rises for photos that were left out, with its interval.
    """

    dimension: int
    collections: int
    photos: int
    gain: tuple[float, float, float]
    number: int = 0  # of the projection; each is another one

    def to_dict(self) -> dict[str, Any]:
        """Plain values, fit for json."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Learnt":
        """What `to_dict` gave, and whatever else stands beside it."""
        low, middle, high = values["gain"]
        return cls(values["dimension"], values["collections"], values["photos"], (low, middle, high), values["number"])
