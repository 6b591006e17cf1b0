"""The parts of an album's photos: `regions/`, a database that says which photo is in which slot, and a file of codes.

    regions.db             settings, the basis that vectors are coded by, the slot of each photo
    codes-1                (slots, PARTS, bytes) int8: a code for each part of a photo, and its squared length behind it

All photos take the same room, so that what comes is written to slots that hold nothing, and is on the disk before the
row that names it. A writer takes slots that were free when it began, never one that it freed itself: what a search that
runs meanwhile looks at, and what is named again if the writer is stopped, is not written over.

A part is the vector of a window (models/regions.py) in the basis of the album: its mean taken away, turned to the
directions in which parts of this album differ most, and rounded to whole numbers from -127 to 127. The score of two is
the cosine of these whole numbers, the same on every machine (docs/maths.md). The basis is learnt from photos of the
album when parts are first asked for, and again when an album that was small has grown.

The parts of a photo go before the photo changes or leaves, and come after it: whatever stops a writer, none is of
another photo, and what lacks its parts gets them at the next run. To forget all parts is to delete the folder.
"""

from __future__ import annotations

import json
import os
import sqlite3
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any, cast

import numpy as np

from smoothap._core.files import sync
from smoothap.album.database import SETTING, Database, Form, placeholders
from smoothap.album.growing import is_to_be_made, mapped
from smoothap.album.postings import row_crc
from smoothap.album.vectors import StoredVectors, unit_vectors
from smoothap.data.transforms import Transform
from smoothap.models.regions import PARTS

REGION = "region"  # the space of parts
FOLDER, FILE = "regions", "regions.db"
ENOUGH = 128  # photos to learn a basis from
MOST_CODE, MOST_QUERY_CODE = 127, 32_767  # the sum of 256 products fits 32 bits
_DIMENSION = 256  # of a code, at most
_NORM = np.dtype("<i4")
_WHITENING = 0.25  # of the variance of a direction, to this power, that is divided out
_LEAST_VARIANCE = 1e-4  # of a direction, as a share of the largest
_AT_ONCE = 500  # ids in one query
_FORM = Form(
    "the regions of an album",
    2,
    (
        SETTING,
        "CREATE TABLE slot (photo INTEGER PRIMARY KEY, slot INTEGER NOT NULL UNIQUE, sha256 BLOB NOT NULL, "
        "codes INTEGER NOT NULL, crc INTEGER NOT NULL) STRICT",
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
    transform: dict[str, Any] | None = None  # of the views, where they are those of whole photos
    version: int = 0  # counts changes
    file: int = 1

    def __post_init__(self) -> None:
        numbers = (self.size, self.dimension, self.code, self.learnt_from, self.version, self.file)
        if not (
            all(type(value) is int and 0 <= value < 1 << 60 for value in numbers)
            and self.dimension > 0
            and _NORM.itemsize < self.code <= _DIMENSION + _NORM.itemsize
            and isinstance(self.uid, str)
        ):
            raise ValueError("a setting is of the wrong kind")
        if self.transform is not None:
            Transform.from_dict(self.transform).test_corners(4, 3)  # as for the box of a part

    @property
    def codes(self) -> str:
        """The name of the file of codes."""
        return f"codes-{self.file}"

    @property
    def bytes_a_photo(self) -> int:
        """What its codes take."""
        return PARTS * self.code


class PartVectors:
    """The parts of photos in slots (m,) as vectors (m * PARTS, k) of length 1, or zero, made when they are wanted."""

    ndim, dtype = 2, np.dtype(np.float32)

    def __init__(self, codes: np.ndarray, slots: np.ndarray) -> None:
        self._codes, self._slots = codes, slots
        self.shape = len(slots) * PARTS, codes.shape[2] - _NORM.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice | np.ndarray) -> np.ndarray:
        """Some rows, by a slice or their numbers (n,)."""
        numbers = np.arange(len(self))[rows]
        stored = np.ascontiguousarray(self._codes[self._slots[numbers // PARTS], numbers % PARTS])
        squares = np.ascontiguousarray(stored[:, -_NORM.itemsize :]).view(_NORM).astype(np.float64)
        return (stored[:, : -_NORM.itemsize] / np.sqrt(np.maximum(squares, 1))).astype(np.float32)


@dataclass(frozen=True, eq=False)
class Regions:
    """The parts of one version of an album: codes (slots, PARTS, k + 4) int8, and the slot of each photo, or -1."""

    codes: np.ndarray
    slots: np.ndarray
    content: int = 0  # another where photos or codes are others

    @property
    def rows(self) -> np.ndarray:
        """The rows (m,) of the photos that have parts."""
        return np.flatnonzero(self.slots >= 0)

    def as_vectors(self) -> StoredVectors:
        """The parts of these photos, one photo after the other."""
        return StoredVectors(cast("np.ndarray", PartVectors(self.codes, self.slots[self.rows])))

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
        value = self.database.setting(connection, "settings")
        try:
            return None if value is None else RegionSettings(**json.loads(value))
        except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
            raise self.database.damaged("its settings") from error

    def basis(self) -> Basis:
        """What parts are coded by."""
        with self.database.reading() as connection:
            settings, value = self._settings(connection), self.database.setting(connection, "basis")
        if settings is None or value is None:
            raise self.database.damaged("it has no basis")
        shape = 1 + settings.code - _NORM.itemsize, settings.dimension
        if not isinstance(value, bytes) or len(value) != 4 * shape[0] * shape[1]:
            raise self.database.damaged("a basis of another size than its codes")
        rows = np.frombuffer(value, "<f4").reshape(shape)
        if not np.isfinite(rows).all():
            raise self.database.damaged("a basis that is not of numbers")
        return Basis(rows[0], rows[1:])

    def seen(self) -> dict[int, bytes]:
        """The photos whose parts are there, and their content."""
        with self.database.reading() as connection:
            return {photo: sha256 for photo, _, sha256, _ in self._slots(connection)}

    def _slots(self, connection: sqlite3.Connection) -> list[tuple[int, int, bytes, int]]:
        """The photo, the slot, the content of the photo, and the checksum of the codes."""
        rows = connection.execute("SELECT photo, slot, sha256, codes, crc FROM slot ORDER BY photo").fetchall()
        for *row, crc in rows:
            if row_crc(row) != crc:
                raise self.database.damaged(f"the row of photo {row[0]}")
            if not all(type(row[place]) is int for place in (0, 1, 3)) or not 0 <= row[1] < 1 << 31:
                raise self.database.damaged("a slot that is none")
        return [(photo, slot, sha256, codes) for photo, slot, sha256, codes, _ in rows]

    def regions(self, photos: np.ndarray) -> Regions:
        """The parts of these photos, ids (n,) rising."""
        with self.database.reading() as connection:
            settings, rows = self._settings(connection), self._slots(connection)
            codes = self._mapped(settings, rows)  # here, where no writer can replace the file
        slots, owners = np.full(len(photos), -1, np.int64), np.array([row[0] for row in rows], np.int64)
        known = np.isin(owners, photos)
        slots[np.searchsorted(photos, owners[known])] = np.array([row[1] for row in rows], np.int64)[known]
        content = np.array([(row[0], row[3]) for row in rows], np.int64)
        return Regions(codes, slots, zlib.crc32(content.tobytes()))

    def _mapped(self, settings: RegionSettings | None, rows: Sequence[tuple[int, int, bytes, int]]) -> np.ndarray:
        number, code = 1 + max((row[1] for row in rows), default=-1), _NORM.itemsize
        if settings is None:
            return np.empty((0, PARTS, code), np.int8)
        return mapped(self.folder, settings.codes, np.dtype(np.int8), (number, PARTS, settings.code))

    def verify(self) -> None:
        """Check every byte."""
        self.database.check()
        with self.database.reading() as connection:
            settings, rows = self._settings(connection), self._slots(connection)
            self.database.setting(connection, "basis")
            stored = self._mapped(settings, rows)
        for photo, slot, _, codes in rows:
            if zlib.crc32(stored[slot].data) != codes:
                raise self.database.damaged(f"the codes of photo {photo} are not those that were written")

    # -- writing, by the album's only writer

    def begin(
        self, uid: str, size: int, basis: Basis, learnt_from: int, transform: dict[str, Any] | None = None
    ) -> None:
        """Keep parts by this basis from now on; those that are there go."""
        code, dimension = len(basis.directions) + _NORM.itemsize, len(basis.mean)
        with self.database.writing() as connection:
            before = self._settings(connection)
            file, version = (1, 0) if before is None else (before.file + 1, before.version + 1)
            connection.execute("DELETE FROM slot")
            rows = np.concatenate([basis.mean[None], basis.directions]).astype("<f4")
            self.database.set(connection, "basis", rows.tobytes())
            self._write(connection, RegionSettings(uid, size, learnt_from, dimension, code, transform, version, file))
        for one in self.folder.glob("codes-*"):  # also what is left of a writer that was stopped here
            one.unlink()

    def _write(self, connection: sqlite3.Connection, settings: RegionSettings) -> None:
        self.database.set(connection, "settings", json.dumps(asdict(settings)).encode())

    def free_slots(self) -> Iterator[int]:
        """The slots that hold nothing now, one after the other: for one writer, from when it begins to its end."""
        with self.database.reading() as connection:
            taken = {slot for (slot,) in connection.execute("SELECT slot FROM slot")}
        return (slot for slot in count() if slot not in taken)

    def put(self, found: Mapping[int, tuple[bytes, np.ndarray]], free: Iterator[int] | None = None) -> None:
        """The parts of photos, by their ids, each with its content, to free slots; those that were known of them go."""
        with self.database.writing() as connection:
            settings, free = self._settings(connection), self.free_slots() if free is None else free
            assert settings is not None
            file, rows = self.folder / settings.codes, list[tuple[int, int, bytes, int]]()
            is_new = is_to_be_made(file)
            with file.open("w+b" if is_new else "r+b") as stream:
                for photo, (sha256, codes) in found.items():
                    slot, content = next(free), codes.tobytes()
                    stream.seek(slot * settings.bytes_a_photo)
                    stream.write(content)
                    rows.append((photo, slot, sha256, zlib.crc32(content)))
                stream.flush()
                os.fsync(stream.fileno())
            if is_new:
                sync(self.folder)
            connection.executemany("REPLACE INTO slot VALUES (?, ?, ?, ?, ?)", ((*row, row_crc(row)) for row in rows))
            self._write(connection, replace(settings, version=settings.version + 1))

    def drop(self, photos: Sequence[int]) -> None:
        """Forget the parts of photos."""
        with self.database.writing() as connection:
            for start in range(0, len(photos), _AT_ONCE):
                some = [int(photo) for photo in photos[start : start + _AT_ONCE]]
                connection.execute(f"DELETE FROM slot WHERE photo IN ({placeholders(some)})", some)
            if (settings := self._settings(connection)) is not None:
                self._write(connection, replace(settings, version=settings.version + 1))


def query_codes(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of a query for each level (levels, k) as whole ones, and their squared lengths (levels,)."""
    codes = whole_numbers(unit_vectors(vectors), MOST_QUERY_CODE).astype(np.int16)
    return codes, (codes.astype(np.int64) ** 2).sum(1)
