"""The photos of an album as a packed table, one `Photo` at a time for whoever asks."""

import os
import re
from calendar import timegm
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from typing import Any, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

OUTSIDE = r"(?s)^\.?$|^/|\x00|(^|/)\.\.(/|$)"  # matches paths that are none below the photo folder

# Paths are bytes: a file name need not be UTF-8. Where a thumbnail lies (pack, offset, length, crc) is our own affair.
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("path", pa.binary()),
        ("label", pa.string()),
        ("bytes", pa.int64()),
        ("modified", pa.int64()),  # nanoseconds
        ("sha256", pa.binary()),
        ("width", pa.int32()),
        ("height", pa.int32()),
        ("pack", pa.int32()),  # the segment whose pack holds the thumbnail; -1: none
        ("offset", pa.int64()),
        ("length", pa.int64()),
        ("crc", pa.int64()),
        ("taken", pa.int64()),  # seconds since 1970 by the camera's own clock; null: the file does not say
        ("camera", pa.string()),  # "": the file names none; null: nobody has looked yet
        ("columns", pa.map_(pa.string(), pa.string())),  # what else the user's table says of it; null: nothing
    ]
)
_ADDED = ("taken", "camera", "columns")
OLDER_SCHEMA = pa.schema([field for field in SCHEMA if field.name not in _ADDED])  # smoothap 0.1
# From what a user says about a photo to what the table holds.
_READ: dict[str, Callable[[Any], Any]] = {
    "label": str, "bytes": int, "modified": lambda seconds: round(float(seconds) * 1e9),
    "sha256": lambda digits: bytes.fromhex(str(digits)), "width": int, "height": int,
    "taken": lambda when: seconds_of(when if isinstance(when, datetime) else datetime.fromisoformat(when)),
    "camera": str, "columns": lambda columns: [(str(name), str(value)) for name, value in columns.items()],
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


@dataclass(frozen=True)
class Hit:
    """One answer to a query; `rank` counts from 1, `score` is the cosine."""

    id: int
    score: float
    path: str
    label: str | None
    rank: int


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
    """Photos in the order of their ids, which is the order of the album's vectors."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table.combine_chunks()
        self.ids = whole_numbers(self.table["id"])
        self._paths, self._labels = self.column("path"), self.column("label")

    def column(self, name: str) -> pa.Array:
        """One column in one piece."""
        return self.table.column(name).combine_chunks()

    def __len__(self) -> int:
        return self.table.num_rows

    @overload
    def __getitem__(self, row: int) -> Photo: ...
    @overload
    def __getitem__(self, row: slice) -> list[Photo]: ...
    def __getitem__(self, row: int | slice) -> "Photo | list[Photo]":
        if isinstance(row, slice):
            return [self[place] for place in range(*row.indices(len(self)))]
        if not -len(self) <= row < len(self):
            raise IndexError(f"row {row} of {len(self)} photos")
        record = self.record(row % len(self))
        values = {field.name: record[field.name] for field in fields(Photo)}
        values["path"], values["sha256"] = os.fsdecode(record["path"]), record["sha256"].hex()
        values["modified"], values["camera"] = record["modified"] / 1e9, record["camera"] or None
        values["columns"] = dict(record["columns"] or ())
        values["taken"] = None if record["taken"] is None else _EPOCH + timedelta(seconds=record["taken"])
        return Photo(**values)

    def record(self, row: int) -> dict[str, Any]:
        """The row as the table has it."""
        return {name: self.table.column(name)[row].as_py() for name in self.table.column_names}

    def row_of(self, identity: int) -> int:
        """The row of the photo with this id."""
        row = int(np.searchsorted(self.ids, identity))
        if row == len(self.ids) or self.ids[row] != identity:
            raise NoSuchPhoto(f"The album has no photo {identity}: it was removed, or never there.")
        return row

    def named(self, rows: np.ndarray) -> tuple[list[str], list[str | None]]:
        """The paths and the labels of some rows."""
        numbers = np.ascontiguousarray(rows, np.int64)  # as they are in memory: `pa.array` would load pandas first
        places = pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(numbers)])
        paths = [os.fsdecode(path) for path in self._paths.take(places).to_pylist()]
        return paths, self._labels.take(places).to_pylist()

    def columns_of(self, rows: np.ndarray) -> list[dict[str, str]]:
        """What else the user's table says of the photos in some rows."""
        taken = self.table.column("columns").take(pa.array(np.asarray(rows, np.int64).tolist(), pa.int64()))
        return [dict(pairs or ()) for pairs in taken.to_pylist()]

    def column_names(self) -> list[str]:
        """The names of the columns that the user's table has beside path and label, in order."""
        keys = self.column("columns").keys.unique().to_pylist()
        return sorted(keys)

    def values_of(self, name: str) -> np.ndarray:
        """What each photo has in a column of the user's table, or as `label`, (n,) of text; "" where there is none."""
        if name == "label":
            return self._labels.fill_null("").to_numpy(zero_copy_only=False)
        if name not in (there := self.column_names()):
            raise ValueError(f"The album has no column {name!r}: it has {', '.join(there) or 'none beside the label'}.")
        options = pc.MapLookupOptions(pa.scalar(name), "first")
        values = pc.call_function("map_lookup", [self.column("columns")], options)
        return values.fill_null("").to_numpy(zero_copy_only=False)

    def id_of(self, path: str) -> int:
        """The id of the photo at a path."""
        place = pc.call_function("index", [self._paths], pc.IndexOptions(pa.scalar(os.fsencode(path)))).as_py()
        if place < 0:
            raise NoSuchPhoto(f"The album has no photo {path!r}: it was removed, or never there.")
        return int(self.ids[place])

    def paths(self) -> list[str]:
        """All paths, in order."""
        return [os.fsdecode(path) for path in self._paths.to_pylist()]

    def labels(self) -> np.ndarray:
        """All labels, (n,) of str or None."""
        return self._labels.to_numpy(zero_copy_only=False)


def seconds_of(when: datetime) -> int:
    """A time of a camera's clock as seconds since 1970."""
    return timegm(when.timetuple())


def whole_numbers(column: pa.ChunkedArray) -> np.ndarray:
    """A column of int64 without nulls as an array that shares its memory; `to_numpy` would load pandas first."""
    return np.from_dlpack(column.combine_chunks())


def table_of(records: Iterable[Mapping[str, Any]]) -> pa.Table:
    """Rows, as `Photos.record` gives them, as a table."""
    return pa.Table.from_pylist([dict(record) for record in records], schema=SCHEMA)


def new_record(identity: int, path: str, **known: Any) -> dict[str, Any]:
    """A row about which no more is known than what is given; the path has to stay below the photo folder."""
    if re.search(OUTSIDE, path) or ("\\" in path and os.name == "nt"):
        raise ValueError(f"{path!r} is no path below the photo folder: give it relative to that, without '..'.")
    nothing = {**dict.fromkeys(OLDER_SCHEMA.names, 0), "label": None, "sha256": b"", "pack": -1}
    nothing |= dict.fromkeys(_ADDED)
    return {**nothing, "id": identity, "path": os.fsencode(path), **known}


def records_of(metadata: Sequence[Mapping[str, Any]] | Mapping[str, Sequence[Any]], rows: int) -> list[dict[str, Any]]:
    """What a user says about photos, a dict for each or a sequence for each column, as rows of the table."""
    if isinstance(metadata, Mapping):
        lengths = {name: len(values) for name, values in metadata.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"Columns of metadata are of one length, not {lengths}.")
        metadata = [dict(zip(metadata, row, strict=True)) for row in zip(*metadata.values(), strict=True)]
    if metadata and len(metadata) != rows:
        raise ValueError(f"{rows} vectors came with metadata of {len(metadata)}: give one for each.")
    return [_record_of(row, known) for row, known in enumerate(metadata or [{}] * rows)]


def _record_of(row: int, known: Mapping[str, Any]) -> dict[str, Any]:
    values = {name: read(known[name]) for name, read in _READ.items() if known.get(name) is not None}
    return new_record(row, str(known.get("path", f"{row:08d}")), **values)
