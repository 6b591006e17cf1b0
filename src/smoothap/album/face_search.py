"""Search by face: all photos of a person, each once, with the box of the face."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from PIL import Image

from smoothap.album.face_marks import FaceMarks
from smoothap.album.faces import Faces, FaceStore
from smoothap.album.neighbourhood import Neighbourhoods, Reranked
from smoothap.album.photos import Hits
from smoothap.album.queries import Query, corrected, expanded, joined
from smoothap.album.search import LocalSearch, Nearest, Search, VectorQuery
from smoothap.album.vectors import unit
from smoothap.data.reading import PixelBox, as_rgb, read_image
from smoothap.models.faces.detection import overlap

if TYPE_CHECKING:
    from smoothap.album.album import Album
    from smoothap.album.filters import Filter
    from smoothap.album.graph import Graph
    from smoothap.album.store import Store
    from smoothap.models.faces.people import FoundFaces, PeopleFinder

NO_FACE = "no face was found in it: draw a box, or search for the whole photo"
_SPREAD = 2.0**-22  # of the length of a vector
_SAME_FACE = 0.2  # overlap of a box with the face that is meant


class FoundPhotos(NamedTuple):
    """What a search among faces found: `places` of the list of faces, best first, are those of one photo each."""

    faces: Faces
    found: Nearest
    places: np.ndarray
    note: str = ""
    vector: np.ndarray | None = None  # (d,) of the face that was meant


class FaceSpace:
    """The faces of an album, the networks that find them, and the search among them."""

    def __init__(self, album: Store, finder: PeopleFinder | None = None) -> None:
        self.store, self._album, self._finder = FaceStore(album.folder), album, finder
        self._neighbourhoods = Neighbourhoods(self.store)
        self._read: tuple[int, np.ndarray, Faces, LocalSearch] | None = None

    @classmethod
    def begin(cls, album: Store, model: Path | str | None, weights: Path | str | None) -> FaceSpace:
        """For an album that is to keep faces from now on, by these networks."""
        from smoothap.models.faces.people import PeopleFinder

        known = FaceStore(album.folder).setting("source") if FaceStore.is_in(album.folder) else None
        if known and model is None and weights is None:
            model, weights = (_found_again(album.folder, known[name]) for name in ("model", "weights"))
        finder = PeopleFinder.open(model, weights)  # before anything is made
        source = {"model": _relative(album.folder, model), "weights": _relative(album.folder, weights)}
        store = FaceStore(album.folder, create=True)
        store.use(album.settings().uid, finder.identity, source)
        store.close()
        return cls(album, finder)

    def finder(self) -> PeopleFinder:
        """The networks that found the faces, loaded when they are first needed."""
        if self._finder is None:
            from smoothap.models.faces.people import PeopleFinder

            source = self.store.setting("source") or {"model": None, "weights": None}
            model, weights = (_found_again(self.store.album, source[name]) for name in ("model", "weights"))
            finder = PeopleFinder.open(model, weights)
            self.store.use(self._album.settings().uid, finder.identity, source)
            self._finder = finder
        return self._finder

    def faces(self, album: Album) -> Faces:
        """The faces of the album's photos, as they are now."""
        return self._current(album)[0]

    def _current(self, album: Album) -> tuple[Faces, LocalSearch]:
        version, photos = self.store.version, album.photos.ids
        if self._read is None or self._read[0] != version or self._read[1] is not photos:
            # Faces of an earlier album in this folder, whose photos had other ids, are none of this one.
            is_ours = self.store.setting("uid") == self._album.settings().uid
            faces = self.store.faces(photos if is_ours else photos[:0])
            search = LocalSearch(faces.vectors, _SPREAD, "exact", faces.vectors_key)
            self._read = version, photos, faces, search
        return self._read[2:]

    def find(
        self,
        album: Album,
        query: Query,
        k: int | None,
        *,
        face: int | None = None,
        box: PixelBox | None = None,
        rerank: bool = True,
        min_score: float | None = None,
        recall: float | None = None,
        expand: int = 0,
        alpha: float = 0.0,
        right: Iterable[int] = (),
        wrong: Iterable[int] = (),
        where: Filter | None = None,
        photo: int | None = None,
    ) -> FoundPhotos:
        """The k photos of the person, or all that there are; see `Album.search`. Its own `photo` is left out."""
        if recall is not None:
            raise ValueError("What a score means is not known for faces: give a number of photos, or a least score.")
        faces, search = self._current(album)
        vector, query_photos, row = self._query(album, faces, query, face, box)
        right_rows, wrong_rows = (self._nearest_of(faces, photos, vector) for photos in (right, wrong))
        moved = corrected(vector, faces.vectors[right_rows], faces.vectors[wrong_rows])
        passing = None
        if (photos := album.passing(where)) is not None:
            passing = photos[np.searchsorted(album.photos.ids, faces.photos)]
        left_out = [
            np.flatnonzero(np.isin(faces.photos, query_photos if photo is None else [*query_photos, photo])),
            wrong_rows,
            np.flatnonzero(FaceMarks(self.store).said(faces).no_face),
        ]
        asked = VectorQuery(
            moved, np.unique(np.concatenate(left_out)), passing, None, None if len(right_rows) or expand else row,
            wrong_rows,
        )  # fmt: skip
        if expand:
            first = search.nearest(asked, expand)
            asked = asked._replace(vector=expanded(moved, faces.vectors[first.rows], first.scores, alpha))
        found, note = self._found(faces, search, asked, k, min_score, rerank)
        _, first = np.unique(faces.photos[found.rows], return_index=True)
        best = np.sort(first)[: len(first) if k is None or min_score is not None else k]
        return FoundPhotos(faces, found, best, note, vector)

    def hits(self, album: Album, all_found: FoundPhotos) -> Hits:
        """Photos as answers."""
        faces, found, places, note, _ = all_found
        rows, through = found.rows[places], None
        if found.through is not None:
            led = found.through[places]
            photo_rows = np.searchsorted(album.photos.ids, faces.photos[np.maximum(led, 0)])
            through = np.where(led < 0, -1, photo_rows) if len(faces) else led
        boxes = [_pixels(box) for box in faces.boxes[rows].tolist()]
        photos = np.searchsorted(album.photos.ids, faces.photos[rows])
        return album.hits(photos, found.scores[places], f"{found.note} {note}".strip(), through, boxes)

    def _found(
        self, faces: Faces, plain: LocalSearch, asked: VectorQuery, k: int | None, min_score: float | None, rerank: bool
    ) -> tuple[Nearest, str]:
        """Faces, best first, at least so many that there are k photos among them."""
        search: Search | Reranked = plain
        note = ""
        if rerank and len(faces) > 1:
            neighbourhood = self._neighbourhoods.of(faces)
            if neighbourhood is None:
                note = "Ranked by plain scores: faces are being linked with those like them."
            else:
                search = Reranked(plain, neighbourhood)
        if min_score is not None:
            return search.above(asked, min_score), note
        if k is None:
            ranking = search.ranking(asked)
            rows, scores = ranking.best()
            return Nearest(rows, scores, ranking.note, None if ranking.through is None else ranking.through[rows]), note
        wanted = 2 * k + 16
        while True:
            found = search.nearest(asked, wanted)
            if len(found.rows) < wanted or len(np.unique(faces.photos[found.rows])) >= k:
                return found, note
            wanted *= 4

    def graph(self, faces: Faces) -> Graph | None:
        """The graph of their neighbours, whose nodes are their rows; None where there is nothing to link."""
        neighbourhood = self._neighbourhoods.of(faces, wait=True)
        return None if neighbourhood is None else neighbourhood.graph

    def scores(self, album: Album, query: VectorQuery) -> np.ndarray:
        """The plain score of every face (n,), -inf for those that are left out."""
        return self._current(album)[1].ranking(query).scores

    # -- queries

    def _query(
        self, album: Album, faces: Faces, query: Query, face: int | None, box: PixelBox | None
    ) -> tuple[np.ndarray, list[int], int | None]:
        """A query as a unit vector (d,), the album's photos that it names, and the row of the face if it is one."""
        if isinstance(query, bool) or query is None:
            raise TypeError(f"A query is a path, an image, a vector or the id of a photo, not {query!r}.")
        if isinstance(query, (int, np.integer)):
            photo = int(query)
            album.photos.row_of(photo)  # an id that is none is an error
            row = self._stored(faces, photo, face, box, album)
            if row is None:
                return self._seen(read_image(album.photo_path(photo)), f"photo {photo}", face, box), [photo], None
            return np.array(faces.vectors[row]), [photo], row
        if isinstance(query, Image.Image):
            return self._seen(as_rgb(query), "the image", face, box), [], None
        if isinstance(query, (str, Path)):
            return self._seen(read_image(query), str(query), face, box), [], None
        if isinstance(query, Sequence) and not all(isinstance(number, (float, np.floating)) for number in query):
            if len(query) == 1:
                return self._query(album, faces, query[0], face, box)
            parts = [self._query(album, faces, part, face, box) for part in query]
            return joined([part[0] for part in parts]), [photo for part in parts for photo in part[1]], None
        vector, dimension = np.asanyarray(query, np.float32), faces.vectors.shape[1]
        if vector.shape != (dimension,):
            raise ValueError(f"A query of shape {vector.shape} was given for faces, whose vectors are ({dimension},).")
        return unit(vector), [], None

    def knows(self, album: Album, photo: int, box: PixelBox) -> bool:
        """Whether a face was found in a box of a photo of the album."""
        return self._stored(self.faces(album), photo, None, box, album) is not None

    def _stored(self, faces: Faces, photo: int, face: int | None, box: PixelBox | None, album: Album) -> int | None:
        """The row of the face that is meant in a photo of the album; None if it is to be looked for in its file."""
        rows = faces.of_photo(photo)
        if box is not None:
            areas = overlap(np.array(box, np.float64), faces.boxes[rows])
            return int(rows[areas.argmax()]) if len(rows) and areas.max() >= _SAME_FACE else None
        return int(rows[_number(face, len(rows), album.photo(photo).path)])

    def _seen(self, picture: Image.Image, name: str, face: int | None, box: PixelBox | None) -> np.ndarray:
        """The vector (d,) of the face that is meant in a picture."""
        finder = self.finder()
        if box is not None:
            found: FoundFaces = finder.in_box(picture, (float(box[0]), float(box[1]), float(box[2]), float(box[3])))
            (vectors,) = finder.vectors([found])
            return unit(vectors[0])
        found = finder.find_turned(picture)
        (vectors,) = finder.vectors([found])
        order = sorted(range(len(found.faces)), key=lambda place: -found.faces[place].area)
        return unit(vectors[order[_number(face, len(order), name)]])

    def _nearest_of(self, faces: Faces, photos: Iterable[int], vector: np.ndarray) -> np.ndarray:
        """The face of each photo that is nearest to a vector: which the user means who marks the photo."""
        rows = []
        for photo in photos:
            own = faces.of_photo(int(photo))
            if len(own):
                rows.append(int(own[(faces.vectors[own] @ vector).argmax()]))
        return np.array(rows, np.int64)


def _number(face: int | None, there: int, name: str) -> int:
    """The place of face number `face`, which is counted from 1."""
    if not there:
        raise ValueError(f"{name}: {NO_FACE}.")
    if face is not None and not 1 <= face <= there:
        raise ValueError(f"{name}: {there} faces were found in it, counted from 1 by size, and {face} is none of them.")
    return 0 if face is None else face - 1


def _pixels(box: Sequence[float]) -> PixelBox:
    x, y, width, height = box
    return round(x), round(y), max(1, round(width)), max(1, round(height))


def _relative(album: Path, place: Any) -> str | None:
    """A path as seen from the album, which carries no address of the machine it was made on."""
    return None if place is None else os.path.relpath(Path(place).resolve(), album.resolve())


def _found_again(album: Path, place: str | None) -> Path | None:
    return None if place is None else (album / place).resolve()
