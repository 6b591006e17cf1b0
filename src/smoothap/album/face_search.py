"""Search by face: all photos of a person, each once, with the box of the face."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from PIL import Image

from smoothap.album.face_marks import FaceMarks
from smoothap.album.faces import FACE, FaceRecord, Faces, FaceStore
from smoothap.album.neighbourhood import Neighbourhoods, Reranked
from smoothap.album.photos import Hits
from smoothap.album.queries import Asking, Query, corrected, expanded, joined, read_query
from smoothap.album.search import LocalSearch, Nearest, Search, VectorQuery, answers
from smoothap.album.store import Store, relative
from smoothap.album.vectors import unit
from smoothap.data.reading import PixelBox, read_image, upright
from smoothap.models.faces.detection import drawn_around, missing

if TYPE_CHECKING:
    from torch import Tensor

    from smoothap.album.album import Album
    from smoothap.album.graph import Graph
    from smoothap.models.faces.people import FoundFaces, PeopleFinder

NO_FACE = "no face was found in it: draw a box, or search for the whole photo"
_SPREAD = 2.0**-22  # of the length of a vector


class FoundPhotos(NamedTuple):
    """What a search among faces found: `places` of the list of faces, best first, are those of one photo each."""

    faces: Faces
    found: Nearest
    places: np.ndarray
    note: str = ""
    vector: np.ndarray | None = None  # (d,) of the face that was meant


class FaceDescriber:
    """Finds the faces of photos, those that users drew among them, and keeps them."""

    title, takes_maps = "Finding people", False

    def __init__(self, store: FaceStore, finder: PeopleFinder) -> None:
        self._store, self._finder, self._drawn = store, finder, FaceMarks(store).drawn()
        self.enough_pixels = finder.enough_pixels

    def look(self, picture: Image.Image, size: tuple[int, int], sha256: bytes) -> FoundFaces:
        """The faces of a photo of that size."""
        return self._finder.find(picture, size=size, drawn=self._drawn.get(sha256, ()))

    def described(self, seen: Sequence[FoundFaces], maps: Tensor | None = None) -> list[list[FaceRecord]]:
        """The faces of photos with their vectors; those for which the network gives nothing are left out."""
        records = list[list[FaceRecord]]()
        for one, vectors in zip(seen, self._finder.vectors(seen), strict=True):
            rows = zip(one.boxes, one.faces, vectors, strict=True)
            records.append([FaceRecord(box, face.score, vector) for box, face, vector in rows if vector.any()])
        return records

    def lacking(self, contents: Mapping[int, bytes]) -> set[int]:
        """The photos that were not looked at, or lack a face that a user drew."""
        seen, self._drawn = self._store.seen(), FaceMarks(self._store).drawn()

        def is_done(photo: int, sha256: bytes) -> bool:
            boxes = self._drawn.get(sha256, ())
            return seen.get(photo) == sha256 and not (boxes and missing(boxes, self._store.boxes(photo)))

        return {photo for photo, sha256 in contents.items() if not is_done(photo, sha256)}

    def put(self, found: Mapping[int, tuple[bytes, Sequence[FaceRecord]]]) -> int:
        """Keep the faces of photos; how many there are."""
        return self._store.put(found)


class FaceSpace:
    """The faces of an album, the networks that find them, and the search among them."""

    def __init__(self, album: Store, finder: PeopleFinder | None = None, engine: str = "auto") -> None:
        self.store, self._album, self._finder, self._engine = FaceStore(album.folder), album, finder, engine
        self._neighbourhoods = Neighbourhoods(self.store)
        self._read: tuple[int, np.ndarray, Faces, LocalSearch, Search] | None = None

    @classmethod
    def begin(cls, album: Store, model: Path | str | None, weights: Path | str | None) -> FaceSpace:
        """For an album that is to keep faces from now on, by these networks."""
        finder = _opened(album, model, weights, create=True)
        return cls(album, finder)

    def finder(self) -> PeopleFinder:
        """The networks that found the faces, loaded when they are first needed."""
        if self._finder is None:
            self._finder = _opened(self._album, None, None)
        return self._finder

    def describer(self) -> FaceDescriber:
        """What finds the faces of photos that come."""
        return FaceDescriber(self.store, self.finder())

    def faces(self, album: Album) -> Faces:
        """The faces of the album's photos, as they are now."""
        return self._current(album)[0]

    def forget_read(self) -> None:
        """Read the faces again when they are next asked for."""
        self._read = None

    def _current(self, album: Album) -> tuple[Faces, LocalSearch, Search]:
        """The faces, the search in them, and what proposes the nearest: Milvus, where these faces were pushed."""
        version, photos = self.store.version, album.photos.ids
        if self._read is None or self._read[0] != version or self._read[1] is not photos:
            # Faces of an earlier album in this folder, whose photos had other ids, are none of this one.
            is_ours = self.store.setting("uid") == self._album.settings().uid
            faces = self.store.faces(photos if is_ours else photos[:0])
            search = LocalSearch(faces.vectors, _SPREAD, "exact", faces.vectors_key)
            self._read = version, photos, faces, search, self._elsewhere(faces) or search
        return self._read[2:]

    def _elsewhere(self, faces: Faces) -> Search | None:
        if "://" not in self._engine:
            return None
        from smoothap.album.engines.milvus import open_space

        return open_space(self._engine, FACE, (faces.uid, faces.content), faces.ids, faces.vectors)

    def find(self, album: Album, query: Query, asking: Asking) -> FoundPhotos:
        """The photos of the person."""
        if asking.recall is not None:
            raise ValueError("What a score means is not known for faces: give a number of photos, or a least score.")
        faces, local, proposing = self._current(album)
        search = local if asking.k is None or asking.min_score is not None else proposing
        vector, query_photos, row = self._query(album, faces, query, asking)
        right_rows, wrong_rows = (self._nearest_of(faces, photos, vector) for photos in (asking.right, asking.wrong))
        moved = corrected(vector, faces.vectors[right_rows], faces.vectors[wrong_rows])
        passing = None
        if (photos := album.passing(asking.where)) is not None:
            passing = photos[np.searchsorted(album.photos.ids, faces.photos)]
        left_out = [
            np.flatnonzero(np.isin(faces.photos, [*query_photos, *asking.left_out])),
            wrong_rows,
            np.flatnonzero(FaceMarks(self.store).said(faces).no_face),
        ]
        asked = VectorQuery(
            moved, np.unique(np.concatenate(left_out)), passing, None,
            None if len(right_rows) or asking.expand else row, wrong_rows,
        )  # fmt: skip
        if asking.expand:
            first = search.nearest(asked, asking.expand)
            asked = asked._replace(vector=expanded(moved, faces.vectors[first.rows], first.scores, asking.alpha))
        found, note = self._found(faces, search, asked, asking)
        _, first = np.unique(faces.photos[found.rows], return_index=True)
        best = np.sort(first)[: len(first) if asking.min_score is not None else asking.k]
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

    def _found(self, faces: Faces, plain: Search, asked: VectorQuery, asking: Asking) -> tuple[Nearest, str]:
        """Faces, best first, at least so many that there are k photos among them."""
        search: Search | Reranked = plain
        note = ""
        if asking.rerank and len(faces) > 1:
            neighbourhood = self._neighbourhoods.of(faces)
            if neighbourhood is None:
                note = "Ranked by plain scores: faces are being linked with those like them."
            else:
                search = Reranked(plain, neighbourhood)
        if asking.k is None or asking.min_score is not None:
            return answers(search, asked, None, asking.min_score), note
        wanted = 2 * asking.k + 16
        while True:
            found = search.nearest(asked, wanted)
            if len(found.rows) < wanted or len(np.unique(faces.photos[found.rows])) >= asking.k:
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
        self, album: Album, faces: Faces, query: Query, asking: Asking
    ) -> tuple[np.ndarray, list[int], int | None]:
        """A query as a unit vector (d,), the album's photos that it names, and the row of the face if it is one."""

        def photo(identity: int) -> np.ndarray:
            album.photos.row_of(identity)  # an id that is none is an error
            row = self._stored(faces, identity, asking.face, asking.box, album)
            if row is None:
                return self._seen(read_image(album.photo_path(identity)), f"photo {identity}", asking.face, asking.box)
            return np.array(faces.vectors[row])

        def image(given: Image.Image | Path | str) -> np.ndarray:
            if isinstance(given, Image.Image):
                return self._seen(upright(given), "the image", asking.face, asking.box)
            return self._seen(read_image(given), str(given), asking.face, asking.box)

        def given(vector: np.ndarray) -> np.ndarray:
            if vector.shape != (dimension := faces.vectors.shape[1],):
                raise ValueError(
                    f"A query of shape {vector.shape} was given for faces, whose vectors are ({dimension},)."
                )
            return unit(vector)

        vector, photos = read_query(query, photo, image, given, joined)
        row = self._stored(faces, photos[0], asking.face, asking.box, album) if len(photos) == 1 else None
        return vector, photos, row if row is not None and np.array_equal(faces.vectors[row], vector) else None

    def knows(self, album: Album, photo: int, box: PixelBox) -> bool:
        """Whether a face was found in a box of a photo of the album."""
        return self._stored(self.faces(album), photo, None, box, album) is not None

    def _stored(self, faces: Faces, photo: int, face: int | None, box: PixelBox | None, album: Album) -> int | None:
        """The row of the face that is meant in a photo of the album; None if it is to be looked for in its file."""
        rows = faces.of_photo(photo)
        if box is not None:
            meant = drawn_around(np.array(box, np.float64), faces.boxes[rows])
            return None if meant is None else int(rows[meant])
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


def _opened(album: Store, *given: Path | str | None, create: bool = False) -> PeopleFinder:
    """The network and the weights that are given, or else those that an album remembers, which remembers them then."""
    from smoothap.models.faces.people import PeopleFinder

    places, names = [None if one is None else Path(one) for one in given], ("model", "weights")
    known = FaceStore(album.folder).setting("source") if FaceStore.is_in(album.folder) else None
    if known and places == [None, None]:
        places = [None if known[name] is None else (album.folder / known[name]).resolve() for name in names]
    finder = PeopleFinder.open(*places)  # before anything is made
    below = [None if place is None else relative(place, album.folder) for place in places]
    store = FaceStore(album.folder, create=create)
    store.use(album.settings().uid, finder.identity, dict(zip(names, below, strict=True)))
    store.database.close()
    return finder
