"""The addresses of searches: with photos of the album, with a vector, and with a photo from elsewhere."""

import base64
from typing import Annotated, Any

from fastapi import APIRouter, Form
from starlette.responses import Response, StreamingResponse

from smoothap.server import schemas
from smoothap.server.dependencies import ChosenAlbum, Parts, Server
from smoothap.server.face_searching import all_found, asked_face, face_answer, face_in
from smoothap.server.limits import Workers
from smoothap.server.region_searching import all_parts, answer_parts, asked_parts, parts_in
from smoothap.server.searching import Asked, answer, as_csv, asked

router = APIRouter(prefix="/albums/{album}", tags=["search"])
_CSV: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/csv": {"schema": {"type": "string"}}}, "description": "The list"}
}


def _workers(server: Parts, question: schemas.SearchRequest) -> Workers:
    """Photos wait for the network together, and so have many threads; what computes in its thread has few."""
    return server.workers if question.box is None and question.space == "photo" else server.photo_workers


@router.post("/search", response_model=schemas.SearchAnswer)
async def search(server: Server, served: ChosenAlbum, question: schemas.SearchRequest) -> Response:
    """The album's photos by how much they look like the query, best first."""

    def found() -> str:
        if question.space == "region":
            return answer_parts(served, question, asked_parts(served, question)).model_dump_json()
        if question.space == "face":
            return face_answer(served, question, asked_face(served, question)).model_dump_json()
        return answer(served, question, asked(served, question)).model_dump_json()

    # Checked and spelled out on its thread: the description says its shape, and nobody has to check it again.
    return Response(await _workers(server, question).run(found), media_type="application/json")


@router.post("/search/photo", response_model=schemas.SearchAnswer)
async def search_photo(
    server: Server,
    served: ChosenAlbum,
    form: Annotated[schemas.PhotoSearchForm, Form(media_type="multipart/form-data")],
) -> Response:
    """The same for a photo from elsewhere, or for a part of it. The photo is not kept.

    Ask for the next page, with other filters or with marks by the `query` of the answer.
    """
    image, part = await form.image.read(), form.part

    def found() -> str:
        if form.space == "face":
            result = face_answer(served, form, face_in(served, image, part))
        elif form.space == "region":
            result = answer_parts(served, form, parts_in(served, image, part))
        else:
            vector, bounded = served.query(image, part)
            result = answer(served, form, Asked(vector, (), bounded))
        if form.preview:
            result.preview = base64.b64encode(served.preview(image)).decode()
        return result.model_dump_json()

    return Response(await server.photo_workers.run(found), media_type="application/json")


@router.post("/search.csv", response_class=Response, responses=_CSV)
async def search_list(server: Server, served: ChosenAlbum, question: schemas.SearchRequest) -> Response:
    """Everything that a search finds as a list to download, whatever its offset and limit."""
    found = all_parts if question.space == "region" else all_found
    rows, scores = await _workers(server, question).run(found, served, question)
    headers = {"content-disposition": 'attachment; filename="photos.csv"', "cache-control": "no-store"}
    return StreamingResponse(as_csv(served, rows, scores), media_type="text/csv", headers=headers)
