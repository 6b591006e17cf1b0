"""Collections: named groups of an album's photos, with marks of what belongs and what does not, kept in its folder.

They are in `collections/collections.db`, whose lock is not the album's: photos can be kept while the album is indexed.
Every call is one transaction: two processes or two browsers that write at once lose nothing. A mark remembers a photo
by its id, path and content, which is enough to know it again when it was moved, edited, or the album made again.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from smoothap.album.database import Database, Form
from smoothap.album.photos import Photo, Photos
from smoothap.album.postings import row_crc
from smoothap.album.store import COLLECTIONS, NAME, Store

FILE = "collections.db"
LONGEST_NAME = 200  # characters
STEPS_KEPT, MARKS_KEPT = 100, 200_000  # of what can be undone, the marks in all steps together
_FORM = Form(
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
        "PRIMARY KEY (first, second)) "
        "WITHOUT ROWID, STRICT",
    ),
    "Copy it again from where you have another copy, or move it away to begin with no collections.",
)
_TABLES = {  # what is checked to be as it was written
    "state": "name, value", "collection": "id, name", "step": "id, session, what, marks, changes",
    "mark": "position, collection, belongs, photo, path, sha256", "distinct_pair": "first, second",
}  # fmt: skip
_NOT_FOUND = (  # marks whose photo is not, or not any more, as it is remembered
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


@dataclass(frozen=True)
class Step:
    """One thing that a user did, in words."""

    number: int
    what: str
    session: str = ""


@dataclass(frozen=True, eq=False)
class Collection:
    """A named group of photos; `key` stays when the name changes.

    `right` and `wrong` are ids of photos that belong to it and of photos marked as not belonging, oldest mark first, in
    the album as it is now; they are read when they are asked for. `away` are the paths of photos that belong to it and
    are not in the album any more: they come back with their file.
    """

    name: str
    key: int
    _read: Callable[[int], tuple[tuple[int, ...], tuple[int, ...], tuple[str, ...]]] = field(repr=False)

    @cached_property
    def _members(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[str, ...]]:
        return self._read(self.key)

    @property
    def right(self) -> tuple[int, ...]:
        """Ids of photos that belong to it."""
        return self._members[0]

    @property
    def wrong(self) -> tuple[int, ...]:
        """Ids of photos that do not."""
        return self._members[1]

    @property
    def away(self) -> tuple[str, ...]:
        """Paths of photos that belong to it and are not in the album."""
        return self._members[2]


class NoSuchCollection(KeyError, ValueError):  # noqa: N818
    """A name or a key that no collection of the album has."""

    def __str__(self) -> str:
        return str(self.args[0])


class CollectionStore:
    """`collections.db` of one album, made when something is first kept in it."""

    def __init__(self, store: Store) -> None:
        self.store, self.folder = store, store.folder / COLLECTIONS
        self._database: Database | None = None
        self._lock = threading.RLock()

    @property
    def file(self) -> Path:
        """Where the collections are."""
        return self.folder / FILE

    def database(self, *, create: bool = False) -> Database | None:
        """The file, checked when it is first opened; None while nothing was kept."""
        with self._lock:
            if self._database is not None and self._database.is_replaced:
                self._database.close()
                self._database = None
            if self._database is None and (create or self.file.is_file()):
                with suppress(FileNotFoundError):  # nothing was kept yet by whoever began it
                    self._database = self._opened(create=create)
            return self._database

    def _opened(self, *, create: bool) -> Database:
        try:
            if create:
                self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ValueError(
                f"The collections cannot be written to {self.folder} ({error.strerror}): nothing changed."
            ) from error
        database = Database(self.file, _FORM, create=create, attached=self.store.folder / NAME)
        database.check()
        with database.reading() as connection:
            for table, columns in _TABLES.items():
                for *row, crc in connection.execute(f"SELECT {columns}, crc FROM {table}"):
                    if row_crc(row) != crc:
                        raise database.damaged(f"a row of {table}")
            if not _state(connection, "next", "1").isdecimal():
                raise database.damaged("its count of changes")
        return database

    def verify(self) -> None:
        """Check every row; what is damaged is named in an error."""
        with suppress(FileNotFoundError):
            self._opened(create=False).close()

    def album(self) -> str:
        """The album and its version, which marks were last matched with."""
        settings = self.store.settings()
        return f"{settings.uid} {settings.version}"


class Collections:
    """The collections of one album; `photos` are its photos as they are now.

    A collection is given by its name, or by its key, which is a number. What makes or changes one returns it as it is
    then. With `session`, what this object does is undone by the same session alone.
    """

    def __init__(self, kept: CollectionStore, photos: Photos, session: str = "") -> None:
        self._kept, self.photos, self._session = kept, photos, session

    def of_session(self, session: str) -> Collections:
        """The same collections, for one browser session or token: it undoes its own steps."""
        return Collections(self._kept, self.photos, session)

    @property
    def folder(self) -> Path:
        """Where they are kept."""
        return self._kept.folder

    @property
    def version(self) -> str:
        """Changes with any collection; known without reading them."""
        if (database := self._kept.database()) is None:
            return "none"
        with database.reading() as connection:
            return f"{os.stat(self._kept.file).st_ino:x}-{_state(connection, 'next', '1')}"  # noqa: PTH116

    def all(self) -> dict[str, Collection]:
        """All collections by name, oldest first."""
        with self._reading() as connection:
            rows = [] if connection is None else connection.execute("SELECT name, id FROM collection ORDER BY id")
            return {name: Collection(name, key, self._members) for name, key in rows}

    def counts(self) -> dict[int, tuple[int, int, int]]:
        """How many photos belong to each collection, do not, and are away, by its key."""
        counts: defaultdict[int, list[int]] = defaultdict(lambda: [0, 0, 0])
        query = "SELECT collection, belongs, photo IS NULL, count(*) FROM mark GROUP BY 1, 2, 3"
        with self._reading() as connection:
            for key, belongs, away, number in () if connection is None else connection.execute(query):
                if away and not belongs:
                    continue
                counts[key][2 if away else 0 if belongs else 1] += number
        return {key: (right, wrong, away) for key, (right, wrong, away) in counts.items()}

    def __getitem__(self, which: str | int) -> Collection:
        with self._reading() as connection:
            name, key = _existing(connection, which)
        return Collection(name, key, self._members)

    def ids_in(self, which: str | int | None) -> np.ndarray:
        """The ids of photos that belong to a collection or, with None, to any; rising, (n,) int64."""
        with self._reading() as connection:
            if connection is None and which is None:
                return np.empty(0, np.int64)
            key = None if which is None else _existing(connection, which)[1]
            where = "" if key is None else f" AND collection={key:d}"
            assert connection is not None
            query = f"SELECT DISTINCT photo FROM mark WHERE belongs AND photo IS NOT NULL{where} ORDER BY photo"
            return np.fromiter((row[0] for row in connection.execute(query)), np.int64)

    def create(self, name: str) -> Collection:
        """Make a new, empty collection."""
        name = checked_name(name)

        def change(connection: sqlite3.Connection) -> tuple[str, list[Change]]:
            if _by_name(connection, name) is not None:
                raise ValueError(f"There is a collection {name!r} already: choose another name.")
            return f"made {name}", [Change(_number(connection), (None, name))]

        return self._do(change, name)

    def add(self, which: str | int, ids: Iterable[int]) -> Collection:
        """Keep photos in a collection, which is made if there is none of this name."""
        return self.mark(which, right=ids)

    def remove(self, which: str | int, ids: Iterable[int]) -> Collection:
        """Take photos out of a collection, and forget that they were marked as not belonging, if they were."""
        self[which]  # a name that is misspelt is no new collection
        return self.mark(which, neither=ids)

    def mark(
        self, which: str | int, right: Iterable[int] = (), wrong: Iterable[int] = (), neither: Iterable[int] = ()
    ) -> Collection:
        """Say of photos that they belong to a collection, that they do not, or that neither is known."""
        marks: dict[int, Mark] = {}
        for ids, mark in ((right, True), (wrong, False), (neither, None)):
            for identity in ids:
                if marks.setdefault(int(identity), mark) is not mark:
                    raise ValueError(f"Photo {identity} is marked in two ways at once: give it once.")
        asked = dict(zip(self._remembered(marks), marks.values(), strict=True))
        which = checked_name(which) if isinstance(which, str) else which

        def change(connection: sqlite3.Connection) -> tuple[str, list[Change]]:
            found = _found(connection, which)
            if found is None:
                if isinstance(which, int):
                    raise NoSuchCollection(f"There is no collection {which} any more: it was deleted.")
                found = which, _number(connection)
                changes = [Change(found[1], (None, which))]
            else:
                changes = []
            changes.append(_marking(connection, found, asked))
            return _said(found[0], [mark for one in changes for mark in one.marks]), changes

        return self._do(change, which)

    def put(self, groups: Sequence[tuple[str, Iterable[int], Iterable[int]]], what: str) -> None:
        """Add to several collections at once, each a name with its right and its wrong ids: one step to undo."""
        asked: dict[str, dict[Member, Mark]] = {}
        for name, *ids in groups:
            right, wrong = (self._remembered(some) for some in ids)
            asked.setdefault(checked_name(name), {}).update(dict.fromkeys(wrong, False) | dict.fromkeys(right, True))

        def change(connection: sqlite3.Connection) -> tuple[str, list[Change]]:
            changes: list[Change] = []
            for name, marks in asked.items():
                key = _by_name(connection, name)
                if key is None:
                    key = _number(connection)
                    changes.append(Change(key, (None, name)))
                changes.append(_marking(connection, (name, key), marks))
            return what, changes

        self._do(change, None)

    def rename(self, which: str | int, name: str) -> Collection:
        """Give a collection another name."""
        name = checked_name(name)

        def change(connection: sqlite3.Connection) -> tuple[str, list[Change]]:
            (before, key), other = _existing(connection, which), _by_name(connection, name)
            if other not in (None, key):
                raise ValueError(f"There is a collection {name!r} already: choose another name, or delete that one.")
            return f"renamed {before} to {name}", [Change(key, (before, name))]

        return self._do(change, name)

    def delete(self, which: str | int) -> None:
        """Forget a collection and its marks; the photos stay where they are, and `undo` brings it back."""

        def change(connection: sqlite3.Connection) -> tuple[str, list[Change]]:
            name, key = _existing(connection, which)
            query = "SELECT photo, path, sha256, belongs FROM mark WHERE collection=? ORDER BY position"
            rows = connection.execute(query, (key,)).fetchall()
            marks = tuple((Member(*member), bool(belongs), None) for *member, belongs in rows)
            return f"deleted {name}", [Change(key, (name, None), marks)]

        self._do(change, None)

    def steps(self) -> list[Step]:
        """What this session can undo, newest first, each with its number and what it did in words."""
        with self._reading() as connection:
            if connection is None:
                return []
            query = "SELECT id, what, session FROM step WHERE ?='' OR session=? ORDER BY id DESC"
            return [Step(*row) for row in connection.execute(query, (self._session, self._session))]

    def undo(self, number: int | None = None) -> str:
        """Take back the last step of this session, or the one with this number; says what it was.

        What was marked otherwise since then stays so. Without a session, the last step of anybody is taken back.
        """
        with self._writing() as connection:
            query = "SELECT id, what, changes FROM step WHERE (?='' OR session=?) AND (? IS NULL OR id=?)"
            values = (self._session, self._session, number, number)
            row = connection.execute(f"{query} ORDER BY id DESC LIMIT 1", values).fetchone()
            if row is None:
                raise ValueError(
                    "There is nothing to undo." if number is None else f"Step {number} cannot be undone any more."
                )
            step, what, changes = row
            try:
                changes = _changes(changes)
            except (TypeError, ValueError, IndexError, RecursionError) as error:
                raise ValueError(f"{self._kept.file} is damaged: step {step} cannot be undone.") from error
            connection.execute("DELETE FROM step WHERE id=?", (step,))
            for change in reversed(changes):
                _take_back(connection, change)
            _number(connection)
        return what

    def refresh(self) -> None:
        """Match marks with the photos as they are now: one that was moved is then known when it is edited later."""
        with self._reading():
            return

    def distinct(self) -> frozenset[tuple[str, str]]:
        """Pairs of photos that look alike and that the user says are no copies, as `pair_of` names them."""
        with self._reading() as connection:
            rows = [] if connection is None else connection.execute("SELECT first, second FROM distinct_pair")
            return frozenset((first, second) for first, second in rows)

    def tell_apart(self, pairs: Iterable[tuple[Photo, Photo]]) -> None:
        """Remember that photos are no copies of each other."""
        with self._writing() as connection:
            rows = ((*row, row_crc(row)) for row in (pair_of(*pair) for pair in pairs))
            connection.executemany("INSERT OR IGNORE INTO distinct_pair VALUES (?, ?, ?)", rows)
            _number(connection)

    def tell_alike(self, photos: Iterable[Photo]) -> None:
        """Let photos be copies again of whatever they look like."""
        keys = [(key, key) for photo in photos for key in (photo.sha256, photo.path) if key]
        with self._writing() as connection:
            connection.executemany("DELETE FROM distinct_pair WHERE first=? OR second=?", keys)
            _number(connection)

    def _remembered(self, ids: Iterable[int]) -> list[Member]:
        records = self.photos.records(self.photos.rows_of(ids))
        return [Member(record["id"], record["path"], record["sha256"]) for record in records]

    def _members(self, key: int) -> tuple[tuple[int, ...], tuple[int, ...], tuple[str, ...]]:
        """The ids of a collection that are right and wrong, and the paths of what is away."""
        with self._reading() as connection:
            query = "SELECT photo, belongs, path FROM mark WHERE collection=? ORDER BY position"
            rows = [] if connection is None else connection.execute(query, (key,)).fetchall()
        here = set(self.photos.ids.tolist()) if len(rows) > len(self.photos) // 16 else None
        sides: tuple[list[int], list[int], list[str]] = [], [], []
        for photo, belongs, path in rows:
            if photo is not None and (photo in here if here is not None else self._is_here(photo)):
                sides[0 if belongs else 1].append(photo)
            elif belongs:
                sides[2].append(os.fsdecode(path))
        return tuple(sides[0]), tuple(sides[1]), tuple(sides[2])

    def _is_here(self, photo: int) -> bool:
        row = int(np.searchsorted(self.photos.ids, photo))
        return row < len(self.photos) and self.photos.ids[row] == photo

    def _do(self, change: Planned, which: str | int | None) -> Collection:
        """Make changes, as one step; `which` is the collection to answer with."""
        with self._writing() as connection:
            what, changes = change(connection)
            changes = [one for one in changes if one.marks or one.name[0] != one.name[1]]
            if changes:
                for one in changes:
                    _apply(connection, one)
                marks = sum(len(one.marks) for one in changes)
                row = (_number(connection), self._session, what, marks, _plain(changes))
                connection.execute("INSERT INTO step VALUES (?, ?, ?, ?, ?, ?)", (*row, row_crc(row)))
                _forget_old_steps(connection)
            name, key = ("", 0) if which is None else _existing(connection, which)
        return Collection(name, key, self._members)

    @contextmanager
    def _reading(self) -> Generator[sqlite3.Connection | None]:
        """The collections, matched with the photos as they are now; None while there are none."""
        database = self._kept.database()
        if database is None:
            yield None
            return
        with database.reading() as connection:
            current = _state(connection, "album", "") == self._kept.album()
        if not current:
            with suppress(PermissionError), database.writing() as connection:  # where nobody may write, as it was
                self._match(connection)
        with database.reading() as connection:
            yield connection

    @contextmanager
    def _writing(self) -> Generator[sqlite3.Connection]:
        database = self._kept.database(create=True)
        assert database is not None
        try:
            with database.writing() as connection:
                if _state(connection, "album", "") != self._kept.album():
                    self._match(connection)
                yield connection
        except PermissionError as error:
            raise ValueError(f"The collections cannot be written: {error.strerror}") from error

    def _match(self, connection: sqlite3.Connection) -> None:
        """Find photos again that are not where they were remembered.

        The same path with the same content is certain. Else the same content counts, wherever it is now; and last the
        same path, whose file was edited. No collection has a photo twice.
        """
        album = self._kept.album()
        if _state(connection, "album", "").partition(" ")[0] != album.partition(" ")[0]:  # ids of another album
            rows = connection.execute("SELECT position, collection, belongs, NULL, path, sha256 FROM mark").fetchall()
        else:
            rows = connection.execute(_NOT_FOUND).fetchall()
        # Paths of files that are as they were; those that are not, by content; and those that were edited.
        lost = {row[0]: row for row in rows}
        connection.executemany("UPDATE mark SET photo=NULL WHERE position=?", ((position,) for position in lost))
        finders: tuple[Callable[[bytes, bytes], list[tuple[Any, ...]]], ...] = (
            lambda path, content: _photos_at(connection, path, content),
            lambda _, content: _photos_with(connection, content),
            lambda path, _: _photos_at(connection, path, None),
        )
        taken = "SELECT 1 FROM mark WHERE collection=? AND photo=?"
        for finder in finders:
            for position, (_, key, belongs, _, path, content) in list(lost.items()):
                for found in finder(path, content):
                    if connection.execute(taken, (key, found[0])).fetchone() is None:
                        _write_mark(connection, position, key, belongs, Member(*found))
                        del lost[position]
                        break
        for row in lost.values():
            _write_mark(connection, row[0], row[1], row[2], Member(None, row[4], row[5]))
        _set_state(connection, "album", album)


def pair_of(one: Photo, other: Photo) -> tuple[str, str]:
    """Two photos as they are remembered: by content, or by path where that is the same or nobody has read it."""
    by_content = one.sha256 and other.sha256 and one.sha256 != other.sha256
    keys = (one.sha256, other.sha256) if by_content else (one.path, other.path)
    first, second = sorted(key.encode(errors="surrogateescape").decode(errors="backslashreplace") for key in keys)
    return first, second


def checked_name(name: str) -> str:
    """The name of a collection, if it can be one."""
    name = unicodedata.normalize("NFC", name.strip())
    if not name or len(name) > LONGEST_NAME:
        raise ValueError(f"The name of a collection has 1 to {LONGEST_NAME} characters, not {len(name):,}.")
    if not name.isprintable():  # control characters, line breaks, halves of a character
        raise ValueError(f"{name!r} has characters that cannot be seen: name the collection without them.")
    return name


def _photos_at(connection: sqlite3.Connection, path: bytes, content: bytes | None) -> list[tuple[Any, ...]]:
    """The photo at a path, if it has this content as far as both are known; with None, whatever it has."""
    query = "SELECT id, path, sha256 FROM album.photo WHERE path=? AND removed IS NULL"
    rows = connection.execute(query, (path,)).fetchall()
    return [row for row in rows if content is None or not content or not row[2] or row[2] == content]


def _photos_with(connection: sqlite3.Connection, content: bytes) -> list[tuple[Any, ...]]:
    query = "SELECT id, path, sha256 FROM album.photo WHERE sha256=? AND removed IS NULL ORDER BY id"
    return connection.execute(query, (content,)).fetchall() if content else []


def _write_mark(connection: sqlite3.Connection, position: int, key: int, belongs: int, member: Member) -> None:
    row = (position, key, int(belongs), *member)
    connection.execute("REPLACE INTO mark VALUES (?, ?, ?, ?, ?, ?, ?)", (*row, row_crc(row)))


def _state(connection: sqlite3.Connection, name: str, default: str) -> str:
    row = connection.execute("SELECT value FROM state WHERE name=?", (name,)).fetchone()
    return default if row is None else row[0]


def _set_state(connection: sqlite3.Connection, name: str, value: str) -> None:
    connection.execute("REPLACE INTO state VALUES (?, ?, ?)", (name, value, row_crc((name, value))))


def _number(connection: sqlite3.Connection) -> int:
    """A number that nothing has had before; so this also changes with every write."""
    number = int(_state(connection, "next", "1"))
    _set_state(connection, "next", str(number + 1))
    return number


def _by_name(connection: sqlite3.Connection, name: str) -> int | None:
    row = connection.execute("SELECT id FROM collection WHERE name=?", (name,)).fetchone()
    return None if row is None else row[0]


def _found(connection: sqlite3.Connection, which: str | int) -> tuple[str, int] | None:
    """The name and key of a collection, if it is there."""
    if isinstance(which, int):
        return connection.execute("SELECT name, id FROM collection WHERE id=?", (which,)).fetchone()
    name = unicodedata.normalize("NFC", which.strip())
    key = None if not name.isprintable() else _by_name(connection, name)
    return None if key is None else (name, key)


def _existing(connection: sqlite3.Connection | None, which: str | int) -> tuple[str, int]:
    found = None if connection is None else _found(connection, which)
    if found is None:
        rows = [] if connection is None else connection.execute("SELECT name FROM collection ORDER BY id").fetchall()
        names, number = ", ".join(repr(name) for (name,) in rows[:5]), len(rows)
        verb, others = "is" if number == 1 else "are", " and others" if number > 5 else ""
        there = f"there {verb} {names}{others}" if names else "there are none"
        raise NoSuchCollection(f"The album has no collection {which!r}: {there}.")
    return found


def _marking(connection: sqlite3.Connection, found: tuple[str, int], asked: dict[Member, Mark]) -> Change:
    """What marking photos of the album changes in a collection; those that are so already are left out."""
    marks: list[tuple[Member, Mark, Mark]] = []
    for member, mark in asked.items():
        query = "SELECT belongs FROM mark WHERE collection=? AND photo=?"
        row = connection.execute(query, (found[1], member.photo)).fetchone()
        before = None if row is None else bool(row[0])
        if before is not mark:
            marks.append((member, before, mark))
    return Change(found[1], (found[0], found[0]), tuple(marks))


def _apply(connection: sqlite3.Connection, change: Change) -> None:
    """Do to the collections what a step does to one of them."""
    before, after = change.name
    if after is None:
        connection.execute("DELETE FROM collection WHERE id=?", (change.key,))
        connection.execute("DELETE FROM mark WHERE collection=?", (change.key,))
        return
    if before != after:
        _name(connection, change.key, after)
    for member, _, mark in change.marks:
        _set_mark(connection, change.key, _place(connection, change.key, member), member, mark)


def _name(connection: sqlite3.Connection, key: int, name: str) -> None:
    connection.execute("REPLACE INTO collection VALUES (?, ?, ?)", (key, name, row_crc((key, name))))


def _set_mark(connection: sqlite3.Connection, key: int, position: int | None, member: Member, mark: Mark) -> None:
    """Mark a photo, last of all; `position` is that of the mark it has."""
    if position is not None:
        connection.execute("DELETE FROM mark WHERE position=?", (position,))
    if mark is not None:
        (last,) = connection.execute("SELECT max(position) FROM mark").fetchone()
        _write_mark(connection, (last or 0) + 1, key, mark, member)


def _place(connection: sqlite3.Connection, key: int, member: Member) -> int | None:
    """The position of a photo's mark in a collection: by its id, else by its content, else by its path."""
    for column, value in (("photo", member.photo), ("sha256", member.sha256 or None), ("path", member.path)):
        query = f"SELECT position FROM mark WHERE collection=? AND {column}=?"
        row = None if value is None else connection.execute(query, (key, value)).fetchone()
        if row is not None:
            return row[0]
        if column == "photo" and value is not None and _is_live(connection, member):
            return None  # it is in the album and has no mark
    return None


def _is_live(connection: sqlite3.Connection, member: Member) -> bool:
    query = "SELECT 1 FROM album.photo WHERE id=? AND path=? AND removed IS NULL"
    return connection.execute(query, (member.photo, member.path)).fetchone() is not None


def _take_back(connection: sqlite3.Connection, change: Change) -> None:
    before, after = change.name
    row = connection.execute("SELECT name FROM collection WHERE id=?", (change.key,)).fetchone()
    if row is None:
        if before is None or after is not None:  # deleted since then, by a step of its own
            return
        _name(connection, change.key, _free_name(connection, before))
    for member, earlier, later in change.marks:
        position = _place(connection, change.key, member)
        now: Mark = None
        if position is not None:
            (belongs,) = connection.execute("SELECT belongs FROM mark WHERE position=?", (position,)).fetchone()
            now = bool(belongs)
        if now is later:
            _set_mark(connection, change.key, position, member, earlier)
    if before is None:
        if connection.execute("SELECT 1 FROM mark WHERE collection=?", (change.key,)).fetchone() is None:
            connection.execute("DELETE FROM collection WHERE id=?", (change.key,))
    elif after is not None and before != after and row == (after,):
        _name(connection, change.key, _free_name(connection, before))


def _free_name(connection: sqlite3.Connection, name: str) -> str:
    """The name, or one like it where another collection has taken it meanwhile."""
    number, free = 1, name
    while _by_name(connection, free) is not None:
        number += 1
        free = f"{name} ({number})"
    return free


def _forget_old_steps(connection: sqlite3.Connection) -> None:
    """Keep the last steps, as many as can be undone."""
    marks = 0
    rows = connection.execute("SELECT id, marks FROM step ORDER BY id DESC").fetchall()
    for place, (number, some) in enumerate(rows):
        marks += some
        if place and (place >= STEPS_KEPT or marks > MARKS_KEPT):
            connection.execute("DELETE FROM step WHERE id<=?", (number,))
            return


def _plain(changes: Sequence[Change]) -> str:
    """Changes as JSON."""
    return json.dumps([[one.key, one.name, [_plain_mark(*mark) for mark in one.marks]] for one in changes])


def _plain_mark(member: Member, before: Mark, after: Mark) -> list[Any]:
    return [member.photo, member.path.hex(), member.sha256.hex(), before, after]


def _changes(text: str) -> list[Change]:
    changes = []
    for key, (before, after), marks in json.loads(text):
        some = ((Member(one[0], bytes.fromhex(one[1]), bytes.fromhex(one[2])), one[3], one[4]) for one in marks)
        changes.append(Change(key, (before, after), tuple(some)))
    return changes


def _said(name: str, marks: list[tuple[Member, Mark, Mark]]) -> str:
    """What marking did, in words."""
    kinds = {True: "kept {} in", False: "marked {} as not in", None: "took {} out of"}
    counts = {kind: sum(after is kind for _, _, after in marks) for kind in kinds}
    parts = [
        f"{words.format(f'{counts[kind]:,} photo' + 's' * (counts[kind] != 1))} {name}"
        for kind, words in kinds.items()
        if counts[kind]
    ]
    return ", ".join(parts) or f"made {name}"
