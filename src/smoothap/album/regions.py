"""The parts of an album's photos: `regions/`, a database that says which photo is in which slot, and a file of codes.

    regions.db             settings, the basis that vectors are coded by, the slot of each photo
    codes-1                (slots, PARTS, bytes) int8: a code for each part of a photo, and its squared length behind it

A part is the vector of a window (models/regions.py) in the basis of the album: its mean taken away, turned to the
directions in which parts of this album differ most, and rounded to whole numbers from -127 to 127. The score of two is
the cosine of these whole numbers, the same on every machine (docs/maths.md). The basis is learnt from photos of the
album when parts are first asked for, and again when an album that was small has grown.

The parts of a photo go before the photo changes or leaves, and come after it: whatever stops a writer, none is of
another photo, and what lacks its parts gets them at the next run. To forget all parts is to delete the folder.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from smoothap.album import growing
from smoothap.album.database import Database, Form, placeholders
from smoothap.album.postings import row_crc
from smoothap.album.vectors import unit_vectors
from smoothap.models.regions import PARTS

REGION = "region"  # the space of parts
FOLDER, FILE = "regions", "regions.db"
ENOUGH = 128  # photos to learn a basis from
MOST_CODE, MOST_QUERY_CODE = 127, 32_767  # the sum of 256 products fits 32 bits
_DIMENSION = 256  # of a code, at most
_NORM = np.dtype("<i4")
_WHITENING = 0.25  # of the variance of a direction, to this power, that is divided out
_LEAST_VARIANCE = 1e-4  # of a direction, as a share of the largest
_DEAD_SHARE = 5  # one slot in so many may be dead
_AT_ONCE = 500  # ids in one query
_ROWS_AT_ONCE = 4096
_FORM = Form(
    "the regions of an album",
    1,
    (
        "CREATE TABLE setting (name TEXT PRIMARY KEY, value BLOB NOT NULL, crc INTEGER NOT NULL) WITHOUT ROWID, STRICT",
        "CREATE TABLE slot (photo INTEGER PRIMARY KEY, slot INTEGER NOT NULL UNIQUE, sha256 BLOB NOT NULL, "
        "crc INTEGER NOT NULL) STRICT",
        growing.SCHEMA,
    ),
    "Delete the folder regions of the album, and run smoothap index PHOTOS --out ALBUM --regions.",
)


@dataclass(frozen=True, eq=False)
class Basis:
    """What turns vectors (n, d) into the numbers (n, k) that are coded: (vector - mean) @ directions.T."""

    mean: np.ndarray  # (d,) float32
    directions: np.ndarray  # (k, d) float32, of which the last few are zero where k is not a multiple of 4

    @classmethod
    def learnt(cls, vectors: np.ndarray) -> Basis:
        """The directions in which these vectors (n, d) differ most; those with much variance count a little less."""
        mean = vectors.mean(0, dtype=np.float64)
        centred = vectors - mean
        variances, directions = np.linalg.eigh(centred.T @ centred / len(vectors))
        number = min(_DIMENSION, vectors.shape[1])
        variances = np.maximum(variances[::-1][:number], max(variances[-1] * _LEAST_VARIANCE, 1e-12))
        scaled = directions.T[::-1][:number] / variances[:, None] ** (_WHITENING / 2)
        padded = np.zeros((-(-number // 4) * 4, vectors.shape[1]), np.float32)
        padded[:number] = scaled
        return cls(mean.astype(np.float32), padded)

    def __call__(self, vectors: np.ndarray) -> np.ndarray:
        """Vectors (..., d) of length 1 as numbers (..., k) of any length."""
        return (vectors - self.mean) @ self.directions.T

    def coded(self, vectors: np.ndarray) -> np.ndarray:
        """Parts of photos (n, PARTS, d) as they are kept, (n, PARTS, k + 4) int8: codes and their squared lengths."""
        codes = whole_numbers(self(vectors), MOST_CODE).astype(np.int8)
        norms = (codes.astype(np.int64) ** 2).sum(-1, keepdims=True).astype(_NORM)
        return np.concatenate([codes, norms.view(np.int8)], axis=-1)


def whole_numbers(numbers: np.ndarray, most: int) -> np.ndarray:
    """Numbers (..., k) as whole ones, the largest of each row `most`; a row of zeros stays one."""
    largest = np.abs(numbers).max(-1, keepdims=True)
    return np.rint(numbers * (most / np.where(largest > 0, largest, 1)))


@dataclass(frozen=True)
class RegionSettings:
    """What is known of the parts of an album as a whole."""

    uid: str  # of the album
    size: int  # of the view that the network is given
    learnt_from: int  # photos, the basis
    dimension: int  # of the vectors of the model
    code: int  # bytes of a part, with its length
    version: int = 0  # counts changes
    file: int = 1
    slots: int = 0

    @property
    def codes(self) -> str:
        """The name of the file of codes."""
        return f"codes-{self.file}"

    @property
    def bytes_a_photo(self) -> int:
        return PARTS * self.code


@dataclass(frozen=True, eq=False)
class Regions:
    """The parts of one version of an album: codes (slots, PARTS, k + 4) int8, and the slot of each photo, or -1."""

    codes: np.ndarray
    slots: np.ndarray

    @property
    def missing(self) -> int:
        """How many photos have no parts yet."""
        return int((self.slots < 0).sum())

    def vectors(self, row: int) -> np.ndarray:
        """The parts of a photo as vectors (PARTS, k) of length 1, as far as they are not zero."""
        codes = self.codes[self.slots[row], :, : -_NORM.itemsize].astype(np.float32)
        return codes / np.maximum(np.linalg.norm(codes, axis=1, keepdims=True), 1e-30)


class RegionStore:
    """`regions/` of one album; `create` makes it, and without that it has to be there."""

    def __init__(self, album: Path, *, create: bool = False) -> None:
        self.folder = album / FOLDER
        if create:
            self.folder.mkdir(parents=True, exist_ok=True)
        self.database = Database(self.folder / FILE, _FORM, create=create)

    @classmethod
    def is_in(cls, album: Path) -> bool:
        """Whether parts of photos are kept in an album."""
        return (album / FOLDER / FILE).is_file()

    # -- reading

    def settings(self) -> RegionSettings | None:
        """What is known of them as a whole; None where a writer was stopped before there was anything."""
        with self.database.reading() as connection:
            return self._settings(connection)

    def _settings(self, connection: sqlite3.Connection) -> RegionSettings | None:
        value = self._value(connection, "settings")
        return None if value is None else RegionSettings(**json.loads(value))

    def _value(self, connection: sqlite3.Connection, name: str) -> bytes | None:
        row = connection.execute("SELECT value, crc FROM setting WHERE name=?", (name,)).fetchone()
        if row is not None and row_crc((name, row[0])) != row[1]:
            raise self.database.damaged(f"the setting {name}")
        return None if row is None else row[0]

    def basis(self) -> Basis:
        """What parts are coded by."""
        with self.database.reading() as connection:
            settings, value = self._settings(connection), self._value(connection, "basis")
        if settings is None or value is None:
            raise self.database.damaged("it has no basis")
        rows = np.frombuffer(value, "<f4").reshape(-1, settings.dimension)
        return Basis(rows[0], rows[1:])

    def seen(self) -> dict[int, bytes]:
        """The photos whose parts are there, and their content."""
        with self.database.reading() as connection:
            return {photo: sha256 for photo, _, sha256 in self._slots(connection)}

    def _slots(self, connection: sqlite3.Connection) -> list[tuple[int, int, bytes]]:
        rows = connection.execute("SELECT photo, slot, sha256, crc FROM slot").fetchall()
        for *row, crc in rows:
            if row_crc(row) != crc:
                raise self.database.damaged(f"the row of photo {row[0]}")
        return [(photo, slot, sha256) for photo, slot, sha256, _ in rows]

    def regions(self, photos: np.ndarray) -> Regions:
        """The parts of these photos, ids (n,) rising."""
        missing: FileNotFoundError | None = None
        for _ in range(5):  # a writer may have replaced the file since this one read which it is
            with self.database.reading() as connection:
                settings, rows = self._settings(connection), self._slots(connection)
            slots = np.full(len(photos), -1, np.int64)
            if settings is None:
                return Regions(np.empty((0, PARTS, _NORM.itemsize), np.int8), slots)
            owners = np.array([row[0] for row in rows], np.int64)
            theirs = np.array([row[1] for row in rows], np.int64)
            if len(theirs) and not 0 <= theirs.min() <= theirs.max() < settings.slots:
                raise self.database.damaged("a slot that is none")
            known = np.isin(owners, photos)
            slots[np.searchsorted(photos, owners[known])] = theirs[known]
            try:
                return Regions(self._mapped(settings), slots)
            except FileNotFoundError as error:
                missing = error
        assert missing is not None
        raise missing

    def _mapped(self, settings: RegionSettings) -> np.ndarray:
        return growing.mapped(
            self.folder, settings.codes, np.dtype(np.int8), (settings.slots, PARTS, settings.code)
        )  # fmt: skip

    def verify(self) -> None:
        """Check every byte."""
        self.database.check()
        with self.database.reading() as connection:
            settings, rows = self._settings(connection), self._slots(connection)
            self._value(connection, "basis")
            if settings is None:
                return
            blocks = growing.blocks_of(connection, settings.codes)
        if any(not 0 <= slot < settings.slots for _, slot, _ in rows):
            raise self.database.damaged("a slot that is none")
        growing.check(self.folder, settings.codes, blocks, settings.slots * settings.bytes_a_photo)

    # -- writing, by the album's only writer

    def begin(self, uid: str, size: int, basis: Basis, learnt_from: int) -> None:
        """Keep parts by this basis from now on; those that are there go."""
        code, dimension = len(basis.directions) + _NORM.itemsize, len(basis.mean)
        with self.database.writing() as connection:
            before = self._settings(connection)
            file, version = (1, 0) if before is None else (before.file + 1, before.version + 1)
            for table in ("slot", "block"):
                connection.execute(f"DELETE FROM {table}")
            rows = np.concatenate([basis.mean[None], basis.directions]).astype("<f4")
            self._set(connection, "basis", rows.tobytes())
            self._write(connection, RegionSettings(uid, size, learnt_from, dimension, code, version, file))
        self._sweep()

    def _set(self, connection: sqlite3.Connection, name: str, value: bytes) -> None:
        connection.execute("REPLACE INTO setting VALUES (?, ?, ?)", (name, value, row_crc((name, value))))

    def _write(self, connection: sqlite3.Connection, settings: RegionSettings) -> None:
        self._set(connection, "settings", json.dumps(asdict(settings)).encode())

    def put(self, found: Mapping[int, tuple[bytes, np.ndarray]]) -> None:
        """The parts of photos, by their ids, each with its content; those that were known of them go."""
        with self.database.writing() as connection:
            settings = self._settings(connection)
            assert settings is not None
            codes = np.stack([codes for _, codes in found.values()])
            growth = self._append(connection, settings.codes, [codes.data])
            growth.count(connection)
            rows = [(photo, settings.slots + place, found[photo][0]) for place, photo in enumerate(found)]
            self._insert(connection, rows)
            changed = replace(settings, version=settings.version + 1, slots=settings.slots + len(rows))
            self._write(connection, changed)

    def _insert(self, connection: sqlite3.Connection, rows: Sequence[tuple[int, int, bytes]]) -> None:
        connection.executemany("REPLACE INTO slot VALUES (?, ?, ?, ?)", ((*row, row_crc(row)) for row in rows))

    def _append(self, connection: sqlite3.Connection, name: str, pieces: Iterable[memoryview]) -> growing.Growth:
        return growing.append(growing.last_block(connection, name), self.folder, name, pieces, durable=True)

    def drop(self, photos: Sequence[int]) -> None:
        """Forget the parts of photos."""
        with self.database.writing() as connection:
            for start in range(0, len(photos), _AT_ONCE):
                some = [int(photo) for photo in photos[start : start + _AT_ONCE]]
                connection.execute(f"DELETE FROM slot WHERE photo IN ({placeholders(some)})", some)
            if (settings := self._settings(connection)) is not None:
                self._write(connection, replace(settings, version=settings.version + 1))

    def compact(self) -> None:
        """Write the slots that count to a new file, if a fifth of all do not."""
        with self.database.reading() as connection:
            settings, rows = self._settings(connection), self._slots(connection)
        if settings is None or (settings.slots - len(rows)) * _DEAD_SHARE <= settings.slots:
            return
        rows.sort(key=lambda row: row[1])
        slots, codes = np.array([row[1] for row in rows], np.int64), self._mapped(settings)
        parts = (slots[start : start + _ROWS_AT_ONCE] for start in range(0, len(slots), _ROWS_AT_ONCE))
        fresh = replace(settings, version=settings.version + 1, file=settings.file + 1, slots=len(rows))
        with self.database.writing() as connection:
            growth = self._append(connection, fresh.codes, (np.ascontiguousarray(codes[part]).data for part in parts))
            for table in ("slot", "block"):
                connection.execute(f"DELETE FROM {table}")
            growth.count(connection)
            self._insert(connection, [(photo, place, sha256) for place, (photo, _, sha256) in enumerate(rows)])
            self._write(connection, fresh)
        self._sweep()

    def _sweep(self) -> None:
        """Remove files of codes that do not count."""
        settings = self.settings()
        for file in self.folder.glob("codes-*"):
            if settings is None or file.name != settings.codes:
                file.unlink(missing_ok=True)


def drop_regions(album: Path, photos: Iterable[int]) -> None:
    """Forget the parts of photos that are about to change or to leave an album, if it has any."""
    if RegionStore.is_in(album) and (gone := [int(photo) for photo in photos]):
        store = RegionStore(album)
        try:
            store.drop(gone)
        finally:
            store.database.close()


def query_codes(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of a query for each level (levels, k) as whole ones, and their squared lengths (levels,)."""
    codes = whole_numbers(unit_vectors(vectors), MOST_QUERY_CODE).astype(np.int16)
    return codes, (codes.astype(np.int64) ** 2).sum(1)
