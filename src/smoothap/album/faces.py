"""The faces of an album: `people/people.db`, a folder of its own, so that to forget people is to delete it.

Faces are biometric data. All that is known of them is in this one file: boxes, vectors, the names of people and what
users said about faces. SQLite overwrites what is deleted. The graph of neighbours is beside it, and nothing about faces
is anywhere else. The faces of a photo go before the photo does, so that whatever stops a writer, none is left over.

A face has an id of its own, which is given to no other. A mark remembers a face by the content of its photo and by its
box, which is enough to know it again when the album was made again, or its faces were found by another network.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from smoothap._core.files import Kinds, cache_folder, wrong_field
from smoothap.album.database import SETTING, Database, Form, placeholders
from smoothap.album.postings import row_crc
from smoothap.album.vectors import StoredVectors
from smoothap.models.faces.detection import Box

FACE = "face"  # the space of faces
FOLDER, FILE = "people", "people.db"
_REMEDY = "Find people again: smoothap album people ALBUM --forget, then smoothap index PHOTOS --out ALBUM --people"
_FORM = Form(
    "the people of an album",
    3,
    (
        SETTING,
        "CREATE TABLE seen (photo INTEGER PRIMARY KEY, sha256 BLOB NOT NULL, crc INTEGER NOT NULL) STRICT",
        "CREATE TABLE face (id INTEGER PRIMARY KEY, photo INTEGER NOT NULL, x REAL NOT NULL, y REAL NOT NULL, "
        "width REAL NOT NULL, height REAL NOT NULL, score REAL NOT NULL, vector BLOB NOT NULL, crc INTEGER NOT NULL) "
        "STRICT",
        "CREATE INDEX face_photo ON face (photo)",
        "CREATE TABLE person (id INTEGER PRIMARY KEY, name TEXT UNIQUE, hidden INTEGER NOT NULL) STRICT",
        "CREATE TABLE mark (id INTEGER PRIMARY KEY, sha256 BLOB NOT NULL, x REAL NOT NULL, y REAL NOT NULL, "
        "width REAL NOT NULL, height REAL NOT NULL, kind TEXT NOT NULL, person INTEGER) STRICT",
        "CREATE INDEX mark_sha256 ON mark (sha256)",
    ),
    _REMEDY,
    overwrites=True,
)
_AT_ONCE = 500  # ids in one query
SPOKEN = ("person", "mark")  # the tables of what users said; small
_LARGEST, _SPREAD = 1e9, 1e-3  # of the numbers of a box, in pixels, and of the square of the length of a vector
_KINDS = {  # of the settings that are not of a table
    "uid": str, "version": int, "next_face": int, "network": dict, "source": dict, "pushed": list, "steps": list,
}  # fmt: skip
_NETWORK: Kinds = {"name": str, "detector": str, "recogniser": str, "dimension": int}
_PARTS: dict[str, Callable[[Any], bool]] = {  # whether what is in them is as it should be
    "uid": bool, "pushed": lambda all_: all(isinstance(one, str) for one in all_), "steps": lambda _: True,
    "network": lambda known: wrong_field(known, _NETWORK) is None and known["dimension"] > 0,
    "source": lambda known: wrong_field(known, {name: (str, type(None)) for name in ("model", "weights")}) is None,
}  # fmt: skip


def is_number(known: Any) -> bool:
    """Whether this is a number that a row can have."""
    return isinstance(known, int) and 0 <= known < 1 << 60


class FaceRecord(NamedTuple):
    """A face on its way into an album: its box, how certain it is, and its vector (d,) of length 1."""

    box: Box
    score: float
    vector: np.ndarray


@dataclass(frozen=True, eq=False)
class Faces:
    """The faces of one version of an album, by rising ids (n,): their photos (n,), boxes (n, 4), vectors (n, d)."""

    uid: str
    version: int
    ids: np.ndarray
    photos: np.ndarray
    boxes: np.ndarray
    scores: np.ndarray
    vectors: StoredVectors

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def all_slots(self) -> np.ndarray:
        """What names the vector of a face for good, as a graph wants it: its id."""
        return self.ids

    @property
    def vectors_key(self) -> str:
        """A name of the vectors in the cache."""
        return f"{self.uid}-{FACE}-{self.version}"

    @property
    def graph_file(self) -> str:
        """The file of the graph of their neighbours."""
        return f"neighbours-{FACE}"

    @cached_property
    def content(self) -> int:
        """A number that other faces do not have; what is said of them does not change it."""
        numbers = self.ids.tobytes() + self.vectors[:].tobytes()
        return int.from_bytes(hashlib.blake2b(numbers, digest_size=6).digest(), "big")

    @cached_property
    def areas(self) -> np.ndarray:
        """Of their boxes, (n,)."""
        return self.boxes[:, 2] * self.boxes[:, 3]

    def of_photo(self, photo: int) -> np.ndarray:
        """The rows of the faces of a photo, the largest first."""
        rows = np.flatnonzero(self.photos == photo)
        return rows[np.argsort(-self.areas[rows], kind="stable")]

    def rows_of(self, ids: Iterable[int]) -> np.ndarray:
        """The rows of faces by their ids."""
        wanted = np.array([int(identity) for identity in ids], np.int64)
        rows = np.searchsorted(self.ids, wanted)
        for identity, row in zip(wanted.tolist(), rows.tolist(), strict=True):
            if row == len(self) or self.ids[row] != identity:
                raise NoSuchFace(f"The album has no face {identity}: it was removed, or never there.")
        return rows


class NoSuchFace(ValueError):  # noqa: N818
    """An id that no face of the album has, or none that is in a group."""


class FaceStore:
    """`people.db` of one album; `create` makes it, and without that it has to be there."""

    def __init__(self, album: Path, *, create: bool = False, durable: bool = True) -> None:
        self.album, self.folder = album, album / FOLDER
        if create:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.database = Database(self.folder / FILE, _FORM, create=create, durable=durable)
        if create:
            (self.folder / FILE).chmod(0o600)  # a copy of the folder may lose its rights

    @classmethod
    def is_in(cls, album: Path) -> bool:
        """Whether people of an album are kept."""
        return (album / FOLDER / FILE).is_file()

    # -- reading

    def setting(self, name: str) -> Any:
        """A setting, None where it was never set."""
        with self.database.reading() as connection:
            return self._setting(connection, name)

    def _setting(self, connection: sqlite3.Connection, name: str) -> Any:
        value, known = self.database.setting(connection, name), None
        if value is None:
            return None
        with suppress(ValueError, RecursionError):
            known = json.loads(value)
        if not isinstance(known, _KINDS.get(name, int)) or not _PARTS.get(name, is_number)(known):
            raise self.database.damaged(f"the setting {name}")
        return known

    @property
    def version(self) -> int:
        """Counts changes."""
        return self.setting("version") or 0

    def dimension(self) -> int:
        """How many numbers a vector has."""
        network = self.setting("network")
        return int(network["dimension"]) if network else 1

    def faces(self, photos: np.ndarray) -> Faces:
        """The faces of these photos, ids (n,) rising: of others there may be some left of a writer that was stopped."""
        with self.database.reading() as connection:
            uid, version, network = (self._setting(connection, name) for name in ("uid", "version", "network"))
            query = "SELECT id, photo, x, y, width, height, score, vector, crc FROM face ORDER BY id"
            rows = connection.execute(query).fetchall()
            unseen = connection.execute("SELECT id FROM face WHERE photo NOT IN (SELECT photo FROM seen)").fetchone()
        if unseen is not None:
            raise self.database.damaged(f"the photo of face {unseen[0]}")
        dimension = int(network["dimension"]) if network else 1
        for *row, crc in rows:
            if row_crc(row) != crc or not isinstance(row[7], bytes) or len(row[7]) != 4 * dimension:
                raise self.database.damaged(f"the row of face {row[0]}")
        owners = np.array([row[1] for row in rows], np.int64)
        there = np.isin(owners, photos)
        rows = [row for row, known in zip(rows, there.tolist(), strict=True) if known]
        vectors = np.frombuffer(b"".join(row[7] for row in rows), "<f4").reshape(len(rows), dimension)
        boxes = self.checked_boxes([row[2:6] for row in rows])
        if not (np.abs(np.einsum("nd,nd->n", vectors, vectors) - 1) <= _SPREAD).all():
            raise self.database.damaged("a vector that is not of length 1")
        return Faces(
            str(uid), version or 0, np.array([row[0] for row in rows], np.int64), owners[there], boxes,
            np.array([row[6] for row in rows]), StoredVectors(vectors),
        )  # fmt: skip

    def checked_boxes(self, rows: Sequence[Sequence[float]]) -> np.ndarray:
        """Boxes (n, 4) that were read, if they are such as a photo can have."""
        with suppress(ValueError):
            boxes = np.array(rows, np.float64).reshape(-1, 4)
            if (np.abs(boxes) < _LARGEST).all():
                return boxes
        raise self.database.damaged("a box that is none")

    def seen(self, photos: Iterable[int] | None = None) -> dict[int, bytes]:
        """The photos that were looked at for faces, all or of some, and their content."""
        with self.database.reading() as connection:
            if photos is None:
                rows = connection.execute("SELECT * FROM seen").fetchall()
            else:
                one = "SELECT * FROM seen WHERE photo=?"
                rows = [row for photo in photos for row in connection.execute(one, (int(photo),))]
        for photo, sha256, crc in rows:
            if row_crc((photo, sha256)) != crc:
                raise self.database.damaged(f"the content of photo {photo}")
        return {photo: sha256 for photo, sha256, _ in rows}

    def count(self) -> int:
        """How many faces there are."""
        with self.database.reading() as connection:
            return connection.execute("SELECT count(*) FROM face").fetchone()[0]

    def verify(self) -> None:
        """Check every row."""
        self.database.check()
        with self.database.reading() as connection:
            photos = [photo for (photo,) in connection.execute("SELECT DISTINCT photo FROM face")]
            for name in _KINDS:
                self._setting(connection, name)
            self.check_spoken(connection)
        self.seen()
        self.faces(np.array(photos, np.int64))

    def check_spoken(self, connection: sqlite3.Connection) -> None:
        """Refuse what was said about people if it is not as it was when a change of it was counted."""
        for table in SPOKEN:
            if self._setting(connection, f"crc {table}") not in (None, _table_crc(connection, table)):
                raise self.database.damaged(f"the table {table}")

    # -- writing

    def use(self, uid: str, network: Mapping[str, Any], source: Mapping[str, str | None]) -> None:
        """Take these networks for an album, by its uid; faces of another album go, those of other networks refuse."""
        with self.database.writing() as connection:
            known, by = self._setting(connection, "uid"), self._setting(connection, "network")
            if known not in (None, uid):  # the album was made again, and its photos have other ids
                connection.execute("DELETE FROM face")
                connection.execute("DELETE FROM seen")
                self.change(connection)
                by = None
            has_faces = connection.execute("SELECT 1 FROM seen LIMIT 1").fetchone() is not None
            identity = {name: network[name] for name in ("detector", "recogniser", "dimension")}
            if has_faces and by is not None and {name: by[name] for name in identity} != identity:
                raise ValueError(
                    f"The faces of this album were found with another network ({by['name']}) than {network['name']}, "
                    "and their vectors cannot be compared: give that one, or forget people first (smoothap album "
                    "people ALBUM --forget)."
                )
            for name, value in (("uid", uid), ("network", dict(network)), ("source", dict(source))):
                if self._setting(connection, name) != value:
                    self._set(connection, name, value)

    def _set(self, connection: sqlite3.Connection, name: str, value: Any) -> None:
        self.database.set(connection, name, json.dumps(value).encode())

    def pushed(self) -> list[str]:
        """Where faces were sent."""
        return self.setting("pushed") or []

    def remember_push(self, address: str, is_there: bool) -> None:
        """Remember where faces were sent, so that they are forgotten there too; or that they are there no more."""
        with self.database.writing() as connection:
            known = self._setting(connection, "pushed") or []
            now = sorted({*known, address} if is_there else {*known} - {address})
            if now != known:
                self._set(connection, "pushed", now)

    def change(self, connection: sqlite3.Connection, *, spoken: bool = False) -> None:
        """Count a change, in its transaction; with `spoken`, of what was said about people, which has a checksum."""
        self._set(connection, "version", (self._setting(connection, "version") or 0) + 1)
        for table in SPOKEN if spoken else ():
            self._set(connection, f"crc {table}", _table_crc(connection, table))

    def put(self, found: Mapping[int, tuple[bytes, Sequence[FaceRecord]]]) -> int:
        """The faces of photos, by their ids, each with its content; those known before go. How many there are now."""
        with self.database.writing() as connection:
            self._drop(connection, list(found))
            for photo, (sha256, faces) in found.items():
                connection.execute("REPLACE INTO seen VALUES (?, ?, ?)", (photo, sha256, row_crc((photo, sha256))))
                self._insert(connection, photo, faces)
            self.change(connection)
        return sum(len(faces) for _, faces in found.values())

    def add(self, photo: int, face: FaceRecord) -> int:
        """One more face of a photo that was looked at; its id."""
        with self.database.writing() as connection:
            if connection.execute("SELECT 1 FROM seen WHERE photo=?", (photo,)).fetchone() is None:
                raise ValueError(f"Photo {photo} was not looked at for faces yet: smoothap index does that.")
            identity = self._insert(connection, photo, [face])
            self.change(connection)
        return identity

    def _insert(self, connection: sqlite3.Connection, photo: int, faces: Sequence[FaceRecord]) -> int:
        identity = self._setting(connection, "next_face") or 0
        for box, score, vector in faces:
            values = (*(float(value) for value in box), float(score))
            row = (identity, photo, *values, np.asarray(vector, "<f4").tobytes())
            connection.execute("INSERT INTO face VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", (*row, row_crc(row)))
            identity += 1
        self._set(connection, "next_face", identity)
        return identity - 1

    def boxes(self, photo: int) -> np.ndarray:
        """The boxes (n, 4) of the faces of a photo."""
        with self.database.reading() as connection:
            rows = connection.execute("SELECT x, y, width, height FROM face WHERE photo=?", (photo,)).fetchall()
        return np.array(rows, np.float64).reshape(-1, 4)

    def drop(self, photos: Sequence[int]) -> None:
        """Forget the faces of photos; marks stay, for when the photos come back."""
        if photos:
            with self.database.writing() as connection:
                self._drop(connection, photos)
                self.change(connection)
            (self.folder / f"neighbours-{FACE}").unlink(missing_ok=True)

    def _drop(self, connection: sqlite3.Connection, photos: Sequence[int]) -> None:
        for start in range(0, len(photos), _AT_ONCE):
            some = [int(photo) for photo in photos[start : start + _AT_ONCE]]
            for table in ("face", "seen"):
                connection.execute(f"DELETE FROM {table} WHERE photo IN ({placeholders(some)})", some)


def _table_crc(connection: sqlite3.Connection, table: str) -> int:
    return row_crc(connection.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall())


@dataclass(frozen=True)
class Forgotten:
    """What there was of people, and is no more."""

    faces: int
    names: int
    marks: int
    files: tuple[str, ...]
    left: tuple[str, ...] = ()  # sentences: what could not be removed, and where it is


def forget(album: Path) -> Forgotten:
    """Delete all that an album knows of faces and people: vectors, boxes, names, marks, graph, and caches of them."""
    folder = album / FOLDER
    if not folder.exists():
        return Forgotten(0, 0, 0, ())
    faces = names = marks = 0
    uid = None
    with suppress(ValueError, OSError):  # a damaged one goes, too
        store = FaceStore(album)
        uid = store.setting("uid")
        with store.database.writing() as connection:  # what an undeleted copy of a page had is overwritten
            counts = "SELECT (SELECT count(*) FROM face), (SELECT count(*) FROM person WHERE name IS NOT NULL), "
            faces, names, marks = connection.execute(counts + "(SELECT count(*) FROM mark)").fetchone()
            for table in ("face", "seen", "person", "mark", "setting"):
                connection.execute(f"DELETE FROM {table}")
        store.database.close()
    files = [str(file.relative_to(album)) for file in sorted(folder.rglob("*")) if file.is_file()]
    shutil.rmtree(folder)
    if uid is not None:
        for file in (cache_folder() / "indices").glob(f"{uid}-{FACE}-*"):
            file.unlink(missing_ok=True)
            files.append(file.name)
    return Forgotten(faces, names, marks, tuple(files))
