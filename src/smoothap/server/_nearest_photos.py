"""The photos of an album nearest to a vector, for a server that is asked again and again."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from smoothap.album import Album, Filter
from smoothap.album.coded import Bounded, CodedVectors, is_worth_coding

Rows = tuple[np.ndarray, np.ndarray]  # the best rows and their scores


class NearestPhotos:
    """The photos of an album nearest to a vector: the same as `Album.search` gives."""

    def __init__(self, album: Album) -> None:
        self._album = album

    @cached_property
    def _coded(self) -> CodedVectors | None:
        vectors = self._album.vectors
        return CodedVectors(vectors) if is_worth_coding(vectors) else None

    def warm_up(self) -> None:
        """Do what the first search would wait for."""
        if len(self._album):
            self.nearest(np.array(self._album.vectors[0]), 1, [], Filter(), None)

    def bounded(self, vectors: np.ndarray) -> Sequence[Bounded | None]:
        """What `nearest` begins with for each of some vectors (m, d), found for all of them at once."""
        return [None] * len(vectors) if self._coded is None else self._coded.bounded(vectors)

    def nearest(
        self,
        vector: np.ndarray,
        k: int,
        left_out: list[int],
        where: Filter,
        passing: np.ndarray | None,
        bounded: Bounded | None = None,
    ) -> Rows:
        """The best k rows for a vector (d,) of length 1, without those in `left_out`.

        Those alone that pass the filter; `passing` (n,) bool says which do, None: all. `bounded` is what the method of
        that name gave for the vector.
        """
        if self._coded is not None:
            return self._coded.nearest(vector, k, np.array(left_out, np.int64), passing, bounded)
        ids = self._album.photos.ids
        hits = self._album.search(vector, k + len(left_out), where=where)
        found = [hit for hit in hits if hit.id not in ids[left_out]][:k]
        return np.searchsorted(ids, [hit.id for hit in found]), np.array([hit.score for hit in found])
