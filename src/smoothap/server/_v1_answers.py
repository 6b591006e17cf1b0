"""What an album answers under /api/v1: hits, groups and photos, for programs."""

from collections.abc import Iterable

import numpy as np
from starlette.exceptions import HTTPException

from smoothap.album import Photo
from smoothap.album.engines.codes import Bounded
from smoothap.album.search import VectorQuery
from smoothap.album.vectors import unit
from smoothap.server import _v1_schemas as shapes
from smoothap.server._served_album import ServedAlbum


def described(served: ServedAlbum) -> shapes.StoredAlbum:
    """An album as programs see it."""
    album = served.album
    return shapes.StoredAlbum(
        name=served.name,
        version=served.version,
        photos=len(album),
        dimension=album.vectors.shape[1],
        takes_photos=album.model is not None,
        calibrated=album.calibration is not None,
        columns=album.photos.column_names(),
    )


def stored(photo: Photo) -> shapes.StoredPhoto:
    """A photo as programs see it."""
    return shapes.StoredPhoto(
        id=photo.id,
        path=plain(photo.path),
        label=photo.label,
        columns=photo.columns,
        width=photo.width,
        height=photo.height,
        bytes=photo.bytes,
        taken=None if photo.taken is None else photo.taken.isoformat(sep=" "),
        camera=photo.camera,
    )


def given_vector(served: ServedAlbum, numbers: list[float]) -> np.ndarray:
    """A vector (d,) as the album's model gives it, as the album compares it."""
    album = served.album
    with np.errstate(over="ignore"):
        vector = np.array(numbers, np.float32)
    dimension = album.vectors.shape[1] if album.model is None else album.model.dimension
    if len(vector) != dimension:
        raise HTTPException(
            422, f"The vector has {len(vector)} numbers and the album's model gives {dimension}: send the photo itself."
        )
    if not np.isfinite(vector).all() or not vector.any():
        raise HTTPException(422, "The vector is zero or not finite, so nothing is like it: embed the photo again.")
    return album.projected(unit(vector)[None])[0]


def answer(
    served: ServedAlbum, question: shapes.Question, vector: np.ndarray | None, bounded: Bounded | None = None
) -> shapes.Found:
    """What is found for a vector (d,), or for the photo that the question names; `bounded` as the album's query has."""
    album, left_out = served.album, []
    if question.id is not None:
        vector, left_out = album.vectors[album.photos.row_of(question.id)], [question.id]
    elif vector is None:
        raise HTTPException(422, "A search needs a photo: send an image as the body, or give an id or a vector.")
    # One of the album's is taken as it is: its scores are those of an evaluation.
    vector, where = np.array(vector) if left_out else unit(np.asarray(vector, np.float32)), question.filter()
    minimum, calibration = _minimum(served, question), album.calibration
    known = calibration is not None and minimum is not None
    found = shapes.Found(
        album=served.name,
        version=served.version,
        total=0,
        minimum=minimum,
        expected_recall=calibration.recall_at(minimum) if known else None,
        expected_precision=calibration.precision_at(minimum) if known else None,
        hits=[],
        groups=None,
    )
    if minimum is None and question.group_by is None:
        passing = album.passing(where)
        found.total = len(album) if passing is None else int(passing.sum())
        found.total -= sum(passing is None or bool(passing[album.photos.row_of(each)]) for each in left_out)
        query = VectorQuery(vector, album.photos.rows_of(left_out), passing, where)
        nearest = album.searching.nearest(query, question.k, bounded)
        found.hits = list(_photos(served, nearest.rows, nearest.scores))
        return found
    ranking = album.ranking(vector, left_out, where)
    found.total = int(ranking.at_least(minimum).sum())
    if question.group_by is None:
        found.hits = list(_photos(served, *ranking.best(question.k, minimum)))
    else:
        found.groups = _groups(served, question.group_by, question.k, *ranking.best(min_score=minimum))
    return found


def _minimum(served: ServedAlbum, question: shapes.Question) -> float | None:
    if question.recall is None:
        return question.minimum
    if (calibration := served.album.calibration) is None:
        raise HTTPException(409, "This album is not calibrated, so recall cannot be asked for: give a minimum.")
    learnt = calibration.score_for_recall(question.recall)
    return learnt if question.minimum is None else max(learnt, question.minimum)


def _groups(
    served: ServedAlbum, group_by: str, k: int, rows: np.ndarray, scores: np.ndarray
) -> list[shapes.FoundGroup]:
    """The best photo of each group and how many photos it has, best first; what has no group is left out."""
    values = served.album.photos.values_of(group_by)[rows]
    grouped = np.flatnonzero(values != "")
    names, first, counts = np.unique(values[grouped], return_index=True, return_counts=True)
    order = np.argsort(first)[:k]
    places = grouped[first[order]]
    best = _photos(served, rows[places], scores[places])
    return [
        shapes.FoundGroup(group=str(names[group]), photos=int(counts[group]), best=photo)
        for group, photo in zip(order, best, strict=True)
    ]


def _photos(served: ServedAlbum, rows: np.ndarray, scores: np.ndarray) -> Iterable[shapes.FoundPhoto]:
    photos, (paths, labels) = served.album.photos, served.album.photos.named(rows)
    columns = photos.columns_of(rows)
    for place, row in enumerate(rows):
        yield shapes.FoundPhoto(
            id=int(photos.ids[row]),
            rank=place + 1,
            score=float(scores[place]),
            path=plain(paths[place]),
            label=labels[place],
            columns=columns[place],
        )


def plain(path: str) -> str:
    """A path as text: bytes of a file name that are not UTF-8 are spelled out."""
    return path.encode(errors="backslashreplace").decode()
