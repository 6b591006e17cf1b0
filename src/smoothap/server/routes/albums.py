"""The addresses of albums: what there is, what can be filtered by, and a stream of what changes."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterable

from fastapi import APIRouter, Depends, Request
from fastapi.sse import EventSourceResponse
from starlette.exceptions import HTTPException

from smoothap.server import schemas
from smoothap.server.dependencies import AllAlbums, ChosenAlbum, Parts, Server
from smoothap.server.limits import STOPPING
from smoothap.server.served_album import ServedAlbum

router = APIRouter(tags=["albums"])
_EVERY = 0.5  # seconds between two looks at what is new


@router.get("/albums")
def albums(server: Server, albums: AllAlbums) -> schemas.AlbumList:
    """The albums of this server and what can be done with them."""
    return schemas.AlbumList(
        albums=[served.info for served in albums], start=server.albums.start(albums),
        upload_bytes=server.service.limits.upload_bytes, local=server.service.is_local,
    )  # fmt: skip


@router.get("/albums/{album}")
async def album(served: ChosenAlbum) -> schemas.AlbumInfo:
    """One album."""
    return served.info


@router.get("/albums/{album}/choices")
def choices(served: ChosenAlbum) -> schemas.Choices:
    """The folders, cameras and days that photos can be filtered by."""
    return served.choices


@router.get("/albums/{album}/copies")
def copies(served: ChosenAlbum, offset: schemas.Offset = 0, limit: schemas.Limit = 60) -> schemas.CopiesPage:
    """Copies of one photo, stack by stack, to be looked through."""
    return served.copies(offset, limit)


async def _place(server: Server) -> AsyncGenerator[None]:
    """Held until the stream has ended."""
    if server.streams >= server.service.limits.streams:
        raise HTTPException(503, "Too many pages wait for news here: try again in a while.")
    server.streams += 1
    try:
        yield
    finally:
        server.streams -= 1


@router.get("/events", response_class=EventSourceResponse, dependencies=[Depends(_place)])
async def events(request: Request, server: Server) -> AsyncIterable[list[schemas.AlbumState]]:
    """A stream of server-sent events, one whenever an album, its collections or its learning is not as it was.

    It ends after a quarter of an hour, and a browser then asks for it again.
    """
    end, before = time.monotonic() + server.service.limits.seconds_of_events, None
    while time.monotonic() < end and STOPPING not in request.scope:
        now = await _news(server)
        if now != before:
            before = now
            yield now
        await asyncio.sleep(_EVERY)


async def _news(server: Parts) -> list[schemas.AlbumState]:
    """How the albums are, looked up once for all streams."""
    if time.monotonic() - server.looked >= _EVERY / 2:
        server.news = [_state_of(server, each) for each in await server.albums.current()]
        server.looked = time.monotonic()
    return server.news


def _state_of(server: Parts, served: ServedAlbum) -> schemas.AlbumState:
    album, learning = served.album, server.learning.state(served.album)
    return schemas.AlbumState(
        name=served.name, version=f"{served.version}-{served.stacks.found}", photos=len(album),
        indexing=served.indexing, problem=served.problem,
        collections=served.collections_version if served.keeps else None,
        learning=learning.share if learning.running else None,
        people=album.people.version if album.has_people else None,
    )  # fmt: skip
