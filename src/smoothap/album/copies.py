"""Copies of one photo in an album: which photos are the same to the byte or look the same, and the best of each."""

from __future__ import annotations

import io
from dataclasses import dataclass
from datetime import datetime
from itertools import combinations, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from smoothap._core.files import cache_folder, write_cache
from smoothap.album import _not_copies
from smoothap.album._duplicates import linked, pairs_above, rows_by_content
from smoothap.album.description import COLLECTIONS
from smoothap.album.photos import Photo, Photos
from smoothap.album.vectors import MappedVectors, Vectors, checksum_of_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from smoothap.album.album import Album

ALIKE = 0.98  # the score from which two photos count as copies unless the user says otherwise


@dataclass(frozen=True)
class Copies:
    """Photos that are copies of each other, the best first: `photos[0]` is the one to keep.

    The best has the most pixels, then the most bytes, then the earliest date; `exact` says that all are the same to the
    byte.
    """

    photos: tuple[Photo, ...]
    exact: bool


def copies_in(album: Album, score: float | None = ALIKE) -> list[Copies]:
    """The groups of copies in an album, but for what the user said are none.

    Photos are copies that are the same to the byte, and those whose score is at least `score`; None leaves these out.
    What was compared is kept in the user's cache, so that the next call for the same album is quick.
    """
    if score is not None and not -1 <= score <= 1:
        raise ValueError(f"A score is a cosine, from -1 to 1, such as 0.98, not {score}.")
    photos, contents = album.photos, rows_by_content(album.photos)
    told = frozenset() if album.folder is None else _not_copies.read(album.folder / COLLECTIONS)
    pairs = [pair for rows in contents for pair in (combinations(rows, 2) if told else pairwise(rows))]
    if score is not None:
        known = album.alike()
        pairs += look_alike(album, score) if known is None else known
    if told:
        pairs = [pair for pair in pairs if _not_copies.pair_of(photos[pair[0]], photos[pair[1]]) not in told]
    return [_group(photos, rows) for rows in linked(pairs)]


def look_alike(album: Album, score: float) -> list[tuple[int, int]]:
    """Pairs of rows that score at least so much; of those that are the same to the byte, the first is compared."""
    return _alike(_as_seen(album), [rows[0] for rows in rows_by_content(album.photos)], score)


def _as_seen(album: Album) -> Vectors:
    """The vectors (n, d) by which photos look alike: the model's, since what is learnt draws together what belongs."""
    if album.learnt is None:
        return album.vectors
    photos, vectors = album.model_vectors()
    return vectors if np.array_equal(photos.ids, album.photos.ids) else album.vectors


def _alike(vectors: Vectors, rows: list[int], score: float) -> list[tuple[int, int]]:
    """Pairs of these rows that score at least so much; found once for the same vectors, then read from the cache."""
    compared = vectors if len(rows) == len(vectors) else MappedVectors([vectors], vectors.shape[1], np.array(rows))
    file = cache_folder() / "copies" / f"{checksum_of_rows(compared)}-{float(score)!r}.npy"
    try:
        places = np.load(file, allow_pickle=False)
        if places.ndim != 2 or places.shape[1] != 2 or places.dtype != np.int64:
            raise ValueError
        if len(places) and not 0 <= places.min() <= places.max() < len(rows):
            raise ValueError
    except (OSError, ValueError, EOFError):  # not there, or not what was written
        places = np.array([pair[:2] for pair in pairs_above(compared, score)], np.int64).reshape(-1, 2)
        stream = io.BytesIO()
        np.save(stream, places, allow_pickle=False)
        write_cache(file, stream.getvalue())
    return [(rows[first], rows[second]) for first, second in places.tolist()]


def not_copies(album: Album, ids: Iterable[int], among: Sequence[int] = ()) -> None:
    """Remember in the album that none of these photos is a copy of another, or of any of those `among`."""
    photos, others = ([album.photo(int(identity)) for identity in some] for some in (ids, among))
    _not_copies.tell(_folder(album), photos, others)


def copies_again(album: Album, ids: Iterable[int]) -> None:
    """Forget what was said by `not_copies` about these photos."""
    _not_copies.forget(_folder(album), [album.photo(int(identity)) for identity in ids])


def _folder(album: Album) -> Path:
    if album.folder is None:
        raise ValueError("This album does not be in a folder here, and does not remember which photos are no copies.")
    return album.folder / COLLECTIONS


def best_first(photos: Iterable[Photo]) -> list[Photo]:
    """Copies of one photo, the one to keep first: the most pixels, then the most bytes, then the earliest date."""
    return sorted(photos, key=_worth)


def _group(photos: Photos, rows: list[int]) -> Copies:
    group = best_first(photos[row] for row in rows)
    exact = bool(group[0].sha256) and len({photo.sha256 for photo in group}) == 1
    return Copies(tuple(group), exact)


def _worth(photo: Photo) -> tuple[int, int, datetime, float, int, str]:
    """Sorts the best copy first."""
    date = photo.taken or datetime.max
    return -photo.width * photo.height, -photo.bytes, date, photo.modified, len(photo.path), photo.path
