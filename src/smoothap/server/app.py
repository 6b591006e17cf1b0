"""The application: one album, or two that are compared, over one API that the page uses too."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, TextIO

from anyio import to_thread
from fastapi import FastAPI, Request, Security
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartParser
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles

from smoothap._core.files import DiskFullError
from smoothap.album import Album
from smoothap.album.calibration import NotCalibrated
from smoothap.album.collections import NoSuchCollection
from smoothap.album.engines.milvus import MilvusUnavailable
from smoothap.album.faces import NoSuchFace
from smoothap.album.photos import NoSuchPhoto
from smoothap.album.watching import Watcher
from smoothap.data.reading import UnreadableImage
from smoothap.server import schemas
from smoothap.server.auth import HEADERS, Gate
from smoothap.server.decoder import Decoder
from smoothap.server.dependencies import AllAlbums, CurrentAlbums, Parts, Server
from smoothap.server.learning import LearningJob
from smoothap.server.limits import BoundedRequests, Workers, problem
from smoothap.server.observing import Metrics, Observed
from smoothap.server.routes.albums import router as albums_router
from smoothap.server.routes.collections import learning_router
from smoothap.server.routes.collections import router as collections_router
from smoothap.server.routes.people import router as people_router
from smoothap.server.routes.photos import router as photos_router
from smoothap.server.routes.search import router as search_router
from smoothap.server.settings import Service

_STATIC = Path(__file__).parent / "static"
_SENTENCES = {  # for what the router says of itself
    "Not Found": "There is no such address here.",
    "Method Not Allowed": "This address does not take that method.",
    "There was an error parsing the body": "The body cannot be read: send JSON, in UTF-8.",
}
# Not given as a model, which FastAPI would put under the media type of a route's own answer.
_PROBLEM: dict[int | str, dict[str, Any]] = {
    "default": {
        "description": "What is wrong, in a sentence that names the remedy (RFC 9457)",
        "content": {"application/problem+json": {"schema": schemas.Problem.model_json_schema()}},
    }
}
_STATUSES: dict[type[Exception], int] = {  # the first that fits
    NoSuchPhoto: 404, NoSuchCollection: 404, NoSuchFace: 404, NotCalibrated: 409, MilvusUnavailable: 503,
    PermissionError: 403, DiskFullError: 507, ValueError: 422,
}  # fmt: skip
# For the description alone: the gate has asked for the token by then.
_BEARER = HTTPBearer(
    auto_error=False,
    description="The token of the server, where it has one. To change albums, the write token, where that is allowed.",
)


def create_app(
    albums: Mapping[str, Album],
    service: Service | None = None,
    log: TextIO | None = None,
    watchers: Mapping[str, Watcher] | None = None,
) -> FastAPI:
    """The application for these albums by name: one to search in, or two that are compared.

    log: where a line of JSON for each request goes. watchers: what takes in photos of albums meanwhile, by name.
    """
    if not 1 <= len(albums) <= 2:
        raise ValueError(f"The page shows one album or compares two, not {len(albums)}.")
    if slashed := [name for name in albums if "/" in name]:
        raise ValueError(f"An album's name is a part of its address, and has no slash as {slashed[0]!r} has.")
    service = service or Service()
    limits, metrics = service.limits, Metrics()
    decoder = Decoder(limits)
    MultiPartParser.spool_max_size = limits.upload_bytes  # photos of visitors are in memory, and never on a disk
    parts = Parts(
        albums=CurrentAlbums(albums, decoder, metrics.embedded, watchers),
        workers=Workers(limits.working, limits.waiting),
        # As many threads as places: photos wait for the network together, and the network is what works.
        photo_workers=Workers(limits.working + limits.waiting, 0),
        picture_workers=Workers(limits.working, limits.requests),
        learning=LearningJob(),
        metrics=metrics,
        service=service,
    )
    metrics.watch("others", parts.workers)
    metrics.watch("photos", parts.photo_workers)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        # For whatever is not a search or a picture: more threads would take the interpreter from those.
        to_thread.current_default_thread_limiter().total_tokens = 4 * service.limits.working
        # Models and the decoder take seconds to load: better now than when the first photo comes.
        warming = asyncio.create_task(parts.workers.run(parts.albums.warm_up))
        yield
        warming.cancel()
        decoder.close()
        parts.learning.close()

    app = FastAPI(
        title="smoothap", version=version("smoothap"), description="Search in an album of photos by example.",
        openapi_url="/api/openapi.json", docs_url=None, redoc_url=None, redirect_slashes=False, lifespan=lifespan,
        responses=_PROBLEM, dependencies=[Security(_BEARER)],
        generate_unique_id_function=_operation,
        exception_handlers=dict.fromkeys(
            (HTTPException, RequestValidationError, PermissionError, DiskFullError, ValueError, Exception),
            _answer_error,
        ),
        middleware=[
            Middleware(Observed, metrics=metrics, missing=lambda: parts.albums.missing, log=log),
            Middleware(Gate, service=service),
            Middleware(BoundedRequests, limits=limits),
            Middleware(GZipMiddleware, minimum_size=1_000, compresslevel=5),
        ],
    )  # fmt: skip
    app.state.parts = parts
    routers = albums_router, search_router, photos_router, collections_router, learning_router, people_router
    for router in routers:
        app.include_router(router, prefix="/api/v1")
    app.get("/metrics", include_in_schema=False)(_metrics)
    app.get("/", include_in_schema=False)(_page)
    app.mount("/static", StaticFiles(directory=_STATIC))
    return app


async def _page() -> Response:
    return FileResponse(_STATIC / "index.html")


async def _metrics(server: Server, albums: AllAlbums) -> Response:
    """What Prometheus reads; it asks for the token as all addresses do."""
    content = server.metrics.text(albums)
    return Response(content, media_type="text/plain; version=0.0.4", headers={"cache-control": "no-store"})


def _operation(route: APIRoute) -> str:
    """What a route is called in the description, and by code that is generated from it."""
    kind = str(route.tags[0]) if route.tags else ""
    return route.name if kind in route.name or not kind else f"{kind}_{route.name}"


async def _answer_error(_: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        answer = problem(error.status_code, _SENTENCES.get(error.detail, error.detail))
        answer.headers.update(error.headers or {})
        return answer
    if isinstance(error, UnreadableImage):
        return problem(422, f"This photo cannot be used: {error.reason.rstrip('.')}.")
    if isinstance(error, RequestValidationError):
        return problem(422, _sentence_of(error.errors()[0]))
    for kind, status in _STATUSES.items():
        if isinstance(error, kind):
            return problem(status, str(error).removeprefix("[Errno 13] "))
    answer = problem(500, "The server made a mistake: its own window says which.")
    answer.headers.update(HEADERS)  # the gate does not see this one
    return answer


def _sentence_of(mistake: Mapping[str, Any]) -> str:
    """What pydantic says is wrong with a request, as a sentence."""
    first, *others = mistake["loc"] or ("",)
    place = others if others and first in ("body", "query", "path") else [first, *others]
    where = " ".join(str(part) for part in place if not str(part).startswith("constrained-"))
    if mistake["type"] == "json_invalid":
        return f"The body is no JSON, from its letter {place[-1]} on: {mistake['ctx']['error']}."
    if mistake["type"] == "extra_forbidden":
        return f"There is no parameter {where!r} here: /api/openapi.json has those that there are."
    if mistake["type"] == "value_error" and "UploadFile" in mistake["msg"]:
        return f"{where}: it is a file of the form (in curl: -F {place[0]}=@photo.jpg), and not text."
    return f"{where or 'The request'}: {mistake['msg']}."
