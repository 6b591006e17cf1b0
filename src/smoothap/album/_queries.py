"""A query of any form as a vector of the album."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from smoothap.album.refining import joined, unit
from smoothap.data.reading import PixelBox, cut, read_image

if TYPE_CHECKING:
    from smoothap.album.album import Album

Query = Any  # a path, a PIL image, a vector (d,), the id of a photo, or a sequence of those as one query


def check_list(k: int, minimum: float | None) -> None:
    """Refuse a number of photos or a least score that no list can have."""
    if k < 1:
        raise ValueError(f"k is how many photos to return, at least 1, not {k}.")
    if minimum is not None and not -1 <= minimum <= 1:
        raise ValueError(f"minimum is a score between -1 and 1, not {minimum}.")


def query_vector(album: Album, query: Query, box: PixelBox | None) -> tuple[np.ndarray, list[int]]:
    """A query of any form as a unit vector (d,), and the ids of the album's photos that it names."""
    if isinstance(query, bool) or query is None:
        raise TypeError(f"A query is a path, an image, a vector or the id of a photo, not {query!r}.")
    if isinstance(query, (int, np.integer)):
        identity = int(query)
        if box is None:  # the vector as it is: its scores are those of an evaluation
            return np.array(album.vectors[album.photos.row_of(identity)]), [identity]
        return unit(album.embed(album.photo_path(identity), box)), [identity]
    if isinstance(query, (str, Path, Image.Image)):
        return unit(album.embed(query, box)), []
    if isinstance(query, Sequence) and not all(isinstance(number, (float, np.floating)) for number in query):
        parts = [query_vector(album, part, box) for part in query]
        return joined([vector for vector, _ in parts]), [identity for _, ids in parts for identity in ids]
    vector, dimension = np.asanyarray(query, np.float32), album.vectors.shape[1]
    if vector.shape != (dimension,):
        raise ValueError(
            f"A query of shape {vector.shape} was given to an album of vectors ({dimension},): it was embedded by "
            f"{'the model alone, before what the album learnt: take album.embed' if album.learnt else 'another model'}."
        )
    return unit(vector), []


def embedded(album: Album, image: Image.Image | Path | str, box: PixelBox | None) -> np.ndarray:
    """The vector (d,) of an image, or of the part in `box`, as the album compares it."""
    model = album.embedder()
    if not isinstance(image, Image.Image):
        image = read_image(image, box=box)
    elif box is not None:
        image = cut(image, box)
    return album.projected(model.embed([image], progress=False).numpy())[0]
