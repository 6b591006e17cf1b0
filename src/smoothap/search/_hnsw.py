"""FAISS's graph of near neighbours (HNSW) for albums beyond a hundred thousand photos.

The graph holds each vector in one byte a number and names candidates; their scores come from the vectors themselves.
A built graph is kept in the user's cache under the checksum of the vectors. FAISS trusts the files it reads, so only
files are read that this user alone could write, and that carry the checksum we wrote beside them: that finds damage,
and keeps out files of other users and albums, but not a program that runs as the same user.
"""

import os
import stat
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from smoothap.data.places import cache_folder
from smoothap.files import write_atomically
from smoothap.progress import Progress
from smoothap.search._checksums import checksum as checksum_of
from smoothap.search.vectors import Vectors

LINKS = 32  # of each vector in the graph
BUILD_BREADTH = 80
FORM = f"hnsw{LINKS}-sq8-{BUILD_BREADTH}"
_LIMIT = 2048  # answers; beyond, the product of all is as fast
_CHUNK = 5_000
_BREADTH = 128  # of a search at least: at 64, one in 17 of the first ten was missed among a million
_KEPT = 4  # graphs in the cache: an album that changes leaves its old one behind


class Hnsw:
    """A graph over vectors (n, d)."""

    name = "hnsw"

    def __init__(self, index: Any, rows: int) -> None:
        self.index, self.rows, self.limit = index, rows, min(_LIMIT, rows)

    def nearest(self, query: np.ndarray, k: int) -> np.ndarray:
        """About the k rows nearest to the query (d,); some more are asked for, since bytes blur the order."""
        wanted = min(k + k // 4 + 10, self.rows)
        breadth = _faiss().SearchParametersHNSW(efSearch=max(_BREADTH, 2 * wanted))
        # faiss.contrib.torch_utils, which other libraries import, replaces search by one without params.
        search = getattr(self.index, "search_numpy", self.index.search)
        _, rows = search(query[None], wanted, params=breadth)
        return rows[0][rows[0] >= 0]


def open_hnsw(vectors: Vectors, checksum: str) -> Hnsw:
    """The graph of these vectors, from the user's cache or built anew and kept there, never in an album."""
    folder = cache_folder() / "indices"
    file = folder / f"{checksum}-{FORM}.faiss"
    index = _faiss().read_index(str(file)) if _is_ours(folder, file) else None
    if index is None or (index.ntotal, index.d) != vectors.shape:
        index = _build(vectors)
        _keep(index, folder, file)
    return Hnsw(index, len(vectors))


def _build(vectors: Vectors) -> Any:
    faiss = _faiss()
    # For vectors of length 1 the nearest have the highest scores, and graphs by distance are the better ones.
    index = faiss.IndexHNSWSQ(vectors.shape[1], faiss.ScalarQuantizer.QT_8bit, LINKS, faiss.METRIC_L2)
    index.hnsw.efConstruction = BUILD_BREADTH
    sample = np.linspace(0, len(vectors) - 1, min(len(vectors), 50_000)).astype(np.int64)
    index.train(np.ascontiguousarray(vectors[sample]))
    with Progress("Building the index", len(vectors), "vectors") as line:
        for start in range(0, len(vectors), _CHUNK):
            part = np.ascontiguousarray(vectors[start : start + _CHUNK])
            index.add(part)
            line.advance(len(part))
    return index


def _keep(index: Any, folder: Path, file: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomically(file, lambda path: _faiss().write_index(index, str(path)))
        write_atomically(_sum_file(file), checksum_of(file) + "\n")
        oldest_first = sorted(folder.glob("*.faiss"), key=lambda graph: graph.stat().st_mtime)
        for old in oldest_first[:-_KEPT]:
            old.unlink(missing_ok=True)
            _sum_file(old).unlink(missing_ok=True)
    except OSError:
        return  # a cache that cannot be written costs time, nothing else


def _is_ours(folder: Path, file: Path) -> bool:
    """Whether the file is one that this user wrote, in a folder that no other can write to, and is whole."""
    try:
        if os.name == "posix":
            for place in (folder, file, _sum_file(file)):
                status = place.lstat()
                others_may_write = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
                if status.st_uid != os.getuid() or others_may_write or stat.S_ISLNK(status.st_mode):
                    return False
        return _sum_file(file).read_text(encoding="ascii").strip() == checksum_of(file)
    except (OSError, ValueError):
        return False


def _sum_file(file: Path) -> Path:
    return file.with_suffix(".sha256")


def _faiss() -> Any:
    """FAISS, whose stubs do not know all that it has."""
    try:
        return import_module("faiss")
    except ModuleNotFoundError as missing:
        raise ValueError("The engine hnsw needs FAISS: pip install 'smoothap[search]'") from missing
