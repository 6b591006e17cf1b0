"""The addresses for programs: one call searches, albums go by their names. They are described in docs/http.md."""

import json
from pathlib import PurePosixPath
from typing import Annotated, Any, TypeVar

from fastapi import Depends, FastAPI, Path, Query, Request
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from smoothap.server import _v1_schemas as shapes
from smoothap.server import _v1_writing as writing
from smoothap.server._album_choice import AllAlbums, PhotoNumber
from smoothap.server._gate import MAY_WRITE
from smoothap.server._multipart import Part, form_parts
from smoothap.server._schemas import sentence_of
from smoothap.server._served_album import ServedAlbum
from smoothap.server._v1_answers import answer, described, given_vector, stored
from smoothap.server.limits import WorkQueue

Shape = TypeVar("Shape", bound=BaseModel)
_ALBUMS = "/api/v1/albums"
_BINARY = {"type": "string", "format": "binary"}
_FORM = {"multipart/form-data": {"schema": {"type": "object", "properties": {"image": _BINARY}}}}
_RAW = {kind: {"schema": _BINARY} for kind in ("image/*", "application/octet-stream")}
_JSON = {"application/json": {"schema": shapes.VectorQuestion.model_json_schema()}}
_QUESTION_BODY = {"requestBody": {"required": False, "content": {**_RAW, **_FORM, **_JSON}}}
_PHOTO_BODY = {"requestBody": {"required": True, "content": {**_RAW, **_FORM}}}
_JPEG: dict[int | str, dict[str, Any]] = {200: {"content": {"image/jpeg": {"schema": _BINARY}}, "description": "It"}}


async def _named_album(
    albums: AllAlbums, album: Annotated[str, Path(max_length=1_000, description="The album's name.")]
) -> ServedAlbum:
    for served in albums:
        if served.name == album:
            return served
    raise HTTPException(404, f"There is no album {album!r}: this server has {', '.join(each.name for each in albums)}.")


async def _may_write(request: Request) -> None:
    if not request.scope.get(MAY_WRITE):
        raise HTTPException(
            403,
            "Changing albums needs the write token, as the header Authorization: Bearer TOKEN: whoever runs the server "
            "sets it as SMOOTHAP_WRITE_TOKEN.",
        )


NamedAlbum = Annotated[ServedAlbum, Depends(_named_album)]
Writer = [Depends(_may_write)]


def add_v1_routes(app: FastAPI, queue: WorkQueue, photo_queue: WorkQueue) -> None:
    """Add the addresses; photos wait for the network in a queue of their own, since they wait there together."""

    @app.get(_ALBUMS)
    async def v1_albums(albums: AllAlbums) -> shapes.StoredAlbums:
        """The albums of this server."""
        return shapes.StoredAlbums(albums=[described(served) for served in albums])

    @app.get(f"{_ALBUMS}/{{album}}")
    async def v1_album(served: NamedAlbum) -> shapes.StoredAlbum:
        """One album."""
        return described(served)

    @app.post(f"{_ALBUMS}/{{album}}/search", openapi_extra=_QUESTION_BODY, response_model=shapes.Found)
    async def v1_search(
        request: Request, served: NamedAlbum, question: Annotated[shapes.Question, Query()]
    ) -> Response:
        """The photos most like the image in the body, like one of the album's by its id, or like a vector.

        The body is the image itself, a form with the image in the field `image`, or JSON. What else is asked for stands
        in the address, in other fields of the form, or in the JSON. The image is not kept.
        """
        asked, image = await _asked(request, question)
        if sum(given is not None for given in (asked.id, asked.vector, image)) > 1:
            raise HTTPException(422, "An image, an id and a vector are one query too many: give one of them.")

        def found() -> str:
            bounded = None
            if image is not None:
                vector, bounded = served.query(image)
            else:
                vector = None if asked.vector is None else given_vector(served, asked.vector)
            return answer(served, asked, vector, bounded).model_dump_json()

        # Checked and spelled out on its thread: the description says its shape, and nobody has to check it again.
        # Few threads for what computes in them: more would take the interpreter from each other.
        return Response(await (queue if image is None else photo_queue).run(found), media_type="application/json")

    @app.get(f"{_ALBUMS}/{{album}}/photos/{{photo}}")
    async def v1_photo(served: NamedAlbum, photo: PhotoNumber) -> shapes.StoredPhoto:
        """What the album knows of a photo."""
        return stored(served.album.photo(photo))

    @app.get(f"{_ALBUMS}/{{album}}/photos/{{photo}}/thumbnail", response_class=Response, responses=_JPEG)
    async def v1_thumbnail(served: NamedAlbum, photo: PhotoNumber) -> Response:
        """A picture of at most 256 pixels a side."""
        return _jpeg(await queue.run(served.thumbnail, photo))

    @app.get(f"{_ALBUMS}/{{album}}/photos/{{photo}}/image", response_class=Response, responses=_JPEG)
    async def v1_image(served: NamedAlbum, photo: PhotoNumber) -> Response:
        """A picture of at most 1,024 pixels a side."""
        return _jpeg(await queue.run(served.image, photo))

    @app.post(f"{_ALBUMS}/{{album}}/photos", openapi_extra=_PHOTO_BODY, dependencies=Writer)
    async def v1_add(
        request: Request, served: NamedAlbum, given: Annotated[shapes.NewPhotos, Query()]
    ) -> shapes.Written:
        """Add photos to the album: one as the body with its path in the address, or several as files of a form.

        In a form, the path of each file is its file name, and `label` and `column` may be fields. The album is written
        again once for each request: many photos in one request take hardly longer than one.
        """
        parts = await _parts(request)
        fields = [part for part in parts if part.filename is None]
        asked = _checked(shapes.NewPhotos, given.model_dump(exclude_unset=True), fields, "column")
        files = [(part.filename, part.content) for part in parts if part.filename is not None]
        if not parts and asked.path is not None:
            files = [(asked.path, await request.body())]
        photos = {PurePosixPath(path).as_posix(): content for path, content in files}
        if len(photos) < len(files):
            raise HTTPException(422, "Two photos of the form have one path: name each by a path of its own.")
        if not photos:
            raise HTTPException(
                422, "No photo came: send it as the body with ?path=shoes/red.jpg, or as files of a form."
            )
        return await photo_queue.run(writing.add_photos, served, photos, asked.label, asked.columns())

    @app.delete(f"{_ALBUMS}/{{album}}/photos/{{photo}}", dependencies=Writer)
    async def v1_remove(
        served: NamedAlbum,
        photo: PhotoNumber,
        delete_file: Annotated[
            bool, Query(description="Delete its file too; else the next index takes it in.")
        ] = False,
    ) -> shapes.Removed:
        """Take a photo out of the album; its id is given to no other."""
        return await photo_queue.run(lambda: writing.remove_photo(served, photo, delete_file=delete_file))


async def _asked(request: Request, question: shapes.Question) -> tuple[shapes.VectorQuestion, bytes | None]:
    """The whole question, from the address and the body, and the image if one was sent."""
    body, fields, image = await request.body(), list[Part](), None
    given = question.model_dump(exclude_unset=True)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "multipart/form-data":
        parts = await _parts(request)
        images = [part.content for part in parts if part.name == "image"]
        if len(images) > 1:
            raise HTTPException(422, "A search takes one image: send one field of that name.")
        image = images[0] if images else None
        fields = [part for part in parts if part.name != "image"]
    elif kind == "application/json" and body:
        given |= _json(body)
    elif body[:1] == b"{":
        raise HTTPException(
            422, "The body is JSON and does not say so: send the header Content-Type: application/json."
        )
    elif body:
        image = body
    return _checked(shapes.VectorQuestion, given, fields, "where"), image


def _checked(shape: type[Shape], given: dict[str, Any], fields: list[Part], several: str) -> Shape:
    """What is asked for in the address or as JSON, and in the fields of a form, of which one may come several times."""
    for part in fields:
        if part.name == several:
            given.setdefault(several, []).append(_text(part))
        else:
            given[part.name] = _text(part)
    try:
        return shape.model_validate(given)
    except ValidationError as error:
        raise HTTPException(422, sentence_of(error.errors()[0])) from error


async def _parts(request: Request) -> list[Part]:
    kind = request.headers.get("content-type", "")
    return form_parts(kind, await request.body()) if kind.lower().startswith("multipart/form-data") else []


def _text(part: Part) -> str:
    try:
        return part.content.decode()
    except UnicodeDecodeError:
        raise HTTPException(422, f"{part.name} is no text in UTF-8: the image goes into the field image.") from None


def _json(body: bytes) -> dict[str, Any]:
    try:
        values = json.loads(body)
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise HTTPException(422, 'The body is no JSON object, such as {"id": 7, "k": 20}.')
    return values


def _jpeg(content: bytes) -> Response:
    return Response(content, media_type="image/jpeg", headers={"cache-control": "no-store"})
