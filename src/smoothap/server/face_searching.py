"""Searches by face: all photos of the person whose face is in the query, with the face's box in each."""

import hashlib
import json
from typing import NamedTuple

import numpy as np
from PIL import Image
from starlette.exceptions import HTTPException

from smoothap.album.face_search import FoundPhotos
from smoothap.data.reading import PixelBox, UnreadableImage
from smoothap.plots.text import visible
from smoothap.server import schemas
from smoothap.server.searching import asked, found_rows, marks_of
from smoothap.server.served_album import ServedAlbum

_SIDE = 1_600  # pixels of a photo in which faces are looked for
_UNREADABLE = (OSError, LookupError, ValueError, NotImplementedError)  # whatever an album says without the photo


class AskedFace(NamedTuple):
    """A query for faces: photos by their ids, a picture or a vector (d,); a box in its pixels, and its own photo."""

    query: list[int] | Image.Image | np.ndarray
    box: PixelBox | None = None
    photo: int | None = None


def opened_photo(served: ServedAlbum, photo: int) -> Image.Image:
    """One of the album's photos, large enough to see faces in it."""
    try:
        return served.decoder.decode(served.album.photo_path(photo), side=_SIDE)
    except UnreadableImage:
        raise
    except _UNREADABLE as error:
        name = visible(served.album.photo(photo).path)
        raise HTTPException(404, f"{name} cannot be opened ({error}): is its disk mounted?") from error


def face_in(served: ServedAlbum, image: bytes, box: schemas.ShareBox | None) -> AskedFace:
    """The query of a photo from elsewhere."""
    picture = served.decoder.decode(image, side=_SIDE)
    return AskedFace(picture, None if box is None else pixels(box, picture.size))


def asked_face(served: ServedAlbum, request: schemas.SearchRequest) -> AskedFace:
    """The query that a request names: photos of the album, the face in a box of one, or a vector."""
    album, ids = served.album, request.ids
    space = album.face_space()
    if request.vector is not None:
        if request.model not in (None, _model_key(served)):
            raise HTTPException(
                409, "The faces of this album were found by another network since: give the photo again."
            )
        given = request.vector
        vector = schemas.unpacked(given, space.store.dimension()) if isinstance(given, str) else np.array(given, "<f4")
        if not np.isfinite(vector).all() or not vector.any():
            raise ValueError("The vector is zero or not finite, so nothing is like it: give the photo again.")
        return AskedFace(vector, photo=ids[0] if ids else None)
    if not ids:
        raise HTTPException(422, "A search needs a query: give the id of a photo, several, or a vector.")
    if request.box is None:
        return AskedFace(ids)
    if len(ids) != 1:
        raise HTTPException(422, "A box is a part of one photo: give its id and no vector.")
    photo = album.photo(ids[0])
    box = pixels(request.box, (photo.width, photo.height))
    if space.knows(album, photo.id, box):
        return AskedFace(ids, box)
    picture = opened_photo(served, photo.id)
    return AskedFace(picture, pixels(request.box, picture.size), photo.id)


def face_answer(served: ServedAlbum, options: schemas.SearchOptions, query: AskedFace) -> schemas.SearchAnswer:
    """A page of the photos of a person."""
    if options.group_by is not None:
        raise HTTPException(422, "Photos of a person are not grouped: leave group_by out.")
    found = _found(served, options, query)
    scores = found.found.scores[found.places]
    page = found.places[options.offset : options.offset + options.limit]
    assert found.vector is not None
    answer = schemas.SearchAnswer(
        album=served.name, version=served.list_version(stacked=False), total=len(found.places),
        min_score=options.min_score, hits=[],
        query=schemas.QueryVector(vector=schemas.packed(found.vector), model=_model_key(served)),
    )  # fmt: skip
    hits = served.album.face_space().hits(served.album, found._replace(places=page))
    faces = found.faces.ids[found.found.rows[page]].tolist()
    photos = served.album.photos.at(served.album.photos.rows_of(hit.id for hit in hits))
    answer.note = hits.note
    for hit, face, photo in zip(hits, faces, photos, strict=True):
        shown = served.hit(photo, options.offset + hit.rank, hit.score, through=hit.through)
        assert hit.box is not None
        answer.hits.append(shown.model_copy(update={"face": face, "box": shares(hit.box, (photo.width, photo.height))}))
    if options.statistics:
        answer.ranked = len(scores)
        if len(scores):
            answer.lowest, answer.highest = float(scores.min()), float(scores.max())
    return answer


def all_found(served: ServedAlbum, request: schemas.SearchRequest) -> tuple[np.ndarray, np.ndarray]:
    """Everything that a search finds, of things or of a person, best first: rows of photos and their scores."""
    if request.space != "face":
        return found_rows(served, request, asked(served, request))
    found = _found(served, request, asked_face(served, request))
    photos = found.faces.photos[found.found.rows[found.places]]
    return served.album.photos.rows_of(photos), found.found.scores[found.places]


def _found(served: ServedAlbum, options: schemas.SearchOptions, query: AskedFace) -> FoundPhotos:
    right, wrong = marks_of(served, options)
    return served.album.face_space().find(
        served.album, query.query, None, face=options.face, box=query.box, rerank=options.rerank,
        min_score=options.min_score, recall=options.recall, right=right, wrong=wrong, where=served.filter(options)[0],
        photo=query.photo,
    )  # fmt: skip


def _model_key(served: ServedAlbum) -> str:
    """A short name of the networks that found the faces."""
    network = json.dumps(served.album.face_space().store.setting("network"), sort_keys=True)
    return hashlib.blake2b(network.encode(), digest_size=8).hexdigest()


def shares(box: tuple[float, ...] | list[float], size: tuple[int, int]) -> tuple[float, float, float, float]:
    """A box in pixels as shares of a photo of this size."""
    x, y, width, height = box
    return x / size[0], y / size[1], width / size[0], height / size[1]


def pixels(box: schemas.ShareBox, size: tuple[int, int]) -> PixelBox:
    """The same the other way round."""
    left, top, width, height = box
    return round(left * size[0]), round(top * size[1]), max(1, round(width * size[0])), max(1, round(height * size[1]))
