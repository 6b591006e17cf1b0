"""The albums as they are on disk: a new version is taken up by itself, whole, between two requests."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import lru_cache

from smoothap.album import Album
from smoothap.server._decoder import Decoder
from smoothap.server._served_album import ServedAlbum, typical_photo
from smoothap.server._together import Together

_PATIENCE = 1.0  # seconds that a request waits for a new version; after that it is answered from the last one
_TRY_AGAIN = 5.0  # seconds after which an album that could not be opened is tried again

Albums = tuple[ServedAlbum, ...]


class CurrentAlbums:
    """The albums behind the server, each in one version at a time."""

    def __init__(
        self, albums: Mapping[str, Album], decoder: Decoder, count: Callable[[int], None] = lambda _: None
    ) -> None:
        self._albums: Albums = tuple(
            ServedAlbum(album, name, decoder, Together(count)) for name, album in albums.items()
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
