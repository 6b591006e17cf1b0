"""The server of the page: one album, or two that are compared, over an API that answers every mistake in a sentence."""

import asyncio
from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import asynccontextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path as FilePath
from typing import Annotated, Any, TextIO

from fastapi import FastAPI, Query, Request, Security
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from fastapi.utils import generate_unique_id
from pydantic import TypeAdapter, ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp

from smoothap.album import Album
from smoothap.album.collections import NoSuchCollection
from smoothap.album.engines.milvus import MilvusUnavailable
from smoothap.album.photos import NoSuchPhoto
from smoothap.data.reading import UnreadableImage
from smoothap.server import LOOPBACK
from smoothap.server import _schemas as schemas
from smoothap.server._album_choice import AllAlbums, ChosenAlbum, PhotoNumber
from smoothap.server._collection_routes import add_collection_routes
from smoothap.server._current_albums import CurrentAlbums
from smoothap.server._decoder import Decoder
from smoothap.server._gate import Gate
from smoothap.server._learning_job import LearningJob
from smoothap.server._learning_routes import add_learning_routes
from smoothap.server._looking_routes import add_looking_routes
from smoothap.server._metrics import Metrics
from smoothap.server._observing import Observed, add_metrics_route
from smoothap.server._schemas import JPEG, PictureKey, error_response, picture_response
from smoothap.server._v1_routes import add_v1_routes
from smoothap.server.limits import BoundedRequests, Limits, WorkQueue
from smoothap.server.proxies import BehindProxy, TrustedProxies

_HERE = FilePath(__file__).parent
_FILES = {"/": "page.html", "/page.css": "page.css", "/icon.svg": "icon.svg"}
_SCRIPTS = (
    "page", "ask", "box", "collection_card", "collections", "column", "curve", "filters", "grid", "keeping", "learning",
    "outbox", "quality", "slider", "stack", "telling", "viewer",
)  # fmt: skip
_FILES |= {f"/{name}.js": f"{name}.js" for name in _SCRIPTS}
_KINDS = {"html": "text/html", "css": "text/css", "svg": "image/svg+xml", "js": "text/javascript"}
_SENTENCES = {  # for what the router says of itself
    "Not Found": "There is no such address here.",
    "Method Not Allowed": "This address does not take that method.",
}
_ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": schemas.ErrorInfo, "description": meaning}
    for status, meaning in {
        400: "A request that cannot be read", 401: "No token, or a wrong one", 403: "Sent by a page of another site",
        404: "No such album, photo or collection", 408: "Sent too slowly", 409: "Not possible in this album",
        413: "More bytes than are taken", 421: "Sent to a name that is not ours",
        422: "A value or a photo out of bounds",
        503: "Too busy: try again in a second",
    }.items()
}  # fmt: skip
# For the description alone: the gate has asked for the token by then.
_BEARER = HTTPBearer(
    auto_error=False,
    description="The token of the server, where it has one. To change albums, the write token, where that is allowed.",
)
_PHOTO_BODY = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}
_CSV: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/csv": {"schema": {"type": "string"}}}, "description": "The list"}
}


def create_app(
    albums: Mapping[str, Album],
    *,
    token: str | None = None,
    write_token: str | None = None,
    hosts: frozenset[str] = LOOPBACK,
    any_address: bool = False,
    limits: Limits | None = None,
    proxies: Collection[str] = (),
    base_path: str = "",
    metrics: Metrics | None = None,
    log: TextIO | None = None,
    local: bool = False,
) -> ASGIApp:
    """The application for these albums by name: one to search in, or two that are compared.

    hosts: the names that it answers to, `any_address` also every plain IP address. token: asked of every visitor.
    write_token: lets programs add and remove photos; without one nobody can. proxies: addresses or networks that are
    believed when they say whom a request comes from and which name it was sent to (X-Forwarded-For, -Host and -Proto).
    base_path: what a proxy puts before our own paths. log: where a line of JSON for each request goes.
    local: only this computer sees the page, so that it may open folders here.
    """
    if not 1 <= len(albums) <= 2:
        raise ValueError(f"The page shows one album or compares two, not {len(albums)}.")
    limits = limits or Limits()
    metrics, decoder, trusted = metrics or Metrics(), Decoder(limits), TrustedProxies(proxies)
    job = LearningJob()
    queue = WorkQueue(limits.working, limits.waiting, partial(metrics.queued, "others"))
    # As many threads as places: photos wait for the network together, and the network is what works.
    photo_queue = WorkQueue(limits.working + limits.waiting, 0, partial(metrics.queued, "photos"))
    current = CurrentAlbums(albums, decoder, metrics.embedded)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        # Models and the decoder take seconds to load: better now than when the first photo comes.
        warming = asyncio.create_task(queue.run(current.warm_up))
        yield
        warming.cancel()
        for each in (queue, photo_queue):
            each.close()
        decoder.close()
        job.close()

    app = FastAPI(
        title="smoothap", version=version("smoothap"), openapi_url="/api/openapi.json", docs_url=None, redoc_url=None,
        redirect_slashes=False, lifespan=lifespan, responses=_ERRORS, dependencies=[Security(_BEARER)],
        servers=[{"url": base_path or "/"}], generate_unique_id_function=_operation,
        description="Search in an album of photos by example.",
        exception_handlers=dict.fromkeys(
            (HTTPException, RequestValidationError, ValueError, Exception), _answer_error
        ),
    )  # fmt: skip
    app.state.albums = current
    for address in _FILES:
        app.get(address, include_in_schema=False)(_page_file)
    _add_routes(app, current, queue, photo_queue, limits, local)
    add_collection_routes(app, queue, local=local)
    add_learning_routes(app, queue, job)
    add_looking_routes(app, queue, local=local)
    add_v1_routes(app, queue, photo_queue)
    add_metrics_route(app, metrics, current)
    bounded = BoundedRequests(app, limits, trusted)
    gate = Gate(
        bounded, hosts=hosts, any_address=any_address, token=token, write_token=write_token, base_path=base_path
    )
    observed = Observed(gate, metrics, lambda: current.missing, log, trusted)
    return BehindProxy(observed, trusted, base_path)


def _operation(route: APIRoute) -> str:
    """What a route is called in the description, and by code that is generated from it."""
    return route.name if route.name.startswith("v1_") else generate_unique_id(route)


async def _page_file(request: Request) -> Response:
    name = _FILES[request.url.path]
    headers = {"cache-control": "no-cache"}
    return Response((_HERE / name).read_bytes(), media_type=_KINDS[name.rpartition(".")[2]], headers=headers)


def _add_routes(
    app: FastAPI, current: CurrentAlbums, queue: WorkQueue, photo_queue: WorkQueue, limits: Limits, local: bool
) -> None:
    @app.get("/api/albums")
    async def list_albums(albums: AllAlbums) -> schemas.AlbumList:
        """The albums of this server and what can be done with them."""
        described = [
            schemas.AlbumInfo(
                name=served.name,
                photos=len(served.album),
                labelled=served.labels is not None,
                takes_photos=served.album.model is not None,
                calibrated=served.album.calibration is not None,
                keeps=served.keeps,
            )
            for served in albums
        ]
        start = await queue.run(current.start, albums)
        return schemas.AlbumList(albums=described, start=start, upload_bytes=limits.upload_bytes, local=local)

    @app.get("/api/albums/{album}/photos/{photo}")
    def photo_by_id(albums: AllAlbums, served: ChosenAlbum, photo: PhotoNumber) -> schemas.PhotoInfo:
        """One photo, and its id in every album of the server."""
        return served.photo(served.album.photos.row_of(photo), albums)

    @app.get("/api/albums/{album}/photos/{photo}/thumbnail", response_class=Response, responses=JPEG)
    def thumbnail(served: ChosenAlbum, photo: PhotoNumber, picture: PictureKey = None) -> Response:
        """A small picture: pixels, and nothing else that the file held."""
        return picture_response(served.thumbnail(photo), remembered=picture == served.picture_key(photo))

    @app.get("/api/albums/{album}/photos/{photo}/image", response_class=Response, responses=JPEG)
    async def image(served: ChosenAlbum, photo: PhotoNumber, picture: PictureKey = None) -> Response:
        """A picture of at most 1,024 pixels a side: pixels, and nothing else that the file held."""
        content = await queue.run(served.image, photo)
        return picture_response(content, remembered=picture == served.picture_key(photo))

    @app.post("/api/albums/{album}/embed", openapi_extra=_PHOTO_BODY)
    async def embed(
        request: Request,
        served: ChosenAlbum,
        box: Annotated[
            str | None,
            Query(pattern=r"^[0-9.]{1,12}(,[0-9.]{1,12}){3}$", description="left,top,width,height as shares of 1"),
        ] = None,
    ) -> schemas.Vector:
        """The vector of the photo in the body, to search with. The photo is not kept."""
        part = None if box is None else _share_box(box)
        return await photo_queue.run(served.embed, await request.body(), part)

    @app.post("/api/albums/{album}/photos/{photo}/part")
    async def part(served: ChosenAlbum, photo: PhotoNumber, part: schemas.PhotoPart) -> schemas.Vector:
        """The vector of a part of one of the album's photos, to search with."""
        return await photo_queue.run(served.embed, photo, part.box)

    @app.post("/api/albums/{album}/search")
    async def search(served: ChosenAlbum, request: schemas.SearchRequest) -> schemas.SearchPage:
        """The album's photos by how much they look like the query, best first."""
        return await queue.run(served.answer, request)

    @app.post("/api/albums/{album}/search.csv", response_class=Response, responses=_CSV)
    async def search_list(served: ChosenAlbum, request: schemas.SearchRequest) -> Response:
        """The same as a list to download, from its beginning and whole."""
        return _list(await queue.run(served.list_of, request))


async def _answer_error(_: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        return error_response(error.status_code, _SENTENCES.get(error.detail, error.detail))
    if isinstance(error, (NoSuchPhoto, NoSuchCollection)):
        return error_response(404, str(error))
    if isinstance(error, UnreadableImage):
        return error_response(422, f"This photo cannot be used: {error.reason}.")
    if isinstance(error, RequestValidationError):
        return error_response(422, schemas.sentence_of(error.errors()[0]))
    if isinstance(error, MilvusUnavailable):
        return error_response(503, str(error))
    if isinstance(error, ValueError):
        return error_response(422, str(error))
    return error_response(500, "The server made a mistake: its own window says which.")


def _share_box(text: str) -> schemas.ShareBox:
    try:
        return TypeAdapter(schemas.ShareBox).validate_python(text.split(","))
    except ValidationError:
        raise ValueError(
            "A box is four numbers such as 0.1,0.2,0.5,0.5: left, top, width and height as shares from 0 to 1, the "
            f"last two at least 0.005, not {text!r}."
        ) from None


def _list(content: str) -> Response:
    headers = {"content-disposition": 'attachment; filename="photos.csv"', "cache-control": "no-store"}
    return Response(content, media_type="text/csv", headers=headers)
