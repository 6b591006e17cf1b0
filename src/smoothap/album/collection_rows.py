"""The rows of `collections.db`: what a mark remembers, what a step did, and how both are written and taken back."""

from __future__ import annotations

import json
import sqlite3
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from smoothap._core.files import free_name
from smoothap.album.database import Form
from smoothap.album.postings import row_crc

STEPS_KEPT, MARKS_KEPT = 100, 200_000  # of what can be undone, the marks in all steps together
FORM = Form(
    "the collections of an album",
    1,
    (
        "CREATE TABLE state (name TEXT PRIMARY KEY, value TEXT NOT NULL, crc INTEGER NOT NULL) WITHOUT ROWID, STRICT",
        "CREATE TABLE collection (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, crc INTEGER NOT NULL) STRICT",
        "CREATE TABLE mark (position INTEGER PRIMARY KEY, collection INTEGER NOT NULL, belongs INTEGER NOT NULL, "
        "photo INTEGER, path BLOB NOT NULL, sha256 BLOB NOT NULL, crc INTEGER NOT NULL, "
        "CHECK (belongs IN (0, 1))) STRICT",
        "CREATE INDEX mark_photo ON mark (collection, photo, belongs)",
        "CREATE TABLE step (id INTEGER PRIMARY KEY, session TEXT NOT NULL, what TEXT NOT NULL, marks INTEGER NOT NULL, "
        "changes TEXT NOT NULL, crc INTEGER NOT NULL) STRICT",
        "CREATE TABLE distinct_pair (first TEXT NOT NULL, second TEXT NOT NULL, crc INTEGER NOT NULL, "
        "PRIMARY KEY (first, second)) WITHOUT ROWID, STRICT",
    ),
    "Copy it again from where you have another copy, or move it away to begin with no collections.",
)
TABLES = {  # what is checked to be as it was written
    "state": "name, value", "collection": "id, name", "step": "id, session, what, marks, changes",
    "mark": "position, collection, belongs, photo, path, sha256", "distinct_pair": "first, second",
}  # fmt: skip
NOT_FOUND = (  # marks whose photo is not, or not any more, as it is remembered
    "SELECT m.position, m.collection, m.belongs, m.photo, m.path, m.sha256 FROM mark m LEFT JOIN album.photo p "
    "ON p.id=m.photo AND p.removed IS NULL WHERE p.id IS NULL OR p.path<>m.path OR p.sha256<>m.sha256 "
    "ORDER BY m.position"
)

Mark = bool | None  # belongs, does not, or neither is known
Planned = Callable[[sqlite3.Connection], "tuple[str, list[Change]]"]  # what is to be done, in words and in changes


class Member(NamedTuple):
    """A photo as it was when it was last seen; `photo` is its id, None for one that is not in the album."""

    photo: int | None
    path: bytes
    sha256: bytes


@dataclass(frozen=True)
class Change:
    """What a step did to one collection: its name before and after (None: there was none), and marks of photos."""

    key: int
    name: tuple[str | None, str | None]
    marks: tuple[tuple[Member, Mark, Mark], ...] = ()  # photo, before, after


class NoSuchCollection(KeyError, ValueError):  # noqa: N818
    """A name or a key that no collection of the album has."""

    def __str__(self) -> str:
        return str(self.args[0])


def photos_at(connection: sqlite3.Connection, path: bytes, content: bytes | None) -> list[tuple[Any, ...]]:
    """The photo at a path, if it has this content as far as both are known; with None, whatever it has."""
    query = "SELECT id, path, sha256 FROM album.photo WHERE path=? AND removed IS NULL"
    rows = connection.execute(query, (path,)).fetchall()
    return [row for row in rows if content is None or not content or not row[2] or row[2] == content]


def photos_with(connection: sqlite3.Connection, content: bytes) -> list[tuple[Any, ...]]:
    query = "SELECT id, path, sha256 FROM album.photo WHERE sha256=? AND removed IS NULL ORDER BY id"
    return connection.execute(query, (content,)).fetchall() if content else []


def write_mark(connection: sqlite3.Connection, position: int, key: int, belongs: int, member: Member) -> None:
    row = (position, key, int(belongs), *member)
    connection.execute("REPLACE INTO mark VALUES (?, ?, ?, ?, ?, ?, ?)", (*row, row_crc(row)))


def state(connection: sqlite3.Connection, name: str, default: str) -> str:
    row = connection.execute("SELECT value FROM state WHERE name=?", (name,)).fetchone()
    return default if row is None else row[0]


def set_state(connection: sqlite3.Connection, name: str, value: str) -> None:
    connection.execute("REPLACE INTO state VALUES (?, ?, ?)", (name, value, row_crc((name, value))))


def number(connection: sqlite3.Connection) -> int:
    """A number that nothing has had before; so this also changes with every write."""
    number = int(state(connection, "next", "1"))
    set_state(connection, "next", str(number + 1))
    return number


def by_name(connection: sqlite3.Connection, name: str) -> int | None:
    row = connection.execute("SELECT id FROM collection WHERE name=?", (name,)).fetchone()
    return None if row is None else row[0]


def find(connection: sqlite3.Connection, which: str | int) -> tuple[str, int] | None:
    """The name and key of a collection, if it is there."""
    if isinstance(which, int):
        return connection.execute("SELECT name, id FROM collection WHERE id=?", (which,)).fetchone()
    name = unicodedata.normalize("NFC", which.strip())
    key = None if not name.isprintable() else by_name(connection, name)
    return None if key is None else (name, key)


def existing(connection: sqlite3.Connection | None, which: str | int) -> tuple[str, int]:
    found = None if connection is None else find(connection, which)
    if found is None:
        rows = [] if connection is None else connection.execute("SELECT name FROM collection ORDER BY id").fetchall()
        names, number = ", ".join(repr(name) for (name,) in rows[:5]), len(rows)
        verb, others = "is" if number == 1 else "are", " and others" if number > 5 else ""
        there = f"there {verb} {names}{others}" if names else "there are none"
        raise NoSuchCollection(f"The album has no collection {which!r}: {there}.")
    return found


def marking(connection: sqlite3.Connection, found: tuple[str, int], asked: dict[Member, Mark]) -> Change:
    """What marking photos of the album changes in a collection; those that are so already are left out."""
    marks: list[tuple[Member, Mark, Mark]] = []
    for member, mark in asked.items():
        query = "SELECT belongs FROM mark WHERE collection=? AND photo=?"
        row = connection.execute(query, (found[1], member.photo)).fetchone()
        before = None if row is None else bool(row[0])
        if before is not mark:
            marks.append((member, before, mark))
    return Change(found[1], (found[0], found[0]), tuple(marks))


def apply(connection: sqlite3.Connection, change: Change) -> None:
    """Do to the collections what a step does to one of them."""
    before, after = change.name
    if after is None:
        connection.execute("DELETE FROM collection WHERE id=?", (change.key,))
        connection.execute("DELETE FROM mark WHERE collection=?", (change.key,))
        return
    if before != after:
        name(connection, change.key, after)
    for member, _, mark in change.marks:
        set_mark(connection, change.key, place(connection, change.key, member), member, mark)


def name(connection: sqlite3.Connection, key: int, name: str) -> None:
    connection.execute("REPLACE INTO collection VALUES (?, ?, ?)", (key, name, row_crc((key, name))))


def set_mark(connection: sqlite3.Connection, key: int, position: int | None, member: Member, mark: Mark) -> None:
    """Mark a photo, last of all; `position` is that of the mark it has."""
    if position is not None:
        connection.execute("DELETE FROM mark WHERE position=?", (position,))
    if mark is not None:
        (last,) = connection.execute("SELECT max(position) FROM mark").fetchone()
        write_mark(connection, (last or 0) + 1, key, mark, member)


def place(connection: sqlite3.Connection, key: int, member: Member) -> int | None:
    """The position of a photo's mark in a collection: by its id, else by its content, else by its path."""
    for column, value in (("photo", member.photo), ("sha256", member.sha256 or None), ("path", member.path)):
        query = f"SELECT position FROM mark WHERE collection=? AND {column}=?"
        row = None if value is None else connection.execute(query, (key, value)).fetchone()
        if row is not None:
            return row[0]
        if column == "photo" and value is not None and is_live(connection, member):
            return None  # it is in the album and has no mark
    return None


def is_live(connection: sqlite3.Connection, member: Member) -> bool:
    query = "SELECT 1 FROM album.photo WHERE id=? AND path=? AND removed IS NULL"
    return connection.execute(query, (member.photo, member.path)).fetchone() is not None


def take_back(connection: sqlite3.Connection, change: Change) -> None:
    before, after = change.name
    row = connection.execute("SELECT name FROM collection WHERE id=?", (change.key,)).fetchone()
    if row is None:
        if before is None or after is not None:  # deleted since then, by a step of its own
            return
        name(connection, change.key, free_name(before, lambda one: by_name(connection, one) is not None))
    for member, earlier, later in change.marks:
        position = place(connection, change.key, member)
        now: Mark = None
        if position is not None:
            (belongs,) = connection.execute("SELECT belongs FROM mark WHERE position=?", (position,)).fetchone()
            now = bool(belongs)
        if now is later:
            set_mark(connection, change.key, position, member, earlier)
    if before is None:
        if connection.execute("SELECT 1 FROM mark WHERE collection=?", (change.key,)).fetchone() is None:
            connection.execute("DELETE FROM collection WHERE id=?", (change.key,))
    elif after is not None and before != after and row == (after,):
        name(connection, change.key, free_name(before, lambda one: by_name(connection, one) is not None))


def forget_old_steps(connection: sqlite3.Connection) -> None:
    """Keep the last steps, as many as can be undone."""
    marks = 0
    rows = connection.execute("SELECT id, marks FROM step ORDER BY id DESC").fetchall()
    for place, (number, some) in enumerate(rows):
        marks += some
        if place and (place >= STEPS_KEPT or marks > MARKS_KEPT):
            connection.execute("DELETE FROM step WHERE id<=?", (number,))
            return


def plain(changes: Sequence[Change]) -> str:
    """Changes as JSON."""
    return json.dumps([[one.key, one.name, [plain_mark(*mark) for mark in one.marks]] for one in changes])


def plain_mark(member: Member, before: Mark, after: Mark) -> list[Any]:
    return [member.photo, member.path.hex(), member.sha256.hex(), before, after]


def changes(text: str) -> list[Change]:
    changes = []
    for key, (before, after), marks in json.loads(text):
        some = ((Member(one[0], bytes.fromhex(one[1]), bytes.fromhex(one[2])), one[3], one[4]) for one in marks)
        changes.append(Change(key, (before, after), tuple(some)))
    return changes


def said(name: str, marks: list[tuple[Member, Mark, Mark]]) -> str:
    """What marking did, in words."""
    kinds = {True: "kept {} in", False: "marked {} as not in", None: "took {} out of"}
    counts = {kind: sum(after is kind for _, _, after in marks) for kind in kinds}
    parts = [
        f"{words.format(f'{counts[kind]:,} photo' + 's' * (counts[kind] != 1))} {name}"
        for kind, words in kinds.items()
        if counts[kind]
    ]
    return ", ".join(parts) or f"made {name}"
