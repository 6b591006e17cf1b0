"""Files that are either the old one or the new one, never half of each, and folders that have one writer at a time."""

import errno
import os
import secrets
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

_locks: set[TextIO] = set()  # of the folders that this process is alone with


class DiskFullError(OSError):
    """There is no room for a file; the message says which, and that what stood there before stays."""

    def __str__(self) -> str:
        return str(self.strerror)


def is_full(error: BaseException) -> bool:
    """Whether the error says that the disk, or the user's share of it, is full."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


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
        _sync(temporary)
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


def sweep(folder: Path) -> None:
    """Delete what writers that were killed left half written; only where no other process writes to the folder."""
    for file in folder.glob(".*.????????.partial"):
        file.unlink(missing_ok=True)


def rename(path: Path, target: Path) -> None:
    """Give a file that is on the disk its new name, in the place of an older one, and see the name to the disk too."""
    path.replace(target)
    _sync(target.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def locked(folder: Path, refusal: str) -> Generator[None]:
    """Alone with a folder: while this lasts, a second process that wants the same gets the sentence `refusal`."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("a") as lock:
        try:
            import fcntl

            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ValueError(refusal) from error
        except (ImportError, OSError):  # Windows, or a disk without locks: nothing keeps a second process away
            pass
        _locks.add(lock)
        try:
            yield
        finally:
            _locks.discard(lock)


def _let_go() -> None:
    """In a child process: what its parent locked is the parent's alone, and free when the parent is killed."""
    for lock in _locks:
        lock.close()
    _locks.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)
