"""The addresses for collections: kept, marked, undone, exported and imported, each for one album.

Whatever changes something is let in by `server/_gate.py` only from our own page, and with the token where there is
one; so
are the original photos, which hold more than pixels.
"""

from collections.abc import Callable, Iterator
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import FastAPI, Path, Query, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse

from smoothap.album.collection_export import Originals, as_csv, as_json, zip_pieces, zip_size
from smoothap.plots.text import visible
from smoothap.server import _collection_schemas as shapes
from smoothap.server import _schemas as schemas
from smoothap.server._album_choice import AllAlbums, ChosenAlbum
from smoothap.server._served_album import ServedAlbum
from smoothap.server._served_collections import ServedCollections
from smoothap.server.limits import STREAMED, WorkQueue

CollectionKey = Annotated[int, Path(ge=0, le=2**53, description="Its `key` in the list of collections.")]
_BASE = "/api/albums/{album}/collections"


def _file(kind: str, binary: bool = False) -> dict[int | str, dict[str, Any]]:
    shape = {"type": "string", "format": "binary"} if binary else {"type": "string"}
    return {200: {"content": {kind: {"schema": shape}}, "description": "The file"}}


def add_collection_routes(app: FastAPI, queue: WorkQueue, *, local: bool) -> None:
    """Add the addresses of all collections and of each; places leave only where this computer alone sees the page."""

    async def changed(served: ServedAlbum, change: Callable[[ServedCollections], int | None]) -> shapes.CollectionList:
        collections = ServedCollections(served)
        return await queue.run(lambda: collections.listed(change(collections)))

    @app.get(_BASE)
    async def list_collections(served: ChosenAlbum, request: Request, response: Response) -> shapes.CollectionList:
        """The collections of the album, and the last step, which can be undone."""
        collections = ServedCollections(served)
        tag = await queue.run(lambda: f'"{collections.version}"')
        if request.headers.get("if-none-match") == tag:  # asked for every few seconds by every page that is open
            return Response(status_code=304, headers={"etag": tag})  # ty: ignore[invalid-return-type]
        response.headers.update({"etag": tag, "cache-control": "no-cache"})
        return await queue.run(collections.listed)

    @app.post(_BASE)
    async def create(served: ChosenAlbum, request: shapes.CollectionName) -> shapes.CollectionList:
        """Make a collection, with no photos yet."""
        return await changed(served, lambda collections: collections.stored.create(request.name).key)

    @app.post(f"{_BASE}/undo")
    async def undo(served: ChosenAlbum, request: shapes.StepNumber) -> shapes.CollectionList:
        """Take back a step."""

        def take_back(collections: ServedCollections) -> None:
            collections.stored.undo(request.step)

        return await changed(served, take_back)

    @app.post(f"{_BASE}/import", openapi_extra=_TEXT_BODY)
    async def take_in(request: Request, served: ChosenAlbum) -> shapes.ImportedInfo:
        """Take in the collections of a CSV or JSON file in the body, as they are exported here."""
        return await queue.run(ServedCollections(served).take_in, await request.body())

    @app.get(f"{_BASE}/{{key}}")
    async def marks(served: ChosenAlbum, key: CollectionKey) -> shapes.CollectionMarks:
        """The marks of a collection."""
        return await queue.run(ServedCollections(served).marks, key)

    @app.patch(f"{_BASE}/{{key}}")
    async def rename(served: ChosenAlbum, key: CollectionKey, request: shapes.CollectionName) -> shapes.CollectionList:
        """Give a collection another name."""
        return await changed(served, lambda collections: collections.stored.rename(key, request.name).key)

    @app.delete(f"{_BASE}/{{key}}")
    async def delete(served: ChosenAlbum, key: CollectionKey) -> shapes.CollectionList:
        """Forget a collection and its marks, which can be undone; no photo is touched."""

        def forget(collections: ServedCollections) -> None:
            collections.stored.delete(key)

        return await changed(served, forget)

    @app.post(f"{_BASE}/{{key}}/marks")
    async def mark(served: ChosenAlbum, key: CollectionKey, request: shapes.Marks) -> shapes.CollectionList:
        """Say of photos that they belong to the collection, or that they do not."""
        said = request.right, request.wrong, request.neither
        return await changed(served, lambda collections: collections.stored.mark(key, *said).key)

    @app.post(f"{_BASE}/{{key}}/keep")
    async def keep(served: ChosenAlbum, key: CollectionKey, request: schemas.SearchRequest) -> shapes.CollectionList:
        """Keep all that a search finds, to its end: what is marked as wrong stays so. The query's photo is kept too."""
        return await changed(served, lambda collections: collections.keep(key, request))

    @app.get(f"{_BASE}/{{key}}/photos")
    async def photos(
        albums: AllAlbums,
        served: ChosenAlbum,
        key: CollectionKey,
        offset: Annotated[int, Query(ge=0, le=10_000_000)] = 0,
        limit: Annotated[int, Query(ge=1, le=200)] = 60,
    ) -> schemas.PhotoPage:
        """The photos that belong to a collection, in the order in which they were kept."""
        return await queue.run(ServedCollections(served).photos, key, albums, offset, limit)

    @app.post(f"{_BASE}/{{key}}/next")
    async def look_next(served: ChosenAlbum, key: CollectionKey, request: shapes.NextRequest) -> shapes.NextPhotos:
        """How much of the collection is found by now, and the photos most worth a look."""
        return await queue.run(ServedCollections(served).look_next, key, request)

    @app.get(f"{_BASE}/{{key}}/export.csv", response_class=Response, responses=_file("text/csv"))
    async def table(served: ChosenAlbum, key: CollectionKey) -> Response:
        """The collection as a table, right and wrong photos."""
        collection = await queue.run(lambda: ServedCollections(served).stored[key])
        content = await queue.run(as_csv, served.album, [collection])
        return Response(content, media_type="text/csv", headers=_attached(f"{collection.name}.csv"))

    @app.get(f"{_BASE}/{{key}}/export.json", response_class=Response, responses=_file("application/json"))
    async def export(served: ChosenAlbum, key: CollectionKey) -> Response:
        """The collection as JSON, which another album of the same photos takes in."""
        collection = await queue.run(lambda: ServedCollections(served).stored[key])
        content = await queue.run(as_json, served.album, [collection])
        return Response(content, media_type="application/json", headers=_attached(f"{collection.name}.json"))

    @app.get(f"{_BASE}/{{key}}/originals")
    async def originals(served: ChosenAlbum, key: CollectionKey) -> shapes.OriginalsInfo:
        """What a zip of the original photos would hold, and its size."""
        _, chosen = await queue.run(ServedCollections(served).originals, key)
        return shapes.OriginalsInfo(
            photos=len(chosen.files),
            bytes=zip_size(chosen),
            missing=[
                shapes.MissingOriginal(name=visible(path), reason=visible(reason))
                for path, reason in chosen.missing.items()
            ],
        )

    @app.get(f"{_BASE}/{{key}}/originals.zip", response_class=Response, responses=_file("application/zip", binary=True))
    async def archive(request: Request, served: ChosenAlbum, key: CollectionKey, places: bool = False) -> Response:
        """The original photos as a zip, sent as it is made; if one of them changes meanwhile, the answer breaks off.

        They do not say where they were taken unless `places` is asked for, by a page that this computer alone sees.
        """
        if places and not local:
            raise HTTPException(403, "Places are given away only where the page is served to this computer alone.")
        name, chosen = await queue.run(ServedCollections(served).originals, key)
        if not chosen.files:
            raise ValueError("No original of this collection is there: is its disk mounted?")
        request.scope[STREAMED] = True
        headers = {**_attached(f"{name}.zip"), "content-length": str(zip_size(chosen))}
        return StreamingResponse(_pieces(chosen, places), media_type="application/zip", headers=headers)


_TEXT_BODY = {
    "requestBody": {
        "required": True,
        "content": {kind: {"schema": {"type": "string"}} for kind in ("text/csv", "application/json")},
    }
}


def _pieces(chosen: Originals, places: bool) -> Iterator[bytes]:
    for piece in zip_pieces(chosen, places=places):
        if piece:  # an empty one would end the answer
            yield piece


def _attached(name: str) -> dict[str, str]:
    """Headers of a file to be saved under this name, in any script."""
    plain = "".join(letter if (letter.isascii() and letter.isalnum()) or letter in "-_. " else "_" for letter in name)
    value = f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"
    return {"content-disposition": value, "cache-control": "no-store"}
