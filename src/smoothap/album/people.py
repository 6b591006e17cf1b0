"""The people of an album: groups of faces, which users name, put together and split."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from smoothap.album.face_groups import CERTAIN, Cluster, Clusters
from smoothap.album.face_marks import DRAWN, IS, NO_FACE, NOT, FaceMarks, Person, Said
from smoothap.album.face_search import FoundPhotos
from smoothap.album.faces import Box, FaceRecord, Faces, NoSuchFace
from smoothap.album.photos import Hits
from smoothap.album.search import Nearest, VectorQuery
from smoothap.album.vectors import unit
from smoothap.data.reading import read_image
from smoothap.models.faces.detection import SAME_FACE, overlap

if TYPE_CHECKING:
    from smoothap.album.album import Album

DOUBTFUL = 0.3  # mean cosine from which on two groups may be one person
_ASKED = 50  # of all groups, the largest are compared with each other for questions
_NOBODY = Person(-1, None, False)


@dataclass(frozen=True)
class Group:
    """Faces of one person: `number` is the lowest of their ids, `faces` are the ids, the most typical first.

    `name` is None where nobody gave one, and a stranger is one who is not to be shown.
    """

    number: int
    name: str | None
    faces: tuple[int, ...]
    photos: tuple[int, ...]
    stranger: bool = False

    @property
    def cover(self) -> int:
        """The face that shows who it is."""
        return self.faces[0]


@dataclass(frozen=True)
class Question:
    """Whether two groups are one person, which the album cannot say by itself; `gain` is how many faces it settles."""

    group: int
    other: int
    name: str | None
    score: float
    gain: int


@dataclass(frozen=True)
class PersonPhoto:
    """A photo of a person: the id of the face in it, how alike it is, and whether a user said that it is theirs."""

    photo: int
    face: int
    score: float
    said: bool | None


class People:
    """The people of an album as it is now; what is said of them is kept at once, and obeyed from then on."""

    def __init__(self, album: Album) -> None:
        self._album, self._space = album, album.face_space()
        self._marks = FaceMarks(self._space.store)
        self._known: tuple[int, Faces, Said, Clusters] | None = None

    def _current(self) -> tuple[Faces, Said, Clusters]:
        version, faces = self._space.store.version, self._space.faces(self._album)
        if self._known is None or self._known[0] != version or self._known[1] is not faces:
            said = self._marks.said(faces)
            clusters = Clusters(faces, said)
            clusters.grow(self._space.graph(faces))
            self._known = version, faces, said, clusters
        return self._known[1:]

    def groups(self, *, strangers: bool = False) -> list[Group]:
        """All groups, those with names first, then by how many photos there are; strangers only if asked for."""
        faces, said, clusters = self._current()
        groups = [self._group(faces, said, one) for one in clusters.all()]
        shown = [group for group in groups if strangers or not group.stranger]
        return sorted(shown, key=lambda group: (group.name is None, -len(group.photos), group.number))

    def _group(self, faces: Faces, said: Said, cluster: Cluster) -> Group:
        rows = np.array(cluster.rows, np.int64)
        typical = rows[np.lexsort((rows, -(faces.vectors[rows] @ cluster.total)))]
        person = said.people.get(cluster.person, _NOBODY)
        ids, photos = faces.ids[typical].tolist(), dict.fromkeys(faces.photos[typical].tolist())
        return Group(min(ids), person.name, tuple(ids), tuple(photos), person.hidden)

    def group(self, number: int) -> Group:
        """The group that a face is in, by its id; every face of a group leads to it, and so does its number."""
        faces, said, clusters = self._current()
        (row,) = faces.rows_of([number]).tolist()
        if (cluster := clusters.of(row)) is None:
            raise NoSuchFace(f"Face {number} was marked as none, and is in no group.")
        return self._group(faces, said, cluster)

    def named(self, name: str) -> Group:
        """The group of the person with a name."""
        faces, said, clusters = self._current()
        person = said.named(name)
        theirs = (clusters.of(row) for row in np.flatnonzero(said.person == person.id).tolist())
        cluster = next((one for one in theirs if one is not None), None)
        return Group(-1, person.name, (), ()) if cluster is None else self._group(faces, said, cluster)

    # -- what users say

    def name(self, group: int, name: str) -> None:
        """Give a group a name; one that somebody has already makes both one person."""
        faces, said, _ = self._current()
        rows = faces.rows_of(self.group(group).faces).tolist()
        owner = self._person_of(said, rows)
        with self._space.store.database.writing():
            if owner.id >= 0 and not any(person.name == name for person in said.people.values()):
                self._marks.rename(owner.id, name)
                person = owner.id
            else:
                person = self._marks.person(name)
            self._marks.mark(faces, rows, IS, person)

    def merge(self, groups: Sequence[int]) -> None:
        """Say that groups are one person, with the name that one of them has, if any."""
        if len(set(groups)) < 2:
            raise ValueError("Give at least two groups that are one person.")
        faces, said, _ = self._current()
        rows = [faces.rows_of(self.group(group).faces).tolist() for group in groups]
        people = [self._person_of(said, some) for some in rows]
        named = [person for person in people if person.name is not None]
        if len({person.id for person in named}) > 1:
            both = " and ".join(sorted({str(person.name) for person in named}))
            raise ValueError(f"These groups have the names {both}: give both the same name to make them one.")
        known = [*named, *(person for person in people if person.id >= 0)]
        with self._space.store.database.writing():
            person = known[0].id if known else self._marks.person(None)
            self._marks.mark(faces, [row for some in rows for row in some], IS, person)

    def split(self, faces: Iterable[int]) -> None:
        """Say that faces are another person than the rest of their group, and one person themselves."""
        every, said, _ = self._current()
        chosen = list(faces)
        group = self.group(chosen[0])
        if outside := set(chosen) - set(group.faces):
            raise ValueError(f"Face {min(outside)} is not in the group of face {chosen[0]}.")
        rest = [face for face in group.faces if face not in chosen]
        if not rest:
            return
        rows, others = every.rows_of(chosen).tolist(), every.rows_of(rest).tolist()
        owner = self._person_of(said, others)
        with self._space.store.database.writing():
            if owner.id < 0:
                self._marks.mark(every, others, IS, self._marks.person(None))
            else:
                self._marks.mark(every, rows, NOT, owner.id)
            self._marks.mark(every, rows, IS, self._marks.person(None))

    def mark(
        self, group: int, *, right: Iterable[int] = (), wrong: Iterable[int] = (), neither: Iterable[int] = ()
    ) -> int:
        """Say of faces that they are the person of a group or are not, or take that back; a face that is still in it.

        All that was in a group which nobody spoke of before is that person from now on.
        """
        every, said, _ = self._current()
        faces = self.group(group).faces
        (yes, no, taken), rows = (
            (every.rows_of(some).tolist() for some in (right, wrong, neither)),
            every.rows_of(faces),
        )
        stays = [row for row in rows.tolist() if row not in no]
        person = self._person_of(said, rows.tolist()).id
        with self._space.store.database.writing():
            if person < 0:
                person = self._marks.person(None)
                self._marks.mark(every, stays, IS, person)
            self._marks.mark(every, yes, IS, person)
            self._marks.mark(every, no, NOT, person)
            self._marks.unmark(every, taken, person)
        return int(every.ids[(stays or yes or rows)[0]])

    def different(self, group: int, other: int) -> None:
        """Say that two groups are two people."""
        self.mark(other, wrong=self.group(group).faces)

    def draw(self, photo: int, box: Box, picture: Image.Image | None = None) -> int:
        """Say that there is a face in a box of a photo, in its pixels, where none was found; the id of the face.

        `picture` is the photo in any size, where it was read already.
        """
        known, finder = self._album.photo(photo), self._space.finder()
        picture = read_image(self._album.photo_path(photo)) if picture is None else picture
        scale = picture.width / known.width, picture.height / known.height
        part = box[0] * scale[0], box[1] * scale[1], box[2] * scale[0], box[3] * scale[1]
        found = finder.in_box(picture, part)
        (vectors,) = finder.vectors([found])
        if not vectors[0].any():
            raise ValueError(f"The network sees nothing in the box {box}: draw it around a face.")
        with self._space.store.database.writing():
            faces = self._space.faces(self._album)
            rows = faces.of_photo(photo)
            areas = overlap(np.array(box, np.float64), faces.boxes[rows])
            if len(rows) and areas.max() >= SAME_FACE:  # which was found, and may have been said to be none
                identity = int(faces.ids[rows[areas.argmax()]])
            else:
                identity = self._space.store.add(photo, FaceRecord(box, 1.0, vectors[0]))
                faces = self._space.faces(self._album)
            self._marks.mark(faces, faces.rows_of([identity]).tolist(), DRAWN)
        return identity

    def faces_of(self, photo: int) -> list[tuple[int, Box, Group]]:
        """The faces of a photo, the largest first: the id of each, its box in pixels, and the group that it is in."""
        faces, said, clusters = self._current()
        found = list[tuple[int, Box, Group]]()
        for row in faces.of_photo(photo).tolist():
            if (cluster := clusters.of(row)) is not None:
                x, y, width, height = faces.boxes[row].tolist()
                found.append((int(faces.ids[row]), (x, y, width, height), self._group(faces, said, cluster)))
        return found

    @property
    def version(self) -> int:
        """Counts changes, of faces and of what is said about them."""
        return self._space.store.version

    @contextmanager
    def step(self, what: str) -> Generator[None]:
        """Let all that is said while this lasts be one step, called by these words, which `undo` takes back."""
        try:
            with self._marks.step(what):
                yield
        except BaseException:  # nothing of it was kept, and its versions will be those of something else
            self._known = None
            self._space.forget_read()
            raise

    @property
    def last_step(self) -> str | None:
        """The step that `undo` takes back, in words; None where there is none, or something else was said since."""
        steps = self._marks.steps()
        return steps[-1]["what"] if steps else None

    def undo(self, version: int | None = None) -> str:
        """Take the last step back, whoever made it; gives its words. With a `version`, only if it is still that."""
        return self._marks.undo(self._space.faces(self._album), version)

    def no_face(self, faces: Iterable[int]) -> None:
        """Say that these are no faces: they are in no group and are not found."""
        every, _, _ = self._current()
        self._marks.mark(every, every.rows_of(faces).tolist(), NO_FACE)

    def stranger(self, group: int) -> None:
        """Say that a group is a stranger, whom nobody wants to see."""
        faces, _, _ = self._current()
        rows = faces.rows_of(self.group(group).faces).tolist()
        with self._space.store.database.writing():
            self._marks.mark(faces, rows, IS, self._marks.person(None, hidden=True))

    def _person_of(self, said: Said, rows: Sequence[int]) -> Person:
        found = [said.people[person] for person in said.person[list(rows)].tolist() if person >= 0]
        return found[0] if found else _NOBODY

    # -- what the album asks and finds

    def questions(self, limit: int = 20) -> list[Question]:
        """Pairs of groups that may be one person, the answer that settles most faces first."""
        faces, said, clusters = self._current()
        shown = [one for one in clusters.all() if not said.people.get(one.person, _NOBODY).hidden]
        shown.sort(key=lambda one: (one.person < 0, -len(one.rows), one.rows[0]))
        known, questions = shown[: max(_ASKED, sum(one.person >= 0 for one in shown))], list[Question]()
        for place, one in enumerate(shown):
            best: tuple[float, Cluster] | None = None
            for other in known[:place]:
                score = one.likeness(other)
                if score >= DOUBTFUL and (best is None or score > best[0]) and one.may_be(other, clusters.collages):
                    best = score, other
            if best is not None:
                name = said.people.get(best[1].person, _NOBODY).name
                numbers = (int(faces.ids[min(each.rows)]) for each in (one, best[1]))
                questions.append(Question(*numbers, name, best[0], len(one.rows)))
        questions.sort(key=lambda question: (-question.gain * min(question.score / CERTAIN, 1.0), question.group))
        return questions[:limit]

    def search(self, name: str, k: int | None = 20) -> Hits:
        """All photos of a person by name: those that are certain first, then the most alike of the others."""
        group = self.named(name)
        if not group.faces:
            raise ValueError(f"No face of {group.name} is in the album any more.")
        found, _ = self._ranked(group)
        faces, places = self._space.faces(self._album), np.arange(len(found.rows))[:k]
        return self._space.hits(self._album, FoundPhotos(faces, found, places))

    def photos(self, group: int, *, missing: bool = False) -> list[PersonPhoto]:
        """The photos of a group, the surest first; or those `missing`, which may be of them, the most alike first."""
        faces, said, _ = self._current()
        found, certain = self._ranked(self.group(group))
        person = self._person_of(said, found.rows[:certain].tolist()).id
        chosen = slice(certain, None) if missing else slice(certain)
        return [
            PersonPhoto(int(faces.photos[row]), int(faces.ids[row]), score, said.of(row, person))
            for row, score in zip(found.rows[chosen].tolist(), found.scores[chosen].tolist(), strict=True)
            if score >= DOUBTFUL or not missing
        ]

    def _ranked(self, group: Group) -> tuple[Nearest, int]:
        """The best face of every photo that may be of a group, the certain ones first; and how many these are."""
        faces, said, clusters = self._current()
        rows = faces.rows_of(group.faces)
        person = self._person_of(said, rows.tolist()).id
        vector = unit(faces.vectors[rows].mean(axis=0))
        others = [row for one in clusters.all() if one.person not in (-1, person) for row in one.rows]
        others += [row for row, people in said.is_not.items() if person in people]
        left_out = np.union1d(np.array(others, np.int64), np.flatnonzero(said.no_face))
        scores = self._space.scores(self._album, VectorQuery(vector, left_out))
        is_theirs = np.isin(np.arange(len(faces)), rows)
        order = np.lexsort((np.arange(len(faces)), -scores, ~is_theirs))
        order = order[scores[order] > -np.inf]
        _, first = np.unique(faces.photos[order], return_index=True)
        best = order[np.sort(first)]
        return Nearest(best, scores[best]), len(group.photos)
