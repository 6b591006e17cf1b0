"""Files that are either the old one or the new one, never half of each."""

import os
import secrets
from collections.abc import Callable
from pathlib import Path


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
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return path


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
