"""Checksums of files of any size: SHA-256 over the SHA-256 of blocks, which several threads compute."""

import hashlib
import json
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from smoothap._core.files import cache_folder, write_atomically

BLOCK = 1 << 24
_LARGE = 1 << 28  # bytes; smaller files are summed every time they are opened, unless they are many


def checksum(source: Path | bytes) -> str:
    """The checksum of a file or of bytes, as hex."""
    if isinstance(source, bytes):
        view = memoryview(source)
        digests = [hashlib.sha256(view[start : start + BLOCK]).digest() for start in range(0, len(view), BLOCK)]
    else:
        starts = range(0, source.stat().st_size, BLOCK)
        if len(starts) <= 1:
            digests = [_digest(source, start) for start in starts]
        else:
            with ThreadPoolExecutor(os.cpu_count() or 1) as threads:
                digests = list(threads.map(lambda start: _digest(source, start), starts))
    return hashlib.sha256(b"".join(digests)).hexdigest()


def check(file: Path, wanted: str, *, always: bool = False, size: int = 0) -> None:
    """Refuse a file that is not, to the byte, the one the checksum was taken of.

    A large file that was found whole before is not summed again while its times, size and place on the disk stay the
    same; a disk that loses bits without a write is seen by `always` only. `size` is what it and the files that are
    opened with it have in all.
    """
    if not file.is_file():
        raise FileNotFoundError(f"{file} is missing: copy the whole album again, or index the photos again.")
    status = file.stat()
    seen = [wanted, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]
    note = cache_folder() / "checked" / f"{hashlib.sha256(os.fsencode(file.resolve())).hexdigest()[:32]}.json"
    large = max(status.st_size, size) >= _LARGE
    if large and not always:
        with suppress(OSError, ValueError):
            if json.loads(note.read_text(encoding="utf-8")) == seen:
                return
    if checksum(file) != wanted:
        raise ValueError(
            f"{file} is damaged: its checksum is not the one it was written with. Copy the album again, or delete it "
            "and index the photos again."
        )
    if large:
        with suppress(OSError):  # a note that cannot be written costs time, nothing else
            write_atomically(note, json.dumps(seen))


def _digest(file: Path, start: int) -> bytes:
    with file.open("rb") as stream:
        stream.seek(start)
        return hashlib.sha256(stream.read(BLOCK)).digest()
