"""The addresses for people: groups of faces, photos of a person, what is said of faces, each for one album.

They are there where the album has faces and the server shows them: on this computer, or to others with --people.
Whatever changes something is let in by `server/auth.py` only from our own page, and with the token where there is one.
"""

from collections.abc import Callable
from itertools import count
from typing import Annotated

import numpy as np
from fastapi import APIRouter, Body, Query
from starlette.exceptions import HTTPException
from starlette.responses import Response

from smoothap.album.people import People
from smoothap.album.prepare import plain_jpeg
from smoothap.data.reading import cut, read_image
from smoothap.plots.text import visible
from smoothap.server import schemas
from smoothap.server.dependencies import Server, ShownPeople, file_of
from smoothap.server.schemas import FaceId, Identity, PersonInfo
from smoothap.server.served_album import ServedAlbum, pixels, shares

router = APIRouter(prefix="/albums/{album}", tags=["people"])
_AROUND = 1.7  # times the longer side of a face: what its picture shows
_SIDE, _QUALITY = 160, 85  # pixels and JPEG quality of the picture of a face
_LARGE = 1_600  # pixels of a photo in which a face is drawn
_PICTURES_KEPT = 2_000  # of faces, in memory: browsers keep none, so that to forget people leaves nothing behind there


# ---- groups


@router.get("/people")
def list_people(served: ShownPeople, asked: Annotated[schemas.PeopleRequest, Query()]) -> schemas.PeopleList:
    """Groups of faces, each with a cover, a count and a name if it has one: those with names first, then by size."""
    people, version = served.album.people, _version(served)
    undo, everybody = people.last_step, people.groups(strangers=True)
    shown = [group for group in everybody if group.stranger == asked.strangers]
    listed = [group for group in shown if group.name is not None or len(group.photos) >= asked.min_photos]
    return schemas.PeopleList(
        version=version, total=len(listed), rarer=len(shown) - len(listed),
        strangers=sum(group.stranger for group in everybody), undo=undo,
        people=[PersonInfo.model_validate(group) for group in listed[asked.offset : asked.offset + asked.limit]],
    )  # fmt: skip


@router.get("/people/questions")
def questions(served: ShownPeople, limit: Annotated[int, Query(ge=1, le=100)] = 20) -> list[schemas.PersonQuestion]:
    """Pairs of groups that may be one person, the answer that settles most faces first."""
    return [
        schemas.PersonQuestion(one=_person(served, each.group), other=_person(served, each.other), score=each.score)
        for each in served.album.people.questions(limit)
    ]


@router.get("/people/{face}")
def person(served: ShownPeople, face: FaceId) -> PersonInfo:
    """The group that a face is in."""
    return _person(served, face)


@router.post("/people/{face}/photos")
def person_photos(served: ShownPeople, face: FaceId, asked: schemas.PersonPhotosRequest) -> schemas.PersonPhotos:
    """The photos of a person, the surest first; with `missing` those that may be of them, the most alike first."""
    version, who, album = _version(served), _person(served, face), served.album
    seen = set(asked.seen)
    found = [one for one in album.people.photos(face, missing=asked.missing) if one.face not in seen]
    page = found[asked.offset : asked.offset + asked.limit]
    columns = {name: [getattr(one, name) for one in page] for name in ("photo", "score", "face", "said")}
    faces = album.face_space().faces(album)
    columns["box"] = faces.boxes[faces.rows_of(columns["face"])].tolist()
    hits = served.hits(album.photos.rows_of(columns.pop("photo")), count(asked.offset + 1), **columns)
    return schemas.PersonPhotos(version=version, total=len(found), person=who, hits=hits)


@router.get("/photos/{photo}/faces")
def photo_faces(served: ShownPeople, photo: Identity) -> schemas.PhotoFaces:
    """The faces of a photo, the largest first, with boxes and names."""
    known, version = served.album.photo(photo), _version(served)
    faces = [
        schemas.FaceInfo(id=face, box=shares(box, (known.width, known.height)), person=PersonInfo.model_validate(group))
        for face, box, group in served.album.people.faces_of(photo)
    ]
    return schemas.PhotoFaces(version=version, faces=faces)


# ---- what is said


@router.post("/people/merge")
def merge(served: ShownPeople, asked: schemas.ChosenFaces) -> schemas.PeopleChange:
    """Say that groups are one person; each is named by one of its faces."""
    what = f"{len(asked.faces):,} groups are one person"
    return _say(served, what, lambda people: people.merge(asked.faces), asked.faces[0])


@router.post("/people/different")
def different(served: ShownPeople, asked: schemas.ChosenFaces) -> schemas.PeopleChange:
    """Say that two groups, each named by one of its faces, are two people."""
    if len(asked.faces) != 2:
        raise ValueError("Two groups are different from each other: give one face of each.")
    return _say(served, "Two different people", lambda people: people.different(*asked.faces), asked.faces[0])


@router.post("/people/split")
def split(served: ShownPeople, asked: schemas.ChosenFaces) -> schemas.PeopleChange:
    """Say that faces are another person than the rest of their group, and one person themselves."""
    what = f"{len(asked.faces):,} faces split off"
    return _say(served, what, lambda people: people.split(asked.faces), asked.faces[0])


@router.post("/people/no-face")
def no_face(served: ShownPeople, asked: schemas.NoFaces) -> schemas.PeopleChange:
    """Say that these are no faces: a poster, a shadow. They are in no group and are not found any more."""

    def change(people: People) -> None:
        groups = [people.group(face).faces for face in asked.faces] if asked.groups else [asked.faces]
        people.no_face([face for group in groups for face in group])

    return _say(served, "Not a face", change)


@router.post("/people/undo")
def undo(
    served: ShownPeople,
    version: Annotated[
        str | None,
        Body(embed=True, max_length=100, description="Of the answer with that `undo`; without it, the last."),
    ] = None,
) -> schemas.PeopleChange:
    """Take back what was said last, if nothing was said elsewhere since."""
    people = served.album.people
    try:
        said = people.undo(None if version is None else _people_version(version))
    except ValueError as error:
        raise HTTPException(409, str(error)) from error
    return schemas.PeopleChange(version=_version(served), said=f"Undone: {said}", undo=people.last_step)


@router.put("/people/{face}/name")
def name(served: ShownPeople, face: FaceId, asked: schemas.Name) -> schemas.PeopleChange:
    """Give a group a name; one that somebody has already makes both one person."""
    photos = _person(served, face).photos
    what = f"{photos:,} photo{'' if photos == 1 else 's'} of {visible(asked.name)}"
    return _say(served, what, lambda people: people.name(face, asked.name), face)


@router.post("/people/{face}/marks")
def mark(served: ShownPeople, face: FaceId, asked: schemas.Marks) -> schemas.PeopleChange:
    """Say of faces that they are this person, that they are not, or neither any more."""
    what = ", ".join(
        f"{len(faces):,} {'face' if len(faces) == 1 else 'faces'} {said}"
        for faces, said in ((asked.right, "of them"), (asked.wrong, "not of them"), (asked.neither, "not marked"))
        if faces
    )
    return _say(served, what, lambda people: people.mark(face, **asked.model_dump()))


@router.post("/people/{face}/stranger")
def stranger(served: ShownPeople, face: FaceId) -> schemas.PeopleChange:
    """Say that a group is a stranger, never mind: it is not listed any more."""
    return _say(served, "A stranger", lambda people: people.stranger(face))


@router.post("/photos/{photo}/faces")
async def draw_face(
    server: Server, served: ShownPeople, photo: Identity, asked: schemas.DrawnFace
) -> schemas.PeopleChange:
    """Keep a face where none was found, in a box that a user drew, and whose it is."""

    def draw() -> schemas.PeopleChange:
        known = served.album.photo(photo)
        left, top, width, height = asked.box
        box = (left * known.width, top * known.height, width * known.width, height * known.height)
        who = "A face" if asked.name is None else visible(asked.name)
        picture = served.decoded(photo, side=_LARGE)

        def change(people: People) -> int:
            face = people.draw(photo, box, picture)
            if asked.name is not None:
                people.name(face, asked.name)
            return face

        return _say(served, f"{who} in {visible(known.path)}", change)

    return await server.photo_workers.run(draw)


def _say(
    served: ServedAlbum, what: str, change: Callable[[People], int | None], about: int | None = None
) -> schemas.PeopleChange:
    """Do what a user says, as a step that can be undone; `about` or what `change` gives leads to the group."""
    people = served.album.people
    with people.step(what):
        face = change(people)
    face = about if face is None else face
    person = None if face is None else _person(served, face)
    return schemas.PeopleChange(version=_version(served), said=what, undo=what, person=person)


# ---- pictures


@router.get("/faces/{face}/picture", response_class=Response, responses=file_of("image/jpeg"))
async def face_picture(server: Server, served: ShownPeople, face: FaceId) -> Response:
    """A small picture of a face, cut out when it is asked for; browsers do not keep it."""
    picture = await server.picture_workers.run(_picture, served, face)
    return Response(picture, media_type="image/jpeg", headers={"cache-control": "no-store"})


def _picture(served: ServedAlbum, face: int) -> bytes:
    album, pictures = served.album, served.face_pictures
    if face not in pictures:
        faces = album.face_space().faces(album)
        (row,) = faces.rows_of([face]).tolist()
        photo = album.photo(int(faces.photos[row]))
        box = _around(faces.boxes[row].tolist(), (photo.width, photo.height))
        try:
            picture = served.decoded(photo.id, box=box, side=_SIDE)
        except HTTPException:  # its file is gone: the small picture of the photo has something of it
            small = read_image(served.thumbnail(photo.id))
            picture = cut(small, pixels(box, small.size))
        pictures[face] = plain_jpeg(picture, _QUALITY)
        while len(pictures) > _PICTURES_KEPT:
            pictures.popitem(last=False)
    return pictures[face]


def _around(box: list[float], size: tuple[int, int]) -> schemas.Shares:
    """A square around a box in pixels, as far as it is in the photo, as shares of it."""
    half = _AROUND * max(box[2:]) / 2
    middle = np.array(box[:2]) + np.array(box[2:]) / 2
    corner, end = np.clip(middle - half, 0, size), np.clip(middle + half, 0, size)
    return shares([*corner.tolist(), *(end - corner).tolist()], size)


def _version(served: ServedAlbum) -> str:
    """Changes with any face, name or mark, and with the photos that they are seen by."""
    return f"{served.version}-{served.album.people.version}"


def _people_version(version: str) -> int:
    """What such a version says of the people alone; -1 where it is none."""
    number = version.rpartition("-")[2]
    return int(number) if number.isdecimal() else -1


def _person(served: ServedAlbum, face: int) -> PersonInfo:
    """The group that a face is in, by its id."""
    return PersonInfo.model_validate(served.album.people.group(face))
