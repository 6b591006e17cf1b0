"""An album into Milvus (`album push ALBUM milvus://HOST:PORT/NAME`): what is not there is sent, checked and shown.

Photos are sent as a new piece (see _milvus_layout.py) that nobody reads before it is whole: stopped at any moment, the
next load finds the piece, sends the ranges of ids that it lacks, and goes on. Rows are always upserted, so that what is
sent twice is there once. The number of a piece follows from what is in it, so that two loads at once into one name
never write into one piece, unless they send the same.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from smoothap._core.progress import Progress
from smoothap.album import _milvus_layout as layout
from smoothap.album._hnsw import BUILD_BREADTH, LINKS
from smoothap.album._milvus_layout import OWN, About
from smoothap.album._milvus_storage import MilvusStorage
from smoothap.album._storage import Storage
from smoothap.album.album import Album
from smoothap.album.copies import ALIKE, look_alike
from smoothap.album.engines import GRAPH_UP_TO, Neighbours, VectorQuery
from smoothap.album.milvus_server import PATIENCE, MilvusAddress, MilvusServer, MilvusUnavailable
from smoothap.album.photos import SCHEMA, Photos, whole_numbers
from smoothap.metrics.cosine import row_digests

INDEXES = "auto", "hnsw", "ivf_pq"
PICTURES_UP_TO = 100_000  # photos: above, their thumbnails would take more memory of the server than all vectors
COMPARED_UP_TO = 50_000  # photos: above, copies are those that are the same to the byte
_LEAST_FOR_CODES = 40_000  # rows of a piece, from which codes can be learnt
_SEGMENT = 128 << 20  # bytes of vectors, about what Milvus puts into a segment, which gets cells of its own
_BYTES_AT_ONCE = 8 << 20  # in one message
_MOST_PIECES = 8
_NEW_SHARE = 0.2  # of the album: if more than this changed, all is sent again, as one piece
_SAMPLE, _NEAREST = 50, 10  # photos that are searched with, and the answers that are compared
_SETTLE = 3_600.0  # seconds that the server may take to write and to index


@dataclass(frozen=True)
class Loaded:
    """What a load did: photos sent and taken out, how many there are, and the share of a sample's answers found."""

    photos: int
    sent: int
    removed: int
    recall: float | None
    index: str

    @property
    def is_new(self) -> bool:
        """Whether anything was loaded at all."""
        return self.recall is not None


def load_album(
    album: Path | str,
    address: str,
    *,
    index: str = "auto",
    workers: int = 4,
    pictures: bool | None = None,
    least_recall: float = 0.8,
    replace_all: bool = False,
    patience: float = PATIENCE,
) -> Loaded:
    """Bring what is at an address of Milvus up to date with an album: only what was added, changed and removed.

    Readers see the album as it was until everything is there and was checked: the number of photos, the bits of some
    vectors, and that the nearest photos of a sample are found to a share of `least_recall`. `index` is auto, hnsw or
    ivf_pq; `workers` messages are on their way at once. `pictures` says whether thumbnails go along, by default in
    albums of up to 100,000 photos. A name that holds another model's album is refused unless `replace_all` is given.
    """
    if index not in INDEXES:
        raise ValueError(f"An index is one of {', '.join(INDEXES)}, not {index!r}.")
    place = MilvusAddress.of_album(address)
    storage = Storage(Path(album))
    opened = Album.open(album, engine="exact")
    server = MilvusServer(place, patience=patience)
    return _Load(opened, storage, server, index, workers, pictures, least_recall, replace_all).run()


@dataclass(eq=False)
class _Load:
    album: Album
    storage: Storage
    server: MilvusServer
    index: str
    workers: int
    pictures: bool | None
    least_recall: float
    replace_all: bool

    def run(self) -> Loaded:
        self.name = self.server.address.name
        if not len(self.album):
            raise ValueError(f"{self.album.folder} holds no photos: there is nothing to load.")
        table = self._with_checksums(self.album.photos)
        before = self._before()
        about, rows = self._planned(table, before)
        if before is not None and not len(rows) and _same(about, before.about):
            return Loaded(len(self.album), 0, 0, None, before.about.index)
        about = self._taken_up(about, table.take(pa.array(rows)))
        try:
            self._send(about, rows, table)
            recall = self._verified(about)
            self._switch(about, before)
        except MilvusUnavailable:
            raise
        except ValueError as error:
            if not self._is_overtaken(about, before):
                raise
            raise ValueError(
                f"Another load into {self.server.address} came in between and took away what this one had sent. Who "
                "searches there sees one album, whole. Run this again when the other load has ended."
            ) from error
        gone = set() if before is None else {*before.ids.tolist()} - {*self.album.photos.ids.tolist()}
        return Loaded(len(self.album), len(rows), len(gone), recall, about.index)

    def _with_checksums(self, photos: Photos) -> pa.Table:
        """The photos with a number for each that changes with it or its vector."""
        vectors = [digest.hex() for digest in row_digests(self.album.vectors)]
        columns = [photos.column(name).to_pylist() for name in SCHEMA.names]
        checksums = [_checksum(values) for values in zip(vectors, zip(*columns, strict=True), strict=True)]
        return photos.table.append_column(layout.TABLE.field(OWN), pa.array(checksums, pa.int64()))

    def _before(self) -> MilvusStorage | None:
        """What readers see now."""
        number = layout.current_number(self.server, self.name)
        if number is None:
            return None
        before = MilvusStorage(self.server.address, self.server)
        before.load_piece(number)
        return before

    def _planned(self, table: pa.Table, before: MilvusStorage | None) -> tuple[About, np.ndarray]:
        """What the next piece is to be, and the rows (k,) of the album that go into it."""
        described, now, sums = self.album._description, self.album.photos.ids, whole_numbers(table[OWN])
        about = About(
            number=0, pieces=(), removed=(), fingerprint="", rows=0, photos=len(now),
            dimension=described.dimension, index=self._chosen_index(), pictures=self._takes_pictures(),
            model=described.model, source=_absolute(described.source, self.storage.folder),
            root=None if self.album.root is None else str(self.album.root.resolve()),
            calibration=described.calibration,
            learnt=None if described.learnt is None else asdict(described.learnt),
            dtype=described.dtype,
        )  # fmt: skip
        rows, version = np.arange(len(now)), 1
        if before is not None:
            known = before.about
            self._check_like(known, about, before)
            version = (known.number >> 16) + 1
            changed = _changed(now, sums, before)
            gone = np.setdiff1d(before.ids, now)
            kept = (known.index, known.pictures, known.learnt) == (about.index, about.pictures, about.learnt)
            few = len(changed) + len(gone) <= max(_NEW_SHARE * len(now), 100)
            if kept and few and not self.replace_all and len(known.pieces) < _MOST_PIECES:
                removed = tuple(sorted({*known.removed, *gone.tolist()} - {*now.tolist()}))
                about = replace(about, pieces=known.pieces, removed=removed)
                rows = changed
        fingerprint = _fingerprint(about, now[rows], sums[rows])
        number = version << 16 | int(fingerprint[:4], 16)
        pieces = (*about.pieces, number)
        return replace(about, number=number, pieces=pieces, rows=len(rows), fingerprint=fingerprint), rows

    def _check_like(self, known: About, about: About, before: MilvusStorage) -> None:
        """Refuse to put one album instead of another that nobody meant to lose."""
        if self.replace_all:
            return
        if (known.model, known.dimension) != (about.model, about.dimension):
            raise ValueError(
                f"{self.server.address} holds an album of another model: choose another name, or give --replace."
            )
        both = np.intersect1d(before.ids, self.album.photos.ids)
        if 2 * len(both) < len(before.ids):
            raise ValueError(
                f"{self.server.address} holds {len(before.ids):,} photos, and this album has only {len(both):,} of "
                "their ids: choose another name, or give --replace if this album is to take its place."
            )

    def _chosen_index(self) -> str:
        if self.index == "auto":
            return "HNSW" if len(self.album) <= GRAPH_UP_TO else "IVF_PQ"
        return self.index.upper()

    def _takes_pictures(self) -> bool:
        wanted = len(self.album) <= PICTURES_UP_TO if self.pictures is None else self.pictures
        return wanted and bool((self.album.photos.column("pack").to_numpy() >= 0).any())

    def _taken_up(self, about: About, table: pa.Table) -> About:
        """The piece as it is to be: one that an earlier load began, or a new one; what fits neither is removed."""
        current = layout.current_number(self.server, self.name)
        for number in layout.numbers_of(self.server, self.name):
            if current is not None and number <= current:
                continue
            begun = layout.read_about(self.server, self.name, number)
            if begun is not None and number == about.number and begun[0].fingerprint == about.fingerprint:
                return begun[0]
            layout.drop_piece(self.server, self.name, number)
        if len(self.album) <= COMPARED_UP_TO:
            ids = self.album.photos.ids.tolist()
            about = replace(about, alike=[[ids[one], ids[other]] for one, other in look_alike(self.album, ALIKE)])
        projection = self.album._projection
        weights = None if projection is None else projection.to_array()
        layout.write_about(self.server, self.name, about, table, weights)
        return about

    def _send(self, about: About, rows: np.ndarray, table: pa.Table) -> None:
        """Send what the piece lacks, index it and have it loaded."""
        piece, dimension = layout.piece_name(self.name, about.number), self.album.vectors.shape[1]
        index, goes_on = index_of(about.index, len(rows), dimension), self.server.has(piece)
        layout.create_piece(self.server, piece, dimension)
        if goes_on:  # rows can be counted in what is loaded alone
            self._hold_ready(piece, index)
        self._send_all(piece, rows, 4 * dimension, lambda some: self._photo_rows(some, table), goes_on=goes_on)
        self._hold_ready(piece, index)
        if (there := self.server.count(piece)) != len(rows):
            raise ValueError(
                f"Milvus kept {there:,} of {len(rows):,} photos in {piece}: run this again, and it sends what it lacks."
            )
        if about.pictures:
            pictures = layout.pictures_name(self.name, about.number)
            layout.create_texts(self.server, pictures)
            self._send_all(pictures, rows, 20_000, self._picture_rows, goes_on=goes_on)

    def _send_all(self, name: str, rows: np.ndarray, size: int, make: Any, *, goes_on: bool) -> None:
        """Send rows of the album by ranges of their ids; ranges that are there are passed over."""
        step = max(1, min(_BYTES_AT_ONCE // (size + 500), 4_000))
        ranges = [rows[start : start + step] for start in range(0, len(rows), step)]
        what = "Sending thumbnails" if name.endswith("_pictures") else "Sending to Milvus"

        def send(some: np.ndarray) -> int:
            made = list(make(some))
            if made and not (goes_on and self._count_of(name, some) == len(made)):
                self.server.ask("upsert", name, made)
            return len(some)

        with Progress(what, len(rows), "photos") as line, ThreadPoolExecutor(max(1, self.workers)) as threads:
            for number in threads.map(send, ranges):
                line.advance(number)

    def _count_of(self, name: str, rows: np.ndarray) -> int:
        ids = self.album.photos.ids[rows]
        return self.server.count(name, f"id >= {ids[0]} and id <= {ids[-1]}")

    def _photo_rows(self, rows: np.ndarray, table: pa.Table) -> list[dict[str, Any]]:
        records = table.take(pa.array(rows)).to_pylist()
        vectors = self.album.vectors[rows]
        return [{**layout.fields_of(record), "vector": vector} for record, vector in zip(records, vectors, strict=True)]

    def _picture_rows(self, rows: np.ndarray) -> Iterator[dict[str, Any]]:
        for row in rows:
            record = self.album.photos.record(int(row))
            picture = self.storage.thumbnail(record)
            if picture is not None and len(text := base64.b64encode(picture).decode()) <= 65_535:
                yield layout.text_row(record["id"], text)

    def _hold_ready(self, piece: str, index: tuple[str, dict[str, int]]) -> None:
        """Have the server write and index what it got, and load it for searches."""
        timeout, self.server.timeout = self.server.timeout, _SETTLE
        try:
            self.server.ask("flush", piece)
            if not self.server.ask("list_indexes", piece):
                self.server.ask("create_index", piece, layout.index_params("vector", *index))
            self.server.ask("load_collection", piece)
        finally:
            self.server.timeout = timeout

    def _verified(self, about: About) -> float:
        """The share of the nearest photos of a sample that the new version finds; a bad one is an error."""
        new = MilvusStorage(self.server.address, self.server)
        _, photos, vectors = new.load_piece(about.number)
        if not np.array_equal(photos.ids, self.album.photos.ids):
            raise ValueError(f"{self.server.address} would have other photos than the album: nothing was switched.")
        sample = np.random.default_rng(0).choice(len(photos), min(_SAMPLE, len(photos)), replace=False)
        queries = np.asarray(self.album.vectors[sample])
        if not np.array_equal(vectors[sample], queries):
            raise ValueError(f"{self.server.address} gives other vectors than it was sent: nothing was switched.")
        exact, found = Neighbours(self.album.vectors, "exact"), 0
        remote, nobody = new.neighbours(vectors), np.empty(0, np.int64)
        for query in queries:
            asked = VectorQuery(query, nobody)
            wanted = exact.nearest(asked, _NEAREST)
            given = remote.by_index(asked, len(wanted.rows))
            found += 0 if given is None else int((given.scores >= wanted.scores[-1]).sum())
        recall = found / (len(queries) * min(_NEAREST, len(photos)))
        if recall < self.least_recall:
            raise ValueError(
                f"The index of Milvus finds {recall:.0%} of the nearest photos of a sample, less than "
                f"{self.least_recall:.0%}: nothing was switched. Give another --index, or a lower --least-recall."
            )
        return recall

    def _is_overtaken(self, about: About, before: MilvusStorage | None) -> bool:
        """Whether another load ended meanwhile, or took what this one sent for something that was given up."""
        known = None if before is None else before.about.number
        if layout.current_number(self.server, self.name) not in (known, about.number):
            return True
        names = layout.piece_name(self.name, about.number), layout.about_name(self.name, about.number)
        return not all(self.server.has(name) for name in names)

    def _switch(self, about: About, before: MilvusStorage | None) -> None:
        """Show readers the new version, from one moment to the next, and remove what neither it nor the last needs."""
        if self._is_overtaken(about, before):
            raise ValueError(f"{self.server.address} stands for another album than when this load began.")
        piece = layout.piece_name(self.name, about.number)
        if self.server.behind(self.name) != piece:  # or another load of the same album was quicker
            self.server.ask("create_alias" if before is None else "alter_alias", piece, self.name)
        needed = {*about.pieces, *(() if before is None else before.about.pieces)}
        for number in layout.numbers_of(self.server, self.name):
            if number not in needed and number < about.number:
                layout.drop_piece(self.server, self.name, number)


def index_of(kind: str, rows: int, dimension: int) -> tuple[str, dict[str, int]]:
    """The index of a piece with that many vectors, and its parameters; too few for codes get a graph."""
    if kind == "IVF_PQ" and rows >= _LEAST_FOR_CODES:
        codes = next(m for m in range(max(1, dimension // 8), 0, -1) if dimension % m == 0)
        cells = int(4 * min(rows, _SEGMENT // (4 * dimension)) ** 0.5)
        return "IVF_PQ", {"nlist": cells, "m": codes, "nbits": 8}
    return "HNSW", {"M": LINKS, "efConstruction": BUILD_BREADTH}


def _checksum(values: tuple[Any, ...]) -> int:
    digest = hashlib.blake2b(repr(values).encode(errors="surrogateescape"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def _fingerprint(about: About, ids: np.ndarray, checksums: np.ndarray) -> str:
    described = repr(replace(about, fingerprint="", rows=0, alike=[])).encode(errors="surrogateescape")
    return hashlib.sha256(described + ids.tobytes() + checksums.tobytes()).hexdigest()


def _changed(ids: np.ndarray, checksums: np.ndarray, before: MilvusStorage) -> np.ndarray:
    """The rows of the album that Milvus has not, or has otherwise. (k,)"""
    places = np.minimum(np.searchsorted(before.ids, ids), len(before.ids) - 1)
    return np.flatnonzero((before.ids[places] != ids) | (before.checksums[places] != checksums))


def _same(about: About, known: About) -> bool:
    """Whether a load without photos would change nothing."""

    def said(one: About) -> tuple[Any, ...]:
        return one.photos, one.index, one.pictures, one.model, one.source, one.root, one.calibration, one.learnt

    return said(about) == said(known) and set(about.removed) == set(known.removed)


def _absolute(source: str, folder: Path) -> str:
    """Where the model lies, for those who do not have the album's folder."""
    kind, _, name = source.partition(":")
    return f"folder:{(folder / name).resolve()}" if kind == "folder" else source
