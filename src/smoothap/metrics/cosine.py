"""The score of two rows, defined so that every processor computes the same bits, and how far a product may be off.

    score(x, y) = S(x, y) / (|x| |y|),   |x| = sqrt(S(x, x)),   S(x, y) = the sum of x_i y_i, added by halves in float64

Added by halves: the products are padded with zeros to a power of two, and the second half is added to the first until
one number is left. Products of float32 or shorter numbers are exact in float64, so it does not matter whether a
processor fuses a product with the sum behind it; rows of float64 are first scaled by a power of two, and their products
and sums are separate operations. Sum, product, root and quotient are those of IEEE 754, which rounds each in one way.
So equal rows have equal scores, and so have rows that differ by a power of two.

A matrix product sums in an order of its own, which depends on processor, library and place: it proposes scores, and
`error_bound` says how far they may lie from the definition.
"""

import hashlib
import sys
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from smoothap._core.devices import has_float64
from smoothap._core.threads import numba_is_there, on_threads, parts_for

NUMBERS_READ_AT_ONCE = 1 << 21  # 8 MB of float32, and enough for the compiled kernels
_NUMBERS_AT_ONCE = 1 << 19  # numbers of float64 in a step: 4 MB, which stay near the processor
_WORTH_COMPILING = 1 << 24  # numbers: fewer are done sooner than numba is imported and its kernels are read
_EXACT_IN_FLOAT32 = (torch.float32, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int16)


class Rows(Protocol):
    """Vectors (n, d) float32 that need not be in memory: some rows at a time, as an array has them."""

    shape: tuple[int, int]

    def __len__(self) -> int: ...
    def __getitem__(self, rows: slice | np.ndarray) -> np.ndarray: ...


def error_bound(dimension: int, dtype: torch.dtype) -> float:
    """By how much a product of unit rows (d,) of this dtype, summed in any order, can differ from the definition.

    Rounding both rows and d products and sums gives (d + 2) u / (1 - (d + 2) u), since the products of two unit rows
    add up to at most 1 in absolute value. The definition itself, the division of the rows by their lengths, and
    numbers too small for the dtype are covered by a few d of 2^-53.
    """
    share = (dimension + 2) * torch.finfo(dtype).eps / 2
    if share >= 0.5:
        raise ValueError(f"Rows of {dimension:,} numbers are too long to be ranked exactly by products of {dtype}.")
    return share / (1 - share) + 4 * (dimension + 8) * 2.0**-53


def given_rows(rows: Tensor | np.ndarray) -> Tensor:
    """Rows (n, d) of any kind as float32 where that holds them exactly, else as float64 scaled by a power of two."""
    if isinstance(rows, np.ndarray):
        exact = np.float32 if np.can_cast(rows.dtype, np.float32) else np.float64
        rows = torch.from_numpy(np.array(rows, exact, order="C"))
    if rows.dtype in _EXACT_IN_FLOAT32:
        return rows.detach().float()
    tensor = rows.detach().double()
    largest = tensor.abs().amax(1, keepdim=True)
    exponent = torch.frexp(torch.where(largest.isfinite(), largest, 1.0)).exponent.clamp(-1000, 1000).long()
    return tensor * ((1023 - exponent) << 52).view(torch.float64)


def half_sums(products: Tensor) -> Tensor:
    """The sum of each row of products (n, d), float64, added by halves; the products are lost. -> (n,)"""
    while (width := products.shape[1]) > 1:
        half = 1 << (width - 1).bit_length() - 1
        products[:, : width - half] += products[:, half:]
        products = products[:, :half]
    return products[:, 0]


def row_norms(matrix: Tensor | np.ndarray | Rows) -> np.ndarray:
    """The length of each row of a matrix (n, d), by the definition, (n,); some rows are read at a time."""
    norms = np.empty(len(matrix))
    step = max(1, NUMBERS_READ_AT_ONCE // matrix.shape[1])
    for start in range(0, len(matrix), step):
        rows = given_rows(matrix[start : start + step])
        norms[start : start + step] = _norms(rows if has_float64(rows.device) else rows.cpu(), norms.size)
    return norms


def _norms(rows: Tensor, of: int) -> np.ndarray:
    """The lengths of some rows, `of` that many in all."""
    if _is_compiled(of * rows.shape[1], rows):
        from smoothap.metrics import cosine_kernels

        norms = np.empty(len(rows))
        on_threads(cosine_kernels.norms, parts_for(rows.numel()), rows.numpy(), norms)
        return norms
    wide = rows.double()
    # numpy's root, not torch's, which MKL computes: in one of 75 numbers that one is off in the last bit.
    return np.sqrt(half_sums(wide * wide).cpu().numpy())


def row_digests(
    matrix: Tensor | np.ndarray | Rows, *, wide: bool = False, chosen: np.ndarray | None = None
) -> Iterator[bytes]:
    """A digest of each row of a matrix (n, d), the same for equal rows and for no others; or of the `chosen` rows.

    wide: the rows are taken for float64, as they must be to be compared with rows that are.
    """
    step = max(1, NUMBERS_READ_AT_ONCE // matrix.shape[1])
    for start in range(0, len(matrix if chosen is None else chosen), step):
        here = slice(start, start + step)
        rows = given_rows(matrix[here if chosen is None else chosen[here]]).cpu()
        for row in (given_rows(rows.double()) if wide else rows).numpy():
            yield hashlib.sha256(row).digest()


def unit_rows(rows: Tensor, norms: np.ndarray, dtype: torch.dtype) -> Tensor:
    """The rows (n, d) that `given_rows` gave divided by their norms (n,), rounded once to the dtype. (n, d)"""
    if _is_compiled(rows.numel(), rows):
        from smoothap.metrics import cosine_kernels

        units = torch.empty_like(rows, dtype=dtype, memory_format=torch.contiguous_format)
        on_threads(cosine_kernels.scale_rows, parts_for(rows.numel()), rows.numpy(), norms, units.numpy())
        return units
    return (rows.double() / torch.from_numpy(norms).to(rows.device)[:, None]).to(dtype)


def pair_scores(
    left: Tensor | np.ndarray,
    left_norms: np.ndarray,
    right: Tensor | np.ndarray,
    right_norms: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
) -> np.ndarray:
    """The score of row first[i] of left (n, d) with row second[i] of right (m, d). -> (k,) float64

    Both are as `given_rows` gives them, on one device that has float64, with their norms (n,), (m,).
    """
    scores = np.empty(len(first))
    terms = len(first) * right.shape[1]
    if _is_compiled(terms, left, right):
        from smoothap.metrics.cosine_kernels import score_pairs

        sides = np.asarray(left), left_norms, np.asarray(right), right_norms
        on_threads(score_pairs, parts_for(terms), *sides, first, second, scores)
        return scores
    step = max(1, _NUMBERS_AT_ONCE // right.shape[1])
    for start in range(0, len(first), step):
        here, there = first[start : start + step], second[start : start + step]
        products = _taken(left, here).double() * _taken(right, there).double()
        lengths = torch.from_numpy(left_norms[here] * right_norms[there]).to(products.device)
        scores[start : start + step] = (half_sums(products) / lengths).cpu().numpy()
    return scores


def _is_compiled(terms: int, *sides: Tensor | np.ndarray) -> bool:
    """Whether the compiled kernels take that many numbers: numba is loaded, or worth loading; the bits are the same."""
    on_cpu = all(isinstance(rows, np.ndarray) or rows.device.type == "cpu" for rows in sides)
    return on_cpu and ("numba" in sys.modules or terms >= _WORTH_COMPILING) and numba_is_there()


def _taken(rows: Tensor | np.ndarray, places: np.ndarray) -> Tensor:
    if isinstance(rows, Tensor):
        return rows[torch.from_numpy(places).to(rows.device)]
    return torch.from_numpy(rows[places])


def certain_places(
    proposed: np.ndarray, thresholds: np.ndarray, bound: float, definition: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """How many of the thresholds (m,), rising scores by the definition, each proposed score (n,) is at or above.

    A proposed score is off by at most `bound`; `definition` scores those in some places (k,) for certain. -> (n,)
    """
    places = np.searchsorted(thresholds + bound, proposed, side="right")
    lower = np.append(thresholds - bound, np.inf)
    undecided = np.flatnonzero(proposed >= lower[places])
    places[undecided] = np.searchsorted(thresholds, definition(undecided), side="right")
    return places


class Cosines:
    """The scores of any query with the vectors (n, d) of an album, float32, by the definition."""

    def __init__(self, vectors: np.ndarray | Rows) -> None:
        self.vectors = np.asarray(vectors) if isinstance(vectors, np.ndarray) else vectors

    @cached_property
    def norms(self) -> np.ndarray:
        """The length of every vector. (n,)"""
        return row_norms(self.vectors)

    def units(self, rows: slice | np.ndarray) -> np.ndarray:
        """Some of the vectors at length 1, for products that `error_bound` holds for. (k, d) float32"""
        return unit_rows(given_rows(self.vectors[rows]), self.norms[rows], torch.float32).numpy()

    def of(self, query: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        """The score of the query (d,) with every vector, or with those in `rows` (k,). -> (n,) or (k,), float64"""
        one = np.ascontiguousarray(query, dtype=np.float32)[None]
        length = row_norms(one)
        if rows is not None:
            chosen = np.asarray(rows, np.int64)
            scores = [self._of_some(one, length, chosen[part]) for part in self._parts(len(chosen))]
            return np.concatenate(scores) if scores else np.empty(0)
        whole = isinstance(self.vectors, np.ndarray)
        scores = np.empty(len(self.vectors))
        for part in (slice(None),) if whole else self._parts(len(scores)):
            block = self.vectors[part]
            places = np.arange(len(block))
            scores[part] = pair_scores(one, length, block, self.norms[part], np.zeros_like(places), places)
        return scores

    def _of_some(self, one: np.ndarray, length: np.ndarray, rows: np.ndarray) -> np.ndarray:
        block, places = self.vectors[rows], np.arange(len(rows))
        # A search that names its candidates does not read an album of millions for the lengths of all.
        known = "norms" in self.__dict__ or 4 * len(rows) > len(self.vectors)
        norms = self.norms[rows] if known else row_norms(block)
        return pair_scores(one, length, block, norms, np.zeros_like(places), places)

    def between(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """The score of each of the vectors in rows first (k,) with that in second (k,). -> (k,) float64"""
        if isinstance(self.vectors, np.ndarray):
            return pair_scores(self.vectors, self.norms, self.vectors, self.norms, first, second)
        scores = np.empty(len(first))
        for part in self._parts(len(first)):
            (left, norms), (right, other_norms) = (
                (self.vectors[side[part]], self.norms[side[part]]) for side in (first, second)
            )
            places = np.arange(len(left))
            scores[part] = pair_scores(left, norms, right, other_norms, places, places)
        return scores

    def _parts(self, number: int) -> Iterator[slice]:
        """So many rows, some at a time: as many as are read at once."""
        step = max(1, 4 * NUMBERS_READ_AT_ONCE // self.vectors.shape[1])
        return (slice(start, min(start + step, number)) for start in range(0, number, step))
