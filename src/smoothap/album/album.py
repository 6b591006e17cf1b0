"""An album: photos, their vectors, and the ways to ask for more of the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from smoothap.album._checksums import checksum
from smoothap.album._creating import create_empty, of_arrays
from smoothap.album._duplicates import Pair, pairs_above
from smoothap.album._identity import AlbumModel, ModelIdentity
from smoothap.album._milvus_storage import MilvusStorage
from smoothap.album._milvus_vectors import MilvusNeighbours
from smoothap.album._queries import Query, check_list, embedded, query_vector
from smoothap.album._segments import vectors_checksum
from smoothap.album._storage import Storage
from smoothap.album.calibration import Calibration, calibrate, least_score
from smoothap.album.collections import Collections
from smoothap.album.description import Description, Learnt, Part
from smoothap.album.engines import Engine, Neighbours, Ranking, VectorQuery, checked_name
from smoothap.album.filtering import Filter
from smoothap.album.milvus_server import is_address
from smoothap.album.photos import Hit, Hits, Photo, Photos
from smoothap.album.preparing import THUMBNAIL, thumbnail_of
from smoothap.album.projection import Projection
from smoothap.album.refining import ALPHA, check_expansion, corrected, expanded, unit_vectors
from smoothap.album.updating import Columns, Labels, Updater, UpdateReport, remove_rows
from smoothap.album.vectors import FLOAT32, Vectors
from smoothap.album.walking import Walk, look_at, walk
from smoothap.data.reading import PixelBox, read_image

if TYPE_CHECKING:
    from smoothap.models import Embedder


class Album:
    """Photos that can be asked for all that look like one of them.

    >>> album = Album.from_arrays(np.eye(3), [{"path": "a.jpg"}, {"path": "b.jpg"}, {"path": "c.jpg"}])
    >>> [hit.path for hit in album.search(np.array([0.2, 1.0, 0.1]), k=2)]
    ['b.jpg', 'a.jpg']
    """

    def __init__(
        self,
        photos: Photos,
        vectors: Vectors,
        *,
        storage: Storage | MilvusStorage | None = None,
        description: Description | None = None,
        model: AlbumModel | None = None,
        root: Path | str | None = None,
        engine: str = "auto",
    ) -> None:
        self.root, self._storage, self._model = None if root is None else Path(root), storage, model or AlbumModel()
        self._engine_name = checked_name(engine)
        self._hold(description or Description(dimension=vectors.shape[1]), photos, vectors)

    def _hold(self, description: Description, photos: Photos, vectors: Vectors) -> None:
        self._description, self.photos, self.vectors = description, photos, vectors
        self._projection = None if self._storage is None else self._storage.projection
        if isinstance(self._storage, MilvusStorage):
            self._neighbours = self._storage.neighbours(vectors)
            return
        sums = None if self._storage is None else vectors_checksum(description.segments, vectors)
        self._neighbours = Neighbours(vectors, self._engine_name, sums)

    @classmethod
    def open(
        cls,
        path: Path | str,
        *,
        engine: str = "auto",
        model: Embedder | Path | str | None = None,
        root: Path | str | None = None,
        device: str | None = None,
    ) -> Album:
        """The album in a folder, every file checked; nothing in it can run code.

        `path` may also be milvus://HOST:PORT/NAME, where `smoothap album push` brought an album: its vectors stay
        there. `model` and `root` are needed only where the model or the photos are no longer where they were. A model
        that did not make the album is refused. `device` is where the model runs, by default the accelerator where there
        is one.
        """
        storage = MilvusStorage(str(path)) if is_address(path) else Storage(Path(path))
        description, photos, vectors = storage.load()
        if root is None and description.root is not None:
            root = (storage.place / description.root).resolve()
        identity = None if description.model is None else ModelIdentity(**description.model)
        known = AlbumModel(identity, description.source, storage.place, device)
        if model is not None:
            known.use(model)
        return cls(photos, vectors, storage=storage, description=description, model=known, root=root, engine=engine)

    @classmethod
    def create(
        cls,
        path: Path | str,
        model: Embedder | Path | str,
        root: Path | str | None,
        *,
        engine: str = "auto",
        device: str | None = None,
        dtype: str = FLOAT32,
    ) -> Album:
        """A new, empty album for the photos under `root`, to be filled by `update` or `add`.

        `model` is a model folder, the name of a network with published weights (NAME or NAME@SIZE), or an `Embedder`,
        which has then to be given again when the album is opened to be asked with images. With `dtype` "float16" the
        vectors take half of the room, and scores are those of the rounded vectors, exactly.
        """
        return cls._opened(path, engine, create_empty(Path(path), model, root, device, dtype))

    @classmethod
    def _opened(cls, path: Path | str, engine: str, model: AlbumModel) -> Album:
        album = cls.open(path, engine=engine)
        album._model = model
        return album

    @classmethod
    def from_arrays(
        cls,
        vectors: np.ndarray,
        metadata: Sequence[Mapping[str, Any]] | Mapping[str, Sequence[Any]] = (),
        path: Path | str | None = None,
        *,
        root: Path | str | None = None,
        engine: str = "auto",
        model: Embedder | ModelIdentity | Path | str | None = None,
        dtype: str = FLOAT32,
    ) -> Album:
        """An album of vectors (n, d) made elsewhere: in memory, or in a new folder at `path`.

        `metadata` has a dict for each vector or a sequence for each column: path, label, and what else `Photo` has.
        `root` is the folder that the paths are relative to, and `model` what made the vectors, where these are known;
        a model folder or the name of published weights is found again when the album is opened. `dtype` is what the
        vectors are kept in, as in `create`.
        """
        made = of_arrays(vectors, metadata, path, root, model, dtype)
        if path is None:
            return cls(*made.rows, description=made.description, model=made.model, root=root, engine=engine)
        return cls._opened(path, engine, made.model)

    def update(
        self,
        *,
        paths: Iterable[Path | str] | None = None,
        labels: Labels | None = None,
        columns: Columns | None = None,
        remove_missing: bool = False,
        workers: int | None = None,
        progress: bool = True,
    ) -> UpdateReport:
        """Bring the album up to date with its photo folder: new, changed and removed files, and nothing else.

        With `paths` these files alone are its photos. `labels` gives the label of a path and `columns` what else is
        known of it, by the names of columns; None leaves them as they are. Stopped at any moment, it goes on where it
        was; files that are not read are reported and listed in the album's unreadable.csv. If all photos are
        missing, or more than ten and a tenth of them, nothing is changed and an error names them, unless
        `remove_missing` says that they are gone for good. What is in a folder that cannot be read is not missing.
        `workers` photos are read at once, by default one for each core.
        """
        root = self._known_root()
        files = walk(root, self._known_storage().folder) if paths is None else look_at(root, paths)
        return self._take_in(
            files, labels, progress, workers, whole=True, columns=columns, remove_missing=remove_missing
        )

    def add(
        self,
        paths: Iterable[Path | str],
        *,
        labels: Labels | None = None,
        columns: Columns | None = None,
        workers: int | None = None,
        progress: bool = True,
    ) -> UpdateReport:
        """Take in these files, given by their paths, which are below the album's root; others stay as they are."""
        files = look_at(self._known_root(), paths)
        return self._take_in(files, labels, progress, workers, whole=False, columns=columns)

    def remove(self, ids: Iterable[int]) -> None:
        """Take photos out of the album; their files stay, and their ids are given to no other photo."""
        storage = self._known_storage()
        with storage.writing():
            remove_rows(storage, ids)
        self._reload()

    def verify(self) -> None:
        """Check every file of the album to the last byte, thumbnails too; what is damaged is named in an error."""
        self._known_storage().verify()
        self.collections.all()

    def _take_in(
        self,
        files: Walk,
        labels: Labels | None,
        progress: bool,
        workers: int | None,
        *,
        whole: bool,
        columns: Columns | None,
        remove_missing: bool = False,
    ) -> UpdateReport:
        storage, root = self._known_storage(), self._known_root()
        with storage.writing():
            updater = Updater(storage, self.embedder, self._model.source, root, labels, progress, workers, columns)
            report = updater.run(files, whole=whole, remove_missing=remove_missing)
        self._reload()
        self.collections.refresh()
        return report

    def _reload(self) -> None:
        self._hold(*self._any_storage().load())

    @property
    def version(self) -> str:
        """Differs from one album in a folder to the next, and whenever photos, labels or vectors of one change."""
        return "in memory" if self._storage is None else checksum(repr(self._description).encode())[:16]

    def is_current(self) -> bool:
        """Whether nothing was written to the album's folder since it was opened."""
        return self._storage is None or self._storage.is_current()

    def reopened(self) -> Album:
        """The album as its folder has it now, as another object: searches in this one go on undisturbed."""
        storage = self._any_storage().reopened()
        album = copy(self)
        album._storage = storage
        album._reload()
        before, now = self._description, album._description
        if (before.model, before.root) == (now.model, now.root):
            return album
        # made again: nothing of this one holds for it
        return type(self).open(storage.address, engine=self._engine_name, device=self._model.device)

    def _any_storage(self) -> Storage | MilvusStorage:
        if self._storage is None:
            raise ValueError("This album is in memory only: give from_arrays a path to keep it.")
        return self._storage

    def _known_storage(self) -> Storage:
        storage = self._any_storage()
        if isinstance(storage, MilvusStorage):
            storage.refuse_to_change()
        return storage

    def remember_places(self) -> None:
        """Write down where photos and model lie now, for other processes that open the album."""
        self._known_storage().remember_places(self.root, self._model.source)

    @property
    def folder(self) -> Path | None:
        """Where the album lies; None for one in memory."""
        return None if self._storage is None else self._storage.folder

    def _known_root(self) -> Path:
        if self.root is None:
            raise ValueError("This album does not say where its photos lie: open it with root=FOLDER.")
        return self.root

    @property
    def collections(self) -> Collections:
        """Named groups of its photos, which are kept in the album's folder."""
        return Collections(self._any_storage().kept(), self.photos)

    def __len__(self) -> int:
        return len(self.photos)

    def photo(self, identity: int) -> Photo:
        """The photo with this id."""
        return self.photos[self.photos.row_of(identity)]

    @property
    def model(self) -> ModelIdentity | None:
        """Which model made the vectors, where it is known."""
        return self._model.identity

    @property
    def calibration(self) -> Calibration | None:
        """What scores mean in this album, if it was calibrated."""
        values = self._description.calibration
        return None if values is None else Calibration.from_dict(values, len(self))

    def calibrate(self, vectors: np.ndarray, labels: np.ndarray, source: str) -> Calibration:
        """Learn what scores mean from labelled vectors (n, d), labels (n,), by the album's model, and keep it."""
        rows, dimension = unit_vectors(vectors), self.vectors.shape[1]
        if rows.shape[1] != dimension:
            raise ValueError(f"Calibration by vectors ({rows.shape[1]},) for an album of ({dimension},).")
        learnt = calibrate(rows, labels, source)
        if self._storage is None:
            self._description = replace(self._description, calibration=learnt.to_dict())
        else:
            self._known_storage().calibrate(learnt.to_dict())
            self._reload()
        return replace(learnt, photos=len(self))

    def embed(self, image: Image.Image | Path | str, box: PixelBox | None = None) -> np.ndarray:
        """The vector (d,) of an image, or of the part in `box` (x, y, width, height), as the album's photos have it."""
        return embedded(self, image, box)

    def projected(self, vectors: np.ndarray) -> np.ndarray:
        """Vectors (n, d) of length 1 by its model, as it compares them: projected if it has learnt, else unchanged."""
        return vectors if self._projection is None else self._projection(vectors)

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts that were computed one by one (`smoothap index --part`), and are there."""
        return self._description.parts

    @property
    def learnt(self) -> Learnt | None:
        """What the album learnt from its collections, if it did."""
        return self._description.learnt

    def model_vectors(self) -> tuple[Photos, Vectors]:
        """The photos as they are on disk now, and their vectors (n, d) as the model gave them, learnt or not."""
        return Storage(self._known_storage().folder).load(original=True)[1:]

    def learn(self, projection: Projection, learnt: Learnt, calibration: Calibration | None) -> None:
        """Search in projected vectors from now on, calibrated again; the model's own stay, for `unlearn`."""
        self._known_storage().learn(projection, learnt, None if calibration is None else calibration.to_dict())
        self._reload()

    def unlearn(self) -> None:
        """Search in the vectors of the model again, with their calibration."""
        self._known_storage().unlearn()
        self._reload()

    def embedder(self) -> Embedder:
        """The album's model, loaded when it is first needed."""
        return self._model.loaded()

    def use_model(self, model: Embedder | Path | str) -> None:
        """Embed queries with this model, which must be the one that made the album."""
        self._model.use(model)

    def search(
        self,
        query: Query,
        k: int = 20,
        *,
        box: PixelBox | None = None,
        minimum: float | None = None,
        recall: float | None = None,
        everything: bool = False,
        expand: int = 0,
        alpha: float = ALPHA,
        right: Iterable[int] = (),
        wrong: Iterable[int] = (),
        where: Filter | None = None,
    ) -> Hits:
        """The k photos most like the query, best first.

        `box` (x, y, width, height, in pixels) is the part of the query's image to search with. A photo that is itself
        the query (by its id) is left out, and so is what was marked `wrong`. With `minimum` all photos at or above that
        score and with `recall` the shortest list expected to hold that share of the right photos are returned, however
        many; with `everything` all photos are ranked. `expand` adds that many first answers to the query, `right` and
        `wrong` are ids that the user marked. With `where`, only photos that pass it are looked at, by any engine.
        """
        check_list(k, minimum)
        check_expansion(expand, alpha)
        vector, query_ids = query_vector(self, query, box)
        wrong = list(wrong)
        vector = corrected(vector, self.vectors[self._rows(right)], self.vectors[self._rows(wrong)])
        asked = VectorQuery(vector, self._rows([*query_ids, *wrong]), self.passing(where), where)
        if expand:
            first = self._neighbours.nearest(asked, expand)
            asked = asked._replace(vector=expanded(vector, self.vectors[first.rows], first.scores, alpha))
        minimum = least_score(self.calibration, recall, minimum)
        if everything or minimum is not None:
            ranking = self._neighbours.ranking(asked, None if everything else minimum)
            return self._hits(*ranking.best(minimum=minimum), ranking.note)
        return self._hits(*self._neighbours.nearest(asked, k))

    def passing(self, where: Filter | None) -> np.ndarray | None:
        """Which photos pass a filter, (n,) bool in the order of `photos`; None: all, where nothing is asked of them."""
        return where.passing(self.photos, lambda: self.collections) if where else None

    def ranking(
        self,
        vector: np.ndarray,
        left_out: Sequence[int] = (),
        where: Filter | None = None,
        minimum: float | None = None,
    ) -> Ranking:
        """All photos that pass ranked for a query's vector (d,), but for the ids left out: exact, by any engine.

        An album in Milvus ranks the best few thousand, or what is found from the score `minimum` on; the ranking says
        whether it is `complete`.
        """
        return self._neighbours.seen(VectorQuery(vector, self._rows(left_out), self.passing(where), where), minimum)

    def around(self, vector: np.ndarray, rows: np.ndarray, number: int) -> np.ndarray:
        """Of some rows (m,), about so many that lie nearest to a vector (d,), in order; all, if there are fewer."""
        return self._neighbours.around(vector, rows, number)

    def alike(self) -> list[tuple[int, int]] | None:
        """Pairs of rows that are known to look the same; None: their vectors are here to be compared."""
        if not isinstance(self._storage, MilvusStorage):
            return None
        return [(self.photos.row_of(one), self.photos.row_of(other)) for one, other in self._storage.alike()]

    def all_above(self, score: float, query: Query | None = None) -> list[Hit] | list[Pair]:
        """All photos at or above the score for the query; without one, all pairs (id, id, score) of the album."""
        if query is not None:
            return self.search(query, minimum=score)
        ids = self.photos.ids.tolist()
        return [Pair(ids[one], ids[other], value) for one, other, value in pairs_above(self.vectors, score)]

    def thumbnail(self, identity: int) -> bytes:
        """A small picture of the photo as JPEG, upright and with nothing but pixels in it."""
        record = self.photos.record(self.photos.row_of(identity))
        picture = None if self._storage is None else self._storage.thumbnail(record)
        if picture is None:
            picture = thumbnail_of(read_image(self.photo_path(identity), shorter_side=THUMBNAIL))
        return picture

    def photo_path(self, identity: int) -> Path:
        """Where the photo lies: below the album's root, also when links are followed."""
        path, root = self.photo(identity).path, self._known_root()
        if not (root / path).resolve().is_relative_to(root.resolve()):
            raise ValueError(f"{path!r} leads out of the photo folder and is not opened.")
        return root / path

    @property
    def engine(self) -> Engine | MilvusNeighbours:
        """Who answers searches; built, or read from the user's cache, when it is first needed."""
        return self._neighbours.engine

    def _rows(self, ids: Iterable[int]) -> np.ndarray:
        return np.array([self.photos.row_of(int(identity)) for identity in ids], np.int64)

    def _hits(self, rows: np.ndarray, scores: np.ndarray, note: str = "") -> Hits:
        ids, (paths, labels) = self.photos.ids[rows].tolist(), self.photos.named(rows)
        hits = zip(ids, scores.tolist(), paths, labels, strict=True)
        return Hits((Hit(*hit, rank) for rank, hit in enumerate(hits, start=1)), note)
