"""Several queries at once: one pass over an album's vectors serves all of them, and exact scores decide."""

import warnings
from collections.abc import Sequence

import numpy as np
import torch

from smoothap.metrics.cosine import Cosines
from smoothap.numerics.precision import full_precision
from smoothap.search.engines import best_rows


class TogetherNearest:
    """The nearest of the vectors (n, d), float32 of length 1, for a batch of queries: the same as one by one, sooner.

    A product in float32 gives each score up to its rounding. Whatever could be among the best k by that is scored by
    the definition, so that the answer is the exact one, with equal scores in the order of their rows.
    """

    def __init__(self, vectors: np.ndarray) -> None:
        self._cosines = Cosines(vectors)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that mapped vectors cannot be written to
            self._rows = torch.from_numpy(self._cosines.vectors)
        # The rounding of a product of d terms, twice: of the score itself and of the one it is compared with. Vectors
        # have length 1 up to their own rounding.
        self._bound = 4 * (vectors.shape[1] + 16) * 2.0**-24

    def nearest(
        self, queries: np.ndarray, ks: Sequence[int], left_out: Sequence[Sequence[int]]
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """For each query (b, d) of length 1 the best ks[i] rows and their scores, without those that are left out."""
        # A product with one vector reads the album more slowly than one with two.
        asked = torch.from_numpy(np.concatenate([queries, queries]) if len(queries) == 1 else np.array(queries))
        with torch.inference_mode(), full_precision("cpu"):
            products = (self._rows @ asked.T).T.contiguous().numpy()[: len(queries)]
        return [self._best(*each) for each in zip(queries, products, ks, left_out, strict=True)]

    def _best(
        self, query: np.ndarray, products: np.ndarray, k: int, left_out: Sequence[int]
    ) -> tuple[np.ndarray, np.ndarray]:
        products[list(left_out)] = -np.inf
        k = min(k, len(products) - len(left_out))
        if k <= 0:
            return np.empty(0, np.int64), np.empty(0)
        least = np.partition(products, len(products) - k)[len(products) - k]
        candidates = np.flatnonzero(products >= least - self._bound)
        scores = self._cosines.of(query, candidates)
        best = best_rows(scores, k)
        return candidates[best], scores[best]
