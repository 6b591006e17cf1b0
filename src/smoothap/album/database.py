"""One SQLite file with a fixed schema: short transactions, errors in sentences, and nothing in it that could run."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from smoothap._core.files import DiskFullError, FolderBusy
from smoothap.album.postings import row_crc

_BUSY = 30.0  # seconds that a transaction waits for others, each of which takes a moment
_STATISTICS = {  # what ANALYZE, by whatever tool, leaves
    "CREATE TABLE sqlite_stat1(tbl,idx,stat)", "CREATE TABLE sqlite_stat4(tbl,idx,neq,nlt,ndlt,sample)",
}  # fmt: skip


SETTING = (  # of a folder of its own in an album: its schema, for `Database.setting`
    "CREATE TABLE setting (name TEXT PRIMARY KEY, value BLOB NOT NULL, crc INTEGER NOT NULL) WITHOUT ROWID, STRICT"
)


@dataclass(frozen=True)
class Form:
    """What a file of one kind has: its tables and indexes, the number of its format, and what to do with a bad one.

    Tables are STRICT: then `check` finds values of another type in a file that a stranger made. With `overwrites`, what
    is deleted is overwritten with zeros.
    """

    what: str
    format: int
    schema: tuple[str, ...]
    remedy: str
    overwrites: bool = False


class Database:
    """A connection to one file, which several threads may use, one after the other; `attached` is read beside it.

    The journal is the classic one, which also works where a reader cannot write beside the file. So readers hold their
    locks for moments only: all that takes time is done outside of a transaction.
    """

    def __init__(
        self, file: Path, form: Form, *, create: bool = False, durable: bool = True, attached: Path | None = None
    ) -> None:
        self.file, self.form = file, form
        if sqlite3.sqlite_version_info < (3, 37):
            raise ValueError(f"Albums need SQLite 3.37 or newer, and this Python has {sqlite3.sqlite_version}.")
        self._lock = threading.RLock()
        if not create and not file.is_file():
            raise FileNotFoundError(f"{file} is missing: copy the whole folder again.")
        # With mode=rw, SQLite opens what it cannot write to for reading only.
        place = _address(file, "rwc" if create else "rw")
        with self._sentences():
            self._connection = sqlite3.connect(
                place, uri=True, timeout=_BUSY, isolation_level=None, check_same_thread=False, cached_statements=64
            )
            pragmas = ["trusted_schema=OFF", "cell_size_check=ON", f"synchronous={'EXTRA' if durable else 'OFF'}"]
            for pragma in [*pragmas, f"secure_delete={'ON' if form.overwrites else 'OFF'}"]:
                self._connection.execute(f"PRAGMA {pragma}")
            if create:
                with self.writing() as connection:
                    if connection.execute("SELECT 1 FROM sqlite_master").fetchone() is None:
                        for statement in form.schema:
                            connection.execute(statement)
                        connection.execute(f"PRAGMA user_version={form.format}")
            self._check_form()
            if attached is not None:
                self._connection.execute("ATTACH ? AS album", (_address(attached, "ro"),))
        self._inode = file.stat().st_ino

    def close(self) -> None:
        """Give the file back."""
        self._connection.close()

    @property
    def is_replaced(self) -> bool:
        """Whether another file, or none, has the name of this one by now."""
        try:
            return self.file.stat().st_ino != self._inode
        except OSError:
            return True

    @contextmanager
    def reading(self) -> Generator[sqlite3.Connection]:
        """Everything that is read while this lasts is of one version of the file."""
        with self._transaction("BEGIN") as connection:
            yield connection

    @contextmanager
    def writing(self) -> Generator[sqlite3.Connection]:
        """Everything that is written while this lasts is there afterwards, on the disk, or nothing of it is."""
        with self._transaction("BEGIN IMMEDIATE") as connection:
            yield connection

    @contextmanager
    def _transaction(self, begin: str) -> Generator[sqlite3.Connection]:
        with self._lock, self._sentences():
            if self._connection.in_transaction:  # the same thread, further out
                yield self._connection
                return
            self._connection.execute(begin)
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")

    def check(self) -> None:
        """Refuse a file whose pages, rows and indexes do not fit together."""
        with self.reading() as connection:
            first = connection.execute("PRAGMA integrity_check(1)").fetchone()
        if first != ("ok",):
            raise self.damaged(str(first and first[0]))

    def setting(self, connection: sqlite3.Connection, name: str) -> bytes | None:
        """A value of the table SETTING, None where it was never set."""
        row = connection.execute("SELECT value, crc FROM setting WHERE name=?", (name,)).fetchone()
        if row is not None and row_crc((name, row[0])) != row[1]:
            raise self.damaged(f"the setting {name}")
        return None if row is None else row[0]

    def set(self, connection: sqlite3.Connection, name: str, value: bytes) -> None:
        """Give such a value, in a transaction."""
        connection.execute("REPLACE INTO setting VALUES (?, ?, ?)", (name, value, row_crc((name, value))))

    def damaged(self, reason: str) -> ValueError:
        """The error for a file that is not as it was written."""
        return ValueError(f"{self.file} is damaged ({reason.strip()}). {self.form.remedy}")

    def _check_form(self) -> None:
        (number,) = self._connection.execute("PRAGMA user_version").fetchone()
        if not self.file.stat().st_size:  # whoever made it was stopped before anything was in it
            self._connection.close()
            raise FileNotFoundError(f"{self.file} is empty, as good as missing. {self.form.remedy}")
        if number != self.form.format:
            raise ValueError(
                f"{self.file} is of format {number}, and this version of smoothap reads format {self.form.format}. "
                f"{self.form.remedy}"
            )
        query = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL"
        there = {row[0] for row in self._connection.execute(query)}
        if there - _STATISTICS != set(self.form.schema):
            raise ValueError(f"{self.file} does not have the tables of {self.form.what}. {self.form.remedy}")

    @contextmanager
    def _sentences(self) -> Generator[None]:
        """Errors of SQLite as those that the rest of the package knows."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            said = str(error)
            if "locked" in said or "busy" in said:
                raise FolderBusy(f"Another process is writing to {self.file}: try again in a moment.") from error
            if "full" in said:
                raise DiskFullError(
                    28, f"The disk of {self.file} is full, and nothing changed: make room, and try again."
                ) from error
            if "readonly" in said or "unable to open" in said or "authorization" in said:
                raise PermissionError(
                    13,
                    f"{self.file} cannot be written here ({said}): nothing changed. If a writer was stopped in the "
                    "middle, open it once where it can be written.",
                ) from error
            raise self.damaged(said) from error
        except UnicodeDecodeError as error:
            raise self.damaged(str(error)) from error


def _address(file: Path, mode: str) -> str:
    return f"file:{quote(os.fsencode(file.absolute()))}?mode={mode}"


def placeholders(values: Sequence[object]) -> str:
    """That many question marks for a list of values."""
    return ", ".join("?" * len(values))
