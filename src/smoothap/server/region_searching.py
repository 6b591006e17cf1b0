"""Searches for things inside photos: those that have a part like the query, with the box of the part in each."""

import math

import numpy as np
from starlette.exceptions import HTTPException

from smoothap.album.region_search import Scored
from smoothap.server import schemas
from smoothap.server.face_searching import opened_photo, pixels, shares
from smoothap.server.searching import Asked, marks_of
from smoothap.server.served_album import ServedAlbum

_SIDE = 1_600  # pixels of a photo in which a thing is shown


def parts_in(served: ServedAlbum, image: bytes, box: schemas.ShareBox | None) -> Asked:
    """The query of a photo from elsewhere, or of a part of it: its vector has the numbers (levels, k) of all levels."""
    picture = served.decoder.decode(image, box=box, side=_SIDE)
    return Asked(served.album.region_space().query(served.album, picture)[0])


def asked_parts(served: ServedAlbum, request: schemas.SearchRequest) -> Asked:
    """The query that a request names: photos of the album, a part of one, or a vector."""
    album, space, ids = served.album, served.album.region_space(), request.ids
    rows = tuple(album.photos.rows_of(ids).tolist())
    if request.box is not None:
        if len(ids) != 1 or request.vector is not None:
            raise HTTPException(422, "A box is a part of one photo: give its id and no vector.")
        picture = opened_photo(served, ids[0])
        return Asked(space.query(album, picture, pixels(request.box, picture.size))[0], rows)
    if isinstance(request.vector, str):
        numbers = schemas.unpacked(request.vector, math.prod(space.shape)).reshape(space.shape)
        if request.model not in (None, served.model_key) or not numbers.any(1).all():
            raise HTTPException(409, "The parts of this album were described by another network: give the photo again.")
        return Asked(space.query(album, numbers)[0], rows)
    if request.vector is None and not ids:
        raise HTTPException(422, "A search needs a query: give the id of a photo, several, or a vector.")
    return Asked(space.query(album, ids if request.vector is None else np.array(request.vector, np.float32))[0], rows)


def answer_parts(served: ServedAlbum, options: schemas.SearchOptions, query: Asked) -> schemas.SearchAnswer:
    """A page of the photos that have a part like the query."""
    if options.needs_ranking or options.recall is not None:
        raise HTTPException(422, "Parts of photos have no stacks, groups, statistics and recall: leave these out.")
    album, (found, note) = served.album, _found(served, options, query)
    page = found.some(slice(options.offset, options.offset + options.limit))
    photos, boxes = album.photos.at(page.rows), album.region_space().boxes(album, page)
    hits = [
        served.hit(photo, options.offset + place, score).model_copy(
            update={"box": shares(box, (photo.width, photo.height))}
        )
        for place, (photo, score, box) in enumerate(zip(photos, page.scores.tolist(), boxes, strict=True), start=1)
    ]
    return schemas.SearchAnswer(
        album=served.name, version=served.list_version(stacked=False), total=len(found.rows),
        min_score=options.min_score, hits=hits, note=note,
        query=schemas.QueryVector(vector=schemas.packed(query.vector.ravel()), model=served.model_key),
    )  # fmt: skip


def all_parts(served: ServedAlbum, request: schemas.SearchRequest) -> tuple[np.ndarray, np.ndarray]:
    """Everything that a search finds, best first: rows of photos and their scores."""
    found, _ = _found(served, request, asked_parts(served, request))
    return found.rows, found.scores


def _found(served: ServedAlbum, options: schemas.SearchOptions, query: Asked) -> tuple[Scored, str]:
    right, wrong = marks_of(served, options)
    return served.album.region_space().found(
        served.album, query.vector, min_score=options.min_score, right=right, wrong=wrong,
        where=served.filter(options)[0], left_out=served.album.photos.ids[list(query.rows)].tolist(),
        **({} if options.rerank else {"expand": 0}),
    )  # fmt: skip
