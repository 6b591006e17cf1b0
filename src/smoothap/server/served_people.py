"""The people of one version of an album behind the page: groups, photos of a person, faces of a photo."""

from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image
from starlette.exceptions import HTTPException

from smoothap.album.face_marks import Rows
from smoothap.album.people import Group, People
from smoothap.album.prepare import plain_jpeg
from smoothap.data.reading import cut, read_image
from smoothap.plots.text import visible
from smoothap.server import schemas
from smoothap.server.face_searching import opened_photo, pixels, shares
from smoothap.server.served_album import ServedAlbum

_AROUND = 1.7  # times the longer side of a face: what its picture shows
_SIDE, _QUALITY = 160, 85  # pixels and JPEG quality of the picture of a face
_PICTURES_KEPT = 2_000  # of faces, in memory: browsers keep none, so that to forget people leaves nothing behind there
_STEPS_KEPT = 30
_UNREADABLE = (OSError, LookupError, ValueError)  # whatever an album says whose photo cannot be read


class Step(NamedTuple):
    """Something that was said on the page: in words, what people and marks were before, and the version after it."""

    what: str
    before: tuple[Rows, Rows]
    version: int
    drawn: int | None = None  # the face that came with it


class PeopleMemory:
    """What a server remembers of an album's people for as long as it runs: steps to undo, and pictures of faces."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.pictures: OrderedDict[int, bytes] = OrderedDict()

    @classmethod
    def of(cls, memories: "dict[Path, PeopleMemory]", served: ServedAlbum) -> "PeopleMemory":
        """The memory of one album, which is empty once its people were forgotten."""
        place = served.album.store.folder
        if not served.album.has_people:
            memories.pop(place, None)
        return memories.setdefault(place, cls())


class ServedPeople:
    """What the page asks of the people of an album; 409 where it shows none."""

    def __init__(self, served: ServedAlbum, memory: PeopleMemory) -> None:
        self._served, self._album, self._memory = served, served.album, memory
        if not served.album.has_people:
            raise HTTPException(
                409,
                "This album shows no people: nobody looked for faces (smoothap index PHOTOS --out ALBUM --people), or "
                "the server was started without them (smoothap serve --people).",
            )

    @property
    def stored(self) -> People:
        """The people on disk."""
        return self._album.people

    @property
    def version(self) -> str:
        """Changes with any face, name or mark, and with the photos that they are seen by."""
        return f"{self._served.version}-{self.stored.version}"

    # ---- groups

    def listed(self, asked: schemas.PeopleRequest) -> schemas.PeopleList:
        """A page of the groups, those with names first, then the largest."""
        version, everybody = self.version, self.stored.groups(strangers=True)
        shown = [group for group in everybody if group.stranger == asked.strangers]
        listed = [group for group in shown if group.name is not None or len(group.photos) >= asked.min_photos]
        steps = self._memory.steps
        undo = steps[-1].what if steps and steps[-1].version == self.stored.version else None
        return schemas.PeopleList(
            version=version,
            total=len(listed),
            rarer=len(shown) - len(listed),
            strangers=sum(group.stranger for group in everybody),
            undo=undo,
            people=[_person(group) for group in listed[asked.offset : asked.offset + asked.limit]],
        )

    def person(self, face: int) -> schemas.PersonInfo:
        """The group that a face is in."""
        return _person(self._group(face))

    def _group(self, face: int) -> Group:
        try:
            return self.stored.group(face)
        except ValueError as error:
            raise HTTPException(404, str(error)) from error

    def questions(self, limit: int) -> list[schemas.PersonQuestion]:
        """Pairs of groups that may be one person, the answer that settles most faces first."""
        return [
            schemas.PersonQuestion(one=self.person(each.group), other=self.person(each.other), score=each.score)
            for each in self.stored.questions(limit)
        ]

    def photos(self, face: int, asked: schemas.PersonPhotosRequest) -> schemas.PersonPhotos:
        """A page of the photos of a person, the surest first; or of those that may be of them, the most alike first."""
        version, group = self.version, self._group(face)
        seen = set(asked.seen)
        found = [one for one in self.stored.photos(face, missing=asked.missing) if one.face not in seen]
        page = found[asked.offset : asked.offset + asked.limit]
        faces = self._album.face_space().faces(self._album)
        boxes = faces.boxes[faces.rows_of(one.face for one in page)].tolist()
        photos = self._album.photos.at(self._album.photos.rows_of(one.photo for one in page))
        hits = [
            self._served.hit(photo, rank, one.score).model_copy(
                update={"face": one.face, "box": shares(box, (photo.width, photo.height)), "said": one.said}
            )
            for rank, (one, box, photo) in enumerate(zip(page, boxes, photos, strict=True), start=asked.offset + 1)
        ]
        return schemas.PersonPhotos(version=version, total=len(found), person=_person(group), hits=hits)

    # ---- what is said

    def say(self, what: str, change: Callable[[People], int | None], *, draws: bool = False) -> schemas.PeopleChange:
        """Do what a user says, so that it can be undone; `change` gives a face of the group that it was about."""
        before = self.stored.said_so_far()
        face = change(self.stored)
        self._memory.steps = [*self._memory.steps, Step(what, before, self.stored.version, face if draws else None)]
        del self._memory.steps[:-_STEPS_KEPT]
        person = None if face is None else self.person(face)
        return schemas.PeopleChange(version=self.version, said=what, undo=what, person=person)

    def undo(self) -> schemas.PeopleChange:
        """Take back the last thing that was said, if nothing was said elsewhere since."""
        if not self._memory.steps or self._memory.steps[-1].version != self.stored.version:
            raise HTTPException(409, "There is nothing to undo here, or faces were found and named elsewhere since.")
        step = self._memory.steps.pop()
        self.stored.restore(*step.before)
        if step.drawn is not None:
            self.stored.no_face([step.drawn])
        # The version counts on: what was said before that is the last step again.
        self._memory.steps[-1:] = [one._replace(version=self.stored.version) for one in self._memory.steps[-1:]]
        last = self._memory.steps[-1].what if self._memory.steps else None
        return schemas.PeopleChange(version=self.version, said=f"Undone: {step.what}", undo=last)

    def name(self, face: int, name: str) -> schemas.PeopleChange:
        """Give a group a name."""
        photos = len(self._group(face).photos)

        def change(people: People) -> int:
            people.name(face, name)
            return face

        return self.say(f"{_count(photos)} of {visible(name)}", change)

    def draw(self, photo: int, asked: schemas.DrawnFace) -> schemas.PeopleChange:
        """Keep a face where a user drew a box, with a name where one is given."""
        known = self._album.photo(photo)
        left, top, width, height = asked.box
        box = (left * known.width, top * known.height, width * known.width, height * known.height)
        picture = opened_photo(self._served, photo)

        def change(people: People) -> int:
            face = people.draw(photo, box, picture)
            if asked.name is not None:
                people.name(face, asked.name)
            return face

        who = "A face" if asked.name is None else visible(asked.name)
        return self.say(f"{who} in {visible(known.path)}", change, draws=True)

    # ---- pictures

    def faces_of(self, photo: int) -> schemas.PhotoFaces:
        """The faces of a photo, the largest first."""
        known = self._album.photo(photo)
        faces = [
            schemas.FaceInfo(id=face, box=shares(box, (known.width, known.height)), person=_person(group))
            for face, box, group in self.stored.faces_of(photo)
        ]
        return schemas.PhotoFaces(version=self.version, faces=faces)

    def picture(self, face: int) -> bytes:
        """A small JPEG of a face, cut out of its photo when it is asked for."""
        pictures = self._memory.pictures
        if face not in pictures:
            try:
                faces = self._album.face_space().faces(self._album)
                (row,) = faces.rows_of([face]).tolist()
            except ValueError as error:
                raise HTTPException(404, str(error)) from error
            photo = self._album.photo(int(faces.photos[row]))
            box = _around(faces.boxes[row].tolist(), (photo.width, photo.height))
            pictures[face] = plain_jpeg(self._cut(photo.id, box), _QUALITY)
            while len(pictures) > _PICTURES_KEPT:
                pictures.popitem(last=False)
        return pictures[face]

    def _cut(self, photo: int, box: tuple[float, float, float, float]) -> Image.Image:
        try:
            return self._served.decoder.decode(self._album.photo_path(photo), box=box, side=_SIDE)
        except _UNREADABLE:  # its file is gone: the small picture of the photo has something of it
            small = read_image(self._served.thumbnail(photo))
            return cut(small, pixels(box, small.size))


def _person(group: Group) -> schemas.PersonInfo:
    return schemas.PersonInfo(
        number=group.number, name=group.name, cover=group.cover, photos=len(group.photos), faces=len(group.faces),
        stranger=group.stranger,
    )  # fmt: skip


def _count(photos: int) -> str:
    return f"{photos:,} photo{'' if photos == 1 else 's'}"


def _around(box: list[float], size: tuple[int, int]) -> tuple[float, float, float, float]:
    """A square around a box in pixels, as far as it is in the photo, as shares of it."""
    x, y, width, height = box
    side = _AROUND * max(width, height)
    low = np.array([x + width / 2 - side / 2, y + height / 2 - side / 2])
    corner = np.clip(low, 0, size)
    end = np.clip(low + side, 0, size)
    return shares([*corner.tolist(), *(end - corner).tolist()], size)
