"""The addresses for people: groups of faces, photos of a person, what is said of faces, each for one album.

They are there where the album has faces and the server shows them: on this computer, or to others with --people.
Whatever changes something is let in by `server/auth.py` only from our own page, and with the token where there is one.
"""

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import Response

from smoothap.album.people import People
from smoothap.server import schemas
from smoothap.server.dependencies import Server, ShownPeople
from smoothap.server.schemas import FaceId, PhotoId

router = APIRouter(prefix="/albums/{album}", tags=["people"])
_JPEG: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {"image/jpeg": {"schema": {"type": "string", "format": "binary"}}},
        "description": "The face",
    }
}


@router.get("/people")
async def list_people(
    server: Server, people: ShownPeople, asked: Annotated[schemas.PeopleRequest, Query()]
) -> schemas.PeopleList:
    """Groups of faces, each with a cover, a count and a name if it has one."""
    return await server.workers.run(people.listed, asked)


@router.get("/people/questions")
async def questions(
    server: Server, people: ShownPeople, limit: Annotated[int, Query(ge=1, le=100)] = 20
) -> list[schemas.PersonQuestion]:
    """Pairs of groups that may be one person, the answer that settles most faces first."""
    return await server.workers.run(people.questions, limit)


@router.post("/people/merge")
async def merge(server: Server, people: ShownPeople, asked: schemas.ChosenFaces) -> schemas.PeopleChange:
    """Say that groups are one person; each is named by one of its faces."""
    return await server.workers.run(
        people.say, f"{len(asked.faces):,} groups are one person", _about(asked, People.merge)
    )


@router.post("/people/different")
async def different(server: Server, people: ShownPeople, asked: schemas.ChosenFaces) -> schemas.PeopleChange:
    """Say that two groups, each named by one of its faces, are two people."""
    if len(asked.faces) != 2:
        raise ValueError("Two groups are different from each other: give one face of each.")
    return await server.workers.run(
        people.say, "Two different people", _about(asked, lambda stored, faces: stored.different(*faces))
    )


@router.post("/people/split")
async def split(server: Server, people: ShownPeople, asked: schemas.ChosenFaces) -> schemas.PeopleChange:
    """Say that faces are another person than the rest of their group, and one person themselves."""
    return await server.workers.run(people.say, f"{len(asked.faces):,} faces split off", _about(asked, People.split))


@router.post("/people/no-face")
async def no_face(server: Server, people: ShownPeople, asked: schemas.NoFaces) -> schemas.PeopleChange:
    """Say that these are no faces: a poster, a shadow. They are in no group and are not found any more."""

    def change(stored: People) -> None:
        groups = [stored.group(face).faces for face in asked.faces] if asked.groups else [asked.faces]
        stored.no_face([face for group in groups for face in group])

    return await server.workers.run(people.say, "Not a face", change)


@router.post("/people/undo")
async def undo(server: Server, people: ShownPeople) -> schemas.PeopleChange:
    """Take back what was said last."""
    return await server.workers.run(people.undo)


@router.get("/people/{face}")
async def person(server: Server, people: ShownPeople, face: FaceId) -> schemas.PersonInfo:
    """The group that a face is in."""
    return await server.workers.run(people.person, face)


@router.post("/people/{face}/photos")
async def person_photos(
    server: Server, people: ShownPeople, face: FaceId, asked: schemas.PersonPhotosRequest
) -> schemas.PersonPhotos:
    """The photos of a person, the surest first; with `missing` those that may be of them, the most alike first."""
    return await server.workers.run(people.photos, face, asked)


@router.put("/people/{face}/name")
async def name(server: Server, people: ShownPeople, face: FaceId, asked: schemas.PersonName) -> schemas.PeopleChange:
    """Give a group a name; one that somebody has already makes both one person."""
    return await server.workers.run(people.name, face, asked.name)


@router.post("/people/{face}/marks")
async def mark(server: Server, people: ShownPeople, face: FaceId, asked: schemas.PersonMarks) -> schemas.PeopleChange:
    """Say of faces that they are this person, that they are not, or neither any more."""
    what = ", ".join(
        f"{len(faces):,} {'face' if len(faces) == 1 else 'faces'} {said}"
        for faces, said in ((asked.right, "of them"), (asked.wrong, "not of them"), (asked.neither, "not marked"))
        if faces
    )
    return await server.workers.run(people.say, what, lambda stored: stored.mark(face, **asked.model_dump()))


@router.post("/people/{face}/stranger")
async def stranger(server: Server, people: ShownPeople, face: FaceId) -> schemas.PeopleChange:
    """Say that a group is a stranger, never mind: it is not listed any more."""
    return await server.workers.run(people.say, "A stranger", lambda stored: stored.stranger(face))


@router.get("/faces/{face}/picture", response_class=Response, responses=_JPEG)
async def face_picture(server: Server, people: ShownPeople, face: FaceId) -> Response:
    """A small picture of a face, cut out when it is asked for; browsers do not keep it."""
    picture = await server.picture_workers.run(people.picture, face)
    return Response(picture, media_type="image/jpeg", headers={"cache-control": "no-store"})


@router.get("/photos/{photo}/faces")
async def photo_faces(server: Server, people: ShownPeople, photo: PhotoId) -> schemas.PhotoFaces:
    """The faces of a photo, the largest first, with boxes and names."""
    return await server.workers.run(people.faces_of, photo)


@router.post("/photos/{photo}/faces")
async def draw_face(
    server: Server, people: ShownPeople, photo: PhotoId, asked: schemas.DrawnFace
) -> schemas.PeopleChange:
    """Keep a face where none was found, in a box that a user drew, and whose it is."""
    return await server.photo_workers.run(people.draw, photo, asked)


def _about(asked: schemas.ChosenFaces, say: Callable[[People, list[int]], None]) -> Callable[[People], int]:
    """Something said of faces, and the first of them, which leads to their group."""

    def change(stored: People) -> int:
        say(stored, asked.faces)
        return asked.faces[0]

    return change
