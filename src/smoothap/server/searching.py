"""Searches for photos, for faces and for parts of photos: what a request asks with, and what is answered."""

import base64
import csv
import hashlib
import io
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, count
from typing import Any, NamedTuple

import numpy as np
from PIL import Image
from starlette.exceptions import HTTPException

from smoothap.album.engines.codes import Bounded
from smoothap.album.queries import Asking, joined
from smoothap.album.search import VectorQuery
from smoothap.album.vectors import unit
from smoothap.data.reading import PixelBox
from smoothap.plots.text import visible
from smoothap.server import schemas
from smoothap.server.rankings import LabelledRanking, moved_by_marks
from smoothap.server.served_album import ServedAlbum, pixels

_NEAREST = 1_000  # places: of those before, the nearest photos are looked for; further down the album is ranked
_SIDE = 1_600  # pixels of a photo in which a face or a part is looked for
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
_LINES = 500  # of a list that are made at once


class Asked(NamedTuple):
    """A query as its space compares it: a vector, (d,) or of parts (levels, k), and the photos that it is itself.

    A face may also be one of these photos, or in a picture, in a box of its pixels. `bounded` is what a search with the
    vector begins with, found when it was embedded.
    """

    vector: np.ndarray | None = None
    ids: tuple[int, ...] = ()
    picture: Image.Image | None = None
    box: PixelBox | None = None
    bounded: Bounded | None = None


class Found(NamedTuple):
    """What is found, best first: rows of photos and their scores, the query's vector, and what a page shows of them."""

    rows: np.ndarray
    scores: np.ndarray
    vector: np.ndarray
    note: str
    columns: Callable[[slice], dict[str, Sequence[Any]]]


def asked(served: ServedAlbum, request: schemas.SearchRequest) -> Asked:
    """The query that a request names: photos of the album, a part of one, or a vector."""
    space, ids = _space(served, request), tuple(request.ids)
    served.album.photos.rows_of(ids)  # an id that is none is an error
    if request.box is not None:
        if len(ids) != 1 or request.vector is not None:
            raise HTTPException(422, "A box is a part of one photo: give its id and no vector.")
        return space.of_part(ids[0], request.box)._replace(ids=ids)
    if request.vector is not None:
        if isinstance(request.vector, str) and request.model not in (None, space.model_key()):
            raise HTTPException(409, "The album was made again by another model, or has learnt: give the photo again.")
        return Asked(space.of_vector(request.vector), ids)
    if not ids:
        raise HTTPException(422, "A search needs a query: give the id of a photo, several, or a vector.")
    return space.of_ids(ids)


def asked_by_image(served: ServedAlbum, form: schemas.PhotoSearchForm, image: bytes) -> Asked:
    """The query of a photo from elsewhere."""
    return _space(served, form).of_image(image, form.part)


def answer(served: ServedAlbum, options: schemas.SearchOptions, query: Asked) -> schemas.SearchAnswer:
    """A page of what is found for a query."""
    space = _space(served, options)
    version = served.list_version(options.stacked and options.space == "photo")
    vector = "" if query.vector is None else packed(query.vector)
    found = schemas.SearchAnswer(
        album=served.name, version=version, total=0, min_score=options.min_score, hits=[],
        query=schemas.QueryVector(vector=vector, model=space.model_key()),
    )  # fmt: skip
    space.answer(options, query, found)
    return found


def everything(served: ServedAlbum, request: schemas.SearchRequest) -> tuple[np.ndarray, np.ndarray]:
    """All that a search finds, best first: rows of photos and their scores."""
    return _space(served, request).everything(request, asked(served, request))


def _space(served: ServedAlbum, options: schemas.SearchOptions) -> "_Photos | _Faces | _Parts":
    """What is compared in a search; `without` are the options that it does not have."""
    space = {"photo": _Photos, "face": _Faces, "region": _Parts}[options.space](served)
    if given := [name for name in space.without if getattr(options, name)]:
        raise HTTPException(422, f"A search with space={options.space} has no {given[0]}: leave it out.")
    return space


class _Photos:
    """Whole photos: the nearest at once or, where more is asked for, pages of a ranking of the album."""

    without: tuple[str, ...] = ()

    def __init__(self, served: ServedAlbum) -> None:
        self._served, self._album = served, served.album

    def model_key(self) -> str:
        """A short name of what computed its vectors."""
        return self._served.model_key

    def of_image(self, image: bytes, box: schemas.ShareBox | None) -> Asked:
        """The query of a photo from elsewhere, or of a part of it."""
        vector, bounded = self._served.query(image, box)
        return Asked(vector, bounded=bounded)

    def of_part(self, identity: int, box: schemas.ShareBox) -> Asked:
        """The query of a part of one of the album's photos."""
        vector, bounded = self._served.query_of_part(identity, box)
        return Asked(unit(vector), bounded=bounded)

    def of_ids(self, ids: tuple[int, ...]) -> Asked:
        """The query of photos of the album."""
        rows = self._album.photos.rows_of(ids)
        if len(rows) == 1:  # the vector as it is: its scores are those of an evaluation
            return Asked(np.array(self._album.vectors[rows[0]]), ids)
        return Asked(joined(list(self._album.vectors[rows])), ids)

    def of_vector(self, given: str | list[float]) -> np.ndarray:
        """The vector that was sent, as the album compares it."""
        album = self._album
        if isinstance(given, str):  # which was an answer of this album
            return unit(unpacked(given, album.vectors.shape[1]))
        with np.errstate(over="ignore"):
            vector = np.array(given, np.float32)
        dimension = album.vectors.shape[1] if album.model is None else album.model.dimension
        if len(vector) != dimension:
            raise ValueError(
                f"The vector has {len(vector)} numbers and the album's model gives {dimension}: send the photo itself."
            )
        return unit(album.projected(unit(_checked(vector))[None])[0])

    def answer(self, options: schemas.SearchOptions, query: Asked, found: schemas.SearchAnswer) -> None:
        """Put a page of what is found into an answer."""
        least, calibration = _least_score(self._served, options), self._album.calibration_of(options.rerank)
        found.min_score = least
        if calibration is not None and least is not None:
            found.expected_recall, found.expected_precision = (
                calibration.recall_at(least),
                calibration.precision_at(least),
            )
        if options.needs_ranking or least is not None or options.offset + options.limit > _NEAREST:
            _rank(self._served, options, query, least, found)
        else:
            _find_nearest(self._served, options, query, found)

    def everything(self, options: schemas.SearchOptions, query: Asked) -> tuple[np.ndarray, np.ndarray]:
        """All that is found, best first: rows of photos and their scores."""
        least = _least_score(self._served, options)
        return _ranking_for(self._served, options, query).ranking.best(min_score=least)


class _Listed:
    """What faces and parts have in common: all that is found is listed, best first, without stacks and groups."""

    def __init__(self, served: ServedAlbum) -> None:
        self._served, self._album = served, served.album

    def _found(self, options: schemas.SearchOptions, query: Asked) -> Found:
        raise NotImplementedError

    def answer(self, options: schemas.SearchOptions, query: Asked, found: schemas.SearchAnswer) -> None:
        """Put a page of what is found into an answer."""
        listed, page = self._found(options, query), slice(options.offset, options.offset + options.limit)
        found.total, found.note, found.query.vector = len(listed.rows), listed.note, packed(listed.vector)
        rows, ranks = listed.rows[page], count(options.offset + 1)
        found.hits = self._served.hits(rows, ranks, score=listed.scores[page].tolist(), **listed.columns(page))
        if options.statistics:
            _count(found, listed.scores)

    def everything(self, options: schemas.SearchOptions, query: Asked) -> tuple[np.ndarray, np.ndarray]:
        """All that is found, best first: rows of photos and their scores."""
        listed = self._found(options, query)
        return listed.rows, listed.scores


class _Faces(_Listed):
    """Faces: all photos of the person whose face the query is, with the face's box in each."""

    without: tuple[str, ...] = ("group_by",)

    def __init__(self, served: ServedAlbum) -> None:
        super().__init__(served)
        self._space = served.album.face_space()

    def model_key(self) -> str:
        network = json.dumps(self._space.store.setting("network"), sort_keys=True)
        return hashlib.blake2b(network.encode(), digest_size=8).hexdigest()

    def of_image(self, image: bytes, box: schemas.ShareBox | None) -> Asked:
        picture = self._served.decoder.decode(image, side=_SIDE)
        return Asked(picture=picture, box=None if box is None else pixels(box, picture.size))

    def of_part(self, identity: int, box: schemas.ShareBox) -> Asked:
        photo = self._album.photo(identity)
        known = pixels(box, (photo.width, photo.height))
        if self._space.knows(self._album, identity, known):
            return Asked(box=known)
        picture = self._served.decoded(identity, side=_SIDE)
        return Asked(picture=picture, box=pixels(box, picture.size))

    def of_ids(self, ids: tuple[int, ...]) -> Asked:
        return Asked(ids=ids)

    def of_vector(self, given: str | list[float]) -> np.ndarray:
        dimension = self._space.store.dimension()
        vector = unpacked(given, dimension) if isinstance(given, str) else np.array(given, np.float32)
        return _checked(vector)

    def _found(self, options: schemas.SearchOptions, query: Asked) -> Found:
        right, wrong = _marks_of(self._served, options)
        meant = query.vector if query.vector is not None else query.picture or list(query.ids)
        asking = Asking(
            min_score=options.min_score, recall=options.recall, rerank=options.rerank, right=right, wrong=wrong,
            where=self._served.filter(options)[0], box=query.box, face=options.face, left_out=query.ids[:1],
        )  # fmt: skip
        found = self._space.find(self._album, meant, asking)

        def columns(page: slice) -> dict[str, Sequence[Any]]:
            hits = self._space.hits(self._album, found._replace(places=found.places[page]))
            faces = found.faces.ids[found.found.rows[found.places[page]]].tolist()
            return {"face": faces, "box": [hit.box for hit in hits], "through": [hit.through for hit in hits]}

        rows = self._album.photos.rows_of(found.faces.photos[found.found.rows[found.places]])
        note = f"{found.found.note} {found.note}".strip()
        assert found.vector is not None
        return Found(rows, found.found.scores[found.places], found.vector, note, columns)


class _Parts(_Listed):
    """Parts of photos: all photos that have one like the query, with the box of it in each."""

    without: tuple[str, ...] = ("group_by", "stacked", "recall")

    def __init__(self, served: ServedAlbum) -> None:
        super().__init__(served)
        self._space = served.album.region_space()

    def model_key(self) -> str:
        return self._served.model_key

    def of_image(self, image: bytes, box: schemas.ShareBox | None) -> Asked:
        return Asked(self._space.query(self._album, self._served.decoder.decode(image, box=box, side=_SIDE))[0])

    def of_part(self, identity: int, box: schemas.ShareBox) -> Asked:
        picture = self._served.decoded(identity, side=_SIDE)
        return Asked(self._space.query(self._album, picture, pixels(box, picture.size))[0])

    def of_ids(self, ids: tuple[int, ...]) -> Asked:
        return Asked(self._space.query(self._album, list(ids))[0], ids)

    def of_vector(self, given: str | list[float]) -> np.ndarray:
        if isinstance(given, list):
            return self._space.query(self._album, np.array(given, np.float32))[0]
        numbers = unpacked(given, math.prod(self._space.shape)).reshape(self._space.shape)
        return self._space.query(self._album, np.stack([_checked(level) for level in numbers]))[0]

    def _found(self, options: schemas.SearchOptions, query: Asked) -> Found:
        right, wrong = _marks_of(self._served, options)
        assert query.vector is not None
        asking = Asking(
            min_score=options.min_score, rerank=options.rerank, right=right, wrong=wrong,
            where=self._served.filter(options)[0], left_out=query.ids,
        )  # fmt: skip
        found, note = self._space.found(self._album, query.vector, asking)
        boxes = self._space.boxes
        return Found(
            found.rows, found.scores, query.vector, note, lambda page: {"box": boxes(self._album, found.some(page))}
        )


def _checked(vector: np.ndarray) -> np.ndarray:
    if not np.isfinite(vector).all() or not vector.any():
        raise ValueError("The vector is zero or not finite, so nothing is like it: give the photo again.")
    return vector


def _find_nearest(
    served: ServedAlbum, options: schemas.SearchOptions, query: Asked, found: schemas.SearchAnswer
) -> None:
    """Put the nearest photos into an answer: no other photo is scored exactly."""
    album, (where, _) = served.album, served.filter(options)
    passing, (right, wrong), own = album.passing(where), _marks_of(served, options), album.photos.rows_of(query.ids)
    assert query.vector is not None
    vector = moved_by_marks(album, query.vector, right, wrong)
    left_out = len(own) if passing is None else int(passing[own].sum())
    found.total = (len(album) if passing is None else int(passing.sum())) - left_out
    bounded = None if right or wrong else query.bounded  # which is of the vector before it was moved
    itself = int(own[0]) if len(own) == 1 and np.array_equal(vector, album.vectors[own[0]]) else None
    search, note = album.search_by(options.rerank)
    page = slice(options.offset, options.offset + options.limit)
    nearest = search.nearest(VectorQuery(vector, own, passing, where, itself), page.stop, bounded)
    through = None if nearest.through is None else nearest.through[page]
    found.hits = _hits(served, nearest.rows[page], nearest.scores[page], count(options.offset + 1), through=through)
    found.note = f"{nearest.note} {note}".strip()


def _rank(
    served: ServedAlbum, options: schemas.SearchOptions, query: Asked, least: float | None, found: schemas.SearchAnswer
) -> None:
    """Put a page of the whole ranking into an answer, with what is asked for beside it."""
    labelled = _ranking_for(served, options, query)
    ranking, page = labelled.ranking, slice(options.offset, options.offset + options.limit)
    listed, found.note = ranking.at_least(least), ranking.note
    number, rows, places = served.in_order(labelled, least, served.stacks.version if options.stacked else None)
    found.total, found.folded = len(rows), number - len(rows)
    if options.group_by is not None:
        found.groups = _groups(served, options.group_by, rows, ranking.scores[rows], page.stop)[page]
        return
    rows, places = rows[page], places[page]
    through = None if ranking.through is None else ranking.through[rows]
    copies = served.stacks.copies(rows, listed) if options.stacked else None
    found.hits = _hits(served, rows, ranking.scores[rows], (places + 1).tolist(), labelled.right, copies, through)
    if options.statistics:
        _count(found, ranking.scores[ranking.at_least()])
        found.right_in_list = None if labelled.right is None else int((labelled.right & listed).sum())
        found.curve = labelled.curve if options.offset == 0 else None


def _count(found: schemas.SearchAnswer, scores: np.ndarray) -> None:
    found.ranked = len(scores)
    if len(scores):
        found.lowest, found.highest = float(scores.min()), float(scores.max())


def _ranking_for(served: ServedAlbum, options: schemas.SearchOptions, query: Asked) -> LabelledRanking:
    """The ranking for a query, made now or kept from the page before."""
    marks, where = _marks_of(served, options), served.filter(options)
    linked = served.album.linked if options.rerank else 0
    rows = tuple(served.album.photos.rows_of(query.ids).tolist())
    assert query.vector is not None
    return served.ranking(query.vector.tobytes(), rows, *marks, *where, options.rerank, linked)


def _marks_of(served: ServedAlbum, options: schemas.SearchOptions) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The ids that are marked as right and as wrong, here and in the collection that is asked with."""
    right, wrong = tuple(options.right), tuple(options.wrong)
    if options.marks is None:
        return right, wrong
    marked = served.album.collections[served.collection(options.marks)]
    return right + marked.right, wrong + marked.wrong


def _least_score(served: ServedAlbum, options: schemas.SearchOptions) -> float | None:
    if options.recall is None:
        return options.min_score
    if (calibration := served.album.calibration_of(options.rerank)) is None:
        raise HTTPException(409, "This album is not calibrated, so recall cannot be asked for: give a min_score.")
    learnt = calibration.score_for_recall(options.recall)
    return learnt if options.min_score is None else max(learnt, options.min_score)


def _hits(
    served: ServedAlbum,
    rows: np.ndarray,
    scores: np.ndarray,
    ranks: Iterable[int],
    right: np.ndarray | None = None,
    copies: list[list[int]] | None = None,
    through: np.ndarray | None = None,
) -> list[schemas.Hit]:
    """The photos in these rows; `right` (n,) is of all rows, and `through` the row that each came in through."""
    columns: dict[str, Sequence[Any]] = {"score": scores.tolist()}
    if right is not None:
        columns["right"] = right[rows].tolist()
    if copies is not None:
        columns["copies"] = copies
    if through is not None:
        ids = served.album.photos.ids
        columns["through"] = [None if row < 0 else int(ids[row]) for row in through.tolist()]
    return served.hits(rows, ranks, **columns)


def _groups(
    served: ServedAlbum, group_by: str, rows: np.ndarray, scores: np.ndarray, number: int
) -> list[schemas.Group]:
    """The best photo of each group and how many photos it has, best first; what has no group is left out."""
    values = served.album.photos.values_of(group_by)[rows]
    grouped = np.flatnonzero(values != "")
    names, first, counts = np.unique(values[grouped], return_index=True, return_counts=True)
    order = np.argsort(first)[:number]
    places = grouped[first[order]]
    shown = zip(order, _hits(served, rows[places], scores[places], count(1)), strict=True)
    return [schemas.Group(group=str(names[group]), photos=int(counts[group]), best=best) for group, best in shown]


def as_csv(served: ServedAlbum, rows: np.ndarray, scores: np.ndarray) -> Iterator[str]:
    """A list as CSV, some lines at a time; the first at once, so that a photo that is gone is still an answer."""
    parts = (_lines(served, rows, scores, start) for start in range(0, max(len(rows), 1), _LINES))
    return chain([next(parts)], parts)


def _lines(served: ServedAlbum, rows: np.ndarray, scores: np.ndarray, start: int) -> str:
    part, stream = slice(start, start + _LINES), io.StringIO()
    writer = csv.writer(stream, lineterminator="\r\n")
    if start == 0:
        writer.writerow(("rank", "score", "photo", "label"))
    named = zip(scores[part].tolist(), *served.album.photos.named(rows[part]), strict=True)
    for rank, (score, path, label) in enumerate(named, start + 1):
        writer.writerow((rank, f"{score:.6f}", _cell(path), _cell(label or "")))
    return stream.getvalue()


def _cell(text: str) -> str:
    """Text that steers nothing, and that a spreadsheet does not take for a formula."""
    text = visible(text)
    return f"'{text}" if text.startswith(_FORMULA) else text


def packed(vector: np.ndarray) -> str:
    """A vector (d,) as text."""
    return base64.b64encode(np.asarray(vector, "<f4").tobytes()).decode()


def unpacked(text: str, dimension: int) -> np.ndarray:
    """The vector (d,) in the text."""
    try:
        vector = np.frombuffer(base64.b64decode(text, validate=True), "<f4")
    except ValueError:
        raise ValueError("The vector is no base64 of float32: send what a search answered as its query.") from None
    if vector.shape != (dimension,):
        raise ValueError(
            f"The vector has {len(vector)} numbers and the album's have {dimension}: search with the photo here."
        )
    return vector
