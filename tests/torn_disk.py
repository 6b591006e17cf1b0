"""A disk that loses power: what was not synced is torn, names that were not synced may be lost.

`kill -9` shows nothing of this, because the page cache outlives the process. Here every sync and every rename in a
folder is an event; at a chosen event the power goes, and `tear` leaves the folder as the worst of disks would.
"""

import os
import random
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from smoothap.album.database import Database


class PowerCut(BaseException):
    """Not an Exception: nothing may tidy up after it."""


class TornDisk:
    """Watches a folder. At event number `cut` (of syncs and renames, counted from 1) the power goes."""

    def __init__(self, folder: Path, cut: int | None, chance: random.Random) -> None:
        self.folder, self.cut, self.chance = folder, cut, chance
        self.events = 0
        self.dead = False
        self.synced: dict[Path, bytes] = {path: path.read_bytes() for path in self._files()}
        self.renames: list[tuple[Path, Path, bytes | None]] = []  # not synced: from, to, and what stood there
        self.links: list[Path] = []  # second names, not synced
        self._fsync, self._replace, self._link = os.fsync, os.replace, os.link
        self._writing = Database.writing

    def _files(self) -> list[Path]:
        """All files but SQLite's, which it brings to the disk by itself: a commit of its own is whole or not there."""
        files = (path for path in sorted(self.folder.rglob("*")) if path.is_file())
        return [path for path in files if not path.name.endswith((".db", ".db-journal"))]

    def _event(self) -> None:
        if self.dead:
            raise PowerCut
        self.events += 1
        if self.events == self.cut:
            self.dead = True
            raise PowerCut

    def fsync(self, descriptor: int) -> None:
        """A file's bytes are safe after this, a folder's names too."""
        self._event()
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        if path.is_dir():
            self.renames = [each for each in self.renames if each[1].parent != path]
            self.links = [each for each in self.links if each.parent != path]
        elif path.is_file():
            self.synced[path] = path.read_bytes()
        self._fsync(descriptor)

    def replace(self, source: object, target: object) -> None:
        """A name moves at once for those who look, on the disk only with the next sync of its folder."""
        self._event()
        from_path, to_path = Path(os.fspath(source)), Path(os.fspath(target))  # type: ignore[call-overload]
        self.renames.append((from_path, to_path, to_path.read_bytes() if to_path.is_file() else None))
        safe = self.synced.pop(from_path, None)
        self.synced.pop(to_path, None)
        if safe is not None:
            self.synced[to_path] = safe
        self._replace(source, target)

    def link(self, source: object, target: object, **options: object) -> None:
        """A second name of a file, whose bytes are as safe as before; the name is with the next sync of its folder."""
        self._event()
        from_path, to_path = Path(os.fspath(source)), Path(os.fspath(target))  # type: ignore[call-overload]
        self._link(source, target, **options)
        if from_path in self.synced:
            self.synced[to_path] = self.synced[from_path]
        self.links.append(to_path)

    @contextmanager
    def writing(self, database: Database) -> Generator[sqlite3.Connection]:
        """A transaction, with an event right before its commit and one right after it."""
        with self._writing(database) as connection:
            yield connection
            self._event()
        self._event()

    def install(self, monkeypatch) -> None:
        """Put the disk under os.fsync, os.replace, os.rename and os.link, and under the commits of SQLite."""
        monkeypatch.setattr(Database, "writing", lambda database: self.writing(database))
        monkeypatch.setattr(os, "fsync", self.fsync)
        monkeypatch.setattr(os, "replace", self.replace)
        monkeypatch.setattr(os, "rename", self.replace)
        monkeypatch.setattr(os, "link", self.link)

    def tear(self) -> None:
        """Leave the folder as the power cut does: unsynced files torn, and of the unsynced renames only the first few.

        A rename is one step on the disk: both of its names have changed or neither.
        """
        for path in self.links:
            if self.chance.random() < 0.5:
                path.unlink(missing_ok=True)
        for path in self._files():
            content = path.read_bytes()
            if content != self.synced.get(path):
                path.write_bytes(self._torn(content, self.synced.get(path)))
        for source, target, before in reversed(self.renames[self.chance.randint(0, len(self.renames)) :]):
            source.write_bytes(target.read_bytes())
            if before is None:
                target.unlink()
            else:
                target.write_bytes(before)

    def _torn(self, content: bytes, safe: bytes | None) -> bytes:
        if safe is not None and content.startswith(safe):  # appended to: what is on the disk stays there
            return safe + self._torn(content[len(safe) :], None)
        place = self.chance.randrange(len(content) + 1)
        kinds = [content[:place], content[:place] + bytes(len(content) - place), b""]
        return self.chance.choice(kinds if safe is None else [*kinds, safe])
