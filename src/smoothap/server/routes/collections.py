"""The addresses for collections: kept, marked, undone, exported and imported, each for one album.

Whatever changes something is let in by `server/auth.py` only from our own page, and with the token where there is one;
so are the original photos, which hold more than pixels.
"""

from collections.abc import Callable, Iterator
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse

from smoothap.album.collection_export import Originals, as_csv, as_json, zip_pieces, zip_size
from smoothap.plots.text import visible
from smoothap.server import schemas
from smoothap.server.dependencies import Collections, Parts, Server
from smoothap.server.schemas import CollectionKey
from smoothap.server.served_collections import ServedCollections

router = APIRouter(prefix="/albums/{album}/collections", tags=["collections"])
_TEXT_BODY = {
    "requestBody": {
        "required": True,
        "content": {kind: {"schema": {"type": "string"}} for kind in ("text/csv", "application/json")},
    }
}


def _file(kind: str, binary: bool = False) -> dict[int | str, dict[str, Any]]:
    shape = {"type": "string", "format": "binary"} if binary else {"type": "string"}
    return {200: {"content": {kind: {"schema": shape}}, "description": "The file"}}


async def _changed(
    server: Parts, collections: ServedCollections, change: Callable[[], int | None]
) -> schemas.CollectionList:
    return await server.workers.run(lambda: collections.listed(change()))


@router.get("")
async def list_collections(
    server: Server, collections: Collections, request: Request, response: Response
) -> schemas.CollectionList:
    """The collections of the album, and the last step, which can be undone."""
    tag = await server.workers.run(lambda: f'"{collections.version}"')
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers={"etag": tag})  # ty: ignore[invalid-return-type]
    response.headers.update({"etag": tag, "cache-control": "no-cache"})
    return await server.workers.run(collections.listed)


@router.post("")
async def create(server: Server, collections: Collections, asked: schemas.NewCollection) -> schemas.CollectionList:
    """Make a collection, with its first photos where they are given: one step, which one undo takes back."""
    return await _changed(server, collections, lambda: collections.create(asked))


@router.post("/undo")
async def undo(server: Server, collections: Collections, asked: schemas.StepNumber) -> schemas.CollectionList:
    """Take back a step."""

    def take_back() -> None:
        collections.stored.undo(asked.step)

    return await _changed(server, collections, take_back)


@router.post("/import", openapi_extra=_TEXT_BODY)
async def take_in(server: Server, collections: Collections, request: Request) -> schemas.ImportedInfo:
    """Take in the collections of a CSV or JSON file in the body, as they are exported here."""
    return await server.workers.run(collections.take_in, await request.body())


@router.get("/{key}")
async def marks(server: Server, collections: Collections, key: CollectionKey) -> schemas.CollectionMarks:
    """The marks of a collection."""
    return await server.workers.run(collections.marks, key)


@router.patch("/{key}")
async def rename(
    server: Server, collections: Collections, key: CollectionKey, asked: schemas.CollectionName
) -> schemas.CollectionList:
    """Give a collection another name."""
    return await _changed(server, collections, lambda: collections.stored.rename(key, asked.name).key)


@router.delete("/{key}")
async def delete(server: Server, collections: Collections, key: CollectionKey) -> schemas.CollectionList:
    """Forget a collection and its marks, which can be undone; no photo is touched."""

    def forget() -> None:
        collections.stored.delete(key)

    return await _changed(server, collections, forget)


@router.post("/{key}/marks")
async def mark(
    server: Server, collections: Collections, key: CollectionKey, asked: schemas.Marks
) -> schemas.CollectionList:
    """Say of photos that they belong to the collection, or that they do not."""
    said = asked.right, asked.wrong, asked.neither
    return await _changed(server, collections, lambda: collections.stored.mark(key, *said).key)


@router.post("/{key}/keep")
async def keep(
    server: Server, collections: Collections, key: CollectionKey, asked: schemas.SearchRequest
) -> schemas.CollectionList:
    """Keep all that a search finds, to its end: what is marked as wrong stays so. The query's photo is kept too."""
    return await _changed(server, collections, lambda: collections.keep(key, asked))


@router.get("/{key}/photos")
async def photos(
    server: Server,
    collections: Collections,
    key: CollectionKey,
    offset: Annotated[int, Query(ge=0, le=10_000_000)] = 0,
    limit: Annotated[int, Query(ge=1, le=200)] = 60,
) -> schemas.PhotoPage:
    """The photos that belong to a collection, in the order in which they were kept."""
    return await server.workers.run(collections.photos, key, offset, limit)


@router.post("/{key}/next")
async def look_next(
    server: Server, collections: Collections, key: CollectionKey, asked: schemas.NextRequest
) -> schemas.NextPhotos:
    """How much of the collection is found by now, and the photos most worth a look."""
    return await server.workers.run(collections.look_next, key, asked)


@router.get("/{key}/export.csv", response_class=Response, responses=_file("text/csv"))
async def table(server: Server, collections: Collections, key: CollectionKey) -> Response:
    """The collection as a table, right and wrong photos."""
    name, content = await server.workers.run(collections.exported, key, as_csv)
    return Response(content, media_type="text/csv", headers=_attached(f"{name}.csv"))


@router.get("/{key}/export.json", response_class=Response, responses=_file("application/json"))
async def export(server: Server, collections: Collections, key: CollectionKey) -> Response:
    """The collection as JSON, which another album of the same photos takes in."""
    name, content = await server.workers.run(collections.exported, key, as_json)
    return Response(content, media_type="application/json", headers=_attached(f"{name}.json"))


@router.get("/{key}/originals")
async def originals(server: Server, collections: Collections, key: CollectionKey) -> schemas.OriginalsInfo:
    """What a zip of the original photos would hold, and its size."""
    _, chosen = await server.workers.run(collections.originals, key)
    missing = [
        schemas.MissingOriginal(name=visible(path), reason=visible(reason)) for path, reason in chosen.missing.items()
    ]
    return schemas.OriginalsInfo(photos=len(chosen.files), bytes=zip_size(chosen), missing=missing)


@router.get("/{key}/originals.zip", response_class=Response, responses=_file("application/zip", binary=True))
async def archive(server: Server, collections: Collections, key: CollectionKey, places: bool | None = None) -> Response:
    """The original photos as a zip, sent as it is made; if one of them changes meanwhile, the answer breaks off.

    A server that was started for this computer alone sends them as they are, or with `places=false` without what they
    say of where they were taken. A server for others always takes that out.
    """
    places = server.local if places is None else places
    if places and not server.local:
        raise HTTPException(403, "Places are given away only where the page is served to this computer alone.")
    name, chosen = await server.workers.run(collections.originals, key)
    if not chosen.files:
        raise ValueError("No original of this collection is there: is its disk mounted?")
    headers = {**_attached(f"{name}.zip"), "content-length": str(zip_size(chosen))}
    return StreamingResponse(_pieces(chosen, places), media_type="application/zip", headers=headers)


def _pieces(chosen: Originals, places: bool) -> Iterator[bytes]:
    for piece in zip_pieces(chosen, places=places):
        if piece:  # an empty one would end the answer
            yield piece


def _attached(name: str) -> dict[str, str]:
    """Headers of a file to be saved under this name, in any script."""
    plain = "".join(letter if (letter.isascii() and letter.isalnum()) or letter in "-_. " else "_" for letter in name)
    value = f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"
    return {"content-disposition": value, "cache-control": "no-store"}
