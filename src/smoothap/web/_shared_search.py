"""Searches that come at the same time share a pass over the vectors of an album."""

from functools import cached_property

import numpy as np

from smoothap.search import Album, Filter
from smoothap.search.engines import EXACT_UP_TO
from smoothap.search.together import TogetherNearest
from smoothap.web._together import Together

Question = tuple[np.ndarray, int, list[int]]  # a vector, how many rows, and the rows that are left out
Rows = tuple[np.ndarray, np.ndarray]  # the best rows and their scores


class SharedSearch:
    """The photos of an album nearest to a vector: the same as `Album.search` gives."""

    def __init__(self, album: Album) -> None:
        self._album, self._together = album, Together()

    @cached_property
    def _nearest(self) -> TogetherNearest | None:
        """Who answers several at once; None where an engine names candidates sooner, or vectors lie in parts."""
        vectors = self._album.vectors
        plain = isinstance(vectors, np.ndarray) and vectors.dtype == np.float32
        return TogetherNearest(vectors) if plain and 0 < len(vectors) <= EXACT_UP_TO else None

    def nearest(self, vector: np.ndarray, k: int, left_out: list[int], where: Filter) -> Rows:
        """The best k rows for a vector (d,) of length 1 among photos that pass, without those in `left_out`."""
        nearest = self._nearest
        if nearest is not None and not where:

            def work(questions: list[Question]) -> list[Rows]:
                vectors, ks, without = zip(*questions, strict=True)
                return nearest.nearest(np.stack(vectors), ks, without)

            return self._together.ask(self, work, (vector, k, left_out))
        ids = self._album.photos.ids
        hits = self._album.search(vector, k + len(left_out), where=where)
        found = [hit for hit in hits if hit.id not in ids[left_out]][:k]
        return np.searchsorted(ids, [hit.id for hit in found]), np.array([hit.score for hit in found])
