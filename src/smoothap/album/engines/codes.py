"""Vectors in one byte a number: a quarter of the memory to read for a query, and exact scores decide all the same.

The products of codes are compiled (extra `fast`).
"""

import numpy as np

from smoothap._core.threads import numba_is_there
from smoothap.album.vectors import Vectors
from smoothap.metrics.cosine import NUMBERS_READ_AT_ONCE, Cosines

_WORTH_CODING = 1 << 22  # numbers in all: fewer are scored sooner than numba is imported
_MOST_CODE = 127
_GROUP = 64  # rows, of which the best stands for all where a threshold is looked for
_ROUNDING = 1e-6  # of float32, in products of unit vectors and in the errors themselves

Bounded = tuple[np.ndarray, float]  # products of a query with all codes (n,), and how far its own code is from it


def is_worth_coding(vectors: Vectors, limit: int) -> bool:
    """Whether codes answer sooner than a product of all does, and take little memory: up to `limit` vectors."""
    number, dimension = vectors.shape
    return number <= limit and number * dimension >= _WORTH_CODING and numba_is_there()


class CodedVectors:
    """What of vectors (n, d) can be nearest to a query: all of the nearest, and few others.

    Each vector is rounded to whole numbers from -127 to 127 times a scale of its own, and how far that is from the
    vector is kept. So the product of a query with the codes says between which bounds each score lies; whatever can be
    among the best k by that is scored by the definition.
    """

    def __init__(self, vectors: Vectors) -> None:
        self._cosines = Cosines(vectors)
        number, dimension = vectors.shape
        self._codes = np.empty((number, dimension), np.int8)
        self._scales, self._errors = np.empty(number, np.float32), np.empty(number, np.float32)
        step = max(1, NUMBERS_READ_AT_ONCE // dimension)
        for start in range(0, number, step):
            rows = slice(start, start + step)
            self._codes[rows], self._scales[rows], self._errors[rows] = _coded(self._cosines.units(rows), _MOST_CODE)
        self._errors += _ROUNDING
        self._most_error = float(self._errors.max(initial=0.0))
        self._most = min(32_767, (2**31 - 1) // (_MOST_CODE * dimension))  # of a query's code: the sum fits 32 bits

    def bounded(self, queries: np.ndarray) -> list[Bounded]:
        """What the codes say of the scores of each of some queries (m, d): all of them in one pass over the codes."""
        from smoothap.album.engines.code_kernels import scaled_products

        lengths = np.linalg.norm(queries, axis=1, keepdims=True)
        codes, scales, errors = _coded(queries / np.maximum(lengths, 1e-30), self._most)
        products = np.empty((len(queries), len(self._codes)), np.float32)
        scaled_products(self._codes, self._scales, codes.astype(np.int16), scales.astype(np.float32), products)
        return list(zip(products, errors.tolist(), strict=True))

    def candidates(
        self,
        query: np.ndarray,
        k: int,
        left_out: np.ndarray,
        passing: np.ndarray | None = None,
        bounded: Bounded | None = None,
    ) -> np.ndarray:
        """All rows that can be among the best k for a query (d,), without those left out; of `passing` (n,) bool.

        `bounded` is what the method of that name gave for the query; it is used up.
        """
        products, error = self.bounded(query[None])[0] if bounded is None else bounded
        if passing is not None:
            products[~passing] = -np.inf
        products[left_out] = -np.inf
        least = least_of_best(products - self._errors, k)
        # The query's own error counts twice: in what sets the threshold, and in what is compared with it.
        least -= 2 * error * (1 + self._most_error) + _ROUNDING
        return np.flatnonzero((products + self._errors >= least) & (products > -np.inf))


def _coded(rows: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows (n, d) as whole numbers up to `most`, the scale of each, and how far from the row that is. (n, d), (n,)"""
    scales = np.abs(rows).max(1) / np.float32(most)
    codes = np.rint(rows / np.maximum(scales, np.float32(1e-30))[:, None])
    errors = np.linalg.norm(rows - codes * scales[:, None], axis=1)
    return codes, scales, errors


def least_of_best(lower: np.ndarray, k: int) -> float:
    """A number that at least k of these are at or above, as long as there are as many; else -inf."""
    whole = len(lower) // _GROUP * _GROUP
    best = lower[:whole].reshape(-1, _GROUP).max(1) if k <= whole // _GROUP else lower
    return float(np.partition(best, len(best) - k)[len(best) - k]) if k <= len(best) else -np.inf
