"""What collections say of an album's photos: which belong together, and which do not."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from smoothap.album.collections import Collection
from smoothap.album.photos import Photos


@dataclass(frozen=True, eq=False)
class Lessons:
    """Marked photos: rows (n,) of the album, with a column for each collection, member (n, c) and wrong (n, c) bool.

    Two photos that share a collection belong together; all others do not, and neither does what is marked as wrong.
    """

    names: tuple[str, ...]
    rows: np.ndarray
    member: np.ndarray
    wrong: np.ndarray

    @classmethod
    def of(cls, collections: Mapping[str, Collection], photos: Photos) -> "Lessons":
        """The marks of collections with at least two photos, of the photos that the album has."""
        taught = [one for one in collections.values() if len(one.right) > 1]
        ids = np.array(sorted({photo for one in taught for photo in (*one.right, *one.wrong)}), np.int64)
        ids = ids[np.isin(ids, photos.ids)]
        member, wrong = (np.zeros((len(ids), len(taught)), bool) for _ in range(2))
        for column, one in enumerate(taught):
            member[:, column], wrong[:, column] = np.isin(ids, one.right), np.isin(ids, one.wrong)
        rows = np.searchsorted(photos.ids, ids)
        return cls(tuple(one.name for one in taught), rows, member, wrong)

    @property
    def sizes(self) -> np.ndarray:
        """How many photos each collection has. (c,)"""
        return self.member.sum(axis=0)

    def subset(self, chosen: np.ndarray) -> "Lessons":
        """The lessons of some of the marked photos: a mask or places among them."""
        return Lessons(self.names, self.rows[chosen], self.member[chosen], self.wrong[chosen])

    def without(self, columns: np.ndarray) -> "Lessons":
        """The lessons without some collections (c,) bool, and without the photos that only these have."""
        left = Lessons(self.names, self.rows, self.member & ~columns, self.wrong & ~columns)
        return left.subset(~(self.member & columns).any(axis=1) & (left.member | left.wrong).any(axis=1))

    def together(self) -> np.ndarray:
        """Which photos share a collection, none with itself. (n, n) bool"""
        shared = (self.member.astype(np.float32) @ self.member.T.astype(np.float32)) > 0
        np.fill_diagonal(shared, False)
        return shared

    def labels(self) -> np.ndarray | None:
        """A label for each photo (n,), if no photo is in two collections; one of its own for each that is in none."""
        if (self.member.sum(axis=1) > 1).any():
            return None
        alone = len(self.names) + np.arange(len(self.rows))
        return np.where(self.member.any(axis=1), self.member.argmax(axis=1), alone)

    def folds(self, number: int, seed: int = 0) -> np.ndarray:
        """A fold for each photo (n,), so that each collection is spread evenly over them."""
        random, folds = np.random.default_rng(seed), np.full(len(self.rows), -1)
        for column in range(len(self.names)):
            places = random.permutation(np.flatnonzero(self.member[:, column] & (folds < 0)))
            folds[places] = (np.arange(len(places)) + random.integers(number)) % number
        alone = np.flatnonzero(folds < 0)
        folds[alone] = random.permutation(np.arange(len(alone)) % number)
        return folds
