"""The vectors of queries: of any form, brought to length 1, joined, and moved by first answers or by marks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from PIL import Image

from smoothap.album.vectors import unit, unit_vectors
from smoothap.data.reading import PixelBox, cut, read_image, upright

if TYPE_CHECKING:
    from smoothap.album.album import Album
    from smoothap.album.filters import Filter

Query = Any  # a path, a PIL image, a vector (d,), the id of a photo, or a sequence of those as one query
Value = TypeVar("Value")

ALPHA = 3.0  # weight of an answer in query expansion: its score to this power; 0 is the plain average
RIGHT, WRONG = 1.0, 0.5  # Rocchio's weights of what is marked, beside the query's own weight of 1


@dataclass(frozen=True)
class Asking:
    """How a query is asked, in whatever space; see `Album.search`. Without `k`, all photos are ranked."""

    k: int | None = None
    min_score: float | None = None
    recall: float | None = None
    rerank: bool = True
    expand: int = 0
    alpha: float = ALPHA
    right: tuple[int, ...] = ()
    wrong: tuple[int, ...] = ()
    where: Filter | None = None
    box: PixelBox | None = None
    face: int | None = None
    left_out: tuple[int, ...] = ()  # photos, beside those that the query names

    def __post_init__(self) -> None:
        if self.k is not None and self.k < 1:
            raise ValueError(f"k is how many photos to return, at least 1, not {self.k}.")
        if self.min_score is not None and not -1 <= self.min_score <= 1:
            raise ValueError(f"min_score is a score between -1 and 1, not {self.min_score}.")
        if self.expand < 0:
            raise ValueError(f"expand is how many first answers to add to the query, 0 or more, not {self.expand}.")
        if not 0 <= self.alpha < np.inf:
            raise ValueError(f"alpha is the power of a score, 0 or more, not {self.alpha}.")


def joined(queries: Sequence[np.ndarray]) -> np.ndarray:
    """Several photos of one thing as one query: the direction of their mean, (d,)."""
    if not len(queries):
        raise ValueError("A query needs at least one photo.")
    return unit(np.mean(unit_vectors(np.stack(queries)), axis=0))


def expanded(query: np.ndarray, answers: np.ndarray, scores: np.ndarray, alpha: float = ALPHA) -> np.ndarray:
    """The query (d,) plus its first answers (n, d), each weighted by its score (n,) to the power alpha."""
    weights = np.maximum(scores, 0) ** alpha
    return unit(query + (weights[:, None] * answers).sum(axis=0))


def corrected(query: np.ndarray, right: np.ndarray, wrong: np.ndarray) -> np.ndarray:
    """Rocchio: the query (d,) moved towards the mean of right (m, d) and away from that of wrong (n, d), if any."""
    moved = query.astype(np.float32)
    if not len(right) and not len(wrong):
        return moved
    if len(right):
        moved = moved + RIGHT * right.mean(axis=0)
    if len(wrong):
        moved = moved - WRONG * wrong.mean(axis=0)
    return unit(moved)


def read_query(
    query: Query,
    photo: Callable[[int], Value],
    image: Callable[[Image.Image | Path | str], Value],
    vector: Callable[[np.ndarray], Value],
    join: Callable[[list[Value]], Value],
) -> tuple[Value, list[int]]:
    """What a query of any form becomes in a space, and the ids of the album's photos that it names."""
    if isinstance(query, bool) or query is None:
        raise TypeError(f"A query is a path, an image, a vector or the id of a photo, not {query!r}.")
    if isinstance(query, (int, np.integer)):
        return photo(int(query)), [int(query)]
    if isinstance(query, (str, Path, Image.Image)):
        return image(query), []
    if isinstance(query, Sequence) and not all(isinstance(number, (float, np.floating)) for number in query):
        parts = [read_query(part, photo, image, vector, join) for part in query]
        values = [value for value, _ in parts]
        return values[0] if len(values) == 1 else join(values), [identity for _, ids in parts for identity in ids]
    return vector(np.asanyarray(query, np.float32)), []


def query_vector(album: Album, query: Query, box: PixelBox | None) -> tuple[np.ndarray, list[int]]:
    """A query of any form as a unit vector (d,), and the ids of the album's photos that it names."""

    def photo(identity: int) -> np.ndarray:
        if box is None:  # the vector as it is: its scores are those of an evaluation
            return np.array(album.vectors[album.photos.row_of(identity)])
        return unit(album.embed(album.photo_path(identity), box))

    def given(vector: np.ndarray) -> np.ndarray:
        if vector.shape != (dimension := album.vectors.shape[1],):
            by = "the model alone, before what the album learnt: take album.embed" if album.learnt else "another model"
            raise ValueError(
                f"A query of shape {vector.shape} was given to an album of vectors ({dimension},): it was embedded by "
                f"{by}."
            )
        return unit(vector)

    return read_query(query, photo, lambda image: unit(album.embed(image, box)), given, joined)


def embedded(album: Album, image: Image.Image | Path | str, box: PixelBox | None) -> np.ndarray:
    """The vector (d,) of an image, or of the part in `box`, as the album compares it."""
    model = album.embedder()
    if not isinstance(image, Image.Image):
        image = read_image(image, box=box)
    else:
        image = upright(image) if box is None else cut(upright(image), box)
    return album.projected(model.embed([image], progress=False).numpy())[0]
