"""An album on disk: `album.db` (SQLite) for what is known of photos, and files that only grow for all that is large.

    album.db               settings, photos, what they can be found by, and how much of each other file counts
    vectors-photo-1        (slots, d) float32 or float16, each row of length 1: one file for each space of vectors
    items-photo-1          (slots,) which photo each slot is of, and the box in it
    neighbours-photo-1     the graph of neighbours (see graph.py), which is made again where it is missing
    learnt-photo-1-2       (slots, k) the projected vectors that are searched instead, if the album has learnt
    projection-2           (k, d + 1) float32, what it learnt
    thumbnails-1           JPEGs, one after the other; a photo says where its own is
    collections/           what users keep (see collections.py), with a lock of its own
    people/                faces and the names of people (see faces.py), if they were asked for
    regions/               codes of parts of photos (see regions.py), if they were asked for
    unreadable.csv         what was not read, and why

A writer appends to the files, syncs them, and then commits to `album.db`: whatever stops it, the album is the old one
or the new one. Rows are never changed in place. The slots of removed photos are dead, and are left out when a fifth of
them is: then live rows are written to new files.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import sqlite3
import tempfile
import weakref
import zlib
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from smoothap._core.files import DiskFullError, cache_folder, is_full, locked, sync, write_cache
from smoothap.album import growing, postings
from smoothap.album.database import Database, placeholders
from smoothap.album.faces import FOLDER as FACES
from smoothap.album.faces import FaceStore
from smoothap.album.photos import NOTHING_KNOWN, RECORD, Photos, is_inside, unpacked_columns
from smoothap.album.postings import row_crc
from smoothap.album.projection import Projection
from smoothap.album.regions import FOLDER as REGIONS
from smoothap.album.regions import RegionStore
from smoothap.album.settings import (
    FORM,
    NAME,
    PHOTO,
    REMEDY,
    Settings,
    Space,
    read_settings,
    read_space,
    write_settings,
    write_space,
)
from smoothap.album.vectors import CODECS, FLOAT32, StoredVectors, check_codec

COLLECTIONS = "collections"  # the folder in an album for what users keep
PATIENCE = 600.0  # seconds that one of many writers waits for the others
_DEAD_SHARE = 5  # one slot in so many may be dead
_REMEMBERED = 16  # versions for which a removed photo is still known to readers of an earlier one
_LARGE = 1 << 26  # bytes: a larger album that was found whole is not read again while its files stay as they are
_PACK = 1 << 26  # bytes of thumbnails in one file, about
_LARGEST_THUMBNAIL = 1 << 22  # bytes: the length is in a file that a stranger may have made
_ROWS_AT_ONCE = 500  # ids in one query
ITEM = np.dtype([("photo", "<i8"), ("box", "<f4", 4)])  # a box is (x, y, width, height); all 0: the whole photo
_PATTERNS = ("vectors-*", "items-*", "learnt-*", "projection-*", "thumbnails-*", "neighbours-*", ".*.partial")
_COLUMNS = ", ".join(RECORD)


@dataclass(frozen=True, eq=False)
class Snapshot:
    """One version of an album: settings, ids (n,) rising, and the vectors in the order of ids, which stay as they are.

    `vectors` are those to search in, `original` those that the model gave.
    """

    settings: Settings
    space: Space
    ids: np.ndarray
    slots: np.ndarray | None
    vectors: StoredVectors
    original: StoredVectors
    projection: Projection | None

    @property
    def vectors_key(self) -> str:
        """A name of the vectors that are searched: what is in a slot of theirs never changes."""
        return f"{self.settings.uid}-{self._name}"

    @property
    def graph_file(self) -> str:
        """The file of the graph of their neighbours."""
        return f"neighbours-{self._name}"

    @property
    def _name(self) -> str:
        learnt = self.settings.learnt
        return f"{self.space.name}-{self.space.file}" + ("" if learnt is None else f"-{learnt['number']}")

    @cached_property
    def all_slots(self) -> np.ndarray:
        """The slot of every vector, (n,)."""
        return np.arange(len(self.ids)) if self.slots is None else self.slots

    @property
    def spread(self) -> float:
        """How far the length of a vector that is searched may be from 1."""
        return self.space.spread if self.projection is None else _spread_of(self.space.codec)


class Store:
    """The files of one album; a store in a temporary folder takes that with it when it goes.

    With `vectors_elsewhere`, the files of vectors need not be here: then snapshots have none.
    """

    def __init__(self, folder: Path, *, durable: bool = True, vectors_elsewhere: bool = False) -> None:
        self.folder, self._durable, self._elsewhere = folder, durable, vectors_elsewhere
        if not (folder / NAME).is_file():
            remedy = (
                f"smoothap photos {folder}" if folder.is_dir() and any(folder.iterdir()) else "smoothap photos FOLDER"
            )
            raise FileNotFoundError(f"There is no album in {folder}. To make one of a folder of photos: {remedy}")
        for file in [*folder.iterdir(), *(folder / FACES).glob("*"), *(folder / REGIONS).glob("*")]:
            if not (file.is_file() or file.is_dir()) and os.path.lexists(file):
                raise ValueError(f"{file} is a pipe, a device or a link to nothing, as no album has: delete it.")
        self.database = Database(folder / NAME, FORM, durable=durable)
        self._check_whole()

    @classmethod
    def create(cls, folder: Path | None, dimension: int, codec: str = FLOAT32, **settings: Any) -> Store:
        """A new album without photos, in a folder that has none; with None, in a temporary one."""
        check_codec(codec)
        holder, temporary = None, folder is None
        if folder is None:
            holder = tempfile.TemporaryDirectory(prefix="smoothap-", ignore_cleanup_errors=True)
            folder = Path(holder.name)
        else:
            refuse_inside_album(folder)
            folder.mkdir(parents=True, exist_ok=True)
        with locked(folder, f"Another process is writing to {folder}: wait until it is done."):
            if (folder / NAME).exists() or (folder / "album.json").exists():
                raise ValueError(f"There is an album in {folder} already: open it, or choose another folder.")
            # Whole before it has its name: an album that is being made is none yet.
            partial = folder / f".{NAME}.{secrets.token_hex(4)}.partial"
            try:
                database = Database(partial, FORM, create=True, durable=not temporary)
                with database.writing() as connection:
                    write_settings(connection, Settings(secrets.token_hex(16), **settings))
                    write_space(connection, Space(PHOTO, dimension, codec))
                database.close()
                partial.replace(folder / NAME)
                sync(folder)
            except OSError as error:
                partial.unlink(missing_ok=True)
                raise _full(folder, error) if is_full(error) else error from None
        store = cls(folder, durable=not temporary)
        if holder is not None:
            weakref.finalize(store, holder.cleanup)
        return store

    # -- reading

    def settings(self) -> Settings:
        """The album as a whole, as it is now."""
        with self.database.reading() as connection:
            return read_settings(connection)

    def is_current(self, version: int) -> bool:
        """Whether the album is still of this version."""
        return not self.database.is_replaced and self.settings().version == version

    def snapshot(self) -> Snapshot:
        """The album as it is now."""
        missing: FileNotFoundError | None = None
        for _ in range(5):  # a writer may have replaced files since this one read which there are
            with self.database.reading() as connection:
                settings, space = read_settings(connection), read_space(connection, PHOTO)
                query = "SELECT slot FROM dead WHERE space=? ORDER BY slot"
                dead = np.array([slot for (slot,) in connection.execute(query, (PHOTO,))], np.int64)
                if self._elsewhere:
                    ids = np.fromiter((row[0] for row in connection.execute(_LIVE_IDS)), np.int64, settings.photos)
                    nothing = StoredVectors(np.empty((0, space.dimension), np.float32))
                    return Snapshot(settings, space, ids, None, nothing, nothing, self._projection(settings, space))
            try:
                return self._mapped(settings, space, dead)
            except FileNotFoundError as error:
                missing = error
        assert missing is not None
        raise missing

    def _mapped(self, settings: Settings, space: Space, dead: np.ndarray) -> Snapshot:
        owners = growing.mapped(self.folder, space.items, ITEM, (space.slots,))["photo"]
        stored = growing.mapped(
            self.folder, space.vectors, np.dtype(CODECS[space.codec]), (space.slots, space.dimension)
        )
        if len(dead) and not 0 <= dead[0] <= dead[-1] < space.slots:
            raise self.database.damaged("a dead slot that is none")
        slots: np.ndarray | None = None
        if len(dead):
            slots = np.delete(np.arange(space.slots, dtype=np.int32 if space.slots < 2**31 else np.int64), dead)
        ids = np.array(owners if slots is None else owners[slots], np.int64)
        if not _is_rising(ids):
            order = np.argsort(ids, kind="stable")
            slots, ids = order if slots is None else slots[order], ids[order]
        if len(ids) != settings.photos or not _is_rising(ids) or (len(ids) and ids[-1] >= settings.next_id):
            raise self.database.damaged("its photos and its vectors are not of the same album")
        original, projection = StoredVectors(stored, slots), self._projection(settings, space)
        vectors = original
        if projection is not None:
            assert settings.learnt is not None
            shape, name = (space.slots, projection.dimension), space.learnt(settings.learnt["number"])
            learnt = growing.mapped(self.folder, name, np.dtype(CODECS[space.codec]), shape)
            vectors = StoredVectors(learnt, slots)
        return Snapshot(settings, space, ids, slots, vectors, original, projection)

    def _projection(self, settings: Settings, space: Space) -> Projection | None:
        if settings.learnt is None:
            return None
        shape = settings.learnt["dimension"], space.dimension + 1
        name = _projection_file(settings.learnt["number"])
        return Projection.from_array(growing.mapped(self.folder, name, np.dtype(np.float32), shape))

    def records(self, ids: Iterable[int] | None = None, *, removed: bool = False) -> Iterator[dict[str, Any]]:
        """What is known of photos, each row checked: of all, by rising ids, or of some by their ids, in any order.

        With `removed`, photos count that were removed a few versions ago: whoever has an earlier one may ask for them.
        """
        if ids is None:
            # A long list is read in steps, so that no writer waits for whoever reads it.
            last = -1
            while rows := self._rows(f"WHERE id>? AND removed IS NULL ORDER BY id LIMIT {1 << 14}", (last,)):
                last = rows[-1]["id"]
                yield from rows
            return
        wanted = [int(identity) for identity in ids]
        for start in range(0, len(wanted), _ROWS_AT_ONCE):
            some = wanted[start : start + _ROWS_AT_ONCE]
            where = f"WHERE id IN ({placeholders(some)})" + ("" if removed else " AND removed IS NULL")
            yield from self._rows(where, some)

    def _rows(self, where: str, values: Sequence[Any]) -> list[dict[str, Any]]:
        with self.database.reading() as connection:
            rows = connection.execute(f"SELECT {_COLUMNS}, crc FROM photo {where}", values).fetchall()
        for *row, crc in rows:
            if row_crc(row) != crc:
                raise self.database.damaged(f"the row of photo {row[0]}")
        records = [dict(zip(RECORD, row, strict=False)) for row in rows]
        for record in records:
            if not isinstance(record["path"], bytes) or not is_inside(record["path"]):
                raise ValueError(f"{self.database.file} names a file outside of the photo folder: do not trust it.")
        return records

    def paths(self, among: Sequence[bytes] | None = None) -> dict[bytes, tuple[int, int, int, bytes]]:
        """The id, size, time and content of photos by their path: of all, or of those `among` that are there."""
        query, known = "SELECT path, id, bytes, modified, sha256 FROM photo WHERE removed IS NULL", {}
        with self.database.reading() as connection:
            if among is None:
                return {path: (*facts,) for path, *facts in connection.execute(query)}
            for start in range(0, len(among), _ROWS_AT_ONCE):
                some = among[start : start + _ROWS_AT_ONCE]
                rows = connection.execute(f"{query} AND path IN ({placeholders(some)})", some)
                known.update({path: (*facts,) for path, *facts in rows})
        return known

    def thumbnail(self, record: Mapping[str, Any]) -> bytes | None:
        """The stored thumbnail of a photo, or None where there is none or it is damaged."""
        if not record["length"]:
            return None
        try:
            with (self.folder / f"thumbnails-{record['pack']}").open("rb") as pack:
                pack.seek(record["start"] + 4)
                picture = pack.read(min(record["length"] - 4, _LARGEST_THUMBNAIL))
                pack.seek(record["start"])
                crc = int.from_bytes(pack.read(4), "little")
        except (OSError, ValueError):
            return None
        return picture if zlib.crc32(picture) == crc else None

    # -- writing

    @contextmanager
    def writing(self, patience: float = 0.0) -> Generator[None]:
        """Alone with the album: a second writer gets an error, and so does one without room on the disk.

        `patience` is how many seconds this waits for another writer.
        """
        if self._elsewhere:
            raise ValueError(
                "An album that is searched in Milvus is changed in its folder, opened without that engine, and pushed "
                "again: smoothap album push"
            )
        refusal = f"Another process is writing to {self.folder}: wait until it is done."
        try:
            with locked(self.folder, refusal, patience):
                if self.database.is_replaced:
                    raise ValueError(f"The album in {self.folder} was made again meanwhile: open it again.")
                whole = self._is_known_whole()
                self._sweep()
                yield
                if whole:
                    self._remember_whole()
        except OSError as error:
            if isinstance(error, DiskFullError) or not is_full(error):
                raise
            raise _full(self.folder, error) from error

    @contextmanager
    def _committing(self) -> Generator[tuple[sqlite3.Connection, Settings]]:
        """One change of the album, which gives it a new version."""
        with self.database.writing() as connection:
            settings = read_settings(connection)
            settings = replace(settings, version=settings.version + 1)
            write_settings(connection, settings)
            forgotten = settings.version - _REMEMBERED
            connection.execute("DELETE FROM photo WHERE removed IS NOT NULL AND removed<?", (forgotten,))
            yield connection, settings

    def set(self, **values: Any) -> None:
        """Change settings."""
        with self._committing() as (connection, settings):
            write_settings(connection, replace(settings, **values))

    def add(
        self, records: Sequence[Mapping[str, Any]], vectors: np.ndarray, thumbnails: Sequence[bytes | None] = ()
    ) -> list[int]:
        """Take in photos with their vectors (n, d) of length 1, as one change; their ids.

        A record without an id is of a new photo; one with the id of a photo takes its place.
        """
        with self.database.reading() as connection:
            settings, space = read_settings(connection), read_space(connection, PHOTO)
            pack = settings.pack + (growing.length_of(connection, f"thumbnails-{settings.pack}") >= _PACK)
        projection = self._projection(settings, space)
        new_ids = iter(range(settings.next_id, settings.next_id + len(records)))
        ids = [int(next(new_ids) if record.get("id") is None else record["id"]) for record in records]
        stored = np.ascontiguousarray(vectors, CODECS[space.codec])
        growths = [self._append(space.vectors, [stored.data]), self._append(space.items, [_whole_photos(ids).data])]
        if projection is not None and settings.learnt is not None:
            # What is projected is what the album keeps, so that it does not matter when it is.
            learnt = projection(stored.astype(np.float32)).astype(CODECS[space.codec])
            growths.append(self._append(space.learnt(settings.learnt["number"]), [learnt.data]))
        places, growth = self._append_thumbnails(pack, thumbnails or [None] * len(ids))
        full = [
            {**NOTHING_KNOWN, **record, "id": identity, **place}
            for record, identity, place in zip(records, ids, places, strict=True)
        ]
        self._drop_parts([identity for identity in ids if identity < settings.next_id])
        spread = max(space.spread, float(np.abs(np.linalg.norm(stored.astype(np.float64), axis=1) - 1).max(initial=0)))
        with self._committing() as (connection, settings):
            for one in (*growths, growth):
                one.count(connection)
            before = self._replaced(connection, full, space)
            connection.executemany(
                f"REPLACE INTO photo ({_COLUMNS}, crc) VALUES ({placeholders(RECORD)}, ?)", map(_row, full)
            )
            taken = ((one["id"], key) for one in before for key in _keys(one))
            postings.change(connection, taken, ((one["id"], key) for one in full for key in _keys(one)))
            write_space(connection, replace(space, slots=space.slots + len(ids), spread=spread))
            number, next_id = settings.photos + len(ids) - len(before), max([settings.next_id - 1, *ids]) + 1
            write_settings(connection, replace(settings, photos=number, next_id=next_id, pack=pack))
        return ids

    def _drop_parts(self, photos: Sequence[int]) -> None:
        """Forget the faces and the parts of photos that are about to change or to leave."""
        for kind in (FaceStore, RegionStore):
            if photos and kind.is_in(self.folder):
                parts = kind(self.folder)
                try:
                    parts.drop(photos)
                finally:
                    parts.database.close()

    def remove(self, ids: Iterable[int]) -> None:
        """Take photos out; their ids are given to no other."""
        gone = sorted({int(identity) for identity in ids})
        if not gone:
            return
        records, snapshot = list(self.records(gone)), self.snapshot()
        Photos(self, snapshot.ids).rows_of(gone)  # an id that is none is an error before anything is changed
        self._drop_parts(gone)
        with self._committing() as (connection, settings):
            self._bury(connection, snapshot, np.array(gone, np.int64))
            for start in range(0, len(gone), _ROWS_AT_ONCE):
                some = gone[start : start + _ROWS_AT_ONCE]
                query = f"UPDATE photo SET removed=? WHERE id IN ({placeholders(some)})"
                connection.execute(query, (settings.version, *some))
            postings.change(connection, ((one["id"], key) for one in records for key in _keys(one)), ())
            write_settings(connection, replace(settings, photos=settings.photos - len(records)))
        self.compact()

    def revise(self, facts: Mapping[int, Mapping[str, Any]]) -> None:
        """Change what is known of photos, by their ids; vectors and thumbnails stay."""
        if not facts:
            return
        before = list(self.records(facts))
        after = [{**record, **facts[record["id"]]} for record in before]
        with self._committing() as (connection, _):
            connection.executemany(
                f"REPLACE INTO photo ({_COLUMNS}, crc) VALUES ({placeholders(RECORD)}, ?)", map(_row, after)
            )
            taken, given = (((one["id"], key) for one in some for key in _keys(one)) for some in (before, after))
            postings.change(connection, taken, given)

    def find_by_dates(self) -> None:
        """Let photos be found by dates of files and of their names, in an album from before there were any."""
        with self.database.reading() as connection:
            if postings.counts(connection, "dated by") or not read_settings(connection).photos:
                return
        with self._committing() as (connection, _):
            connection.execute("DELETE FROM posting WHERE name='day'")
            keys = ((record["id"], key) for record in self.records() for key in postings.date_keys(record))
            postings.change(connection, (), keys)

    def learn(self, projection: Projection, learnt: Mapping[str, Any], calibration: Mapping[str, Any] | None) -> None:
        """Search in projected vectors from now on, calibrated again; the model's own stay, for `unlearn`."""
        snapshot = self.snapshot()
        settings, number = snapshot.settings, 1 + (snapshot.settings.learnt or {"number": 0})["number"]
        earlier = settings.calibration if settings.learnt is None else settings.learnt["calibration"]
        space = snapshot.space
        codec, stored = CODECS[space.codec], StoredVectors(snapshot.original.stored)
        rows = (
            np.ascontiguousarray(projection(stored[start : start + (1 << 14)]), codec).data
            for start in range(0, space.slots, 1 << 14)
        )
        whole = np.ascontiguousarray(projection.to_array(), np.float32)
        growths = [self._append(space.learnt(number), rows), self._append(_projection_file(number), [whole.data])]
        described = {**learnt, "number": number, "calibration": earlier}
        with self._committing() as (connection, settings):
            self._forget_learnt(connection, snapshot)
            for growth in growths:
                growth.count(connection)
            plain = None if calibration is None else dict(calibration)
            write_settings(connection, replace(settings, learnt=described, calibration=plain))
        self._sweep()

    def unlearn(self) -> None:
        """Search in the vectors of the model again, with their calibration."""
        snapshot = self.snapshot()
        if (learnt := snapshot.settings.learnt) is None:
            raise ValueError("This album has learnt nothing that could be undone.")
        with self._committing() as (connection, settings):
            self._forget_learnt(connection, snapshot)
            write_settings(connection, replace(settings, learnt=None, calibration=learnt["calibration"]))
        self._sweep()

    def compact(self, *, always: bool = False) -> None:
        """Write live rows to new files, if a fifth of all is dead or it is asked for."""
        with self.database.reading() as connection:
            settings, space = read_settings(connection), read_space(connection, PHOTO)
        live = settings.photos
        if not always and (space.slots - live) * _DEAD_SHARE <= space.slots:
            return
        fresh, snapshot = replace(space, file=space.file + 1, slots=live), self.snapshot()
        items = _whole_photos(snapshot.ids)
        sources, replaced = {fresh.vectors: snapshot.original}, [space.vectors, space.items]
        if settings.learnt is not None:
            sources[fresh.learnt(settings.learnt["number"])] = snapshot.vectors
            replaced.append(space.learnt(settings.learnt["number"]))
        growths = [self._append(fresh.items, [items.data])]
        for name, vectors in sources.items():
            rows = (_live(vectors, start) for start in range(0, live, 1 << 14))
            growths.append(self._append(name, rows))
        with self._committing() as (connection, settings):
            for name in replaced:
                connection.execute("DELETE FROM block WHERE file=?", (name,))
            connection.execute("DELETE FROM dead WHERE space=?", (space.name,))
            # Thumbnails of which no photo is left go with their file.
            unused = "SELECT 'thumbnails-' || pack FROM photo WHERE length>0 UNION SELECT 'thumbnails-' || ?"
            query = f"DELETE FROM block WHERE file LIKE 'thumbnails-%' AND file NOT IN ({unused})"
            connection.execute(query, (settings.pack,))
            for growth in growths:
                growth.count(connection)
            write_space(connection, fresh)
        self._sweep()

    def _append(self, name: str, pieces: Iterable[Any]) -> growing.Growth:
        with self.database.reading() as connection:
            last = growing.last_block(connection, name)
        return growing.append(last, self.folder, name, pieces, durable=self._durable)

    def _append_thumbnails(
        self, pack: int, thumbnails: Sequence[bytes | None]
    ) -> tuple[list[dict[str, int]], growing.Growth]:
        """Where each thumbnail is, and what was appended: its checksum in four bytes, then the picture."""
        name = f"thumbnails-{pack}"
        with self.database.reading() as connection:
            end = growing.length_of(connection, name)
        places, pieces = list[dict[str, int]](), list[bytes]()
        for picture in thumbnails:
            content = b"" if picture is None else zlib.crc32(picture).to_bytes(4, "little") + picture
            places.append({"pack": pack, "start": end, "length": len(content)})
            pieces.append(content)
            end += len(content)
        if not any(pieces):
            return places, growing.Growth(name, ())
        return places, self._append(name, pieces)

    def _replaced(
        self, connection: sqlite3.Connection, records: Sequence[Mapping[str, Any]], space: Space
    ) -> list[dict[str, Any]]:
        """The photos whose place records take, as they are; their slots are dead from now on."""
        known = read_settings(connection).next_id
        before = list(self.records([record["id"] for record in records if record["id"] < known]))
        if before:
            ids = np.array(sorted(record["id"] for record in before), np.int64)
            self._bury(connection, self.snapshot(), ids)
        return before

    def _bury(self, connection: sqlite3.Connection, snapshot: Snapshot, ids: np.ndarray) -> None:
        """Mark the slots of photos (n,), rising, as dead."""
        rows = np.searchsorted(snapshot.ids, ids)
        slots = rows if snapshot.slots is None else snapshot.slots[rows]
        dead = ((PHOTO, slot) for slot in slots.tolist())
        connection.executemany("INSERT INTO dead VALUES (?, ?)", dead)

    def _forget_learnt(self, connection: sqlite3.Connection, snapshot: Snapshot) -> None:
        if snapshot.settings.learnt is not None:
            number = snapshot.settings.learnt["number"]
            names = snapshot.space.learnt(number), _projection_file(number)
            connection.execute("DELETE FROM block WHERE file IN (?, ?)", names)

    def _sweep(self) -> None:
        """Remove files of ours that do not count: those of an interrupted change, and replaced ones."""
        with self.database.reading() as connection:
            learnt, space = read_settings(connection).learnt, read_space(connection, PHOTO)
            needed = {name for (name,) in connection.execute("SELECT DISTINCT file FROM block")}
        number = "" if learnt is None else f"-{learnt['number']}"
        needed.add(f"neighbours-{space.name}-{space.file}{number}")
        for file in {file for pattern in _PATTERNS for file in self.folder.glob(pattern)}:
            if file.name not in needed:
                file.unlink(missing_ok=True)

    # -- checking

    def verify(self) -> None:
        """Check every file of the album to the last byte; what is damaged is named in an error."""
        self._check_whole(always=True)
        with self.database.reading() as connection:
            query = "SELECT DISTINCT file FROM block WHERE file LIKE 'thumbnails-%'"
            packs = {name: growing.blocks_of(connection, name) for (name,) in connection.execute(query).fetchall()}
        for name, blocks in packs.items():
            growing.check(self.folder, name, blocks)
        for record in self.records():
            if record["length"] and self.thumbnail(record) is None:
                raise ValueError(f"The thumbnail of {os.fsdecode(record['path'])!r} is damaged. {REMEDY}")

    def _check_whole(self, *, always: bool = False) -> None:
        """Refuse an album of which a byte that answers depend on is not as it was written.

        A large album that was found whole before is not read again while size, place and times of its files stay as
        they are; a disk that loses bits without a write is seen by `always` only.
        """
        if not always and self._is_known_whole():
            return
        self.database.check()
        while True:
            version = self.settings().version
            try:
                self._check_rows()
                break
            except ValueError:
                if self.settings().version == version:
                    raise
        self._remember_whole()

    def _check_rows(self) -> None:
        """Refuse rows that are not as they were written, and files that do not go with them."""
        ids = np.array([record["id"] for record in self.records()], np.int64)
        snapshot = self.snapshot()
        if not np.array_equal(ids, snapshot.ids):
            raise self.database.damaged("its photos and its vectors are not of the same album")
        space, learnt = snapshot.space, snapshot.settings.learnt
        size = np.dtype(CODECS[space.codec]).itemsize
        lengths = {space.vectors: space.slots * space.dimension * size, space.items: space.slots * ITEM.itemsize}
        if self._elsewhere:
            lengths.clear()
        elif learnt is not None:
            lengths[space.learnt(learnt["number"])] = space.slots * snapshot.vectors.shape[1] * size
        if learnt is not None:
            lengths[_projection_file(learnt["number"])] = 4 * learnt["dimension"] * (space.dimension + 1)
        with self.database.reading() as connection:
            postings.check(connection)
            blocks = {name: growing.blocks_of(connection, name) for name in lengths}
        for name, length in lengths.items():
            growing.check(self.folder, name, blocks[name], length)

    def _stamp(self) -> list[list[Any]]:
        """What changes whenever a file is written to that answers depend on."""
        files = [self.folder / NAME]
        for pattern in _PATTERNS[:4]:
            files += sorted(self.folder.glob(pattern))
        states = [(file.name, file.stat()) for file in files]
        return [[name, one.st_dev, one.st_ino, one.st_size, one.st_mtime_ns, one.st_ctime_ns] for name, one in states]

    def _note(self) -> Path:
        place = hashlib.sha256(os.fsencode(self.folder.resolve())).hexdigest()[:32]
        return cache_folder() / "whole" / f"{place}.json"

    def _is_known_whole(self) -> bool:
        try:
            stamp = self._stamp()
            return sum(one[3] for one in stamp) >= _LARGE and json.loads(self._note().read_bytes()) == stamp
        except (OSError, ValueError):
            return False

    def _remember_whole(self) -> None:
        stamp = self._stamp()
        if sum(one[3] for one in stamp) >= _LARGE:
            write_cache(self._note(), json.dumps(stamp).encode())


_LIVE_IDS = "SELECT id FROM photo WHERE removed IS NULL ORDER BY id"


def refuse_inside_album(folder: Path) -> None:
    """Refuse a folder that is in an album: whoever copies or deletes that album would not know of a second one."""
    for above in folder.resolve().parents:
        if (above / NAME).is_file():
            raise ValueError(f"{folder} is in the album {above}: choose a folder outside of it for the new album.")


def relative(path: Path, folder: Path) -> str:
    """A path as seen from a folder: an album carries no address of the machine it was made on."""
    return os.path.relpath(path.resolve(), folder.resolve())


def _row(record: Mapping[str, Any]) -> tuple[Any, ...]:
    values = tuple(record[name] for name in RECORD)
    return *values, row_crc(values)


def _keys(record: Mapping[str, Any]) -> set[postings.Key]:
    return postings.keys_of(record, unpacked_columns(record["columns"]))


def _is_rising(ids: np.ndarray) -> bool:
    return bool((ids[1:] > ids[:-1]).all())


def _whole_photos(ids: Sequence[int] | np.ndarray) -> np.ndarray:
    """The items of whole photos."""
    items: np.ndarray = np.zeros(len(ids), ITEM)
    items["photo"] = ids
    return items


def _live(vectors: StoredVectors, start: int) -> memoryview:
    """Some rows as they are stored, one after the other."""
    rows = np.arange(start, min(start + (1 << 14), len(vectors)))
    return np.ascontiguousarray(vectors.stored[rows if vectors.slots is None else vectors.slots[rows]]).data


def _spread_of(codec: str) -> float:
    """How far the length of a unit vector may be from 1 once its numbers are rounded to a codec."""
    return 2.0 ** (-10 if codec != FLOAT32 else -22)


def _projection_file(number: int) -> str:
    """What an album learnt for the number-th time."""
    return f"projection-{number}"


def _full(folder: Path, error: OSError) -> DiskFullError:
    return DiskFullError(
        error.errno,
        f"The disk of the album {folder} is full. The album opens as it was last written, with all photos that were "
        "taken in until then: make room, and run this again.",
    )
