"""The application: one album, or two that are compared, over one API that the page uses too."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, TextIO

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

from smoothap.album import Album
from smoothap.album.collections import NoSuchCollection
from smoothap.album.engines.milvus import MilvusUnavailable
from smoothap.album.photos import NoSuchPhoto
from smoothap.data.reading import UnreadableImage
from smoothap.server import LOOPBACK, schemas
from smoothap.server.auth import HEADERS, Gate
from smoothap.server.current_albums import CurrentAlbums
from smoothap.server.decoder import Decoder
from smoothap.server.dependencies import AllAlbums, Parts, Server
from smoothap.server.learning import LearningJob
from smoothap.server.limits import BoundedRequests, Limits, Workers, problem
from smoothap.server.observing import Metrics, Observed
from smoothap.server.routes.albums import router as albums_router
from smoothap.server.routes.collections import router as collections_router
from smoothap.server.routes.learning import router as learning_router
from smoothap.server.routes.people import router as people_router
from smoothap.server.routes.photos import router as photos_router
from smoothap.server.routes.search import router as search_router

_STATIC = Path(__file__).parent / "static"
_SENTENCES = {  # for what the router says of itself
    "Not Found": "There is no such address here.",
    "Method Not Allowed": "This address does not take that method.",
}
_ERRORS: dict[int | str, dict[str, Any]] = {
    status: {
        "description": meaning,
        "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
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


def create_app(
    albums: Mapping[str, Album],
    *,
    token: str | None = None,
    write_token: str | None = None,
    hosts: frozenset[str] = LOOPBACK,
    any_address: bool = False,
    limits: Limits | None = None,
    log: TextIO | None = None,
    local: bool = False,
) -> FastAPI:
    """The application for these albums by name: one to search in, or two that are compared.

    hosts: the names that it answers to, `any_address` also every plain IP address. token: asked of every visitor.
    write_token: lets programs add and remove photos; without one nobody can. log: where a line of JSON for each request
    goes. local: only this computer sees the page, so that it may open folders here.
    """
    if not 1 <= len(albums) <= 2:
        raise ValueError(f"The page shows one album or compares two, not {len(albums)}.")
    if slashed := [name for name in albums if "/" in name]:
        raise ValueError(f"An album's name is a part of its address, and has no slash as {slashed[0]!r} has.")
    limits, metrics = limits or Limits(), Metrics()
    decoder = Decoder(limits)
    MultiPartParser.spool_max_size = limits.upload_bytes  # photos of visitors are in memory, and never on a disk
    parts = Parts(
        albums=CurrentAlbums(albums, decoder, metrics.embedded),
        workers=Workers(limits.working, limits.waiting),
        # As many threads as places: photos wait for the network together, and the network is what works.
        photo_workers=Workers(limits.working + limits.waiting, 0),
        picture_workers=Workers(limits.working, limits.requests),
        learning=LearningJob(),
        metrics=metrics,
        limits=limits,
        local=local,
    )
    metrics.watch("others", parts.workers)
    metrics.watch("photos", parts.photo_workers)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        # Models and the decoder take seconds to load: better now than when the first photo comes.
        warming = asyncio.create_task(parts.workers.run(parts.albums.warm_up))
        yield
        warming.cancel()
        decoder.close()
        parts.learning.close()

    app = FastAPI(
        title="smoothap", version=version("smoothap"), description="Search in an album of photos by example.",
        openapi_url="/api/openapi.json", docs_url=None, redoc_url=None, redirect_slashes=False, lifespan=lifespan,
        responses=_ERRORS, dependencies=[Security(_BEARER)],
        generate_unique_id_function=_operation,
        exception_handlers=dict.fromkeys(
            (HTTPException, RequestValidationError, ValueError, Exception), _answer_error
        ),
        middleware=[
            Middleware(Observed, metrics=metrics, missing=lambda: parts.albums.missing, log=log),
            Middleware(Gate, hosts=hosts, any_address=any_address, token=token, write_token=write_token),
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
    app.mount("/static", _PageFiles(directory=_STATIC))
    _describe_problems(app)
    return app


class _PageFiles(StaticFiles):
    """The page's files, which a browser asks for again each time: those of another version may be here by then."""

    def file_response(self, *arguments: Any, **options: Any) -> Response:
        """A file, or that it has not changed."""
        response = super().file_response(*arguments, **options)
        response.headers["cache-control"] = "no-cache"
        return response


async def _page() -> Response:
    return FileResponse(_STATIC / "index.html", headers={"cache-control": "no-cache"})


async def _metrics(server: Server, albums: AllAlbums) -> Response:
    """What Prometheus reads; it asks for the token as all addresses do."""
    content = server.metrics.text(albums)
    return Response(content, media_type="text/plain; version=0.0.4", headers={"cache-control": "no-store"})


def _operation(route: APIRoute) -> str:
    """What a route is called in the description, and by code that is generated from it."""
    kind = str(route.tags[0]) if route.tags else ""
    return route.name if kind in route.name or not kind else f"{kind}_{route.name}"


def _describe_problems(app: FastAPI) -> None:
    """Let the description say what errors look like."""
    described = app.openapi

    def openapi() -> dict[str, Any]:
        whole = described()
        shapes = whole["components"]["schemas"]
        shapes.setdefault("Problem", schemas.Problem.model_json_schema())
        for unused in ("HTTPValidationError", "ValidationError"):
            shapes.pop(unused, None)
        return whole

    app.openapi = openapi  # as FastAPI's own documentation does it


async def _answer_error(_: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        answer = problem(error.status_code, _SENTENCES.get(error.detail, error.detail))
        answer.headers.update(error.headers or {})
        return answer
    if isinstance(error, (NoSuchPhoto, NoSuchCollection)):
        return problem(404, str(error))
    if isinstance(error, UnreadableImage):
        return problem(422, f"This photo cannot be used: {error.reason}.")
    if isinstance(error, RequestValidationError):
        return problem(422, schemas.sentence_of(error.errors()[0]))
    if isinstance(error, MilvusUnavailable):
        return problem(503, str(error))
    if isinstance(error, ValueError):
        return problem(422, str(error))
    answer = problem(500, "The server made a mistake: its own window says which.")
    answer.headers.update(HEADERS)  # the gate does not see this one
    return answer
