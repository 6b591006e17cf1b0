"""The addresses for collections: kept, marked, undone, exported and imported; and for what an album learns from them.

Whatever changes something is let in by `server/auth.py` only from our own page, and with the token where there is one;
so are the original photos, which hold more than pixels.
"""

from itertools import count
from typing import Annotated, Literal

import numpy as np
from fastapi import APIRouter, Body, Depends, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

from smoothap.album.collection_export import as_csv, as_json, originals, zip_size
from smoothap.album.collection_import import import_text
from smoothap.album.finding_all import find_next
from smoothap.album.learning import FEWEST_COLLECTIONS, collections_enough, too_few
from smoothap.server import schemas
from smoothap.server.dependencies import KeepingAlbum, Server, file_of
from smoothap.server.learning import LearningJob
from smoothap.server.routes.photos import archive, attached
from smoothap.server.schemas import CollectionKey
from smoothap.server.searching import everything
from smoothap.server.served_album import ServedAlbum

router = APIRouter(prefix="/albums/{album}/collections", tags=["collections"])
learning_router = APIRouter(prefix="/albums/{album}/learning", tags=["learning"])
_EXAMPLES = 5  # of names that are not in the album
_FORMS = {"csv": (as_csv, "text/csv"), "json": (as_json, "application/json")}
_TEXT_BODY = {
    "requestBody": {
        "required": True,
        "content": {kind: {"schema": {"type": "string"}} for _, kind in _FORMS.values()},
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
        photos=report.photos, unknown=len(report.unknown), examples=report.unknown[:_EXAMPLES],
        collections=_list(served),
    )  # fmt: skip


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
        undo=schemas.StepInfo(number=steps[0].number, what=steps[0].what) if steps else None,
        chosen=chosen,
    )


# ---- one of them


@router.get("/{key}")
def marks(served: KeepingAlbum, key: CollectionKey) -> schemas.CollectionMarks:
    """The marks of a collection."""
    version, one = served.collections_version, served.album.collections[key]
    return schemas.CollectionMarks(
        version=version, key=one.key, name=one.name, right=list(one.right), wrong=list(one.wrong), away=list(one.away)
    )


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
    offset: schemas.Offset = 0,
    limit: schemas.Limit = 60,
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
    return schemas.NextPhotos(version=version, hits=hits, **vars(found))


# ---- files


@router.get("/{key}/export.{form}", response_class=Response, responses=file_of("text/csv", "application/json"))
def export(served: KeepingAlbum, key: CollectionKey, form: Literal["csv", "json"]) -> Response:
    """The collection, right and wrong photos: as a table, or as JSON, which another album of the photos takes in."""
    one, (spelled, kind) = served.album.collections[key], _FORMS[form]
    return Response(spelled(served.album, [one]), media_type=kind, headers=attached(f"{one.name}.{form}"))


@router.get("/{key}/originals", name="originals")
def what_is_packed(served: KeepingAlbum, key: CollectionKey) -> schemas.OriginalsInfo:
    """What a zip of the original photos would hold, and its size."""
    chosen = originals(served.album, [served.album.collections[key]])
    return schemas.OriginalsInfo(photos=len(chosen.files), bytes=zip_size(chosen), missing=chosen.missing)


@router.get("/{key}/originals.zip", name="archive", response_class=Response, responses=file_of("application/zip"))
def packed(server: Server, served: KeepingAlbum, key: CollectionKey, places: bool | None = None) -> Response:
    """The original photos as a zip, sent as it is made; if one of them changes meanwhile, the answer breaks off.

    A server that was started for this computer alone sends them as they are, or with `places=false` without what they
    say of where they were taken. A server for others always takes that out.
    """
    remove_place = None if places is None else not places
    return archive(server, served, schemas.ChosenPhotos(collection=key, remove_place=remove_place))


# ---- what is learnt from them


@learning_router.get("")
def learning(server: Server, served: KeepingAlbum) -> schemas.LearningInfo:
    """What the album has learnt from its collections, and how far it is if it is learning."""
    return _learning(server.learning, served, learnt=served.album.learnt is not None)


@learning_router.post("")
def learn(server: Server, served: KeepingAlbum) -> schemas.LearningInfo:
    """Begin to learn from the collections, which takes seconds; one album learns at a time."""
    if (collections := collections_enough(served.album)) < FEWEST_COLLECTIONS:
        raise HTTPException(409, too_few(collections))
    server.learning.start(served.album)
    return learning(server, served)


@learning_router.delete("", name="undo")
def unlearn(server: Server, served: KeepingAlbum) -> schemas.LearningInfo:
    """Search in the model's own vectors again; the collections stay."""
    if served.album.learnt is None:
        raise HTTPException(409, "This album has learnt nothing that could be undone.")
    served.album.reopened().unlearn()
    server.learning.forget(served.album)
    return _learning(server.learning, served, learnt=False)


def _learning(job: LearningJob, served: ServedAlbum, *, learnt: bool) -> schemas.LearningInfo:
    state = job.state(served.album)
    return schemas.LearningInfo(
        learnt=learnt, collections=collections_enough(served.album), running=state.running, share=state.share,
        said=state.said,
    )  # fmt: skip
