"""Collections: named groups of an album's photos, with marks of what belongs and what does not, kept in its folder.

They are in `collections/collections.db`, whose lock is not the album's: photos can be kept while the album is indexed.
Every call is one transaction: two processes or two browsers that write at once lose nothing. A mark remembers a photo
by its id, path and content, which is enough to know it again when it was moved, edited, or the album made again.
"""

from __future__ import annotations

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
from typing import Any

import numpy as np

from smoothap.album import collection_rows as table
from smoothap.album.collection_rows import Change, Mark, Member, NoSuchCollection, Planned
from smoothap.album.database import Database
from smoothap.album.photos import Photo, Photos
from smoothap.album.postings import row_crc
from smoothap.album.store import COLLECTIONS, NAME, Store

FILE = "collections.db"
LONGEST_NAME = 200  # characters


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
                self.folder.mkdir(exist_ok=True)  # and not the album's, which may have been moved away
        except OSError as error:
            raise ValueError(
                f"The collections cannot be written to {self.folder} ({error.strerror}): nothing changed."
            ) from error
        database = Database(self.file, table.FORM, create=create, attached=self.store.folder / NAME)
        database.check()
        with database.reading() as connection:
            for name, columns in table.TABLES.items():
                for *row, crc in connection.execute(f"SELECT {columns}, crc FROM {name}"):
                    if row_crc(row) != crc:
                        raise database.damaged(f"a row of {name}")
            if not table.state(connection, "next", "1").isdecimal():
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
            return f"{os.stat(self._kept.file).st_ino:x}-{table.state(connection, 'next', '1')}"  # noqa: PTH116

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
            name, key = table.existing(connection, which)
        return Collection(name, key, self._members)

    def ids_in(self, which: str | int | None) -> np.ndarray:
        """The ids of photos that belong to a collection or, with None, to any; rising, (n,) int64."""
        with self._reading() as connection:
            if connection is None and which is None:
                return np.empty(0, np.int64)
            key = None if which is None else table.existing(connection, which)[1]
            where = "" if key is None else f" AND collection={key:d}"
            assert connection is not None
            query = f"SELECT DISTINCT photo FROM mark WHERE belongs AND photo IS NOT NULL{where} ORDER BY photo"
            return np.fromiter((row[0] for row in connection.execute(query)), np.int64)

    def create(self, name: str) -> Collection:
        """Make a new, empty collection."""
        name = checked_name(name)

        def change(connection: sqlite3.Connection) -> tuple[str, list[Change]]:
            if table.by_name(connection, name) is not None:
                raise ValueError(f"There is a collection {name!r} already: choose another name.")
            return f"made {name}", [Change(table.number(connection), (None, name))]

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
            found = table.find(connection, which)
            if found is None:
                if isinstance(which, int):
                    raise NoSuchCollection(f"There is no collection {which} any more: it was deleted.")
                found = which, table.number(connection)
                changes = [Change(found[1], (None, which))]
            else:
                changes = []
            changes.append(table.marking(connection, found, asked))
            return table.said(found[0], [mark for one in changes for mark in one.marks]), changes

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
                key = table.by_name(connection, name)
                if key is None:
                    key = table.number(connection)
                    changes.append(Change(key, (None, name)))
                changes.append(table.marking(connection, (name, key), marks))
            return what, changes

        self._do(change, None)

    def rename(self, which: str | int, name: str) -> Collection:
        """Give a collection another name."""
        name = checked_name(name)

        def change(connection: sqlite3.Connection) -> tuple[str, list[Change]]:
            (before, key), other = table.existing(connection, which), table.by_name(connection, name)
            if other not in (None, key):
                raise ValueError(f"There is a collection {name!r} already: choose another name, or delete that one.")
            return f"renamed {before} to {name}", [Change(key, (before, name))]

        return self._do(change, name)

    def delete(self, which: str | int) -> None:
        """Forget a collection and its marks; the photos stay where they are, and `undo` brings it back."""

        def change(connection: sqlite3.Connection) -> tuple[str, list[Change]]:
            name, key = table.existing(connection, which)
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
                changes = table.changes(changes)
            except (TypeError, ValueError, IndexError, RecursionError) as error:
                raise ValueError(f"{self._kept.file} is damaged: step {step} cannot be undone.") from error
            connection.execute("DELETE FROM step WHERE id=?", (step,))
            for change in reversed(changes):
                table.take_back(connection, change)
            table.number(connection)
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
            table.number(connection)

    def tell_alike(self, photos: Iterable[Photo]) -> None:
        """Let photos be copies again of whatever they look like."""
        keys = [(key, key) for photo in photos for key in (photo.sha256, photo.path) if key]
        with self._writing() as connection:
            connection.executemany("DELETE FROM distinct_pair WHERE first=? OR second=?", keys)
            table.number(connection)

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
                    table.apply(connection, one)
                marks = sum(len(one.marks) for one in changes)
                row = (table.number(connection), self._session, what, marks, table.plain(changes))
                connection.execute("INSERT INTO step VALUES (?, ?, ?, ?, ?, ?)", (*row, row_crc(row)))
                table.forget_old_steps(connection)
            name, key = ("", 0) if which is None else table.existing(connection, which)
        return Collection(name, key, self._members)

    @contextmanager
    def _reading(self) -> Generator[sqlite3.Connection | None]:
        """The collections, matched with the photos as they are now; None while there are none."""
        database = self._kept.database()
        if database is None:
            yield None
            return
        with database.reading() as connection:
            current = table.state(connection, "album", "") == self._kept.album()
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
                if table.state(connection, "album", "") != self._kept.album():
                    self._match(connection)
                yield connection
        except PermissionError as error:
            raise ValueError(f"The collections cannot be written ({error.strerror}): nothing changed.") from error

    def _match(self, connection: sqlite3.Connection) -> None:
        """Find photos again that are not where they were remembered.

        The same path with the same content is certain. Else the same content counts, wherever it is now; and last the
        same path, whose file was edited. No collection has a photo twice.
        """
        album = self._kept.album()
        if table.state(connection, "album", "").partition(" ")[0] != album.partition(" ")[0]:  # ids of another album
            rows = connection.execute("SELECT position, collection, belongs, NULL, path, sha256 FROM mark").fetchall()
        else:
            rows = connection.execute(table.NOT_FOUND).fetchall()
        # Paths of files that are as they were; those that are not, by content; and those that were edited.
        lost = {row[0]: row for row in rows}
        connection.executemany("UPDATE mark SET photo=NULL WHERE position=?", ((position,) for position in lost))
        finders: tuple[Callable[[bytes, bytes], list[tuple[Any, ...]]], ...] = (
            lambda path, content: table.photos_at(connection, path, content),
            lambda _, content: table.photos_with(connection, content),
            lambda path, _: table.photos_at(connection, path, None),
        )
        taken = "SELECT 1 FROM mark WHERE collection=? AND photo=?"
        for finder in finders:
            for position, (_, key, belongs, _, path, content) in list(lost.items()):
                for found in finder(path, content):
                    if connection.execute(taken, (key, found[0])).fetchone() is None:
                        table.write_mark(connection, position, key, belongs, Member(*found))
                        del lost[position]
                        break
        for row in lost.values():
            table.write_mark(connection, row[0], row[1], row[2], Member(None, row[4], row[5]))
        table.set_state(connection, "album", album)


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
