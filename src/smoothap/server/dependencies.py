"""What routes ask for: the parts of the running server, and the album that a request is about, in one version."""

from dataclasses import dataclass, field
from pathlib import Path as FolderPath
from typing import Annotated

from fastapi import Depends, Path, Request

from smoothap.server.current_albums import CurrentAlbums
from smoothap.server.learning import LearningJob
from smoothap.server.limits import Limits, Workers
from smoothap.server.observing import Metrics
from smoothap.server.served_album import Albums, ServedAlbum, by_name
from smoothap.server.served_collections import ServedCollections
from smoothap.server.served_people import PeopleMemory, ServedPeople


@dataclass
class Parts:
    """The parts of a running server.

    workers: for what computes in its thread, of which there are few: more would take the interpreter from each other.
    photo_workers: for photos that wait for the network together. picture_workers: for small pictures.
    """

    albums: CurrentAlbums
    workers: Workers
    photo_workers: Workers
    picture_workers: Workers
    learning: LearningJob
    metrics: Metrics
    limits: Limits
    local: bool  # whether only this computer sees the page, so that it may open folders here
    streams: int = 0  # of events that are open
    people: dict[FolderPath, PeopleMemory] = field(default_factory=dict)  # what is remembered of the people of albums


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
    return by_name(albums, album)


ChosenAlbum = Annotated[ServedAlbum, Depends(_chosen_album)]


async def _collections(served: ChosenAlbum) -> ServedCollections:
    return ServedCollections(served)


Collections = Annotated[ServedCollections, Depends(_collections)]


async def _people(server: Server, served: ChosenAlbum) -> ServedPeople:
    return ServedPeople(served, PeopleMemory.of(server.people, served))


ShownPeople = Annotated[ServedPeople, Depends(_people)]
