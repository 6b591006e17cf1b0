"""An album: photos, their vectors, and the ways to ask for more of the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from smoothap.album.calibration import Calibration, calibrate, least_score
from smoothap.album.collections import Collections, CollectionStore
from smoothap.album.duplicates import Pair, pairs_above
from smoothap.album.face_search import FaceSpace
from smoothap.album.faces import FACE, FaceStore, Forgotten, forget
from smoothap.album.filters import Filter
from smoothap.album.identity import AlbumModel, ModelIdentity
from smoothap.album.neighbourhood import Neighbourhoods, Reranked
from smoothap.album.people import People
from smoothap.album.photos import Hit, Hits, Photo, Photos, records_of
from smoothap.album.prepare import THUMBNAIL, files_below, thumbnail_of
from smoothap.album.projection import Learnt, Projection
from smoothap.album.queries import ALPHA, Asking, Query, corrected, embedded, expanded, query_vector
from smoothap.album.region_codes import begin_regions
from smoothap.album.region_search import RegionSpace
from smoothap.album.regions import REGION, RegionStore
from smoothap.album.search import LocalSearch, Ranking, Search, VectorQuery, answers, checked_engine
from smoothap.album.settings import album_at
from smoothap.album.store import PHOTO, Store, relative
from smoothap.album.update import Columns, Labels, UpdateReport, bring_up_to_date, describe_missing
from smoothap.album.vectors import FLOAT32, Vectors, check_codec, unit_vectors
from smoothap.album.walk import Walk, look_at, walk
from smoothap.data.reading import PixelBox, read_image

if TYPE_CHECKING:
    from smoothap.models import Embedder

_ROWS_AT_ONCE = 1 << 15  # of arrays that become an album


class Album:
    """Photos that can be asked for all that look like one of them.

    >>> album = Album.from_arrays(np.eye(3), [{"path": "a.jpg"}, {"path": "b.jpg"}, {"path": "c.jpg"}])
    >>> [hit.path for hit in album.search(np.array([0.2, 1.0, 0.1]), k=2)]
    ['b.jpg', 'a.jpg']
    """

    def __init__(
        self, store: Store, *, model: AlbumModel, root: Path | None, engine: str, temporary: bool = False
    ) -> None:
        self._store, self._model, self.root, self._engine, self._temporary = store, model, root, engine, temporary
        self._kept, self._neighbourhoods = CollectionStore(store), Neighbourhoods(store)
        self._shows_people = True
        self._faces: FaceSpace | None = None
        self._regions: RegionSpace | None = None
        self._reload()

    def _reload(self) -> None:
        """Take up the album as it is on disk."""
        self._snapshot = snapshot = self._store.snapshot()
        self.photos = Photos(self._store, snapshot.ids)
        self._people: People | None = None
        self._search = self._searching()

    def _searching(self) -> Search:
        snapshot = self._snapshot
        if "://" in self._engine:
            from smoothap.album.engines.milvus import open_search

            return open_search(self._engine, snapshot, self.photos)
        return LocalSearch(snapshot.vectors, snapshot.spread, self._engine, snapshot.vectors_key)

    @classmethod
    def open(
        cls,
        path: Path | str,
        *,
        engine: str = "auto",
        model: Embedder | Path | str | None = None,
        root: Path | str | None = None,
        device: str | None = None,
        people: bool = True,
    ) -> Album:
        """The album in a folder, checked; nothing in it can run code. A photo folder stands for the album that
        `smoothap photos` made of it.

        `engine` says who proposes the nearest photos: auto, exact, pq, or milvus://HOST:PORT/NAME, where `smoothap
        album push` brought the vectors, which then need not be here. `model` and `root` are needed only where the
        model or the photos are no longer where they were. A model that did not make the album is refused. `device` is
        where the model runs, by default the accelerator where there is one. Without `people`, nothing of what it knows
        of them is shown.
        """
        engine = engine if "://" in engine else checked_engine(engine)
        store = Store(album_at(path), vectors_elsewhere="://" in engine)
        settings = store.settings()
        if root is None and settings.root is not None:
            root = (store.folder / settings.root).resolve()
        identity = None if settings.model is None else ModelIdentity.of(settings.model)
        known = AlbumModel(identity, settings.source, store.folder, device)
        if model is not None:
            known.use(model)
        album = cls(store, model=known, root=None if root is None else Path(root), engine=engine)
        album._shows_people = people
        return album

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
        check_codec(dtype)
        known = AlbumModel.of(model, Path(path), device)
        assert known.identity is not None
        return cls._created(Path(path), known.identity.dimension, dtype, root, known, engine)

    @classmethod
    def _created(
        cls, path: Path | None, dimension: int, dtype: str, root: Path | str | None, model: AlbumModel, engine: str
    ) -> Album:
        below = None if root is None or path is None else relative(Path(root), path)
        identity = None if model.identity is None else asdict(model.identity)
        store = Store.create(path, dimension, dtype, model=identity, source=model.source, root=below)
        place = None if root is None else Path(root)
        return cls(store, model=model, root=place, engine=checked_engine(engine), temporary=path is None)

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
        """An album of vectors (n, d) made elsewhere: in a new folder at `path`, or in one that goes with this object.

        `metadata` has a dict for each vector or a sequence for each column: path, label, and what else `Photo` has.
        `root` is the folder that the paths are relative to, and `model` what made the vectors, where these are known;
        a model folder or the name of published weights is found again when the album is opened. `dtype` is what the
        vectors are kept in, as in `create`.
        """
        check_codec(dtype)
        folder, rows = None if path is None else Path(path), unit_vectors(vectors)
        records = records_of(metadata, len(rows))
        album = cls._created(folder, rows.shape[1], dtype, root, AlbumModel.of(model, folder), engine)
        with album._store.writing():
            for start in range(0, len(rows), _ROWS_AT_ONCE):
                part = slice(start, start + _ROWS_AT_ONCE)
                album._store.add(records[part], rows[part])
        album._reload()
        return album

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
        files = walk(root, self._store.folder) if paths is None else look_at(root, paths)
        return self._take_in(
            files, labels=labels, columns=columns, remove_missing=remove_missing, workers=workers, progress=progress
        )  # fmt: skip

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
        return self._take_in(files, labels=labels, columns=columns, whole=False, workers=workers, progress=progress)

    def remove(self, ids: Iterable[int]) -> None:
        """Take photos out of the album; their files stay, and their ids are given to no other photo."""
        with self._store.writing():
            self._store.remove(ids)
        self._reload()

    def verify(self) -> None:
        """Check every file of the album to the last byte, thumbnails too; what is damaged is named in an error."""
        self._store.verify()
        if not self._temporary:
            self._kept.verify()
        if FaceStore.is_in(self._store.folder):
            FaceStore(self._store.folder).verify()
        if self.has_regions:
            RegionStore(self._store.folder).verify()

    def _take_in(self, files: Walk, **options: Any) -> UpdateReport:
        root = self._known_root()
        report = bring_up_to_date(self, files, files_below(root), root=root, **options)
        self._reload()
        if not self._temporary:
            self.collections.refresh()
        return report

    @property
    def store(self) -> Store:
        """The files of the album."""
        return self._store

    @property
    def version(self) -> str:
        """Differs from one album to the next, and whenever photos, labels or vectors of one change."""
        return f"{self._snapshot.settings.uid[:8]}-{self._snapshot.settings.version}"

    def is_current(self) -> bool:
        """Whether nothing was written to the album's folder since it was opened."""
        return self._store.is_current(self._snapshot.settings.version)

    def reopened(self) -> Album:
        """The album as its folder has it now, as another object: searches in this one go on undisturbed."""
        if self._store.database.is_replaced:  # made again: nothing of this one holds for it
            return type(self).open(
                self._store.folder, engine=self._engine, device=self._model.device, people=self._shows_people
            )
        album = copy(self)
        album._reload()
        return album

    def remember_places(self) -> None:
        """Write down where photos and model are now, for other processes that open the album."""
        settings = self._store.settings()
        root = settings.root if self.root is None else relative(self.root, self._store.folder)
        if (settings.root, settings.source) != (root, self._model.source):
            with self._store.writing():
                self._store.set(root=root, source=self._model.source)
            self._reload()

    @property
    def folder(self) -> Path | None:
        """Where the album is; None for one that goes with this object."""
        return None if self._temporary else self._store.folder

    def _known_root(self) -> Path:
        if self.root is None:
            raise ValueError("This album does not say where its photos are: open it with root=FOLDER.")
        return self.root

    @property
    def collections(self) -> Collections:
        """Named groups of its photos, which are kept in the album's folder."""
        if self._temporary:
            raise ValueError("This album is temporary: give from_arrays a path to keep collections.")
        return Collections(self._kept, self.photos)

    @property
    def has_people(self) -> bool:
        """Whether faces in its photos were looked for, and may be shown."""
        return self._shows_people and FaceStore.is_in(self._store.folder)

    def face_space(self) -> FaceSpace:
        """The faces of its photos, to be searched."""
        if not self.has_people:
            raise ValueError(
                "This album knows no people: nobody asked for them yet (smoothap index PHOTOS --out ALBUM --people)."
            )
        if self._faces is None or self._faces.store.database.is_replaced:  # forgotten meanwhile, and found again
            self._faces, self._people = FaceSpace(self._store, engine=self._engine), None
        return self._faces

    @property
    def people(self) -> People:
        """Groups of faces, which can be named; see `look_for_people`."""
        self.face_space()
        if self._people is None:
            self._people = People(self)
        return self._people

    def look_for_people(self, *, model: Path | str | None = None, weights: Path | str | None = None) -> FaceSpace:
        """Keep the faces of its photos from now on: by YuNet and SFace, from their package or a folder of `weights`.

        `model` is a network instead of SFace: an ONNX file for aligned faces, the folder of a trained model, or weights
        of an iresnet50 or SENet-50. Faces are found when photos are taken in, and by `find_people` in all others.
        """
        if "://" in self._engine:
            raise ValueError("People are found in the album's folder: open it without Milvus.")
        self._shows_people, self._people = True, None
        self._faces = FaceSpace.begin(self._store, model, weights)
        return self._faces

    def find_people(self, *, progress: bool = True) -> int:
        """Find the faces of photos that were not looked at yet; how many were found."""
        space, root = self.face_space(), self._known_root()
        with self._store.writing():
            read, files = files_below(root), walk(root, self._store.folder).files
            return describe_missing(self._store, space.describer(), read, files, progress=progress)[1]

    @property
    def has_regions(self) -> bool:
        """Whether parts of its photos are described."""
        return RegionStore.is_in(self._store.folder)

    def region_space(self) -> RegionSpace:
        """The parts of its photos, to be searched."""
        if not self.has_regions:
            raise ValueError(
                "This album knows no parts of photos: nobody asked for them yet (smoothap index PHOTOS --out ALBUM "
                "--regions)."
            )
        if self._regions is None or self._regions.store.database.is_replaced:
            self._regions = RegionSpace(self._store, self._engine)
        return self._regions

    def describe_regions(self, *, size: int | None = None, progress: bool = True) -> int:
        """Keep parts of its photos from now on, and describe those of all that are there; how many had none.

        `size` is that of `index_photos`.
        """
        root = self._known_root()
        with self._store.writing():
            read, files = files_below(root), walk(root, self._store.folder).files
            coder = begin_regions(self._store, self.embedder(), read, files, size, progress=progress)
            return 0 if coder is None else describe_missing(self._store, coder, read, files, progress=progress)[0]

    def forget_people(self) -> Forgotten:
        """Delete all that is known of faces and people: vectors, names, marks, graph and caches; what there was.

        Faces that were sent to Milvus are removed there first; `left` says what could not be removed.
        """
        with self._store.writing():
            self._faces = self._people = None
            left = list[str]()
            try:
                if FaceStore.is_in(self._store.folder) and (pushed := FaceStore(self._store.folder).pushed()):
                    from smoothap.album.engines.milvus_push import forget_faces

                    left = [said for address in pushed if (said := forget_faces(address))]
            except (ValueError, OSError) as error:
                left = [
                    f"Whether faces were sent to Milvus is not known any more ({error}). If they were: smoothap album "
                    "push ALBUM ADDRESS without --people removes them."
                ]
            return replace(forget(self._store.folder), left=tuple(left))

    @property
    def vectors(self) -> Vectors:
        """The vectors (n, d) that are searched, in the order of `photos`: projected if the album has learnt."""
        return self._search.vectors

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
        values = self._snapshot.settings.calibration
        return None if values is None else Calibration.from_dict(values, len(self))

    def calibration_of(self, rerank: bool) -> Calibration | None:
        """What the scores of lists mean that are ranked by neighbourhood, or by plain scores."""
        calibration = self.calibration
        return calibration if calibration is None or not rerank else calibration.ranked or calibration

    def calibrate(self, vectors: np.ndarray, labels: np.ndarray, source: str) -> Calibration:
        """Learn what scores mean from labelled vectors (n, d), labels (n,), by the album's model, and keep it."""
        rows, dimension = unit_vectors(vectors), self.vectors.shape[1]
        if rows.shape[1] != dimension:
            raise ValueError(f"Calibration by vectors ({rows.shape[1]},) for an album of ({dimension},).")
        learnt = calibrate(rows, labels, source)
        with self._store.writing():
            self._store.set(calibration=learnt.to_dict())
        self._reload()
        assert self.calibration is not None
        return self.calibration

    def embed(self, image: Image.Image | Path | str, box: PixelBox | None = None) -> np.ndarray:
        """The vector (d,) of an image, or of the part in `box` (x, y, width, height), as the album's photos have it."""
        return embedded(self, image, box)

    def projected(self, vectors: np.ndarray) -> np.ndarray:
        """Vectors (n, d) of length 1 by its model, as it compares them: projected if it has learnt, else unchanged."""
        projection = self._snapshot.projection
        return vectors if projection is None else projection(vectors)

    @property
    def learnt(self) -> Learnt | None:
        """What the album learnt from its collections, if it did."""
        values = self._snapshot.settings.learnt
        return None if values is None else Learnt.from_dict(values)

    def model_vectors(self) -> tuple[Photos, Vectors]:
        """The photos as they are on disk now, and their vectors (n, d) as the model gave them, learnt or not."""
        if "://" in self._engine:  # these are the only ones
            return self.photos, self.vectors
        snapshot = self._store.snapshot()
        return Photos(self._store, snapshot.ids), snapshot.original

    def learn(self, projection: Projection, learnt: Learnt, calibration: Calibration | None) -> None:
        """Search in projected vectors from now on, calibrated again; the model's own stay, for `unlearn`."""
        with self._store.writing():
            self._store.learn(projection, learnt.to_dict(), None if calibration is None else calibration.to_dict())
        self._reload()

    def unlearn(self) -> None:
        """Search in the vectors of the model again, with their calibration."""
        with self._store.writing():
            self._store.unlearn()
        self._reload()

    @property
    def codec(self) -> str:
        """What the vectors are kept in."""
        return self._snapshot.space.codec

    @property
    def model_source(self) -> str:
        """Where the model was found, as the album remembers it."""
        return self._model.source

    def model_place(self) -> str:
        """The folder of the model, or the name of its published weights."""
        return str(self._model.place())

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
        space: str = PHOTO,
        box: PixelBox | None = None,
        face: int | None = None,
        rerank: bool = True,
        min_score: float | None = None,
        recall: float | None = None,
        everything: bool = False,
        expand: int = 0,
        alpha: float = ALPHA,
        right: Iterable[int] = (),
        wrong: Iterable[int] = (),
        where: Filter | Mapping[str, Any] | None = None,
    ) -> Hits:
        """The k photos most like the query, best first.

        They are ranked by the neighbourhoods of the album: photos that resemble those found come up, too. `rerank`
        False ranks by the plain cosine with the query. `box` (x, y, width, height, in pixels) is the part of the
        query's image to search with. A photo that is itself the query (by its id) is left out, and so is what was
        marked `wrong`. With `min_score` as many photos as have at least that score and with `recall` the shortest list
        expected to hold that share of the right photos are returned; with `everything` all photos are ranked. `expand`
        adds that many first answers to the query, `right` and `wrong` are ids that the user marked. With `where`, only
        photos that pass it are looked at: a `Filter`, or a dict of what it has and of columns of the album's table,
        such as {"brand": "acme"}. `space` is which vectors are compared: "photo", those of whole photos, or "face":
        then all photos of the person are found whose face is the largest in the query's image, or the one in `box`, or
        number `face`, counted from 1 by size; or "region": then photos are found that have a part like the query, for
        a thing that may be small in them. Each photo comes once, with the `box` of the face or part.
        """
        where = where if where is None or isinstance(where, Filter) else Filter.of(where)
        asking = Asking(
            None if everything else k, min_score, recall, rerank, expand, alpha, tuple(right), tuple(wrong), where, box,
            face,
        )  # fmt: skip
        if space == FACE:
            return self.face_space().hits(self, self.face_space().find(self, query, asking))
        if space not in (PHOTO, REGION):
            spaces = f"{PHOTO!r}, whole photos, {REGION!r}, parts of them, and {FACE!r}"
            raise ValueError(f"An album has no space {space!r}: it has {spaces}.")
        if face is not None:
            raise ValueError(f"face={face} is one of the faces of a photo: give space={FACE!r} too.")
        return self.region_space().search(self, query, asking) if space == REGION else self._of_photos(query, asking)

    def _of_photos(self, query: Query, asking: Asking) -> Hits:
        """The photos that are like a query as a whole."""
        vector, query_ids = query_vector(self, query, asking.box)
        right, wrong = self.photos.rows_of(asking.right), self.photos.rows_of(asking.wrong)
        moved = corrected(vector, self.vectors[right], self.vectors[wrong])
        alone = len(query_ids) == 1 and asking.box is None and not (len(right) or len(wrong) or asking.expand)
        row = self.photos.row_of(query_ids[0]) if alone and np.array_equal(vector, moved) else None
        left_out = np.concatenate([self.photos.rows_of(query_ids), wrong])
        asked = VectorQuery(moved, left_out, self.passing(asking.where), asking.where, row, wrong)
        if asking.expand:
            first = self._search.nearest(asked, asking.expand)
            asked = asked._replace(vector=expanded(moved, self.vectors[first.rows], first.scores, asking.alpha))
        search, note = self.search_by(asking.rerank)
        min_score = least_score(self.calibration_of(asking.rerank), asking.recall, asking.min_score)
        found = answers(search, asked, asking.k, min_score)
        return self.hits(found.rows, found.scores, f"{found.note} {note}".strip(), found.through)

    def search_by(self, rerank: bool) -> tuple[Search | Reranked, str]:
        """What ranks by neighbourhood, or by plain scores; and a sentence where it is asked for and not possible."""
        if not rerank:
            return self._search, ""
        if "://" in self._engine:
            return self._search, "Ranked by plain scores: Milvus has the vectors, and no graph of neighbours."
        neighbourhood = self._neighbourhoods.of(self._snapshot)
        if neighbourhood is not None:
            return Reranked(self._search, neighbourhood), ""
        linking = "Ranked by plain scores: photos are being linked with those like them." if len(self) > 1 else ""
        return self._search, linking

    @property
    def linked(self) -> int:
        """How many photos are in the graph of neighbours, as far as it is made."""
        neighbourhood = None if "://" in self._engine else self._neighbourhoods.of(self._snapshot)
        return 0 if neighbourhood is None else len(self) - neighbourhood.missing

    def link(self, *, progress: bool = True) -> None:
        """Bring the graph of neighbours up to date now, and not when it is first asked for."""
        if "://" not in self._engine:
            self._neighbourhoods.of(self._snapshot, wait=True, progress=progress)

    def passing(self, where: Filter | None) -> np.ndarray | None:
        """Which photos pass a filter, (n,) bool in the order of `photos`; None: all, where nothing is asked of them."""
        return where.passing(self.photos, lambda: self.collections) if where else None

    @property
    def searching(self) -> Search:
        """What answers queries on the vectors of this version."""
        return self._search

    def ranking(
        self,
        vector: np.ndarray,
        left_out: Sequence[int] = (),
        where: Filter | None = None,
        *,
        rerank: bool = False,
        photo: int | None = None,
        wrong: Sequence[int] = (),
    ) -> Ranking:
        """All photos that pass ranked for a query's vector (d,), but for the ids left out and those marked wrong.

        `photo` is the id of the photo that is the query, if it is one of the album's as it is. With Milvus, the best
        few thousand are ranked; the ranking says whether it is `complete`.
        """
        row, wrong_rows = None if photo is None else self.photos.row_of(photo), self.photos.rows_of(wrong)
        out = np.concatenate([self.photos.rows_of(left_out), wrong_rows])
        search, note = self.search_by(rerank)
        ranking = search.ranking(VectorQuery(vector, out, self.passing(where), where, row, wrong_rows))
        return replace(ranking, note=f"{ranking.note} {note}".strip())

    def all_above(self, score: float, query: Query | None = None) -> list[Hit] | list[Pair]:
        """All photos at or above the score for the query; without one, all pairs (id, id, score) of the album."""
        if query is not None:
            return self.search(query, min_score=score, rerank=False)
        ids = self.photos.ids.tolist()
        return [Pair(ids[one], ids[other], value) for one, other, value in pairs_above(self.vectors, score)]

    def thumbnail(self, identity: int) -> bytes:
        """A small picture of the photo as JPEG, upright and with nothing but pixels in it."""
        (record,) = self.photos.records(self.photos.rows_of([identity]))
        picture = self._store.thumbnail(record)
        if picture is None:
            picture = thumbnail_of(read_image(self.photo_path(identity), shorter_side=THUMBNAIL))
        return picture

    def photo_path(self, identity: int) -> Path:
        """Where the photo is: below the album's root, also when links are followed."""
        path, root = self.photo(identity).path, self._known_root()
        if not (root / path).resolve().is_relative_to(root.resolve()):
            raise ValueError(f"{path!r} leads out of the photo folder and is not opened.")
        return root / path

    def hits(
        self,
        rows: np.ndarray,
        scores: np.ndarray,
        note: str = "",
        through: np.ndarray | None = None,
        boxes: Sequence[PixelBox] | None = None,
    ) -> Hits:
        """Answers for rows of the album, best first, with scores, the rows that they came in through, and boxes."""
        ids, (paths, labels) = self.photos.ids[rows].tolist(), self.photos.named(rows)
        came = [None] * len(rows) if through is None else self._ids_or_none(through)
        places = [None] * len(rows) if boxes is None else boxes
        hits = zip(ids, scores.tolist(), paths, labels, range(1, len(ids) + 1), came, places, strict=True)
        return Hits((Hit(*hit) for hit in hits), note)

    def _ids_or_none(self, rows: np.ndarray) -> list[int | None]:
        return [None if row < 0 else int(self.photos.ids[row]) for row in rows.tolist()]
