"""What routes ask for: the parts of the running server, and the album that a request is about, in one version."""

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Path, Request
from starlette.exceptions import HTTPException

from smoothap.server.current_albums import CurrentAlbums
from smoothap.server.learning import LearningJob
from smoothap.server.limits import Workers
from smoothap.server.observing import Metrics
from smoothap.server.served_album import Albums, ServedAlbum
from smoothap.server.settings import Service


@dataclass
class Parts:
    """The parts of a running server.

    workers: for searches, which compute in their thread, of which there are few: more would take the interpreter from
    each other.
    photo_workers: for photos that wait for the network together. picture_workers: for small pictures.
    """

    albums: CurrentAlbums
    workers: Workers
    photo_workers: Workers
    picture_workers: Workers
    learning: LearningJob
    metrics: Metrics
    service: Service
    streams: int = 0  # of events that are open


async def _parts(request: Request) -> Parts:
    return request.app.state.parts


Server = Annotated[Parts, Depends(_parts)]


async def _current_albums(server: Server) -> Albums:
    return await server.albums.current()


# FastAPI asks for this once for each request, which so sees one version of each album.
AllAlbums = Annotated[Albums, Depends(_current_albums)]


async def _chosen_album(
    albums: AllAlbums, album: Annotated[str, Path(max_length=1_000, description="The album's name.")]
) -> ServedAlbum:
    names = {served.name: served for served in albums}
    if album not in names:
        raise HTTPException(404, f"There is no album {album!r}: this server has {', '.join(names)}.")
    return names[album]


ChosenAlbum = Annotated[ServedAlbum, Depends(_chosen_album)]


async def _keeping(served: ChosenAlbum) -> ServedAlbum:
    if not served.keeps:
        raise HTTPException(409, "This album is temporary: it keeps no collections, and learns nothing.")
    return served


KeepingAlbum = Annotated[ServedAlbum, Depends(_keeping)]


async def _people(served: ChosenAlbum) -> ServedAlbum:
    if not served.album.has_people:
        served.face_pictures.clear()
        raise HTTPException(
            409,
            "This album shows no people: nobody looked for faces (smoothap index PHOTOS --out ALBUM --people), or "
            "the server was started without them (smoothap serve --people).",
        )
    return served


ShownPeople = Annotated[ServedAlbum, Depends(_people)]


def file_of(*kinds: str) -> dict[int | str, dict[str, Any]]:
    """How a route is described that answers with a file of one of these kinds."""
    schema = {"schema": {"type": "string", "format": "binary"}}
    return {200: {"content": dict.fromkeys(kinds, schema), "description": "The file"}}
