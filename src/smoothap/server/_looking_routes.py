"""The addresses for looking at photos: lists, what there is to filter by, facts, stacks of copies, folders."""

from typing import Annotated

from fastapi import FastAPI, Query
from starlette.exceptions import HTTPException
from starlette.responses import Response

from smoothap.server import _schemas as schemas
from smoothap.server._album_choice import AllAlbums, ChosenAlbum, PhotoNumber
from smoothap.server._revealing import reveal
from smoothap.server._schemas import JPEG, PictureKey, picture_response
from smoothap.server.limits import WorkQueue

_NEAR = 4_096  # pixels a side of the picture that is looked at from near


def add_looking_routes(app: FastAPI, queue: WorkQueue, *, local: bool) -> None:
    """Add the addresses; folders are opened only where this computer alone sees the page."""

    @app.get("/api/albums/{album}/photos")
    async def photos(
        albums: AllAlbums,
        served: ChosenAlbum,
        offset: Annotated[int, Query(ge=0, le=10_000_000)] = 0,
        limit: Annotated[int, Query(ge=1, le=200)] = 60,
    ) -> schemas.PhotoPage:
        """Photos of the album in their order."""
        return await queue.run(served.browsed, schemas.BrowseRequest(offset=offset, limit=limit), albums)

    @app.post("/api/albums/{album}/browse")
    async def browse(albums: AllAlbums, served: ChosenAlbum, request: schemas.BrowseRequest) -> schemas.PhotoPage:
        """Photos of the album in their order: some of them, and copies of one photo as one."""
        return await queue.run(served.browsed, request, albums)

    @app.get("/api/albums/{album}/choices")
    async def choices(served: ChosenAlbum) -> schemas.Choices:
        """The folders, cameras and days that photos can be filtered by."""
        return await queue.run(lambda: served.choices)

    @app.get("/api/albums/{album}/photos/{photo}/facts")
    async def facts(albums: AllAlbums, served: ChosenAlbum, photo: PhotoNumber) -> schemas.PhotoFacts:
        """What is known of a photo: its file, date, camera, size and copies."""
        return await queue.run(served.facts, photo, albums)

    @app.get("/api/albums/{album}/photos/{photo}/detail", response_class=Response, responses=JPEG)
    async def detail(served: ChosenAlbum, photo: PhotoNumber, picture: PictureKey = None) -> Response:
        """A picture of at most 4,096 pixels a side, to look at from near: pixels, and nothing else of the file."""
        content = await queue.run(served.image, photo, _NEAR)
        return picture_response(content, remembered=picture == served.picture_key(photo))

    @app.post("/api/albums/{album}/photos/{photo}/not-a-copy", status_code=204)
    async def not_a_copy(served: ChosenAlbum, photo: PhotoNumber) -> Response:
        """Remember that a photo is no copy of the others in its stack."""
        if not served.keeps:
            raise HTTPException(409, "This album is in memory only, and remembers nothing.")
        await queue.run(served.stacks.take_out, served.album.photos.row_of(photo))
        return Response(status_code=204)

    @app.post("/api/albums/{album}/photos/{photo}/reveal", status_code=204)
    async def show_in_folder(served: ChosenAlbum, photo: PhotoNumber) -> Response:
        """Show a photo in its folder, on the screen of the computer that serves it; for a page that it alone sees."""
        if not local:
            raise HTTPException(403, "Folders are shown only where the page is served to this computer alone.")
        await queue.run(reveal, served.album.photo_path(photo))
        return Response(status_code=204)
