"""Files that only grow: bytes are appended and synced, and count once `album.db` has the new length.

What a writer that was stopped left behind the counted length is cut off by the next one. A table of checksums, each of
some megabytes in a row, finds damage.
"""

from __future__ import annotations

import math
import os
import sqlite3
import zlib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from smoothap._core.files import sync

SCHEMA = (
    "CREATE TABLE block (file TEXT NOT NULL, start INTEGER NOT NULL, length INTEGER NOT NULL, crc INTEGER NOT NULL, "
    "PRIMARY KEY (file, start)) WITHOUT ROWID, STRICT"
)
Block = tuple[int, int, int]  # where it starts, its length, its checksum
_BLOCK = 1 << 22  # bytes that share a checksum, at least


@dataclass(frozen=True)
class Growth:
    """Bytes that were appended to a file and do not count yet: `blocks` are (start, length, crc) of what is new."""

    name: str
    blocks: tuple[Block, ...]

    def count(self, connection: sqlite3.Connection) -> None:
        """Make them count, in a transaction."""
        rows = ((self.name, *block) for block in self.blocks)
        connection.executemany("REPLACE INTO block VALUES (?, ?, ?, ?)", rows)


def length_of(connection: sqlite3.Connection, name: str) -> int:
    """How many bytes of a file count."""
    row = last_block(connection, name)
    return 0 if row is None else row[0] + row[1]


def is_to_be_made(file: Path) -> bool:
    """Whether a file of an album is not there yet; a link is refused, since who writes would write where it leads."""
    if file.is_symlink():
        raise ValueError(f"{file} is a link, and nothing is written through one: put the file itself there.")
    return not file.exists()


def append(
    last: Block | None, folder: Path, name: str, pieces: Iterable[bytes | memoryview], *, durable: bool
) -> Growth:
    """Write bytes behind those that count, by the only writer, and bring them to the disk; `last` is the last block."""
    start, length, crc = last or (0, 0, 0)
    blocks: list[Block] = []
    is_new = is_to_be_made(folder / name)
    if (0 if is_new else (folder / name).stat().st_size) < start + length:
        raise _damaged(folder / name, "it is shorter than the album says")
    with (folder / name).open("w+b" if is_new else "r+b") as stream:
        stream.truncate(start + length)
        stream.seek(start + length)
        for piece in pieces:
            view = memoryview(piece).cast("B")
            stream.write(view)
            while len(view):
                if length >= _BLOCK:
                    blocks.append((start, length, crc))
                    start, length, crc = start + length, 0, 0
                here = view[: _BLOCK - length]
                crc, length, view = zlib.crc32(here, crc), length + len(here), view[len(here) :]
        stream.flush()
        if durable:
            os.fsync(stream.fileno())
    if is_new and durable:
        sync(folder)
    return Growth(name, (*blocks, (start, length, crc)) if length else tuple(blocks))


def mapped(folder: Path, name: str, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """The bytes of a file that count, as an array that is mapped into memory."""
    if not all(shape):
        return np.empty(shape, dtype)
    file = folder / name
    needed = math.prod(shape) * dtype.itemsize
    if not file.is_file():
        raise FileNotFoundError(f"{file} is missing: copy the whole album again, or index the photos again.")
    if file.stat().st_size < needed:
        raise _damaged(file, "it is shorter than the album says")
    return np.memmap(file, dtype, "r", shape=shape)


def blocks_of(connection: sqlite3.Connection, name: str) -> list[Block]:
    """All blocks of a file that count, in order."""
    return connection.execute("SELECT start, length, crc FROM block WHERE file=? ORDER BY start", (name,)).fetchall()


def check(folder: Path, name: str, blocks: Sequence[Block], expected: int | None = None) -> None:
    """Refuse a file that is not, to the byte, what was appended to it; `expected` is the length that it should have."""
    length = 0
    for start, size, _ in blocks:
        if start != length or size < 1:
            raise _damaged(folder / name, "its checksums do not cover it")
        length += size
    if expected not in (None, length):
        raise _damaged(folder / name, "its checksums do not cover it")
    if not length:
        return
    content = mapped(folder, name, np.dtype(np.uint8), (length,))
    with ThreadPoolExecutor(os.cpu_count() or 1) as threads:
        sums = threads.map(lambda block: zlib.crc32(content[block[0] : block[0] + block[1]].data), blocks)
        if any(found != block[2] for found, block in zip(sums, blocks, strict=True)):
            raise _damaged(folder / name, "its checksum is not the one it was written with")


def _damaged(file: Path, reason: str) -> ValueError:
    return ValueError(f"{file} is damaged: {reason}. Copy the album again, or delete it and index the photos again.")


def last_block(connection: sqlite3.Connection, name: str) -> Block | None:
    """The last block of a file that counts."""
    query = "SELECT start, length, crc FROM block WHERE file=? ORDER BY start DESC LIMIT 1"
    return connection.execute(query, (name,)).fetchone()
