"""The server of the page: one album, or two that are compared, over an API that answers every mistake in a sentence."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path as FilePath
from typing import Annotated, Any

from fastapi import FastAPI, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp

from smoothap.search import Album
from smoothap.web.answers import Problem, problem
from smoothap.web.decoder import BadPhoto, Box, Decoder
from smoothap.web.finder import Finder, NotPossible, NotThere
from smoothap.web.gate import LOOPBACK, Gate
from smoothap.web.limits import BoundedRequests, Limits, Overloaded, Queue
from smoothap.web.shapes import (
    Albums,
    AlbumShape,
    Answer,
    Basket,
    Part,
    PhotoPage,
    PhotoShape,
    Question,
    Vector,
    packed,
)
from smoothap.web.typical import typical_photo

_HERE = FilePath(__file__).parent
_FILES = {"/": "page.html", "/page.css": "page.css", "/icon.svg": "icon.svg"}
_FILES |= {f"/{name}.js": f"{name}.js" for name in ("page", "ask", "box", "column", "curve")}
_KINDS = {"html": "text/html", "css": "text/css", "svg": "image/svg+xml", "js": "text/javascript"}
_SENTENCES = {404: "There is no such address here.", 405: "This address does not take that method."}
_ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": meaning}
    for status, meaning in {
        400: "A request that cannot be read", 401: "No token, or a wrong one", 403: "Sent by a page of another site",
        404: "No such album or photo", 408: "Sent too slowly", 409: "Not possible in this album",
        413: "More bytes than are taken", 421: "Sent to a name that is not ours",
        422: "A value or a photo out of bounds",
        503: "Too busy: try again in a second",
    }.items()
}  # fmt: skip
_PHOTO_BODY = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}
_JPEG: dict[int | str, dict[str, Any]] = {
    200: {"content": {"image/jpeg": {"schema": {"type": "string", "format": "binary"}}}, "description": "The picture"}
}
_CSV: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/csv": {"schema": {"type": "string"}}}, "description": "The list"}
}

AlbumNumber = Annotated[int, Path(ge=0, le=1_000, description="Its place among the albums, from 0.")]
PhotoNumber = Annotated[int, Path(ge=0, le=2**53)]


def create_app(
    albums: Mapping[str, Album],
    *,
    token: str | None = None,
    hosts: frozenset[str] = LOOPBACK,
    any_address: bool = False,
    limits: Limits | None = None,
) -> ASGIApp:
    """The application for these albums by name: one to search in, or two that are compared.

    hosts: the names that it answers to, `any_address` also every plain IP address. token: asked of every visitor.
    """
    if not 1 <= len(albums) <= 2:
        raise ValueError(f"The page shows one album or compares two, not {len(albums)}.")
    limits = limits or Limits()
    decoder, queue = Decoder(limits), Queue(limits)
    finders = [Finder(album, name, decoder) for name, album in albums.items()]

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        # Models and the decoder take seconds to load: better now than when the first photo comes.
        warming = asyncio.create_task(queue.run(lambda: [each.warm_up() for each in finders]))
        yield
        warming.cancel()
        queue.close()
        decoder.close()

    app = FastAPI(
        title="smoothap", version=version("smoothap"), openapi_url="/api/openapi.json", docs_url=None, redoc_url=None,
        redirect_slashes=False, lifespan=lifespan, responses=_ERRORS,
        description="Search in an album of photos by example.",
    )  # fmt: skip
    _add_files(app)
    _add_albums(app, finders, queue, limits)
    _add_searches(app, finders, queue)
    _answer_errors(app)
    guarded = BoundedRequests(app, limits, lambda path: path.endswith("/embed"))
    return Gate(guarded, hosts=hosts, any_address=any_address, token=token)


def _add_files(app: FastAPI) -> None:
    def add(address: str, name: str, kind: str) -> None:
        @app.get(address, include_in_schema=False)
        async def file() -> Response:
            content = (_HERE / name).read_bytes()
            return Response(content, media_type=kind, headers={"cache-control": "no-cache"})

    for address, name in _FILES.items():
        add(address, name, _KINDS[name.rpartition(".")[2]])


def _add_albums(app: FastAPI, finders: list[Finder], queue: Queue, limits: Limits) -> None:
    start: list[list[int] | None] = []
    start_lock = threading.Lock()

    def first_photo() -> list[int] | None:
        with start_lock:
            if not start:
                start.append(typical_photo(finders))
            return start[0]

    @app.get("/api/albums")
    async def albums() -> Albums:
        """The albums of this server and what can be done with them."""
        shapes = [
            AlbumShape(
                name=each.name,
                photos=len(each),
                labelled=each.labels is not None,
                takes_photos=each.takes_photos,
                calibrated=each.calibration is not None,
            )
            for each in finders
        ]
        return Albums(albums=shapes, start=await queue.run(first_photo), upload_bytes=limits.upload_bytes)

    @app.get("/api/albums/{album}/photos")
    def photos(
        album: AlbumNumber,
        offset: Annotated[int, Query(ge=0, le=10_000_000)] = 0,
        limit: Annotated[int, Query(ge=1, le=200)] = 60,
    ) -> PhotoPage:
        """Photos of the album in their order."""
        finder = _finder(finders, album)
        rows = range(offset, min(offset + limit, len(finder)))
        return PhotoPage(total=len(finder), photos=[finder.photo(row, finders) for row in rows])

    @app.get("/api/albums/{album}/photos/{photo}")
    def photo_by_id(album: AlbumNumber, photo: PhotoNumber) -> PhotoShape:
        """One photo, and its id in every album of the server."""
        finder = _finder(finders, album)
        return finder.photo(finder.row(photo), finders)

    @app.get("/api/albums/{album}/photos/{photo}/thumbnail", response_class=Response, responses=_JPEG)
    def thumbnail(album: AlbumNumber, photo: PhotoNumber) -> Response:
        """A small picture: pixels, and nothing else that the file held."""
        finder = _finder(finders, album)
        return _picture(finder.thumbnail(photo))

    @app.get("/api/albums/{album}/photos/{photo}/image", response_class=Response, responses=_JPEG)
    async def image(album: AlbumNumber, photo: PhotoNumber) -> Response:
        """A picture of at most 1,024 pixels a side: pixels, and nothing else that the file held."""
        finder = _finder(finders, album)
        return _picture(await queue.run(lambda: finder.image(photo)))


def _add_searches(app: FastAPI, finders: list[Finder], queue: Queue) -> None:
    @app.post("/api/albums/{album}/embed", openapi_extra=_PHOTO_BODY)
    async def embed(
        request: Request,
        album: AlbumNumber,
        box: Annotated[
            str | None,
            Query(pattern=r"^[0-9.]{1,12}(,[0-9.]{1,12}){3}$", description="left,upper,width,height as shares of 1"),
        ] = None,
    ) -> Vector:
        """The vector of the photo in the body, to search with. The photo is not kept."""
        finder, content = _finder(finders, album), await request.body()
        part = None if box is None else _box(box)
        return Vector(vector=packed(await queue.run(lambda: finder.embed(content, part))))

    @app.post("/api/albums/{album}/photos/{photo}/part")
    async def part(album: AlbumNumber, photo: PhotoNumber, part: Part) -> Vector:
        """The vector of a part of one of the album's photos, to search with."""
        finder, box = _finder(finders, album), _checked(part.box)
        return Vector(vector=packed(await queue.run(lambda: finder.embed_part(photo, box))))

    @app.post("/api/albums/{album}/search")
    async def search(album: AlbumNumber, question: Question) -> Answer:
        """The album's photos by how much they look like the query, best first."""
        finder = _finder(finders, album)
        return await queue.run(lambda: finder.answer(question))

    @app.post("/api/albums/{album}/search.csv", response_class=Response, responses=_CSV)
    async def search_list(album: AlbumNumber, question: Question) -> Response:
        """The same as a list to download, from its beginning and whole."""
        finder = _finder(finders, album)
        return _list(await queue.run(lambda: finder.list_of(question)))

    @app.post("/api/albums/{album}/basket.csv", response_class=Response, responses=_CSV)
    async def basket_list(album: AlbumNumber, basket: Basket) -> Response:
        """Chosen photos as a list to download."""
        finder = _finder(finders, album)
        return _list(await queue.run(lambda: finder.list_of_basket(basket.photos)))


def _answer_errors(app: FastAPI) -> None:
    Handler = Callable[[Request, Any], Awaitable[Response]]  # noqa: N806

    def add(kind: type[Exception], answer: Callable[[Any], Response]) -> None:
        async def handle(_: Request, error: Any) -> Response:
            return answer(error)

        handler: Handler = handle
        app.add_exception_handler(kind, handler)

    add(NotThere, lambda error: problem(404, str(error.args[0])))
    add(BadPhoto, lambda error: problem(422, f"This photo cannot be used: {error}."))
    add(NotPossible, lambda error: problem(409, str(error)))
    add(ValueError, lambda error: problem(422, str(error)))
    add(Overloaded, lambda _: problem(503, "The queue of searches is full: try again in a second."))
    add(RequestValidationError, lambda error: problem(422, _first_mistake(error)))
    add(HTTPException, lambda error: problem(error.status_code, _SENTENCES.get(error.status_code, str(error.detail))))
    add(Exception, lambda _: problem(500, "The server made a mistake: its own window says which."))


def _first_mistake(error: RequestValidationError) -> str:
    mistake = error.errors()[0]
    where = " ".join(str(each) for each in mistake["loc"] if each not in ("body", "query", "path"))
    return f"{where or 'The request'}: {mistake['msg']}."


def _finder(finders: list[Finder], number: int) -> Finder:
    if number >= len(finders):
        raise NotThere(f"There is no album {number}: this server has {len(finders)}, counted from 0.")
    return finders[number]


def _box(text: str) -> Box:
    try:
        left, upper, width, height = (float(each) for each in text.split(","))
    except ValueError:
        raise ValueError(f"A box is four numbers such as 0.1,0.2,0.5,0.5, not {text!r}.") from None
    return _checked((left, upper, width, height))


def _checked(box: Box) -> Box:
    left, upper, width, height = box
    if not (0 <= left < 1 and 0 <= upper < 1 and 0.005 <= width <= 1 and 0.005 <= height <= 1):
        raise ValueError("A box is left, upper, width and height as shares from 0 to 1, not smaller than 0.005.")
    return left, upper, min(width, 1 - left), min(height, 1 - upper)


def _picture(content: bytes) -> Response:
    return Response(content, media_type="image/jpeg", headers={"cache-control": "private, max-age=600"})


def _list(content: str) -> Response:
    headers = {"content-disposition": 'attachment; filename="photos.csv"', "cache-control": "no-store"}
    return Response(content, media_type="text/csv", headers=headers)
