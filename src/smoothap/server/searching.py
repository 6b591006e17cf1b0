"""What a search answers: the nearest photos at once or, where more is asked for, pages of a ranking of the album."""

import csv
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count
from typing import NamedTuple

import numpy as np
from starlette.exceptions import HTTPException

from smoothap.album.engines.codes import Bounded
from smoothap.album.queries import joined
from smoothap.album.search import VectorQuery
from smoothap.album.vectors import unit
from smoothap.plots.text import visible
from smoothap.server import schemas
from smoothap.server.rankings import LabelledRanking, moved_by_marks, ranked
from smoothap.server.served_album import ServedAlbum

_NEAREST = 1_000  # places: of those before, the nearest photos are looked for; further down the album is ranked
_DRAWN = 101  # photos, of which the page opens on the median
_LARGEST = 100_000  # photos; in a larger album, any of those drawn will do
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
_LINES = 500  # of a list that are made at once


class Asked(NamedTuple):
    """A query as the album compares it: its vector (d,), the rows that are the query itself, and what is known of it.

    `bounded` is what a search with it begins with, found when it was embedded.
    """

    vector: np.ndarray
    rows: tuple[int, ...] = ()
    bounded: Bounded | None = None


def asked(served: ServedAlbum, request: schemas.SearchRequest) -> Asked:
    """The query that a request names: photos of the album, a part of one, or a vector."""
    album = served.album
    ids = request.ids
    rows = tuple(album.photos.rows_of(ids).tolist())
    if request.box is not None:
        if len(ids) != 1 or request.vector is not None:
            raise HTTPException(422, "A box is a part of one photo: give its id and no vector.")
        vector, bounded = served.query_of_part(ids[0], request.box)
        return Asked(unit(vector), rows, bounded)
    if isinstance(request.vector, list):
        return Asked(_given_vector(served, request.vector), rows)
    if request.vector is not None:
        if request.model not in (None, served.model_key):
            raise HTTPException(409, "The album was made again by another model, or has learnt: give the photo again.")
        return Asked(unit(schemas.unpacked(request.vector, album.vectors.shape[1])), rows)
    if not rows:
        raise HTTPException(422, "A search needs a query: give the id of a photo, several, or a vector.")
    if len(rows) == 1:  # the vector as it is: its scores are those of an evaluation
        return Asked(np.array(album.vectors[rows[0]]), rows)
    return Asked(joined(list(album.vectors[list(rows)])), rows)


def _given_vector(served: ServedAlbum, numbers: list[float]) -> np.ndarray:
    """A vector (d,) that the album's model gave, as the album compares it."""
    album = served.album
    with np.errstate(over="ignore"):
        vector = np.array(numbers, np.float32)
    dimension = album.vectors.shape[1] if album.model is None else album.model.dimension
    if len(vector) != dimension:
        raise ValueError(
            f"The vector has {len(vector)} numbers and the album's model gives {dimension}: send the photo itself."
        )
    if not np.isfinite(vector).all() or not vector.any():
        raise ValueError("The vector is zero or not finite, so nothing is like it: embed the photo again.")
    return unit(album.projected(unit(vector)[None])[0])


def answer(served: ServedAlbum, options: schemas.SearchOptions, query: Asked) -> schemas.SearchAnswer:
    """A page of what is found for a query."""
    least, calibration = _least_score(served, options), served.album.calibration_of(options.rerank)
    known = calibration is not None and least is not None
    found = schemas.SearchAnswer(
        album=served.name,
        version=served.list_version(options.stacked),
        total=0,
        min_score=least,
        expected_recall=calibration.recall_at(least) if known else None,
        expected_precision=calibration.precision_at(least) if known else None,
        hits=[],
        query=schemas.QueryVector(vector=schemas.packed(query.vector), model=served.model_key),
    )
    if options.needs_ranking or least is not None or options.offset + options.limit > _NEAREST:
        _rank(served, options, query, least, found)
    else:
        _find_nearest(served, options, query, found)
    return found


def _find_nearest(
    served: ServedAlbum, options: schemas.SearchOptions, query: Asked, found: schemas.SearchAnswer
) -> None:
    """Put the nearest photos into an answer: no other photo is scored exactly."""
    album, (where, _) = served.album, served.filter(options)
    passing, (right, wrong) = album.passing(where), marks_of(served, options)
    vector = moved_by_marks(album, query.vector, right, wrong)
    found.total = len(album) if passing is None else int(passing.sum())
    found.total -= sum(passing is None or bool(passing[row]) for row in query.rows)
    bounded = None if right or wrong else query.bounded  # which is of the vector before it was moved
    itself = query.rows[0] if len(query.rows) == 1 and np.array_equal(vector, album.vectors[query.rows[0]]) else None
    search, note = album.search_by(options.rerank)
    nearest = search.nearest(
        VectorQuery(vector, np.array(query.rows, np.int64), passing, where, itself),
        options.offset + options.limit,
        bounded,
    )
    rows, scores = nearest.rows[options.offset :], nearest.scores[options.offset :]
    through = None if nearest.through is None else nearest.through[options.offset :]
    places = options.offset + np.arange(len(rows))
    found.hits, found.note = (
        list(_hits(served, rows, scores, places, through=through)),
        f"{nearest.note} {note}".strip(),
    )


def _rank(
    served: ServedAlbum,
    options: schemas.SearchOptions,
    query: Asked,
    least: float | None,
    found: schemas.SearchAnswer,
) -> None:
    """Put a page of the whole ranking into an answer, with what is asked for beside it."""
    labelled = ranking_for(served, options, query)
    listed, first, last = labelled.ranking.at_least(least), options.offset, options.offset + options.limit
    number = found.total = int(listed.sum())
    found.note = labelled.ranking.note
    if options.group_by is not None:
        groups = list(_groups(served, options.group_by, *labelled.ranking.best(min_score=least), last))
        found.groups = groups[first:]
        return
    if options.stacked:
        kept, shown = labelled.folded(served.stacks, number, least)
        found.total, places, rows = len(kept), kept[first:last], shown[first:last]
        scores, copies = labelled.ranking.scores[rows], served.stacks.copies(rows, listed)
    else:
        rows, scores = labelled.places(first, last, least)
        places, copies = first + np.arange(len(rows)), None
    found.folded = number - found.total
    through = None if labelled.ranking.through is None else labelled.ranking.through[rows]
    found.hits = list(_hits(served, rows, scores, places, labelled.right, copies, through))
    if options.statistics:
        scores = labelled.ranking.scores[labelled.ranking.at_least()]
        found.ranked = len(scores)
        if len(scores):
            found.lowest, found.highest = float(scores.min()), float(scores.max())
        found.right_in_list = None if labelled.right is None else int((labelled.right & listed).sum())
        found.curve = labelled.curve if options.offset == 0 else None


def ranking_for(served: ServedAlbum, options: schemas.SearchOptions, query: Asked) -> LabelledRanking:
    """The ranking for a query, made now or kept from the page before."""
    marks, where = marks_of(served, options), served.filter(options)
    linked = served.album.linked if options.rerank else 0
    return served.ranking(query.vector.tobytes(), query.rows, *marks, *where, options.rerank, linked)


def marks_of(served: ServedAlbum, options: schemas.SearchOptions) -> tuple[tuple[int, ...], tuple[int, ...]]:
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
    places: np.ndarray,
    right: np.ndarray | None = None,
    copies: list[list[int]] | None = None,
    through: np.ndarray | None = None,
) -> Iterator[schemas.Hit]:
    """The photos in these rows, which are in these places of the list, counted from 0."""
    ids = served.album.photos.ids
    for place, photo in enumerate(served.album.photos.at(rows)):
        yield served.hit(
            photo,
            rank=int(places[place]) + 1,
            score=float(scores[place]),
            right=None if right is None else bool(right[rows[place]]),
            copies=() if copies is None else copies[place],
            through=None if through is None or through[place] < 0 else int(ids[through[place]]),
        )


def _groups(
    served: ServedAlbum, group_by: str, rows: np.ndarray, scores: np.ndarray, number: int
) -> Iterator[schemas.Group]:
    """The best photo of each group and how many photos it has, best first; what has no group is left out."""
    values = served.album.photos.values_of(group_by)[rows]
    grouped = np.flatnonzero(values != "")
    names, first, counts = np.unique(values[grouped], return_index=True, return_counts=True)
    order = np.argsort(first)[:number]
    places = grouped[first[order]]
    for group, best in zip(order, _hits(served, rows[places], scores[places], np.arange(len(places))), strict=True):
        yield schemas.Group(group=str(names[group]), photos=int(counts[group]), best=best)


def found_rows(served: ServedAlbum, options: schemas.SearchOptions, query: Asked) -> tuple[np.ndarray, np.ndarray]:
    """Everything that is found, best first: rows and their scores."""
    return ranking_for(served, options, query).ranking.best(min_score=_least_score(served, options))


def as_csv(served: ServedAlbum, rows: np.ndarray, scores: np.ndarray) -> Iterator[str]:
    """A list as CSV, some lines at a time."""
    ranks = count(1)
    for start in range(0, max(len(rows), 1), _LINES):
        part = slice(start, start + _LINES)
        stream = io.StringIO()
        writer = csv.writer(stream, lineterminator="\r\n")
        if start == 0:
            writer.writerow(("rank", "score", "photo", "label"))
        for score, path, label in zip(scores[part].tolist(), *served.album.photos.named(rows[part]), strict=True):
            writer.writerow((next(ranks), f"{score:.6f}", _cell(path), _cell(label or "")))
        yield stream.getvalue()


def _cell(text: str) -> str:
    """Text that steers nothing, and that a spreadsheet does not take for a formula."""
    text = visible(text)
    return f"'{text}" if text.startswith(_FORMULA) else text


def typical_photo(albums: Sequence[ServedAlbum]) -> list[int] | None:
    """The photo that a comparison opens on, a typical one and not the best: its id in each of two labelled albums.

    Of about a hundred photos drawn at random it is the one whose AP rises by the median from the first album to the
    second.
    """
    if len(albums) != 2 or any(served.labels is None or not len(served.album) for served in albums):
        return None
    first, second = albums
    paths = np.random.default_rng(0).permutation(first.album.photos.paths())[: 4 * _DRAWN].tolist()
    pairs = [(first.ids_by_path[path], second.ids_by_path[path]) for path in paths if path in second.ids_by_path]
    sizes = Counter(label for label in first.album.photos.labels() if label is not None)
    pairs = [pair for pair in pairs if sizes[first.album.photo(pair[0]).label] > 1][:_DRAWN]
    if not pairs:
        return None
    if len(first.album) > _LARGEST:
        return list(pairs[0])
    gains = [_average_precision(second, other) - _average_precision(first, one) for one, other in pairs]
    return list(pairs[int(np.argsort(gains, kind="stable")[len(gains) // 2])])


def _average_precision(served: ServedAlbum, identity: int) -> float:
    row = served.album.photos.row_of(identity)
    curve = ranked(served.album, served.labels, served.album.vectors[row].tobytes(), (row,)).curve
    return np.nan if curve is None else curve.average_precision
