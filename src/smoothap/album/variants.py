"""Versions of one photo that a network does not take for copies: its crops, and itself in black and white.

They are told by the pixels of their thumbnails: a crop has to lie in the other photo, pixel by pixel, and a photo in
black and white has to have the light of the other in every place.
"""

from __future__ import annotations

import hashlib
import io
import json
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from PIL import Image, ImageFilter

from smoothap._core.files import cache_folder, write_cache
from smoothap.album.duplicates import pairs_above

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from smoothap.album.album import Album
    from smoothap.album.vectors import Vectors

CROP, GREY = "crop", "black and white"
MOST = 20_000  # photos of an album that is looked through: each thumbnail is read
_SIDE = 64  # pixels of the square in which the light of two photos is compared
_COLOUR = 4.0  # levels of 255 by which the channels of a photo in colour differ, in the mean
_SAME_LIGHT, _SAME_PLACE = 0.995, 0.985  # correlations
_ALIKE = 0.8  # the score that a crop of 85% has at least with its photo
_LEAST_SIDE, _MOST_AREA = 0.6, 0.98  # of a photo that a crop has
_AT_ONCE = 1024  # photos that are compared


class Variant(NamedTuple):
    """Two photos by their ids, and what they are to each other."""

    first: int
    second: int
    kind: str


def variants_in(album: Album, known: Collection[int] = ()) -> list[Variant]:
    """All pairs of a photo and its crop, or its version in black and white, that are certain; in an album of `MOST`.

    Pairs of photos that are `known` by their ids are left out. What is found in a whole album is kept in the user's
    cache.
    """
    photos, vectors = album.model_vectors()
    if len(album) > MOST or not np.array_equal(photos.ids, album.photos.ids):
        return []
    file = cache_folder() / "copies" / f"{checksum(vectors)}-variants.json"
    try:
        rows = _found(album, vectors, known) if known else _read(file, len(photos))
    except (OSError, ValueError, TypeError):  # not there, or not what was written
        rows = _found(album, vectors, known)
        write_cache(file, json.dumps(rows).encode())
    ids = photos.ids.tolist()
    return [Variant(ids[one], ids[other], kind) for one, other, kind in rows]


def _read(file: Path, number: int) -> list[tuple[int, int, str]]:
    rows = [(int(one), int(other), str(kind)) for one, other, kind in json.loads(file.read_bytes())]
    if any(kind not in (CROP, GREY) or not 0 <= min(row) <= max(row) < number for *row, kind in rows):
        raise ValueError(f"{file} is not what was written.")
    return rows


def _found(album: Album, vectors: Vectors, known: Collection[int]) -> list[tuple[int, int, str]]:
    """The same as rows of the album."""
    records = album.photos.records(np.arange(len(album)))
    sizes = np.array([(record["width"], record["height"]) for record in records], np.float64).reshape(-1, 2)
    is_new = np.array([record["id"] not in known for record in records], bool)

    @lru_cache(512)
    def picture(row: int) -> Image.Image | None:
        content = album.store.thumbnail(records[row])
        try:
            return None if content is None else Image.open(io.BytesIO(content)).convert("RGB")
        except (OSError, ValueError):
            return None

    light = np.zeros((len(records), _SIDE * _SIDE), np.float32)
    grey, colour = np.zeros((2, len(records)), bool)
    for row in range(len(records)):
        if (shown := picture(row)) is not None:
            light[row] = _light(shown)
            grey[row] = _is_grey(shown)
            colour[row] = not grey[row]
    found = [(*pair, GREY) for pair in _same_light(light, grey, colour, sizes) if is_new[list(pair)].any()]
    for first, second, _ in pairs_above(vectors, _ALIKE):
        larger, smaller = (first, second) if sizes[first].prod() >= sizes[second].prod() else (second, first)
        if not (is_new[first] or is_new[second]) or not _may_be_crop(sizes[larger], sizes[smaller]):
            continue
        whole, part = picture(larger), picture(smaller)
        if whole is not None and part is not None and grey[larger] == grey[smaller]:
            width, height = np.round(sizes[smaller] * whole.size / sizes[larger]).astype(int).tolist()
            if _best_place(whole, part.resize((width, height), Image.Resampling.BILINEAR)) >= _SAME_PLACE:
                found.append((larger, smaller, CROP))
    return found


def checksum(vectors: Vectors) -> str:
    """The SHA-256 of all numbers in order; some rows are read at a time."""
    digest, step = hashlib.sha256(), max(1, (1 << 22) // vectors.shape[1])
    for start in range(0, len(vectors), step):
        digest.update(np.ascontiguousarray(vectors[start : start + step]).data)
    return digest.hexdigest()


def _may_be_crop(larger: np.ndarray, smaller: np.ndarray) -> bool:
    """Whether a size (2,) is one that a photo of the other may have been cut to, pixel by pixel."""
    sides = smaller / np.maximum(larger, 1)
    return bool(sides.max() <= 1 and sides.min() >= _LEAST_SIDE and sides.prod() < _MOST_AREA)


def _is_grey(picture: Image.Image) -> bool:
    red, green, blue = (np.asarray(channel, np.float32) for channel in picture.split())
    return float(np.abs(red - green).mean() + np.abs(green - blue).mean()) < _COLOUR


def _light(picture: Image.Image) -> np.ndarray:
    """The light of a picture in a square, (n,), of mean 0 and length 1."""
    square = picture.convert("L").resize((_SIDE, _SIDE), Image.Resampling.BOX)
    values = np.asarray(square, np.float32).ravel()
    values = values - values.mean()
    return values / max(float(np.linalg.norm(values)), 1e-6)


def _same_light(light: np.ndarray, grey: np.ndarray, colour: np.ndarray, sizes: np.ndarray) -> list[tuple[int, int]]:
    """Pairs of a row in colour and a grey one of the same shape that have the same light (n, d)."""
    greys, coloured, pairs = np.flatnonzero(grey), np.flatnonzero(colour), list[tuple[int, int]]()
    shapes = sizes[:, 0] / np.maximum(sizes[:, 1], 1)
    for start in range(0, len(coloured), _AT_ONCE):
        rows = coloured[start : start + _AT_ONCE]
        places, columns = np.nonzero(light[rows] @ light[greys].T >= _SAME_LIGHT)
        near = np.isclose(shapes[rows[places]], shapes[greys[columns]], rtol=0.01)
        pairs += zip(rows[places][near].tolist(), greys[columns][near].tolist(), strict=True)
    return pairs


def _best_place(whole: Image.Image, part: Image.Image) -> float:
    """The correlation of a picture with the part of another that it is most like."""
    blur = ImageFilter.GaussianBlur(1)  # thumbnails of the two do not begin at the same pixel
    inside, cut = (np.asarray(each.convert("L").filter(blur), np.float64) for each in (whole, part))
    cut = cut - cut.mean()
    (height, width), shape = cut.shape, inside.shape
    product = np.fft.irfft2(np.fft.rfft2(inside) * np.conj(np.fft.rfft2(cut, shape)), shape)
    product = product[: shape[0] - height + 1, : shape[1] - width + 1]
    sums, squares = (_windows(each, height, width) for each in (inside, inside**2))
    spread = np.sqrt(np.maximum(squares - sums**2 / (height * width), 1e-9))
    return float((product / (spread * max(float(np.linalg.norm(cut)), 1e-9))).max())


def _windows(values: np.ndarray, height: int, width: int) -> np.ndarray:
    """The sum of each window of that size in a matrix."""
    sums = np.zeros((values.shape[0] + 1, values.shape[1] + 1))
    sums[1:, 1:] = values.cumsum(0).cumsum(1)
    return sums[height:, width:] - sums[:-height, width:] - sums[height:, :-width] + sums[:-height, :-width]
