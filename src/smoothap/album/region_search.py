"""Search for things inside photos: a photo scores as the part of it that scores best, and comes with the box of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from PIL import Image

from smoothap._core.threads import numba_is_there, on_threads, parts_for
from smoothap.album.photos import Hits
from smoothap.album.queries import RIGHT, WRONG, Asking, Query, read_query
from smoothap.album.regions import REGION, Basis, Regions, RegionSettings, RegionStore, query_codes
from smoothap.album.search import VectorQuery, best_rows
from smoothap.album.vectors import unit, unit_vectors
from smoothap.data.reading import PixelBox, cut, read_image, upright
from smoothap.data.transforms import Transform
from smoothap.models.regions import LEVELS, PARTS, pixel_boxes, region_vectors, region_view

if TYPE_CHECKING:
    from smoothap.album.album import Album
    from smoothap.album.engines.milvus import MilvusSearch
    from smoothap.album.store import Store

_SCALES = (1.0, 1.0, 0.5)  # of the size of a view, at which a query is compared with windows of a level
_EXPANSION = 5  # first answers that are added to a query
_AGAIN = 1000  # best photos that are ranked again by it
_WORTH_COMPILING = 2000  # photos: in a smaller album nobody waits for numba
_AT_ONCE = 512  # photos


class Scored(NamedTuple):
    """Photos by their rows (m,), the best score of a part of each, and the number of that part."""

    rows: np.ndarray
    scores: np.ndarray
    parts: np.ndarray

    def some(self, places: np.ndarray | slice) -> Scored:
        """Those in these places."""
        return Scored(*(values[places] for values in self))


class RegionSpace:
    """The parts of an album's photos, and the search among them."""

    def __init__(self, album: Store, engine: str = "auto") -> None:
        self.store, self._album, self._engine = RegionStore(album.folder), album, engine
        self._read: tuple[int, np.ndarray, Regions, MilvusSearch | None] | None = None
        self._basis: tuple[int, Basis] | None = None

    def settings(self) -> RegionSettings:
        """What is known of the parts as a whole."""
        settings = self.store.settings()
        if settings is None or settings.uid != self._album.settings().uid:
            raise ValueError("This album has no parts of photos yet: smoothap index PHOTOS --out ALBUM --regions")
        return settings

    @property
    def shape(self) -> tuple[int, int]:
        """Of the numbers of a query: levels, and numbers for each."""
        return len(_SCALES), len(self.basis().directions)

    def basis(self) -> Basis:
        """What parts are coded by."""
        file = self.settings().file
        if self._basis is None or self._basis[0] != file:
            self._basis = file, self.store.basis()
        return self._basis[1]

    def regions(self, album: Album) -> Regions:
        """The parts of the album's photos, as they are now."""
        return self._current(album)[0]

    def _current(self, album: Album) -> tuple[Regions, MilvusSearch | None]:
        """The parts, and what proposes the nearest: Milvus, where these parts were pushed."""
        settings, photos = self.settings(), album.photos.ids
        if self._read is None or self._read[0] != settings.version or self._read[1] is not photos:
            regions, proposing = self.store.regions(photos), None
            if "://" in self._engine:
                from smoothap.album.engines.milvus import open_space

                content = settings.uid, regions.content
                proposing = open_space(self._engine, REGION, content, part_ids(photos, regions), regions.as_vectors())
            self._read = settings.version, photos, regions, proposing
        return self._read[2:]

    def search(self, album: Album, query: Query, asking: Asking) -> Hits:
        """The photos with a part most like the query."""
        vectors, photos = self.query(album, query, asking.box)
        found, note = self.found(album, vectors, replace(asking, left_out=(*asking.left_out, *photos)))
        return album.hits(found.rows, found.scores, note, boxes=self.boxes(album, found))

    def boxes(self, album: Album, found: Scored) -> list[PixelBox]:
        """Where the parts are in their photos."""
        sizes = [(photo.width, photo.height) for photo in album.photos.at(found.rows)]
        transform = self.settings().transform
        seen = None if transform is None else Transform.from_dict(transform)
        return pixel_boxes(found.parts, np.array(sizes, np.int64).reshape(-1, 2), seen)

    def found(self, album: Album, vectors: np.ndarray, asking: Asking) -> tuple[Scored, str]:
        """The best photos for the numbers of a query (levels, k), and what there is to say about them."""
        if asking.recall is not None:
            raise ValueError("What a score means is not known for parts: give a number of photos, or a least score.")
        regions, proposing = self._current(album)
        wrong_rows = album.photos.rows_of(asking.wrong)
        vectors = self._corrected(regions, vectors, album.photos.rows_of(asking.right), wrong_rows)
        listed = regions.slots >= 0
        if (passing := album.passing(asking.where)) is not None:
            listed &= passing
        listed[album.photos.rows_of(asking.left_out)] = False
        listed[wrong_rows] = False
        k = asking.k if asking.min_score is None else None
        expand = asking.expand or (_EXPANSION if asking.rerank else 0)
        rows = np.flatnonzero(listed)
        if proposing is not None and k is not None:
            rows = _proposed(proposing, regions, vectors, listed, max(k, _AGAIN if expand else 0))
        plain = _best(_scored(regions, vectors, rows), k, asking.min_score)
        found = plain if not expand else self._again(regions, vectors, plain, expand, asking.alpha)
        note = f"{regions.missing:,} photos have no parts yet: run smoothap index again." if regions.missing else ""
        return found.some(slice(k)), note

    def _again(self, regions: Regions, vectors: np.ndarray, plain: Scored, number: int, alpha: float) -> Scored:
        """The same photos, the best of them ranked again by the query and the parts found first; scores by place."""
        weights = np.maximum(plain.scores[:number], 0) ** alpha
        parts = [regions.vectors(row)[part] for row, part in zip(plain.rows[:number], plain.parts, strict=False)]
        added = sum((weight * part for weight, part in zip(weights, parts, strict=True)), np.zeros(vectors.shape[1]))
        moved = unit_vectors(vectors + added)
        again = _scored(regions, moved, np.sort(plain.rows[:_AGAIN]))
        order = best_rows(again.scores, len(again.rows))
        rows, found = (np.concatenate([one[order], rest[_AGAIN:]]) for one, rest in
                       ((again.rows, plain.rows), (again.parts, plain.parts)))  # fmt: skip
        return Scored(rows, plain.scores, found)

    def _corrected(self, regions: Regions, vectors: np.ndarray, right: np.ndarray, wrong: np.ndarray) -> np.ndarray:
        """The query moved towards the parts of photos marked as right that are most like it, and away from wrong."""
        moved = vectors
        for rows, weight in ((right, RIGHT), (wrong, -WRONG)):
            own = [regions.vectors(row) for row in rows.tolist() if regions.slots[row] >= 0]
            if own:
                nearest = [parts[(parts * vectors[LEVELS]).sum(1).argmax()] for parts in own]
                moved = moved + weight * np.mean(nearest, axis=0)
        return vectors if moved is vectors else unit_vectors(moved)

    # -- queries

    def query(self, album: Album, query: Query, box: PixelBox | None = None) -> tuple[np.ndarray, list[int]]:
        """A query as numbers for each level (levels, k) of length 1, and the album's photos that it names."""

        def photo(identity: int) -> np.ndarray:
            row, regions = album.photos.row_of(identity), self.regions(album)
            if box is None and regions.slots[row] >= 0:  # its whole, as it is kept
                return unit_vectors(np.repeat(regions.vectors(row)[:1], len(_SCALES), 0))
            return self._seen(album, read_image(album.photo_path(identity), box=box))

        def image(given: Image.Image | Path | str) -> np.ndarray:
            if not isinstance(given, Image.Image):
                return self._seen(album, read_image(given, box=box))
            picture = upright(given)
            return self._seen(album, picture if box is None else cut(picture, box))

        def given(vector: np.ndarray) -> np.ndarray:
            if vector.shape == self.shape:  # what this gave before
                return unit_vectors(vector)
            if vector.shape != (dimension := self.settings().dimension,):
                raise ValueError(f"A query of shape {vector.shape} was given for parts by a model of ({dimension},).")
            return unit_vectors(np.repeat(self.basis()(unit(vector))[None], len(_SCALES), 0))

        def join(parts: list[np.ndarray]) -> np.ndarray:
            if not parts:
                raise ValueError("A query needs at least one photo.")
            return unit_vectors(np.mean(parts, axis=0))

        return read_query(query, photo, image, given, join)

    def _seen(self, album: Album, picture: Image.Image) -> np.ndarray:
        """The numbers (levels, k) of a picture: seen as small as a thing is that fills a window of each level."""
        size = self.settings().size
        views = {scale: region_view(picture, round(size * scale)) for scale in set(_SCALES)}
        whole = dict(zip(views, region_vectors(album.embedder(), list(views.values()))[:, 0], strict=True))
        return unit_vectors(self.basis()(np.stack([whole[scale] for scale in _SCALES])))


def part_ids(photos: np.ndarray, regions: Regions) -> np.ndarray:
    """The ids in Milvus, rising, of the parts of photos with ids (n,)."""
    return (photos[regions.rows][:, None] * PARTS + np.arange(PARTS)).ravel()


def _proposed(
    search: MilvusSearch, regions: Regions, vectors: np.ndarray, listed: np.ndarray, number: int
) -> np.ndarray:
    """Rows, rising, of listed photos that have the parts nearest to a query: at least so many; of few photos, all."""
    from smoothap.album.engines.milvus import FEW

    rows, wanted = regions.rows, 2 * number + PARTS
    passing = None if listed[rows].all() else np.repeat(listed[rows], PARTS)
    while listed.sum() > max(FEW, number) and wanted < PARTS * len(rows):
        asked = (VectorQuery(vector, np.empty(0, np.int64), passing) for vector in np.unique(vectors, axis=0))
        found = [search.candidates(one, wanted) for one in asked]
        parts = [one for one in found if one is not None]
        if len(parts) < len(found):
            break
        photos = rows[np.unique(np.concatenate(parts) // PARTS)]
        if len(photos) >= number:
            return photos
        wanted *= 4
    return np.flatnonzero(listed)


def _scored(regions: Regions, vectors: np.ndarray, rows: np.ndarray) -> Scored:
    """Photos in rows (m,), rising, with the best score of their parts: exactly, by compiled loops or by numpy."""
    queries, squares = query_codes(vectors)
    slots = regions.slots[rows]
    scores, parts = np.empty(len(rows)), np.zeros(len(rows), np.int64)
    if numba_is_there() and len(regions.slots) >= _WORTH_COMPILING:
        from smoothap.album.engines.region_kernels import best_parts

        codes = np.asarray(regions.codes)
        arguments = codes, codes.view(np.int32), LEVELS, queries, squares, slots, scores, parts
        on_threads(best_parts, parts_for(len(rows) * codes.shape[1] * codes.shape[2] // 8), *arguments)
        return Scored(rows, scores, parts)
    halves = (
        queries >> 8,
        queries & 255,
    )  # whose sums of products are below 2^24: float32 has them exactly, in any order
    for start in range(0, len(rows), _AT_ONCE):
        some = slice(start, start + _AT_ONCE)
        stored = np.array(regions.codes[slots[some]])
        codes = stored[:, :, :-4].astype(np.float32)
        high, low = ((codes @ half.T.astype(np.float32)).astype(np.float64) for half in halves)
        products = (256 * high + low)[:, np.arange(len(LEVELS)), LEVELS]
        norms = np.ascontiguousarray(stored[:, :, -4:]).view(np.int32)[:, :, 0].astype(np.int64) * squares[LEVELS]
        found = np.where(norms > 0, products / np.sqrt(np.maximum(norms, 1)), -1.0)
        parts[some] = found.argmax(1)
        scores[some] = found.max(1)
    return Scored(rows, scores, parts)


def _best(scored: Scored, k: int | None, min_score: float | None) -> Scored:
    """The best photos first, equal ones in the order of ids: at least k and `_AGAIN`, or those at or above a score."""
    number = len(scored.rows) if k is None else max(k, _AGAIN)
    if min_score is not None:
        number = int((scored.scores >= min_score).sum())
    order = best_rows(scored.scores, number)
    return scored.some(order)
