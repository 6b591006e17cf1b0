"""The addresses of searches: with photos of the album, with a vector, and with a photo from elsewhere."""

import base64
from typing import Annotated

from fastapi import APIRouter, Form, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse

from smoothap.album.prepare import plain_jpeg
from smoothap.server import schemas
from smoothap.server.dependencies import ChosenAlbum, Parts, Server, file_of
from smoothap.server.limits import Workers
from smoothap.server.routes.photos import attached
from smoothap.server.searching import answer, as_csv, asked, asked_by_image, everything

router = APIRouter(prefix="/albums/{album}", tags=["search"])
_QUALITY = 92  # of the JPEG of a photo that a browser cannot show


def _workers(server: Parts, question: schemas.SearchRequest) -> Workers:
    """Photos wait for the network together, and so have many threads; what computes in its thread has few."""
    return server.workers if question.box is None and question.space == "photo" else server.photo_workers


@router.post("/search", response_model=schemas.SearchAnswer)
async def search(server: Server, served: ChosenAlbum, question: schemas.SearchRequest) -> Response:
    """The album's photos by how much they look like the query, best first."""

    def found() -> str:
        return answer(served, question, asked(served, question)).model_dump_json()

    # Checked and spelled out on its thread: the description says its shape, and nobody has to check it again.
    return Response(await _workers(server, question).run(found), media_type="application/json")


@router.post("/search/photo", response_model=schemas.SearchAnswer)
async def search_photo(
    request: Request,
    server: Server,
    served: ChosenAlbum,
    form: Annotated[schemas.PhotoSearchForm, Form(media_type="multipart/form-data")],
) -> Response:
    """The same for a photo from elsewhere, or for a part of it. The photo is not kept.

    Ask for the next page, with other filters or with marks by the `query` of the answer.
    """
    if (given := len((await request.form()).getlist("image"))) > 1:
        raise HTTPException(422, f"image: it is one photo, not {given}: send a request for each.")
    image = await form.image.read()

    def found() -> str:
        result = answer(served, form, asked_by_image(served, form, image))
        if form.preview:
            result.preview = base64.b64encode(plain_jpeg(served.decoder.decode(image, side=512), _QUALITY)).decode()
        return result.model_dump_json()

    return Response(await server.photo_workers.run(found), media_type="application/json")


@router.post("/search.csv", response_class=Response, responses=file_of("text/csv"))
async def search_list(server: Server, served: ChosenAlbum, question: schemas.SearchRequest) -> Response:
    """Everything that a search finds as a list to download, whatever its offset and limit."""
    listed = await _workers(server, question).run(lambda: as_csv(served, *everything(served, question)))
    return StreamingResponse(listed, media_type="text/csv", headers=attached("photos.csv"))
