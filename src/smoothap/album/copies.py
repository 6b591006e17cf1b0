"""Copies of one photo in an album: which photos are the same to the byte or look the same, and the best of each."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from datetime import datetime
from itertools import combinations, pairwise
from typing import TYPE_CHECKING

import numpy as np

from smoothap._core.files import cache_folder, write_cache
from smoothap.album.collections import pair_of
from smoothap.album.duplicates import linked, pairs_above, rows_by_content
from smoothap.album.photos import Photo
from smoothap.album.variants import CROP, GREY, Variant, checksum

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from smoothap.album.album import Album

_COPY = re.compile(r"(?i)(?<![a-z])(back-?ups?|cop(y|ies)|kopien?|duplicates?|trash)(?![a-z])|\(\d+\)\.\w+$")
_CAMERA_NAME = re.compile(r"(?i)(img|dsc[fn]?|pxl|p|mvimg|dji|gopr)[_-]?\d{4}")
SAME_FILE, SAME_PICTURE = "same file", "same picture"
ALIKE = 0.98  # the score from which two photos count as copies unless the user says otherwise


@dataclass(frozen=True)
class Copies:
    """Photos that are copies of each other, the best first: `photos[0]` is the one to keep.

    The best has the most pixels, then the most bytes, then the path of an original, then the earliest date. `kind` says
    how much they differ: "same file" to the byte, "same picture", "crop" or "black and white".
    """

    photos: tuple[Photo, ...]
    kind: str

    @property
    def exact(self) -> bool:
        """Whether all are the same to the byte."""
        return self.kind == SAME_FILE


def copies_in(album: Album, score: float | None = ALIKE, variants: Iterable[Variant] = ()) -> list[Copies]:
    """The groups of copies in an album, but for what the user said are none.

    Photos are copies that are the same to the byte, and those whose score is at least `score`; None leaves these out.
    `variants` are photos that are copies too (see `variants_in`). What was compared is kept in the user's cache, so
    that the next call for the same album is quick.
    """
    if score is not None and not -1 <= score <= 1:
        raise ValueError(f"A score is a cosine, from -1 to 1, such as 0.98, not {score}.")
    contents = rows_by_content(album.photos)
    told = frozenset() if album.folder is None else album.collections.distinct()
    pairs = [pair for rows in contents for pair in (combinations(rows, 2) if told else pairwise(rows))]
    if score is not None:
        pairs += _alike(album, [rows[0] for rows in contents], score)
    kinds = _rows_of(album, variants)
    pairs += kinds
    if told:
        some = sorted({row for pair in pairs for row in pair})
        photos = dict(zip(some, album.photos.at(np.array(some, np.int64)), strict=True))
        pairs = [(one, other) for one, other in pairs if pair_of(photos[one], photos[other]) not in told]
    groups = linked(pairs)
    photos = iter(album.photos.at(np.array([row for rows in groups for row in rows], np.int64)))
    kind_of = {row: kind for pair in pairs if (kind := kinds.get(pair)) for row in pair}
    return [_group([next(photos) for _ in rows], {kind_of.get(row) for row in rows}) for rows in groups]


def _rows_of(album: Album, variants: Iterable[Variant]) -> dict[tuple[int, int], str]:
    """The rows of variants that are in the album, and what they are to each other."""
    ids = album.photos.ids
    some = [one for one in variants if np.isin((one.first, one.second), ids).all()]
    return {tuple(np.searchsorted(ids, (one.first, one.second)).tolist()): one.kind for one in some}


def _alike(album: Album, rows: list[int], score: float) -> list[tuple[int, int]]:
    """Pairs of these rows that score at least so much; found once for the same vectors, then read from the cache."""
    photos, vectors = album.model_vectors()  # what is learnt draws together what belongs, copies or not
    if not np.array_equal(photos.ids, album.photos.ids):
        vectors = album.vectors
    compared = vectors if len(rows) == len(vectors) else vectors[np.array(rows, np.int64)]
    file = cache_folder() / "copies" / f"{checksum(compared)}-{float(score)!r}.npy"
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
    others = [photo for photo in others if photo not in photos]
    pairs = [*combinations(photos, 2), *((photo, other) for photo in photos for other in others)]
    album.collections.tell_apart(pairs)


def copies_again(album: Album, ids: Iterable[int]) -> None:
    """Forget what was said by `not_copies` about these photos."""
    album.collections.tell_alike([album.photo(int(identity)) for identity in ids])


def best_first(photos: Iterable[Photo]) -> list[Photo]:
    """Copies of one photo, the one to keep first: the most pixels, then the most bytes, then the original by its path.

    A path that says backup or copy is no original, and the name that a camera gave is: IMG_1234.jpg, DSC01234.JPG.
    """
    return sorted(photos, key=_worth)


def _group(photos: Iterable[Photo], kinds: set[str | None]) -> Copies:
    group = best_first(photos)
    exact = bool(group[0].sha256) and len({photo.sha256 for photo in group}) == 1
    variant = next((kind for kind in (CROP, GREY) if kind in kinds), SAME_PICTURE)
    return Copies(tuple(group), SAME_FILE if exact else variant)


def _worth(photo: Photo) -> tuple[int, int, bool, bool, datetime, float, int, str]:
    """Sorts the best copy first: the original, by its size, and of equal ones by where it is and what it is called."""
    date, name = photo.taken or datetime.max, photo.path.rpartition("/")[2]
    is_copy, is_named = _COPY.search(photo.path) is not None, _CAMERA_NAME.match(name) is not None
    size = -photo.width * photo.height, -photo.bytes
    return *size, is_copy, not is_named, date, photo.modified, len(photo.path), photo.path
