"""Searches for photos, for faces and for parts of photos: what a request asks with, and what is answered."""

import base64
import csv
import hashlib
import io
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, count
from typing import Any, NamedTuple

import numpy as np
from PIL import Image
from starlette.exceptions import HTTPException

from smoothap.album.calibration import least_score
from smoothap.album.collection_export import FORMULA
from smoothap.album.engines.codes import Bounded
from smoothap.album.queries import Asking, query_vector
from smoothap.album.search import VectorQuery
from smoothap.album.vectors import unit
from smoothap.data.reading import PixelBox
from smoothap.plots.text import visible
from smoothap.server import schemas
from smoothap.server.rankings import LabelledRanking, moved_by_marks
from smoothap.server.served_album import ServedAlbum, pixels

_NEAREST = 1_000  # places: of those before, the nearest photos are looked for; further down the album is ranked
_SIDE = 1_600  # pixels of a photo in which a face or a part is looked for
_LINES = 500  # of a list that are made at once
# Options that a search in a space does not have.
_WITHOUT = {"photo": ("face",), "face": ("group_by",), "region": ("group_by", "stacked", "face")}


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
    """What is found, best first: rows of photos and their scores, the query's vector, and what else a page shows."""

    rows: np.ndarray
    scores: np.ndarray
    vector: np.ndarray
    note: str
    columns: Mapping[str, Sequence[Any]]


def asked(served: ServedAlbum, request: schemas.SearchRequest) -> Asked:
    """The query that a request names: photos of the album, a part of one, or a vector."""
    space, ids = _space(served, request), tuple(request.ids)
    served.album.photos.rows_of(ids)  # an id that is none is an error
    if request.box is not None:
        if len(ids) != 1 or request.vector is not None:
            raise HTTPException(422, "A box is a part of one photo: give its id and no vector.")
        return space.of_part(ids[0], request.box)._replace(ids=ids)
    if request.vector is not None:
        is_ours = isinstance(request.vector, str)  # the query of an answer
        if is_ours and request.model not in (None, space.model_key()):
            raise HTTPException(409, "The album was made again by another model, or has learnt: give the photo again.")
        return Asked(space.of_vector(_numbers(request.vector), is_ours), ids)
    if not ids:
        raise HTTPException(422, "A search needs a query: give the id of a photo, several, or a vector.")
    return space.of_ids(ids)


def asked_by_image(served: ServedAlbum, form: schemas.PhotoSearchForm, image: bytes) -> Asked:
    """The query of a photo from elsewhere."""
    return _space(served, form).of_image(image, form.part)


def answer(served: ServedAlbum, options: schemas.SearchOptions, query: Asked) -> schemas.SearchAnswer:
    """A page of what is found for a query."""
    space = _space(served, options)
    found = schemas.SearchAnswer(
        album=served.name, version=served.list_version(options.stacked and options.space == "photo"), total=0,
        min_score=options.min_score, hits=[], query=schemas.QueryVector(vector="", model=space.model_key()),
    )  # fmt: skip
    space.answer(options, query, found, slice(options.offset, options.offset + options.limit))
    return found


def everything(served: ServedAlbum, request: schemas.SearchRequest) -> tuple[np.ndarray, np.ndarray]:
    """All that a search finds, best first: rows of photos and their scores."""
    return _space(served, request).everything(request, asked(served, request))


def _space(served: ServedAlbum, options: schemas.SearchOptions) -> "_Photos | _Faces | _Parts":
    """What is compared in a search."""
    if given := [name for name in _WITHOUT[options.space] if getattr(options, name)]:
        others = " or ".join(f"space={other}" for other, names in _WITHOUT.items() if given[0] not in names)
        said = f"A search with space={options.space} has no {given[0]}: leave it out, or give {others}."
        raise HTTPException(422, said)
    return {"photo": _Photos, "face": _Faces, "region": _Parts}[options.space](served)


class _Photos:
    """Whole photos: the nearest at once or, where more is asked for, pages of a ranking of the album."""

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
        vector, bounded = self._served.query(identity, box)
        return Asked(unit(vector), bounded=bounded)

    def of_ids(self, ids: tuple[int, ...]) -> Asked:
        """The query of photos of the album."""
        return Asked(query_vector(self._album, ids, None)[0], ids)

    def of_vector(self, given: np.ndarray, is_ours: bool) -> np.ndarray:
        """The vector that was sent, as the album compares it; ours was an answer of this album."""
        album = self._album
        dimension = album.vectors.shape[1] if is_ours or album.model is None else album.model.dimension
        if len(given) != dimension:
            raise ValueError(
                f"The vector has {len(given)} numbers and the album's model gives {dimension}: send the photo itself."
            )
        return unit(given) if is_ours else unit(album.projected(unit(given)[None])[0])

    def answer(self, options: schemas.SearchOptions, query: Asked, found: schemas.SearchAnswer, page: slice) -> None:
        """Put a page of what is found into an answer."""
        assert query.vector is not None
        found.query.vector = packed(query.vector)
        found.min_score = least = self._least_score(options)
        calibration = self._album.calibration_of(options.rerank)
        if calibration is not None and least is not None:
            found.expected_recall = calibration.recall_at(least)
            found.expected_precision = calibration.precision_at(least)
        if options.needs_ranking or least is not None or page.stop > _NEAREST:
            self._rank(options, query, found, page)
        else:
            self._find_nearest(options, query, found, page)

    def everything(self, options: schemas.SearchOptions, query: Asked) -> tuple[np.ndarray, np.ndarray]:
        """All that is found, best first: rows of photos and their scores."""
        return self._ranking(options, query).ranking.best(min_score=self._least_score(options))

    def _least_score(self, options: schemas.SearchOptions) -> float | None:
        return least_score(self._album.calibration_of(options.rerank), options.recall, options.min_score)

    def _find_nearest(
        self, options: schemas.SearchOptions, query: Asked, found: schemas.SearchAnswer, page: slice
    ) -> None:
        """Put the nearest photos into an answer: no other photo is scored exactly."""
        album, (where, _) = self._album, self._served.filter(options)
        (right, wrong), own = _marks(self._served, options), album.photos.rows_of(query.ids)
        passing = album.passing(where)
        assert query.vector is not None
        vector = moved_by_marks(album, query.vector, right, wrong)
        left_out = len(own) if passing is None else int(passing[own].sum())
        found.total = (len(album) if passing is None else int(passing.sum())) - left_out
        bounded = None if right or wrong else query.bounded  # which is of the vector before it was moved
        itself = int(own[0]) if len(own) == 1 and np.array_equal(vector, album.vectors[own[0]]) else None
        search, note = album.search_by(options.rerank)
        nearest = search.nearest(VectorQuery(vector, own, passing, where, itself), page.stop, bounded)
        through = None if nearest.through is None else nearest.through[page]
        found.hits = self._hits(nearest.rows[page], nearest.scores[page], count(page.start + 1), through)
        found.note = f"{nearest.note} {note}".strip()

    def _rank(self, options: schemas.SearchOptions, query: Asked, found: schemas.SearchAnswer, page: slice) -> None:
        """Put a page of the whole ranking into an answer, with what is asked for beside it."""
        served, labelled = self._served, self._ranking(options, query)
        ranking, right, least = labelled.ranking, labelled.right, found.min_score
        listed, found.note = ranking.at_least(least), ranking.note
        number, rows, places = served.in_order(labelled, least, served.stacks.version if options.stacked else None)
        found.total, found.folded = len(rows), number - len(rows)
        if options.group_by is not None:
            found.groups = self._groups(options.group_by, rows, ranking.scores[rows], page.stop)[page]
            return
        rows, places = rows[page], places[page]
        through = None if ranking.through is None else ranking.through[rows]
        found.hits = self._hits(
            rows, ranking.scores[rows], (places + 1).tolist(), through,
            right=None if right is None else right[rows].tolist(),
            copies=served.stacks.copies(rows, listed) if options.stacked else None,
        )  # fmt: skip
        if options.statistics:
            _count(found, ranking.scores[ranking.at_least()])
            found.right_in_list = None if right is None else int((right & listed).sum())
            found.curve = labelled.curve if page.start == 0 else None

    def _ranking(self, options: schemas.SearchOptions, query: Asked) -> LabelledRanking:
        """The ranking for a query, made now or kept from the page before."""
        album, marks, where = self._album, _marks(self._served, options), self._served.filter(options)
        rows = tuple(album.photos.rows_of(query.ids).tolist())
        assert query.vector is not None
        linked = album.linked if options.rerank else 0
        return self._served.ranking(query.vector.tobytes(), rows, *marks, *where, options.rerank, linked)

    def _hits(
        self, rows: np.ndarray, scores: np.ndarray, ranks: Iterable[int], through: np.ndarray | None, **columns: Any
    ) -> list[schemas.Hit]:
        """The photos in these rows; `through` is the row that each came in through, -1 for none."""
        if through is not None:
            ids = self._album.photos.ids
            columns["through"] = [None if row < 0 else int(ids[row]) for row in through.tolist()]
        return self._served.hits(rows, ranks, score=scores.tolist(), **columns)

    def _groups(self, group_by: str, rows: np.ndarray, scores: np.ndarray, number: int) -> list[schemas.Group]:
        """The best photo of each group and how many photos it has, best first; what has no group is left out."""
        values = self._album.photos.values_of(group_by)[rows]
        grouped = np.flatnonzero(values != "")
        names, first, counts = np.unique(values[grouped], return_index=True, return_counts=True)
        order = np.argsort(first)[:number]
        places = grouped[first[order]]
        shown = zip(order, self._hits(rows[places], scores[places], count(1), None), strict=True)
        return [schemas.Group(group=str(names[group]), photos=int(counts[group]), best=best) for group, best in shown]


class _Listed:
    """What faces and parts have in common: all that is found is listed, best first, without stacks and groups."""

    def __init__(self, served: ServedAlbum) -> None:
        self._served, self._album = served, served.album

    def _found(self, options: schemas.SearchOptions, query: Asked, page: slice) -> Found:
        raise NotImplementedError

    def answer(self, options: schemas.SearchOptions, query: Asked, found: schemas.SearchAnswer, page: slice) -> None:
        """Put a page of what is found into an answer."""
        listed = self._found(options, query, page)
        found.total, found.note, found.query.vector = len(listed.rows), listed.note, packed(listed.vector)
        scores = listed.scores[page].tolist()
        found.hits = self._served.hits(listed.rows[page], count(page.start + 1), score=scores, **listed.columns)
        if options.statistics:
            _count(found, listed.scores)

    def everything(self, options: schemas.SearchOptions, query: Asked) -> tuple[np.ndarray, np.ndarray]:
        """All that is found, best first: rows of photos and their scores."""
        return self._found(options, query, slice(0))[:2]

    def _asking(self, options: schemas.SearchOptions, **more: Any) -> Asking:
        right, wrong = _marks(self._served, options)
        where, _ = self._served.filter(options)
        least, recall = options.min_score, options.recall
        return Asking(
            min_score=least, recall=recall, rerank=options.rerank, right=right, wrong=wrong, where=where, **more
        )


class _Faces(_Listed):
    """Faces: all photos of the person whose face the query is, with the face's box in each."""

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

    def of_vector(self, given: np.ndarray, _: bool) -> np.ndarray:
        return given

    def _found(self, options: schemas.SearchOptions, query: Asked, page: slice) -> Found:
        meant = query.vector if query.vector is not None else query.picture or list(query.ids)
        asking = self._asking(options, box=query.box, face=options.face, left_out=query.ids[:1])
        found = self._space.find(self._album, meant, asking)
        assert found.vector is not None
        faces, rows, scores = found.faces, found.found.rows[found.places], found.found.scores[found.places]
        shown = self._space.hits(self._album, found._replace(places=found.places[page]))
        columns = {name: [getattr(hit, name) for hit in shown] for name in ("box", "through")}
        columns["face"] = faces.ids[rows[page]].tolist()
        note = f"{found.found.note} {found.note}".strip()
        return Found(self._album.photos.rows_of(faces.photos[rows]), scores, found.vector, note, columns)


class _Parts(_Listed):
    """Parts of photos: all photos that have one like the query, with the box of it in each."""

    def __init__(self, served: ServedAlbum) -> None:
        super().__init__(served)
        self._space = served.album.region_space()

    def model_key(self) -> str:
        return self._served.model_key

    def of_image(self, image: bytes, box: schemas.ShareBox | None) -> Asked:
        return self._asked(self._served.decoder.decode(image, box=box, side=_SIDE))

    def of_part(self, identity: int, box: schemas.ShareBox) -> Asked:
        return self._asked(self._served.decoded(identity, box=box, side=_SIDE))

    def of_ids(self, ids: tuple[int, ...]) -> Asked:
        return self._asked(ids)

    def of_vector(self, given: np.ndarray, is_ours: bool) -> np.ndarray:
        shape = self._space.shape
        vector = given.reshape(shape) if is_ours and len(given) == math.prod(shape) else given
        return self._space.query(self._album, vector)[0]

    def _asked(self, query: Image.Image | tuple[int, ...]) -> Asked:
        vector, ids = self._space.query(self._album, query)
        return Asked(vector, tuple(ids))

    def _found(self, options: schemas.SearchOptions, query: Asked, page: slice) -> Found:
        assert query.vector is not None
        found, note = self._space.found(self._album, query.vector, self._asking(options, left_out=query.ids))
        boxes = self._space.boxes(self._album, found.some(page))
        return Found(found.rows, found.scores, query.vector, note, {"box": boxes})


def _marks(served: ServedAlbum, options: schemas.SearchOptions) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The ids that are marked as right and as wrong, here and in the collection that is asked with."""
    right, wrong = tuple(options.right), tuple(options.wrong)
    if options.marks is None:
        return right, wrong
    marked = served.album.collections[served.collection(options.marks)]
    return right + marked.right, wrong + marked.wrong


def _count(found: schemas.SearchAnswer, scores: np.ndarray) -> None:
    found.ranked = len(scores)
    if len(scores):
        found.lowest, found.highest = float(scores.min()), float(scores.max())


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
    for rank, (score, *names) in enumerate(named, start + 1):
        # Text that steers nothing, and that a spreadsheet does not take for a formula.
        cells = [visible(name or "") for name in names]
        writer.writerow((rank, f"{score:.6f}", *(f"'{cell}" if cell.startswith(FORMULA) else cell for cell in cells)))
    return stream.getvalue()


def packed(vector: np.ndarray) -> str:
    """A vector (d,) as text."""
    return base64.b64encode(np.asarray(vector, "<f4").tobytes()).decode()


def _numbers(given: str | list[float]) -> np.ndarray:
    """The vector (d,) that was sent as text, as an answer has it, or as numbers."""
    if isinstance(given, list):
        with np.errstate(over="ignore"):  # what is too large is refused as not finite
            return np.array(given, np.float32)
    try:
        return np.frombuffer(base64.b64decode(given, validate=True), "<f4")
    except ValueError:
        raise ValueError("The vector is no base64 of float32: send what a search answered as its query.") from None
