"""FAISS's product codes (PQ), for albums of more than a hundred thousand photos.

Eight numbers of a vector become four bits: 32 bytes for 512 numbers, of which one core compares half a million with a
query in a millisecond. The codes name candidates; their scores come from the vectors themselves. All codes are
compared: with cells, of which a query searches the nearest (IVF), three eighths of them had to be searched where
vectors have no large clusters, and that took longer, since a code in a short list costs more than one in a long list.

What is built is kept in the user's cache, in pieces. A piece stays valid for the slots it was built for, since these
never change; newer ones are compared one by one until there are many. FAISS trusts the files it reads, so only files
are read that this user alone could write, and that carry the checksum we wrote beside them: that finds damage, and
keeps out files of other users and albums, but not a program that runs as the same user.
"""

import os
import stat
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from smoothap._core.files import cache_folder, digest_of, write_atomically
from smoothap._core.progress import Progress
from smoothap.album.vectors import StoredVectors

LEAST = 5_000  # vectors: fewer are compared one by one
_NUMBERS_A_CODE = 8  # that share four bits
_LIMIT = 2048  # answers; beyond, all are compared
_SPARE, _LEAST_CANDIDATES = 20, 2000  # candidates for an answer: codes blur the order
_TRAINED_BY = 1 << 14  # vectors
_PIECE, _CHUNK = 1 << 19, 1 << 15  # slots that are kept in one file, and that are added at once
_NEW = 1 << 14  # slots that are compared one by one before the last piece is built again
_KEPT = 4  # albums whose codes stay in the cache


class ProductCodes:
    """Codes of the slots of vectors (n, d) up to `coded`; those behind are all candidates."""

    def __init__(self, index: Any, vectors: StoredVectors, coded: int) -> None:
        self._index, self._vectors, self._coded, self.limit = index, vectors, coded, min(_LIMIT, len(vectors))
        slots = vectors.slots
        is_rising = slots is None or bool((slots[1:] > slots[:-1]).all())
        self._order = None if is_rising else np.argsort(slots)

    def nearest(self, query: np.ndarray, k: int) -> np.ndarray:
        """Rows among which the k nearest to the query (d,) should be: many more, since codes blur the order."""
        wanted = min(max(_SPARE * k, _LEAST_CANDIDATES), self._coded)
        # faiss.contrib.torch_utils, which other libraries import, replaces search by one that wants tensors.
        find = getattr(self._index, "search_numpy", self._index.search)
        _, found = find(_padded(query[None]), wanted)
        slots = np.concatenate([found[0][found[0] >= 0], np.arange(self._coded, len(self._vectors.stored))])
        return np.sort(self._rows_of(slots))

    def candidates(self, queries: np.ndarray, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows that should be among the nearest of several queries (m, d): the place of a query, and a row for it."""
        find = getattr(self._index, "search_numpy", self._index.search)
        _, found = find(_padded(queries), min(number, self._coded))
        behind = np.arange(self._coded, len(self._vectors.stored))
        rows = [self._rows_of(np.concatenate([slots[slots >= 0], behind])) for slots in found]
        return np.repeat(np.arange(len(rows)), [len(each) for each in rows]), np.concatenate(rows)

    def _rows_of(self, slots: np.ndarray) -> np.ndarray:
        """The rows that are in some slots, but for those that are dead."""
        live = self._vectors.slots
        if live is None:
            return slots
        places = np.minimum(np.searchsorted(live, slots, sorter=self._order), len(live) - 1)
        rows = places if self._order is None else self._order[places]
        return rows[live[rows] == slots]


def open_codes(vectors: StoredVectors, key: str) -> ProductCodes:
    """The codes of these vectors, from the user's cache or built and kept there, never in an album.

    `key` is of these vectors and no others: what is appended to them later changes nothing about the slots before.
    """
    slots, width = len(vectors.stored), _width(vectors.shape[1])
    pieces: list[Any] = []
    trained: Any = None
    with Progress("Building the index", slots, "vectors", shown=not _newest(key, 0, width, slots)) as line:
        for start in range(0, slots, _PIECE):
            end = min(start + _PIECE, slots)
            piece = _newest(key, start, width, end)
            # A whole piece never changes; the last one may lack some.
            if piece is None or end - start - piece.ntotal > (0 if end % _PIECE == 0 else _NEW):
                trained = trained or _trained(vectors)
                piece = _filled(faiss().clone_index(trained), vectors, start, end)
                _keep(piece, key, start, end)
            line.advance(end - start)
            pieces.append(piece)
    whole = faiss().IndexShards(width, True, True)  # threaded, and numbered one after the other
    for piece in pieces:
        whole.add_shard(piece)
    return ProductCodes(whole, vectors, whole.ntotal)


def _newest(key: str, start: int, width: int, end: int) -> Any | None:
    """The piece of codes that was built from a slot on, if there is one, and none of slots that are not there."""
    files = sorted(_folder().glob(f"{key}-{start}-*.faiss"), key=lambda file: file.stat().st_mtime)
    for file in reversed(files):
        if _is_ours(file):
            index = faiss().read_index(str(file))
            if index.d == width and index.ntotal <= end - start:
                return index
    return None


def _filled(index: Any, vectors: StoredVectors, start: int, end: int) -> Any:
    stored = StoredVectors(vectors.stored)
    for first in range(start, end, _CHUNK):
        index.add(_padded(stored[first : min(first + _CHUNK, end)]))
    return index


def _trained(vectors: StoredVectors) -> Any:
    """An index without vectors, whose codes are fitted to some of them."""
    width, rows = _width(vectors.shape[1]), len(vectors)
    # For vectors of length 1 the highest products are the highest scores.
    index = faiss().IndexPQFastScan(width, width // _NUMBERS_A_CODE, 4, faiss().METRIC_INNER_PRODUCT)
    index.train(_padded(vectors[np.linspace(0, rows - 1, min(rows, _TRAINED_BY)).astype(np.int64)]))
    return index


def _width(dimension: int) -> int:
    return -(-dimension // _NUMBERS_A_CODE) * _NUMBERS_A_CODE


def _padded(vectors: np.ndarray) -> np.ndarray:
    """The vectors with zeros behind, so that codes of eight numbers each hold all of them; scores stay as they are."""
    rows = np.ascontiguousarray(vectors, np.float32)
    missing = _width(rows.shape[1]) - rows.shape[1]
    return np.pad(rows, ((0, 0), (0, missing))) if missing else rows


def _folder() -> Path:
    return cache_folder() / "indices"


def _keep(index: Any, key: str, start: int, end: int) -> None:
    """Keep a piece in the cache, and no older one of the same slots; where it cannot be written, that costs time."""
    folder = _folder()
    file = folder / f"{key}-{start}-{end}.faiss"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomically(file, lambda path: faiss().write_index(index, str(path)))
        write_atomically(_sum_file(file), f"{digest_of(file)}\n")
        newest: dict[str, float] = {}
        for kept in folder.glob("*.faiss"):
            newest[_key_of(kept)] = max(newest.get(_key_of(kept), 0.0), kept.stat().st_mtime)
        stale = sorted(newest, key=lambda one: newest[one])[:-_KEPT]
        for old in folder.glob("*.faiss"):
            replaced = old != file and old.name.startswith(f"{key}-{start}-")
            if replaced or _key_of(old) in stale:
                old.unlink(missing_ok=True)
                _sum_file(old).unlink(missing_ok=True)
    except OSError:
        return


def faiss() -> Any:
    """FAISS, whose stubs do not know all that it has."""
    try:
        return import_module("faiss")
    except ModuleNotFoundError as missing:
        raise ValueError("The engine pq needs FAISS: pip install 'smoothap[search]'") from missing


def _is_ours(file: Path) -> bool:
    """Whether the file is one that this user wrote, in a folder that no other can write to, and is whole."""
    try:
        for place in (file.parent, file, _sum_file(file)) if os.name == "posix" else ():
            status = place.lstat()
            others_may_write = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
            if status.st_uid != os.getuid() or others_may_write or stat.S_ISLNK(status.st_mode):
                return False
        return _sum_file(file).read_text(encoding="ascii").strip() == digest_of(file)
    except (OSError, ValueError):
        return False


def _key_of(file: Path) -> str:
    return file.name.rsplit("-", 2)[0]


def _sum_file(file: Path) -> Path:
    return file.with_suffix(".sha256")
