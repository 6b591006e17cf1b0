"""What routes ask for: the parts of the running server, and its albums as they are on disk.

A new version of an album is taken up by itself, whole, between two requests.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, Any

import numpy as np
from fastapi import Depends, Path, Request
from starlette.exceptions import HTTPException

from smoothap.album import Album
from smoothap.album.watching import Watcher
from smoothap.server import schemas
from smoothap.server.batching import Batching
from smoothap.server.decoder import Decoder
from smoothap.server.learning import LearningJob
from smoothap.server.limits import Workers
from smoothap.server.observing import Metrics
from smoothap.server.rankings import ranked
from smoothap.server.served_album import Albums, ServedAlbum
from smoothap.server.settings import Service

_PATIENCE = 1.0  # seconds that a request waits for a new version; after that it is answered from the last one
_TRY_AGAIN = 5.0  # seconds after which an album that could not be opened is tried again
_DRAWN = 101  # photos, of which the page opens on the median
_LARGEST = 100_000  # photos; in a larger album, any of those drawn will do


class CurrentAlbums:
    """The albums behind the server, each in one version at a time."""

    def __init__(
        self,
        albums: Mapping[str, Album],
        decoder: Decoder,
        count: Callable[[int], None] = lambda _: None,
        watchers: Mapping[str, Watcher] | None = None,
    ) -> None:
        watchers = watchers or {}
        self._albums: Albums = tuple(
            ServedAlbum(album, name, decoder, Batching(count), watchers.get(name)) for name, album in albums.items()
        )
        self.missing = "The models are being loaded: try again in a few seconds."  # until this server is ready: why not
        self._loading: asyncio.Task[None] | None = None
        self._not_before = 0.0
        self.start = lru_cache(1)(typical_photo)  # the photo that a comparison opens on

    async def current(self) -> Albums:
        """All albums; whoever keeps what this gives keeps to these versions, whatever is written meanwhile."""
        if self._loading is None and self._is_due():
            self._loading = asyncio.create_task(self._renew())
        if self._loading is not None:
            await asyncio.wait({self._loading}, timeout=_PATIENCE)
        return self._albums

    def _is_due(self) -> bool:
        outdated = not all(served.album.is_current() for served in self._albums)
        return outdated and asyncio.get_running_loop().time() >= self._not_before

    async def _renew(self) -> None:
        try:
            self._albums = await asyncio.to_thread(_renewed, self._albums)
            self.start.cache_clear()
        except Exception as error:  # gone, damaged, or no memory for it: the last version is still here
            self._not_before = asyncio.get_running_loop().time() + _TRY_AGAIN
            logging.getLogger(__name__).warning("The last version of the album is served: %s", error)
        finally:
            self._loading = None

    def warm_up(self) -> None:
        """Load what the first photo needs."""
        self.missing = " ".join(filter(None, (served.warm_up() for served in self._albums)))


def _renewed(albums: Albums) -> Albums:
    return tuple(served if served.album.is_current() else served.renewed() for served in albums)


def typical_photo(albums: Sequence[ServedAlbum]) -> list[int] | None:
    """The photo that a comparison opens on, a typical one and not the best: its id in each of two labelled albums.

    Of about a hundred photos drawn at random it is the one whose AP rises by the median from the first album to the
    second.
    """
    if len(albums) != 2 or any(served.labels is None or not len(served.album) for served in albums):
        return None
    first, second = albums
    ids = dict(zip(second.album.photos.paths(), second.album.photos.ids.tolist(), strict=True))
    drawn = first.album.photos.at(np.random.default_rng(0).permutation(len(first.album))[: 4 * _DRAWN])
    sizes = Counter(label for label in first.album.photos.labels() if label is not None)
    pairs = [(photo.id, ids[photo.path]) for photo in drawn if photo.path in ids and sizes[photo.label] > 1][:_DRAWN]
    if not pairs:
        return None
    if len(first.album) > _LARGEST:
        return list(pairs[0])
    gains = [_average_precision(second, other) - _average_precision(first, one) for one, other in pairs]
    return list(pairs[int(np.argsort(gains, kind="stable")[len(gains) // 2])])


def _average_precision(served: ServedAlbum, identity: int) -> float:
    row = served.album.photos.row_of(identity)
    curve = ranked(served.album, served.labels, served.album.vectors[row].tobytes(), (row,)).curve
    return np.nan if curve is None else curve.average_precision


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
    news: list[schemas.AlbumState] = field(default_factory=list)  # what they tell
    looked: float = float("-inf")  # when that was looked up


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
