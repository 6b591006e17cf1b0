"""An album: photos, their vectors, and the ways to ask for more of the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from smoothap.search import refining
from smoothap.search.calibration import Calibration, calibrate
from smoothap.search.engines import Engine, checked_name, open_engine
from smoothap.search.exact import best_rows
from smoothap.search.identity import ModelIdentity, identity_of, load_model, same_model
from smoothap.search.photos import Hit, Photo, Photos, new_record, table_of

if TYPE_CHECKING:
    from smoothap.models import Embedder

Query = Any  # a path, a PIL image, a vector (d,), the id of a photo, or a sequence of those as one query


class Album:
    """Photos that can be asked for all that look like one of them.

    >>> album = Album.from_arrays(np.eye(3), [{"path": "a.jpg"}, {"path": "b.jpg"}, {"path": "c.jpg"}])
    >>> [hit.path for hit in album.search(np.array([0.2, 1.0, 0.1]), k=2)]
    ['b.jpg', 'a.jpg']
    """

    def __init__(
        self,
        photos: Photos,
        vectors: np.ndarray,
        *,
        model: ModelIdentity | None = None,
        root: Path | None = None,
        calibration: Mapping[str, Any] | None = None,
        engine: str = "auto",
        checksum: str = "",
    ) -> None:
        self.photos, self.vectors, self.model, self.root = photos, vectors, model, root
        self._calibration = calibration
        self._engine_name, self._engine, self._checksum = checked_name(engine), None, checksum
        self._embedder: Embedder | None = None

    @classmethod
    def open(cls, path: Path | str, *, engine: str = "auto", model: Embedder | Path | str | None = None) -> Album:
        """The album in a folder; `model` is needed only where its own is no longer where it was."""
        raise NotImplementedError

    @classmethod
    def from_arrays(
        cls,
        vectors: np.ndarray,
        metadata: Sequence[Mapping[str, Any]] | Mapping[str, Sequence[Any]] = (),
        path: Path | str | None = None,
        *,
        root: Path | str | None = None,
        engine: str = "auto",
        model: ModelIdentity | None = None,
    ) -> Album:
        """An album of vectors (n, d) made elsewhere: in memory, or in a new folder at `path`.

        `metadata` has a dict for each vector or a sequence for each column: path, label, and what else `Photo` has.
        `root` is the folder that the paths are relative to, where there is one.
        """
        rows = unit_rows(vectors)
        columns = [dict(row) for row in metadata] if not isinstance(metadata, Mapping) else _rows(metadata)
        if columns and len(columns) != len(rows):
            raise ValueError(f"{len(rows)} vectors came with metadata of {len(columns)}: give one for each.")
        records = [_record(row, columns[row] if columns else {}) for row in range(len(rows))]
        return cls(
            Photos(table_of(records)), rows, model=model, root=None if root is None else Path(root), engine=engine
        )

    def __len__(self) -> int:
        return len(self.photos)

    def photo(self, identity: int) -> Photo:
        """The photo with this id."""
        return self.photos[self.photos.row_of(identity)]

    @property
    def calibration(self) -> Calibration | None:
        """What scores mean in this album, if it was calibrated."""
        return None if self._calibration is None else Calibration.from_dict(dict(self._calibration), len(self))

    def calibrate(self, vectors: np.ndarray, labels: np.ndarray, source: str) -> Calibration:
        """Learn what scores mean from labelled vectors (n, d), labels (n,), by the album's model."""
        self._calibration = calibrate(unit_rows(vectors), labels, source).to_dict()
        calibration = self.calibration
        assert calibration is not None
        return calibration

    def embed(self, image: Image.Image | Path | str, box: tuple[int, int, int, int] | None = None) -> np.ndarray:
        """The vector (d,) of an image, or of the part in `box` (x, y, width, height), by the album's own model."""
        from smoothap.data.reading import read_image

        if isinstance(image, Image.Image):
            picture = image if box is None else _cut(image, box)
        else:
            picture = read_image(image, box=box)
        return self.embedder().embed([picture], progress=False)[0].numpy()

    def embedder(self) -> Embedder:
        """The album's model, loaded when it is first needed."""
        if self._embedder is None:
            self._embedder = self._load_embedder()
        return self._embedder

    def use_model(self, model: Embedder | Path | str) -> None:
        """Embed queries with this model, which must be the one that made the album."""
        if self.model is None:
            raise ValueError("This album holds vectors made elsewhere: give a vector or the id of a photo as a query.")
        self._embedder = same_model(load_model(model), self.model, "This album")

    def _load_embedder(self) -> Embedder:
        raise ValueError("This album holds vectors made elsewhere: give a vector or the id of a photo as a query.")

    def search(
        self,
        query: Query,
        k: int = 20,
        *,
        box: tuple[int, int, int, int] | None = None,
        minimum: float | None = None,
        recall: float | None = None,
        everything: bool = False,
        expand: int = 0,
        alpha: float = refining.ALPHA,
        right: Iterable[int] = (),
        wrong: Iterable[int] = (),
    ) -> list[Hit]:
        """The k photos most like the query, best first.

        A photo that is itself the query (by its id) is left out, and so is what was marked `wrong`. With `minimum`
        all photos at or above that score and with `recall` the shortest list expected to hold that share of the right
        photos are returned, however many; with `everything` all photos are ranked. `expand` adds that many first
        answers to the query, `right` and `wrong` are ids that the user marked.
        """
        if k < 1:
            raise ValueError(f"k is how many photos to return, at least 1, not {k}.")
        vector, asked = self.query_vector(query, box)
        right, wrong = [int(each) for each in right], [int(each) for each in wrong]
        if right or wrong:
            vector = refining.corrected(vector, self.vectors[self._rows(right)], self.vectors[self._rows(wrong)])
        left_out = self._rows([*asked, *wrong])
        if expand:
            rows, scores = self._nearest(vector, expand, left_out)
            vector = refining.expanded(vector, self.vectors[rows], scores, alpha)
        if recall is not None:
            minimum = max(self._score_for(recall), -np.inf if minimum is None else minimum)
        if everything or minimum is not None:
            scores = self.vectors @ vector
            scores[left_out] = -np.inf
            rows = best_rows(scores, int((scores >= (-2.0 if minimum is None else minimum)).sum()))
            return self._hits(rows, scores[rows])
        return self._hits(*self._nearest(vector, k, left_out))

    def query_vector(self, query: Query, box: tuple[int, int, int, int] | None = None) -> tuple[np.ndarray, list[int]]:
        """A query of any form as a unit vector (d,), and the ids of the photos it names."""
        if isinstance(query, bool) or query is None:
            raise TypeError(f"A query is a path, an image, a vector or the id of a photo, not {query!r}.")
        if isinstance(query, (int, np.integer)):
            if box is not None:
                return self.embed(self.photo_path(int(query)), box), [int(query)]
            return refining.unit(self.vectors[self.photos.row_of(int(query))]), [int(query)]
        if isinstance(query, (str, Path, Image.Image)):
            return refining.unit(self.embed(query, box)), []
        if isinstance(query, Sequence) and not all(isinstance(each, (float, np.floating)) for each in query):
            parts = [self.query_vector(each, box) for each in query]
            return refining.joined([vector for vector, _ in parts]), [each for _, ids in parts for each in ids]
        vector = np.asarray(query, np.float32)
        if vector.shape != (self.vectors.shape[1],):
            raise ValueError(
                f"A query of shape {vector.shape} was given to an album of vectors ({self.vectors.shape[1]},): it was "
                "embedded by another model."
            )
        return refining.unit(vector), []

    def all_above(self, score: float, query: Query | None = None) -> list[Hit] | list[tuple[int, int, float]]:
        """All photos at or above the score for the query; without one, all pairs (id, id, score) of the album."""
        if query is not None:
            return self.search(query, minimum=score)
        raise NotImplementedError

    def thumbnail(self, identity: int) -> bytes:
        """A small picture of the photo as JPEG, upright and with nothing but pixels in it."""
        raise NotImplementedError

    def photo_path(self, identity: int) -> Path:
        """Where the photo lies: below the album's root, also when links are followed."""
        photo = self.photo(identity)
        if self.root is None:
            raise ValueError(f"This album does not say where its photos lie, so {photo.path!r} cannot be opened.")
        place = self.root / photo.path
        if not place.resolve().is_relative_to(self.root.resolve()):
            raise ValueError(f"{photo.path!r} leads out of the photo folder and is not opened.")
        return place

    @property
    def engine(self) -> Engine:
        """Who answers searches; built, or read from the user's cache, when it is first needed."""
        if self._engine is None:
            self._engine = open_engine(self._engine_name, self.vectors, self._checksum)
        return self._engine

    def _nearest(self, vector: np.ndarray, k: int, left_out: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        wanted = min(k + len(left_out), len(self))
        if wanted > self.engine.limit:
            candidates = np.arange(len(self))
        else:
            candidates = np.sort(self.engine.nearest(vector, wanted))
        candidates = candidates[~np.isin(candidates, left_out)]
        scores = self.vectors[candidates] @ vector
        best = best_rows(scores, k)
        return candidates[best], scores[best]

    def _rows(self, ids: Sequence[int]) -> np.ndarray:
        return np.array([self.photos.row_of(each) for each in ids], np.int64)

    def _score_for(self, recall: float) -> float:
        if (calibration := self.calibration) is None:
            raise ValueError(
                "This album is not calibrated, so no recall can be asked for: run smoothap index with --calibrate DATA."
            )
        return calibration.score_for_recall(recall)

    def _hits(self, rows: np.ndarray, scores: np.ndarray) -> list[Hit]:
        found: list[Hit] = []
        for rank, (row, score) in enumerate(zip(rows.tolist(), scores.tolist(), strict=True), 1):
            photo = self.photos[row]
            found.append(Hit(photo.id, score, photo.path, photo.label, rank))
        return found


def unit_rows(vectors: np.ndarray) -> np.ndarray:
    """Vectors (n, d) as float32 of length 1; a row that is zero or not finite is named."""
    array = np.asarray(vectors)
    if array.ndim != 2 or array.dtype.kind not in "fiu":
        raise ValueError(f"Vectors are numbers of shape (n, d), not {array.dtype} of shape {array.shape}.")
    lengths = np.linalg.norm(array.astype(np.float64), axis=1)
    bad = np.flatnonzero(~np.isfinite(lengths) | (lengths == 0))
    if len(bad):
        raise ValueError(f"Vector {bad[0]} is zero or has a number that is not finite: leave that photo out.")
    return np.ascontiguousarray(array / lengths[:, None], dtype=np.float32)


def _rows(columns: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    if len({len(values) for values in columns.values()}) > 1:
        lengths = {name: len(values) for name, values in columns.items()}
        raise ValueError(f"Columns of metadata are of one length, not {lengths}.")
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _record(row: int, known: Mapping[str, Any]) -> dict[str, Any]:
    label = known.get("label")
    return new_record(
        row,
        str(known.get("path", f"{row:08d}")),
        label=None if label is None else str(label),
        bytes=int(known.get("bytes", 0)),
        modified=round(float(known.get("modified", 0)) * 1e9),
        sha256=bytes.fromhex(str(known.get("sha256", ""))),
        width=int(known.get("width", 0)),
        height=int(known.get("height", 0)),
    )


def _cut(image: Image.Image, box: tuple[int, int, int, int]) -> Image.Image:
    x, y, width, height = box
    left, upper, right, lower = max(x, 0), max(y, 0), min(x + width, image.width), min(y + height, image.height)
    if right <= left or lower <= upper:
        raise ValueError(f"The box {box} lies outside of the image's {image.width} x {image.height} pixels.")
    return image.crop((left, upper, right, lower))
