"""The tables of `album.db`, and the rows that are about an album as a whole: its settings and its spaces of vectors."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sqlite3
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from smoothap._core.files import data_folder
from smoothap.album import growing, postings
from smoothap.album.database import Form, placeholders
from smoothap.album.postings import row_crc
from smoothap.album.vectors import CODECS, FLOAT32

NAME = "album.db"
PHOTO = "photo"  # the space of whole photos
REMEDY = "Copy the album again, or delete it and index the photos again."
FORM = Form(
    "an album",
    3,
    (
        "CREATE TABLE setting (name TEXT PRIMARY KEY, value TEXT NOT NULL, crc INTEGER NOT NULL) WITHOUT ROWID, STRICT",
        "CREATE TABLE space (name TEXT PRIMARY KEY, dimension INTEGER NOT NULL, codec TEXT NOT NULL, "
        "file INTEGER NOT NULL, slots INTEGER NOT NULL, spread REAL NOT NULL, crc INTEGER NOT NULL) "
        "WITHOUT ROWID, STRICT",
        "CREATE TABLE dead (space TEXT NOT NULL, slot INTEGER NOT NULL, PRIMARY KEY (space, slot)) "
        "WITHOUT ROWID, STRICT",
        "CREATE TABLE photo (id INTEGER PRIMARY KEY, path BLOB NOT NULL, label TEXT, bytes INTEGER NOT NULL, "
        "modified INTEGER NOT NULL, sha256 BLOB NOT NULL, width INTEGER NOT NULL, height INTEGER NOT NULL, "
        "taken INTEGER, camera TEXT, columns TEXT, pack INTEGER NOT NULL, start INTEGER NOT NULL, "
        "length INTEGER NOT NULL, crc INTEGER NOT NULL, removed INTEGER, "
        "CHECK (pack >= 0 AND start >= 0 AND length >= 0), "
        "CHECK (taken BETWEEN -62135596800 AND 253402300799)) STRICT",  # the years 1 to 9999
        "CREATE UNIQUE INDEX photo_path ON photo (path) WHERE removed IS NULL",
        "CREATE INDEX photo_sha256 ON photo (sha256)",
        "CREATE INDEX photo_removed ON photo (removed) WHERE removed IS NOT NULL",
        growing.SCHEMA,
        postings.SCHEMA,
    ),
    REMEDY,
)


def album_place(photos: Path | str) -> Path:
    """Where the album of a photo folder is if no place was given: by the folder's own path, in the user's data."""
    folder = Path(photos).resolve()
    name = re.sub(r"[^\w.-]+", "-", folder.name).strip("-.")[:60] or "photos"
    return data_folder() / "albums" / f"{name}-{hashlib.sha256(os.fsencode(folder)).hexdigest()[:10]}"


def album_at(path: Path | str) -> Path:
    """The folder of an album, or that of the album which `smoothap photos` made for this photo folder."""
    path = Path(path)
    if path.is_dir() and not (path / NAME).exists() and (album_place(path) / NAME).exists():
        return album_place(path)
    return path


@dataclass(frozen=True)
class Settings:
    """What is known of an album as a whole; each field is a row of the table `setting`, as JSON."""

    uid: str  # of this album and no other
    version: int = 0  # counts changes
    photos: int = 0
    next_id: int = 0
    model: dict[str, Any] | None = None
    source: str = ""  # where the model was found: name:NAME, or folder:PATH relative to the album
    root: str | None = None  # the photo folder, relative to the album
    calibration: dict[str, Any] | None = None
    learnt: dict[str, Any] | None = None
    pack: int = 1  # the file that thumbnails are appended to

    def __post_init__(self) -> None:
        numbers = (self.version, self.photos, self.next_id, self.pack)
        texts = self.uid, self.source, "" if self.root is None else self.root
        maps = (self.model, self.calibration, self.learnt)
        if not (
            all(type(value) is int and 0 <= value < 1 << 60 for value in numbers)
            and all(isinstance(value, str) and "\0" not in value for value in texts)
            and all(value is None or isinstance(value, dict) for value in maps)
            and (self.learnt is None or _is_learnt(self.learnt))
        ):
            raise ValueError(f"{NAME} is damaged: a setting is of the wrong kind. {REMEDY}")


@dataclass(frozen=True)
class Space:
    """Vectors of one kind: their dimension and codec, the number of their files, and how many slots count.

    `spread` is how far the length of a vector may be from 1.
    """

    name: str
    dimension: int
    codec: str = FLOAT32
    file: int = 1
    slots: int = 0
    spread: float = 0.0

    def __post_init__(self) -> None:
        if not (
            all(type(value) is int and value >= 0 for value in (self.dimension, self.file, self.slots))
            and self.dimension >= 1
            and self.codec in CODECS
            and 0 <= self.spread < 1
        ):
            raise ValueError(f"{NAME} is damaged: a space of vectors is not described as one. {REMEDY}")

    @property
    def vectors(self) -> str:
        """The name of the file of its vectors."""
        return f"vectors-{self.name}-{self.file}"

    @property
    def items(self) -> str:
        """The name of the file that says what its slots are of."""
        return f"items-{self.name}-{self.file}"

    def learnt(self, number: int) -> str:
        """The name of the file of its projected vectors."""
        return f"learnt-{self.name}-{self.file}-{number}"


def read_settings(connection: sqlite3.Connection) -> Settings:
    known = {field.name for field in fields(Settings)}
    values: dict[str, Any] = {}
    for name, value, crc in connection.execute("SELECT name, value, crc FROM setting"):
        if row_crc((name, value)) != crc or name not in known:
            raise ValueError(f"{NAME} is damaged: the setting {name!r} is not as it was written. {REMEDY}")
        try:
            values[name] = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{NAME} is damaged: the setting {name!r} cannot be read. {REMEDY}") from error
    if values.keys() != known:
        raise ValueError(f"{NAME} is damaged: settings are missing. {REMEDY}")
    return Settings(**values)


def write_settings(connection: sqlite3.Connection, settings: Settings) -> None:
    rows = ((name, json.dumps(value)) for name, value in asdict(settings).items())
    connection.executemany("REPLACE INTO setting VALUES (?, ?, ?)", ((*row, row_crc(row)) for row in rows))


def read_space(connection: sqlite3.Connection, name: str) -> Space:
    row = connection.execute("SELECT * FROM space WHERE name=?", (name,)).fetchone()
    if row is None or row_crc(row[:-1]) != row[-1]:
        raise ValueError(f"{NAME} is damaged: the space {name!r} is not as it was written. {REMEDY}")
    return Space(*row[:-1])


def write_space(connection: sqlite3.Connection, space: Space) -> None:
    row = tuple(asdict(space).values())
    connection.execute(f"REPLACE INTO space VALUES ({placeholders(row)}, ?)", (*row, row_crc(row)))


def _is_learnt(values: Mapping[str, Any]) -> bool:
    """Whether these are what `learn` keeps of what an album learnt."""
    kinds = {"dimension": int, "collections": int, "photos": int, "number": int}
    calibration, gain = values.get("calibration"), values.get("gain")
    return (
        values.keys() == kinds.keys() | {"calibration", "gain"}
        and all(type(values[name]) is kind for name, kind in kinds.items())
        and min(values["dimension"], values["number"]) > 0
        and isinstance(gain, (list, tuple))
        and len(gain) == 3
        and all(isinstance(value, (int, float)) for value in gain)
        and (calibration is None or isinstance(calibration, dict))
    )
