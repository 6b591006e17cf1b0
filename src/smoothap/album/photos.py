"""The photos of an album, one `Photo` at a time or by columns, as `album.db` has them."""

from __future__ import annotations

import json
import os
import re
import unicodedata
from calendar import timegm
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from smoothap.album import postings
from smoothap.album.dates import Dated, dated

if TYPE_CHECKING:
    from smoothap.album.store import Store

_OUTSIDE = re.compile(rb"(?s)^\.?$|^/|\x00|(^|/)\.\.(/|$)")  # matches paths that are none below the photo folder
# What `album.db` has of a photo. Paths are bytes: a file name need not be UTF-8. `modified` is in nanoseconds, `taken`
# in seconds since 1970 by the camera's own clock. Where a thumbnail is (pack, start, length) is our own affair.
RECORD = (
    "id", "path", "label", "bytes", "modified", "sha256", "width", "height", "taken", "camera", "columns",
    "pack", "start", "length",
)  # fmt: skip
NOTHING_KNOWN: dict[str, Any] = {
    **dict.fromkeys(RECORD, 0), "id": None, "label": None, "sha256": b"", "taken": None, "camera": None,
    "columns": None,
}  # fmt: skip
# From what a user says about a photo to what the table holds.
_READ: dict[str, Callable[[Any], Any]] = {
    "label": lambda label: spelled(str(label)), "bytes": int, "modified": lambda seconds: round(float(seconds) * 1e9),
    "sha256": lambda digits: bytes.fromhex(str(digits)), "width": int, "height": int,
    "taken": lambda when: seconds_of(when if isinstance(when, datetime) else datetime.fromisoformat(when)),
    "camera": lambda camera: spelled(str(camera)),
    "columns": lambda columns: packed_columns({str(one): str(columns[one]) for one in columns}),
}  # fmt: skip
_EPOCH = datetime(1970, 1, 1)


@dataclass(frozen=True)
class Photo:
    """One photo: `id` is its own for life, `path` is relative to the album's root, with forward slashes.

    `taken` is what the camera's clock showed, without a time zone, and `camera` its name; None where it is not known.
    `columns` is what else the table says that the album was made of.
    """

    id: int
    path: str
    label: str | None
    bytes: int
    modified: float
    sha256: str
    width: int
    height: int
    taken: datetime | None = None
    camera: str | None = None
    columns: dict[str, str] = field(default_factory=dict)

    @property
    def dated(self) -> Dated:
        """When it was taken, and what says so: its camera, the name of its file, or the file's own time."""
        taken = None if self.taken is None else seconds_of(self.taken)
        return dated(taken, os.fsencode(self.path), round(self.modified * 1e9))

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Photo:
        """The photo of a row of the table."""
        taken = record["taken"]
        return cls(
            record["id"], os.fsdecode(record["path"]), record["label"], record["bytes"], record["modified"] / 1e9,
            record["sha256"].hex(), record["width"], record["height"],
            None if taken is None else _EPOCH + timedelta(seconds=taken), record["camera"] or None,
            unpacked_columns(record["columns"]),
        )  # fmt: skip


@dataclass(frozen=True)
class Hit:
    """One answer to a query; `rank` counts from 1.

    `score` is the cosine; in a list that is ranked by neighbourhood it is the cosine that the plain list has in this
    place, and `through` the id of the photo that led to this one, if it was not the query itself. `box` (x, y, width,
    height, in pixels of the upright photo) is where the face or the part is that was found, if one was looked for.
    """

    id: int
    score: float
    path: str
    label: str | None
    rank: int
    through: int | None = None
    box: tuple[int, int, int, int] | None = None


class Hits(list[Hit]):
    """Answers, best first; `note` says what there is to know about how they were found, "" for nothing."""

    def __init__(self, hits: Iterable[Hit] = (), note: str = "") -> None:
        super().__init__(hits)
        self.note = note


class NoSuchPhoto(KeyError, ValueError):  # noqa: N818
    """An id that no photo of the album has."""

    def __str__(self) -> str:
        return str(self.args[0])


class Photos(Sequence[Photo]):
    """Photos in the order of their ids (n,), which is the order of the album's vectors."""

    def __init__(self, store: Store, ids: np.ndarray) -> None:
        self._store, self.ids = store, ids

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, row: int) -> Photo: ...
    @overload
    def __getitem__(self, row: slice) -> list[Photo]: ...
    def __getitem__(self, row: int | slice) -> Photo | list[Photo]:
        if isinstance(row, slice):
            return self.at(np.arange(*row.indices(len(self))))
        if not -len(self) <= row < len(self):
            raise IndexError(f"row {row} of {len(self)} photos")
        return self.at(np.array([row % len(self)]))[0]

    def at(self, rows: np.ndarray) -> list[Photo]:
        """The photos in some rows."""
        return [Photo.of(record) for record in self.records(rows)]

    def records(self, rows: np.ndarray) -> list[dict[str, Any]]:
        """Some rows as the table has them."""
        ids = self.ids[np.asarray(rows, np.int64)].tolist()
        known = {record["id"]: record for record in self._store.records(ids, removed=True)}
        if len(gone := [identity for identity in ids if identity not in known]):
            raise NoSuchPhoto(f"Photo {gone[0]} was removed from the album: open it again.")
        return [known[identity] for identity in ids]

    def row_of(self, identity: int) -> int:
        """The row of the photo with this id."""
        row = int(np.searchsorted(self.ids, identity))
        if row == len(self.ids) or self.ids[row] != identity:
            raise NoSuchPhoto(f"The album has no photo {identity}: it was removed, or never there.")
        return row

    def rows_of(self, ids: Iterable[int]) -> np.ndarray:
        """The rows of the photos with these ids. (k,) int64"""
        return np.array([self.row_of(int(identity)) for identity in ids], np.int64)

    def rows_with(self, found: np.ndarray) -> np.ndarray:
        """Which rows have one of the ids found (k,), rising. (n,) bool"""
        if 16 * len(found) < len(self):
            passing = np.zeros(len(self), bool)
            rows = np.minimum(np.searchsorted(self.ids, found), len(self) - 1)
            passing[rows[self.ids[rows] == found]] = True
            return passing
        if not len(self):
            return np.zeros(0, bool)
        is_in = np.zeros(int(self.ids[-1]) + 1, bool)
        is_in[found[found < len(is_in)]] = True
        return is_in[self.ids]

    def named(self, rows: np.ndarray) -> tuple[list[str], list[str | None]]:
        """The paths and the labels of some rows."""
        records = self.records(rows)
        return [os.fsdecode(record["path"]) for record in records], [record["label"] for record in records]

    def columns_of(self, rows: np.ndarray) -> list[dict[str, str]]:
        """What else the user's table says of the photos in some rows."""
        return [unpacked_columns(record["columns"]) for record in self.records(rows)]

    def column_names(self) -> list[str]:
        """The names of the columns that the user's table has beside path and label, in order."""
        with self._store.database.reading() as connection:
            return postings.column_names(connection)

    def having(self, name: str, low: bytes, high: bytes | None = None) -> np.ndarray:
        """Which rows have a value, or one from `low` up to but not including `high`: see postings.py. (n,) bool"""
        with self._store.database.reading() as connection:
            found = postings.having(connection, name, low, high)
        return self.rows_with(found)

    def counts(self, name: str) -> dict[bytes, int]:
        """Each value that a photo has, such as each camera, and how many have it."""
        with self._store.database.reading() as connection:
            return postings.counts(connection, name)

    def id_of(self, path: str) -> int:
        """The id of the photo at a path."""
        with self._store.database.reading() as connection:
            query = "SELECT id FROM photo WHERE path=? AND removed IS NULL"
            row = connection.execute(query, (os.fsencode(path),)).fetchone()
        if row is None:
            raise NoSuchPhoto(f"The album has no photo {path!r}: it was removed, or never there.")
        return row[0]

    def find(self, path: str, sha256: str = "") -> int | None:
        """The id of the photo at a path, or of one with this content, wherever it is: both together, then the content.

        Without a content the path alone counts.
        """
        query = "SELECT id FROM photo WHERE removed IS NULL AND "
        content, place = bytes.fromhex(sha256), os.fsencode(path)
        with self._store.database.reading() as connection:
            for where, values in (
                ("path=? AND sha256=?", (place, content)), ("sha256=? ORDER BY id", (content,)), ("path=?", (place,)),
            ):  # fmt: skip
                if content or where == "path=?":
                    row = connection.execute(f"{query}{where} LIMIT 1", values).fetchone()
                    if row is not None:
                        return row[0]
        return None

    def paths(self) -> list[str]:
        """All paths, in order."""
        return [os.fsdecode(path) for path in self._column("path", b"")]

    def labels(self) -> np.ndarray:
        """All labels, (n,) of str or None."""
        return self._values("label", None)

    def values_of(self, name: str) -> np.ndarray:
        """What each photo has in a column of the user's table, or as `label`, (n,) of str; "" where there is none."""
        return self._values(self.key_of(name), "")

    def key_of(self, name: str) -> str:
        """The name by which photos are found by a column of the user's table, or by `label`."""
        if name == "label":
            return name
        if name not in (there := self.column_names()):
            raise ValueError(f"The album has no column {name!r}: it has {', '.join(there) or 'none beside the label'}.")
        return postings.COLUMN + name

    def _values(self, name: str, missing: str | None) -> np.ndarray:
        """The value of each photo under a name that a photo has one value of. (n,)"""
        values = np.full(len(self), missing, object)
        with self._store.database.reading() as connection:
            for value, ids in postings.values(connection, name):
                rows = np.searchsorted(self.ids, ids)
                rows = rows[np.isin(ids, self.ids, assume_unique=True)]
                values[rows] = value.decode(errors="surrogatepass")
        return values

    @cached_property
    def search_texts(self) -> list[str]:
        """All paths, in order, as they are searched for words."""
        return [plain_letters(path) for path in self.paths()]

    def contents(self) -> list[bytes]:
        """The SHA-256 of each file, b"" where it is not known."""
        return self._column("sha256", b"")

    def times(self) -> list[int | None]:
        """When each photo was taken, in order, in seconds since 1970; None where nothing says so."""
        return [dated(*facts).seconds for facts in self._columns("taken, path, modified", (None, b"", 0))]

    def _column(self, name: str, missing: bytes) -> list[bytes]:
        return [value for (value,) in self._columns(name, (missing,))]

    def _columns(self, names: str, missing: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        with self._store.database.reading() as connection:
            rows = connection.execute(f"SELECT id, {names} FROM photo ORDER BY id").fetchall()
        ids = np.fromiter((row[0] for row in rows), np.int64, len(rows))
        if np.array_equal(ids, self.ids):
            return [row[1:] for row in rows]
        known = {row[0]: row[1:] for row in rows}
        return [known.get(identity, missing) for identity in self.ids.tolist()]


def seconds_of(when: datetime) -> int:
    """A time of a camera's clock as seconds since 1970."""
    return timegm(when.timetuple())


def packed_columns(columns: Mapping[str, str]) -> str | None:
    """The user's own columns of a photo as the table holds them."""
    return json.dumps(dict(sorted(columns.items()))) if columns else None


def unpacked_columns(text: str | None) -> dict[str, str]:
    """The user's own columns of a photo, from what the table holds."""
    try:
        columns = json.loads(text or "{}")
    except (ValueError, RecursionError):
        columns = None
    if not isinstance(columns, dict) or not all(isinstance(value, str) for value in columns.values()):
        raise ValueError(
            "album.db is damaged: the columns of a photo. Copy the album again, or index the photos again."
        )
    return columns


def spelled(text: str) -> str:
    """Text in UTF-8, which a folder's name need not be: what is not is spelled out."""
    return text.encode(errors="backslashreplace").decode()


def plain_letters(text: str) -> str:
    """Text in small letters without accents, to be compared."""
    if text.isascii():
        return text.lower()
    parts = unicodedata.normalize("NFKD", text.casefold())
    return "".join(letter for letter in parts if not unicodedata.combining(letter))


def is_inside(path: bytes) -> bool:
    """Whether a path stays below the photo folder."""
    return _OUTSIDE.search(path) is None


def new_record(path: str, **known: Any) -> dict[str, Any]:
    """What is known of a photo that has no id yet; the path has to stay below the photo folder."""
    if not is_inside(os.fsencode(path)) or ("\\" in path and os.name == "nt"):
        raise ValueError(f"{path!r} is no path below the photo folder: give it relative to that, without '..'.")
    return {**NOTHING_KNOWN, "path": os.fsencode(path), **known}


def records_of(metadata: Sequence[Mapping[str, Any]] | Mapping[str, Sequence[Any]], rows: int) -> list[dict[str, Any]]:
    """What a user says about photos, a dict for each or a sequence for each column, as rows of the table."""
    if isinstance(metadata, Mapping):
        lengths = {name: len(values) for name, values in metadata.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"Columns of metadata are of one length, not {lengths}.")
        metadata = [dict(zip(metadata, row, strict=True)) for row in zip(*metadata.values(), strict=True)]
    if metadata and len(metadata) != rows:
        raise ValueError(f"{rows} vectors came with metadata of {len(metadata)}: give one for each.")
    records = [_record_of(row, known) for row, known in enumerate(metadata or [{}] * rows)]
    seen: set[bytes] = set()
    for record in records:
        if record["path"] in seen:
            raise ValueError(f"{os.fsdecode(record['path'])!r} is given twice: each photo has a path of its own.")
        seen.add(record["path"])
    return records


def _record_of(row: int, known: Mapping[str, Any]) -> dict[str, Any]:
    values = {name: read(known[name]) for name, read in _READ.items() if known.get(name) is not None}
    return new_record(str(known.get("path", f"{row:08d}")), **values)
