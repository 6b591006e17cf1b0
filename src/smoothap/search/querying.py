"""What may be asked: a photo in any form, or several as one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from smoothap.search.refining import joined, unit

if TYPE_CHECKING:
    from smoothap.search.album import Album

Query = Any  # a path, a PIL image, a vector (d,), the id of a photo, or a sequence of those as one query
Box = tuple[int, int, int, int]  # x, y, width, height


def query_vector(album: Album, query: Query, box: Box | None = None) -> tuple[np.ndarray, list[int]]:
    """A query of any form as a unit vector (d,), and the ids of the album's photos that it names."""
    if isinstance(query, bool) or query is None:
        raise TypeError(f"A query is a path, an image, a vector or the id of a photo, not {query!r}.")
    if isinstance(query, (int, np.integer)):
        row = album.photos.row_of(int(query))
        if box is None:
            return np.array(album.vectors[row]), [int(query)]  # as it is: its scores are those of an evaluation
        return unit(album.embed(album.photo_path(int(query)), box)), [int(query)]
    if isinstance(query, (str, Path, Image.Image)):
        return unit(album.embed(query, box)), []
    if isinstance(query, Sequence) and not all(isinstance(each, (float, np.floating)) for each in query):
        parts = [query_vector(album, each, box) for each in query]
        return joined([vector for vector, _ in parts]), [each for _, ids in parts for each in ids]
    vector = np.asarray(query, np.float32)
    dimension = album.vectors.shape[1]
    if vector.shape != (dimension,):
        raise ValueError(
            f"A query of shape {vector.shape} was given to an album of vectors ({dimension},): it was embedded by "
            "another model."
        )
    return unit(vector), []
