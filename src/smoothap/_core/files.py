"""Files that are either the old one or the new one, never half of each, and folders that have one writer at a time."""

import csv
import errno
import hashlib
import io
import json
import os
import secrets
import shutil
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, TypeAlias

# By process and folder, so that a child does not take its parent's for its own: whoever holds the lock.
_locked: dict[tuple[int, Path], object] = {}
_PAUSE = 0.01  # seconds between two looks at a lock that somebody else holds
_LARGE = 1 << 18  # characters of JSON from which it is written in one line: Python lays lines out slowly
Kinds: TypeAlias = Mapping[str, type | tuple[type, ...]]


class DiskFullError(OSError):
    """There is no room for a file; the message says which, and that what stood there before stays."""

    def __str__(self) -> str:
        return str(self.strerror)


class FolderBusy(ValueError):  # noqa: N818
    """Another writer is alone with a folder."""


def is_full(error: BaseException) -> bool:
    """Whether the error says that the disk, or the user's share of it, is full."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def digest_of(file: Path) -> str:
    """The SHA-256 of a file's bytes."""
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while block := stream.read(1 << 22):
            digest.update(block)
    return digest.hexdigest()


def free_name(name: str, is_taken: Callable[[str], bool], *, suffix: bool = False) -> str:
    """The name, or else the first of "name (2)", "name (3)" and so on; with `suffix`, before the suffix of a file."""
    stem, dot, end = name.rpartition(".") if suffix else ("", "", "")
    if not stem or "/" in end or stem.endswith("/"):
        stem, dot, end = name, "", ""
    number, free = 1, name
    while is_taken(free):
        number += 1
        free = f"{stem} ({number}){dot}{end}"
    return free


def csv_of(rows: Iterable[Iterable[Any]]) -> bytes:
    """Rows as a table of text, in which paths of any bytes may be."""
    table = io.StringIO()
    csv.writer(table, lineterminator="\n").writerows(rows)
    return table.getvalue().encode(errors="surrogateescape")


def rows_of_csv(content: bytes) -> list[list[str]]:
    """The rows of such a table."""
    return list(csv.reader(io.StringIO(content.decode(errors="surrogateescape"), newline="")))


def write_atomically(path: Path | str, content: bytes | str | Callable[[Path], None]) -> Path:
    """Put `content` at `path` so that a crash at any moment leaves the old file or the new one.

    `content` is bytes, text, or a function that writes the file at the path it is given. The data is written to a
    temporary file beside the target, synced to the disk, and renamed; then the folder is synced.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    try:
        if callable(content):
            content(temporary)
        else:
            temporary.write_bytes(content.encode() if isinstance(content, str) else content)
        sync(temporary)
        rename(temporary, path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and is_full(error):
            stays = "the older one stays" if path.exists() else "nothing of it was left behind"
            raise DiskFullError(
                error.errno,
                f"The disk is full: {path.name} could not be written to {path.parent}, {stays}. Make room, and try "
                "again.",
            ) from error
        raise
    return path


def write_cache(path: Path, content: bytes | Callable[[Path], None]) -> None:
    """`write_atomically` for the cache: a file that cannot be written there costs time, nothing else."""
    with suppress(OSError):
        write_atomically(path, content)


def cache_folder() -> Path:
    """Where this package may keep what it can compute again: $XDG_CACHE_HOME/smoothap, or ~/.cache/smoothap."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "smoothap"


def data_folder() -> Path:
    """Where this package keeps what users make and gave no place for: $XDG_DATA_HOME/smoothap, or ~/.local/share/..."""
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "smoothap"


def sweep(folder: Path) -> None:
    """Delete what writers that were killed left half written; only where no other process writes to the folder."""
    for file in folder.glob(".*.????????.partial"):
        file.unlink(missing_ok=True)


def rename(path: Path, target: Path) -> None:
    """Give a file that is on the disk its new name, instead of an older one, and sync its folder."""
    path.replace(target)
    sync(target.parent)


def link(path: Path, target: Path) -> None:
    """Give a file that is on the disk, and never changed, a second name; where that cannot be done, copy it."""
    target.unlink(missing_ok=True)  # left behind by a writer that was killed
    try:
        target.hardlink_to(path)
    except FileNotFoundError:
        raise
    except OSError:  # another disk, or one without links
        write_atomically(target, partial(_copy, path))
    else:
        sync(target.parent)


def _copy(path: Path, target: Path) -> None:
    shutil.copyfile(path, target)


def sync(path: Path) -> None:
    """Bring the bytes of a file, or the names in a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def locked(folder: Path, refusal: str, patience: float = 0.0) -> Generator[None]:
    """Alone with a folder: while this lasts, whoever else wants the same waits, and then gets the sentence `refusal`.

    `patience` is how many seconds this waits for others. The system's lock keeps other processes away; a child of this
    one does not inherit it. It would let this process take it twice, so that folders which are locked here are
    remembered.
    """
    folder.mkdir(parents=True, exist_ok=True)
    here, this, end = (os.getpid(), folder.resolve()), object(), time.monotonic() + patience
    while _locked.setdefault(here, this) is not this:  # which two threads cannot both get past
        _wait(end, refusal)
    try:
        with (folder / ".lock").open("a") as lock:
            while not _is_taken(lock):
                _wait(end, refusal)
            yield
    finally:
        del _locked[here]


def _wait(end: float, refusal: str) -> None:
    if time.monotonic() >= end:
        raise FolderBusy(refusal)
    time.sleep(_PAUSE)


def _is_taken(lock: IO[str]) -> bool:
    """Take the system's lock of a file, if no other process has it."""
    try:
        import fcntl

        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):  # Windows, or a disk without locks: nothing keeps a second process away
        pass
    return True


@dataclass(frozen=True)
class ChecksummedJson:
    """One sort of JSON file, with a checksum of itself: what was written comes back to the letter, or is refused.

    what: what it describes; kinds: those of its fields; remedy: what to do when it is damaged.
    """

    what: str
    kinds: Kinds
    remedy: str
    format: int = 1

    def text(self, values: Mapping[str, Any]) -> str:
        """The content of the file: its format, the checksum of the fields, and the fields."""
        plain = json.dumps(values, sort_keys=True)
        full = {"format": self.format, "checksum": hashlib.sha256(plain.encode()).hexdigest(), **values}
        return json.dumps(full, indent=None if len(plain) > _LARGE else 1) + "\n"

    def write(self, file: Path, values: Mapping[str, Any]) -> None:
        """Write the fields to the file, atomically."""
        write_atomically(file, self.text(values))

    def read(self, file: Path) -> dict[str, Any]:
        """The fields of the file, if they are those that were written and of the right kinds."""
        values, form, whole = dict[str, Any](), self.format, False
        with suppress(ValueError, TypeError, AttributeError, RecursionError):  # not json any more, or not ours
            text = file.read_text(encoding="utf-8")
            values = json.loads(text)
            form = values.pop("format", form)
            values.pop("checksum", None)
            whole = self.text(values) == text
        if form != self.format:
            raise ValueError(f"{file} is of format {form!r}, and this version of smoothap reads format {self.format}.")
        if not whole:
            raise ValueError(f"{file} is damaged: its checksum differs. {self.remedy}")
        if (name := wrong_field(values, self.kinds)) is not None:  # anybody can compute a checksum
            raise ValueError(
                f"{file} is damaged, or does not describe {self.what}: {name!r} is missing or of the wrong kind. "
                f"{self.remedy}"
            )
        return values


def wrong_field(values: Mapping[str, Any], kinds: Kinds) -> str | None:
    """The first field that is missing or of the wrong kind, None where all are right."""
    for name, kind in kinds.items():
        value = values.get(name)
        is_bool = isinstance(value, bool) and bool not in (kind if isinstance(kind, tuple) else (kind,))
        if name not in values or is_bool or not isinstance(value, kind):  # True is a number to Python
            return name
    return None
