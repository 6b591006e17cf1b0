"""Which photos have a value, such as a label, a camera or a cell of the user's table: an inverted index in SQLite.

Ids are kept in blocks of 2^15: those of a block as numbers of two bytes, or as bits where there are many. So half of a
million photos are some hundred kilobytes to read, and a single one a few bytes.
"""

from __future__ import annotations

import os
import sqlite3
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from smoothap.album.dates import dated

SCHEMA = (
    "CREATE TABLE posting (name TEXT NOT NULL, value BLOB NOT NULL, block INTEGER NOT NULL, number INTEGER NOT NULL, "
    "ids BLOB NOT NULL, crc INTEGER NOT NULL, PRIMARY KEY (name, value, block), "
    "CHECK (block BETWEEN 0 AND 0xffffffffff AND number > 0)) WITHOUT ROWID, STRICT"
)
BLOCK = 1 << 15
_BITMAP = BLOCK // 8  # bytes; a list of ids is shorter
COLUMN = "column:"  # in front of the names of the user's own columns

_DAMAGED = "The index in album.db is damaged: copy the album again, or delete it and index the photos again."

Key = tuple[str, bytes]  # a name and a value


def row_crc(values: Sequence[Any]) -> int:
    """The checksum of a row of a table."""
    return zlib.crc32(repr(tuple(values)).encode(errors="backslashreplace"))


def keys_of(record: Mapping[str, Any], columns: Mapping[str, str]) -> set[Key]:
    """What a photo can be found by; `columns` are the user's own."""
    keys: set[Key] = {("folder", os.path.dirname(record["path"]))}  # noqa: PTH120 (bytes, not of this machine)
    if record["label"] is not None:
        keys.add(("label", record["label"].encode()))
    if record["camera"]:
        keys.add(("camera", record["camera"].encode()))
    keys |= date_keys(record)
    keys.update((COLUMN + name, value.encode(errors="surrogatepass")) for name, value in columns.items())
    return keys


def date_keys(record: Mapping[str, Any]) -> set[Key]:
    """The day of a photo and what says so, each empty where nothing does."""
    when = dated(record["taken"], record["path"], record["modified"])
    return {("day", (when.day or "").encode()), ("dated by", (when.by or "").encode())}


def change(connection: sqlite3.Connection, taken: Iterable[tuple[int, Key]], given: Iterable[tuple[int, Key]]) -> None:
    """Take values from photos and give others, each a pair of a photo's id and a key."""
    changes: defaultdict[tuple[str, bytes, int], tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for side, pairs in enumerate((taken, given)):
        for identity, (name, value) in pairs:
            changes[name, value, identity // BLOCK][side].append(identity % BLOCK)
    for key, (without, added) in changes.items():
        row = connection.execute("SELECT ids FROM posting WHERE name=? AND value=? AND block=?", key).fetchone()
        is_in = np.zeros(BLOCK, bool)
        if row is not None:
            is_in[unpacked(row[0])] = True
        is_in[without] = False
        is_in[added] = True
        ids = np.flatnonzero(is_in)
        if len(ids):
            row = (*key, len(ids), packed(ids))
            connection.execute("REPLACE INTO posting VALUES (?, ?, ?, ?, ?, ?)", (*row, row_crc(row)))
        else:
            connection.execute("DELETE FROM posting WHERE name=? AND value=? AND block=?", key)


def packed(ids: np.ndarray) -> bytes:
    """Ids of one block, rising, as bytes."""
    if 2 * len(ids) < _BITMAP:
        return ids.astype("<u2").tobytes()
    is_in = np.zeros(BLOCK, bool)
    is_in[ids] = True
    return np.packbits(is_in).tobytes()


def unpacked(content: bytes) -> np.ndarray:
    """The ids, within their block, that bytes are of."""
    if len(content) == _BITMAP:
        return np.flatnonzero(np.unpackbits(np.frombuffer(content, np.uint8)))
    if len(content) % 2 or len(content) > _BITMAP:
        raise ValueError(_DAMAGED)
    ids = np.frombuffer(content, "<u2").astype(np.int64)
    if len(ids) and ids.max() >= BLOCK:
        raise ValueError(_DAMAGED)
    return ids


def having(connection: sqlite3.Connection, name: str, low: bytes, high: bytes | None = None) -> np.ndarray:
    """The ids of photos that have this value, or one from `low` up to but not including `high`; rising, (n,) int64."""
    if high is None:
        rows = connection.execute("SELECT block, ids FROM posting WHERE name=? AND value=?", (name, low))
    else:
        query = "SELECT block, ids FROM posting WHERE name=? AND value>=? AND value<?"
        rows = connection.execute(query, (name, low, high))
    found = [block * BLOCK + unpacked(ids) for block, ids in rows]
    ids = np.concatenate(found) if found else np.empty(0, np.int64)
    return ids if (np.diff(ids) > 0).all() else np.unique(ids)


def values(connection: sqlite3.Connection, name: str) -> Iterator[tuple[bytes, np.ndarray]]:
    """Each value under a name, and the ids of photos that have it, a block at a time."""
    for value, block, ids in connection.execute("SELECT value, block, ids FROM posting WHERE name=?", (name,)):
        yield value, block * BLOCK + unpacked(ids)


def counts(connection: sqlite3.Connection, name: str) -> dict[bytes, int]:
    """Each value that a photo has under a name, in order, and how many photos have it."""
    return dict(
        connection.execute("SELECT value, sum(number) FROM posting WHERE name=? GROUP BY value ORDER BY value", (name,))
    )


def column_names(connection: sqlite3.Connection) -> list[str]:
    """The names of the user's own columns, in order; each is one step through the index."""
    names: list[str] = []
    last = COLUMN
    while True:
        (name,) = connection.execute(
            "SELECT min(name) FROM posting WHERE name>? AND name<?", (last, "column;")
        ).fetchone()
        if name is None:
            return names
        names.append(name[len(COLUMN) :])
        last = name


def check(connection: sqlite3.Connection) -> None:
    """Refuse an index of which a row is not as it was written."""
    for *row, crc in connection.execute("SELECT name, value, block, number, ids, crc FROM posting"):
        if row_crc(row) != crc:
            raise ValueError(_DAMAGED)
