"""Which album a request is about, in the version that it keeps to."""

from typing import Annotated

from fastapi import Depends, Path, Request
from starlette.exceptions import HTTPException

from smoothap.server._current_albums import Albums
from smoothap.server._served_album import ServedAlbum

AlbumNumber = Annotated[int, Path(ge=0, le=1_000, description="Its place among the albums, from 0.")]
PhotoNumber = Annotated[int, Path(ge=0, le=2**53)]


async def _current_albums(request: Request) -> Albums:
    return await request.app.state.albums.current()


# FastAPI asks for this once for each request, which so sees one version of each album.
AllAlbums = Annotated[Albums, Depends(_current_albums)]


async def _chosen_album(albums: AllAlbums, album: AlbumNumber) -> ServedAlbum:
    if album >= len(albums):
        raise HTTPException(404, f"There is no album {album}: this server has {len(albums)}, counted from 0.")
    return albums[album]


ChosenAlbum = Annotated[ServedAlbum, Depends(_chosen_album)]
