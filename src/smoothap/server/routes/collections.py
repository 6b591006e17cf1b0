"""The addresses for collections: kept, marked, undone, exported and imported, each for one album.

Whatever changes something is let in by `server/auth.py` only from our own page, and with the token where there is one;
so are the original photos, which hold more than pixels.
"""

from itertools import count
from typing import Annotated, Literal

import numpy as np
from fastapi import APIRouter, Body, Depends, Query, Request
from starlette.responses import Response

from smoothap.album.collection_export import as_csv, as_json, zip_size
from smoothap.album.collection_export import originals as originals_of
from smoothap.album.collection_import import import_text
from smoothap.album.finding_all import find_next
from smoothap.plots.text import visible
from smoothap.server import schemas
from smoothap.server.dependencies import KeepingAlbum, Server, file_of
from smoothap.server.exporting import as_zip, attached, with_places
from smoothap.server.schemas import CollectionKey
from smoothap.server.searching import everything
from smoothap.server.served_album import ServedAlbum

router = APIRouter(prefix="/albums/{album}/collections", tags=["collections"])
_EXAMPLES = 5  # of names that are not in the album
_FORMS = {"csv": (as_csv, "text/csv"), "json": (as_json, "application/json")}
_TEXT_BODY = {
    "requestBody": {
        "required": True,
        "content": {kind: {"schema": {"type": "string"}} for kind in ("text/csv", "application/json")},
    }
}


# ---- all collections


@router.get("")
def list_collections(served: KeepingAlbum) -> schemas.CollectionList:
    """The collections of the album, and the last step, which can be undone."""
    return _list(served)


@router.post("")
def create(served: KeepingAlbum, asked: schemas.NewCollection) -> schemas.CollectionList:
    """Make a collection, with its first photos where they are given: one step, which one undo takes back."""
    stored = served.album.collections
    if asked.name.strip() in stored.all() or not (asked.right or asked.wrong):
        return _list(served, stored.create(asked.name).key)  # which refuses a name that is taken
    return _list(served, stored.mark(asked.name, right=asked.right, wrong=asked.wrong).key)


@router.post("/undo")
def undo(
    served: KeepingAlbum,
    step: Annotated[
        schemas.Identity | None, Body(embed=True, description="As `undo` named it; without it the last one.")
    ] = None,
) -> schemas.CollectionList:
    """Take back a step."""
    served.album.collections.undo(step)
    return _list(served)


async def _content(request: Request) -> bytes:
    return await request.body()


@router.post("/import", openapi_extra=_TEXT_BODY)
def take_in(served: KeepingAlbum, content: Annotated[bytes, Depends(_content)]) -> schemas.ImportedInfo:
    """Take in the collections of a CSV or JSON file in the body, as they are exported here."""
    report = import_text(served.album, content)
    return schemas.ImportedInfo(
        photos=report.photos,
        unknown=len(report.unknown),
        examples=[visible(path) for path in report.unknown[:_EXAMPLES]],
        collections=_list(served),
    )


def _list(served: ServedAlbum, chosen: int | None = None) -> schemas.CollectionList:
    """All collections, what can be undone, and the one that a call was about."""
    version, stored = served.collections_version, served.album.collections  # what is written meanwhile is newer
    steps, counts = stored.steps(), stored.counts()
    return schemas.CollectionList(
        version=version,
        collections=[
            schemas.CollectionInfo(key=one.key, name=one.name, right=right, wrong=wrong, away=away)
            for one in stored.all().values()
            for right, wrong, away in [counts.get(one.key, (0, 0, 0))]
        ],
        undo=schemas.StepInfo(number=steps[0].number, what=visible(steps[0].what)) if steps else None,
        chosen=chosen,
    )


# ---- one of them


@router.get("/{key}")
def marks(served: KeepingAlbum, key: CollectionKey) -> schemas.CollectionMarks:
    """The marks of a collection."""
    version, one = served.collections_version, served.album.collections[key]
    return schemas.CollectionMarks(
        version=version, key=one.key, name=one.name, right=list(one.right), wrong=list(one.wrong),
        away=[visible(path) for path in one.away],
    )  # fmt: skip


@router.patch("/{key}")
def rename(served: KeepingAlbum, key: CollectionKey, asked: schemas.Name) -> schemas.CollectionList:
    """Give a collection another name."""
    return _list(served, served.album.collections.rename(key, asked.name).key)


@router.delete("/{key}")
def delete(served: KeepingAlbum, key: CollectionKey) -> schemas.CollectionList:
    """Forget a collection and its marks, which can be undone; no photo is touched."""
    served.album.collections.delete(key)
    return _list(served)


@router.post("/{key}/marks")
def mark(served: KeepingAlbum, key: CollectionKey, asked: schemas.Marks) -> schemas.CollectionList:
    """Say of photos that they belong to the collection, or that they do not."""
    return _list(served, served.album.collections.mark(key, asked.right, asked.wrong, asked.neither).key)


@router.post("/{key}/keep")
def keep(served: KeepingAlbum, key: CollectionKey, asked: schemas.SearchRequest) -> schemas.CollectionList:
    """Keep all that a search finds, to its end: what is marked as wrong stays so. The query's photo is kept too."""
    photos, stored = served.album.photos, served.album.collections
    wrong = set(stored[key].wrong)
    rows, _ = everything(served, asked)
    found = photos.ids[[*photos.rows_of(asked.ids).tolist(), *rows]].tolist()
    return _list(served, stored.mark(key, right=[one for one in found if one not in wrong]).key)


@router.get("/{key}/photos")
def photos(
    served: KeepingAlbum,
    key: CollectionKey,
    side: Literal["right", "wrong"] = "right",
    offset: Annotated[int, Query(ge=0, le=10_000_000)] = 0,
    limit: Annotated[int, Query(ge=1, le=200)] = 60,
) -> schemas.PhotoPage:
    """The photos that belong to a collection, or do not, in the order in which they were marked."""
    version, one, photos = served.collections_version, served.album.collections[key], served.album.photos
    marked = one.right if side == "right" else one.wrong
    shown = [served.photo(photo) for photo in photos.at(photos.rows_of(marked[offset : offset + limit]))]
    return schemas.PhotoPage(version=version, total=len(marked), photos=shown)


@router.post("/{key}/next")
def look_next(served: KeepingAlbum, key: CollectionKey, asked: schemas.NextRequest) -> schemas.NextPhotos:
    """How much of the collection is found by now, and the photos most worth a look.

    Copies of one photo are one, and none of what is marked already is offered.
    """
    version, collection = served.collections_version, served.album.collections[key]
    photos, stacks = served.album.photos, served.stacks
    marked = (stacks.members(row) for row in photos.rows_of([*collection.right, *collection.wrong]))
    copies = photos.ids[np.concatenate([np.zeros(0, np.int64), *marked])].tolist()
    found = find_next(served.album, collection, number=2 * asked.limit, seen=[*asked.seen, *copies])
    rows = photos.rows_of(hit.id for hit in found.photos)
    first, best = (column[: asked.limit] for column in stacks.folded(rows))
    scores = [found.photos[place].score for place in first.tolist()]
    hits = served.hits(best, count(1), score=scores, copies=stacks.copies(best, None))
    return schemas.NextPhotos(
        version=version, recall=found.recall, lowest=found.lowest, highest=found.highest, missing=found.missing,
        why=found.why, hits=hits,
    )  # fmt: skip


# ---- files


@router.get("/{key}/export.{form}", response_class=Response, responses=file_of("text/csv", "application/json"))
def export(served: KeepingAlbum, key: CollectionKey, form: Literal["csv", "json"]) -> Response:
    """The collection, right and wrong photos: as a table, or as JSON, which another album of the photos takes in."""
    one, (spelled, kind) = served.album.collections[key], _FORMS[form]
    return Response(spelled(served.album, [one]), media_type=kind, headers=attached(f"{one.name}.{form}"))


@router.get("/{key}/originals")
def originals(served: KeepingAlbum, key: CollectionKey) -> schemas.OriginalsInfo:
    """What a zip of the original photos would hold, and its size."""
    chosen = originals_of(served.album, [served.album.collections[key]])
    missing = {visible(path): visible(reason) for path, reason in chosen.missing.items()}
    return schemas.OriginalsInfo(photos=len(chosen.files), bytes=zip_size(chosen), missing=missing)


@router.get("/{key}/originals.zip", response_class=Response, responses=file_of("application/zip"))
def archive(server: Server, served: KeepingAlbum, key: CollectionKey, places: bool | None = None) -> Response:
    """The original photos as a zip, sent as it is made; if one of them changes meanwhile, the answer breaks off.

    A server that was started for this computer alone sends them as they are, or with `places=false` without what they
    say of where they were taken. A server for others always takes that out.
    """
    places = with_places(server.service, None if places is None else not places)
    one = served.album.collections[key]
    return as_zip(originals_of(served.album, [one]), one.name, places)
