"""Which faces are of one person: groups that a user can trust.

Two groups become one if the mean cosine of their faces is high enough, the surest first. Two faces in one photo are two
people, and what users said holds: faces said to be of one person are one group from the start, two people never become
one, and a person takes in only what is clearly nearer to them than to anybody else who is known.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from smoothap.album.face_marks import Said
from smoothap.album.faces import Faces
from smoothap.album.graph import Graph

CERTAIN = 0.5  # mean cosine of the faces of two groups that are one person
MARGIN = 0.05  # by which a group has to be nearer to a person than to the next one
_AT_ONCE = 2048  # groups that are compared with all others
_ROUNDS = 20


@dataclass(eq=False)
class Cluster:
    """Faces that are of one person: their rows, the sum of their vectors, and what has to be respected."""

    rows: list[int]
    total: np.ndarray
    photos: set[int]
    person: int = -1
    is_not: set[int] = field(default_factory=set)

    def likeness(self, other: Cluster) -> float:
        """The mean cosine of faces of both."""
        return float(self.total @ other.total) / (len(self.rows) * len(other.rows))

    def may_be(self, other: Cluster, collages: set[int]) -> bool:
        """Whether nothing that is known speaks against both being one person."""
        if self.person >= 0 and other.person >= 0 and self.person != other.person:
            return False
        if self.person in other.is_not or other.person in self.is_not:
            return False
        small, large = sorted((self.photos, other.photos), key=len)
        return all(photo in collages or photo not in large for photo in small)

    def take(self, other: Cluster) -> None:
        """Become one."""
        self.rows += other.rows
        self.total = self.total + other.total
        self.photos |= other.photos
        self.is_not |= other.is_not
        self.person = max(self.person, other.person)


class Clusters:
    """The clusters of all faces, while they grow together."""

    def __init__(self, faces: Faces, said: Said) -> None:
        self._vectors = faces.vectors[:].astype(np.float64)
        self._of: dict[int, Cluster] = {}  # by row
        self.collages = _collages(faces, said)
        marked: dict[int, Cluster] = {}
        for row, (photo, person) in enumerate(zip(faces.photos.tolist(), said.person.tolist(), strict=True)):
            if said.no_face[row]:
                continue
            one = Cluster([row], self._vectors[row], {photo}, person, set(said.is_not.get(row, ())))
            if person >= 0 and person in marked:
                marked[person].take(one)
                one = marked[person]
            elif person >= 0:
                marked[person] = one
            self._of[row] = one
        self._people = list(marked.values())

    def all(self) -> list[Cluster]:
        """Each once, in the order of their first faces."""
        return list({id(one): one for one in self._of.values()}.values())

    def of(self, row: int) -> Cluster | None:
        """The one that a face is in; None for what was marked as no face."""
        return self._of.get(row)

    def grow(self, graph: Graph | None, certain: float = CERTAIN) -> None:
        """Put together what is certainly one person: along the links of a graph first, then all that is left."""
        if graph is not None:
            rows, columns = np.repeat(np.arange(len(graph)), graph.nearest.shape[1]), graph.nearest.ravel()
            scores = graph.scores.ravel()
            for place in np.argsort(-scores, kind="stable").tolist():
                if scores[place] < certain:
                    break
                one, other = self._of.get(int(rows[place])), self._of.get(int(columns[place]))
                if one is not None and other is not None:
                    self._join(one, other, certain)
        for _ in range(_ROUNDS):
            clusters = self.all()
            joined = [self._join(one, other, certain) for one, other in _alike(clusters, certain)]
            if not any(joined):
                return

    def _join(self, one: Cluster, other: Cluster, certain: float) -> bool:
        # One of them may have become part of another meanwhile.
        one, other = self._of[one.rows[0]], self._of[other.rows[0]]
        if one is other or one.likeness(other) < certain or not one.may_be(other, self.collages):
            return False
        if not self._is_clear(one, other):
            return False
        if (len(one.rows), -one.rows[0]) < (len(other.rows), -other.rows[0]):
            one, other = other, one
        for row in other.rows:
            self._of[row] = one
        one.take(other)
        if other in self._people and one not in self._people:
            self._people[self._people.index(other)] = one
        return True

    def _is_clear(self, one: Cluster, other: Cluster) -> bool:
        """Whether no other person is nearly as near to what a person would take in."""
        if (one.person >= 0) == (other.person >= 0):
            return True
        known, new = (one, other) if one.person >= 0 else (other, one)
        least = known.likeness(new) - MARGIN
        return all(person is known or person.likeness(new) < least for person in self._people)


def _alike(clusters: list[Cluster], certain: float) -> list[tuple[Cluster, Cluster]]:
    """Pairs of clusters that are alike enough, the most alike first."""
    means = np.stack([one.total / len(one.rows) for one in clusters]) if clusters else np.empty((0, 1))
    pairs: list[tuple[float, int, int]] = []
    for start in range(0, len(means), _AT_ONCE):
        scores = means[start : start + _AT_ONCE] @ means.T
        for place, other in np.argwhere(scores >= certain).tolist():
            if start + place < other:
                pairs.append((-float(scores[place, other]), start + place, other))
    return [(clusters[one], clusters[other]) for _, one, other in sorted(pairs)]


def _collages(faces: Faces, said: Said) -> set[int]:
    """Photos in which a user said that two faces are of one person: a mirror, or a collage."""
    seen: set[tuple[int, int]] = set()
    found: set[int] = set()
    for row in np.flatnonzero(said.person >= 0).tolist():
        key = int(faces.photos[row]), int(said.person[row])
        if key in seen:
            found.add(key[0])
        seen.add(key)
    return found
