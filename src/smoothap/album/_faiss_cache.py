"""FAISS's indices in the user's cache, under the checksum of the vectors they are of.

FAISS trusts the files it reads, so only files are read that this user alone could write, and that carry the checksum we
wrote beside them: that finds damage, and keeps out files of other users and albums, but not a program that runs as the
same user.
"""

import os
import stat
from importlib import import_module
from pathlib import Path
from typing import Any

from smoothap._core.files import cache_folder, write_atomically
from smoothap.album._checksums import checksum as checksum_of

_KEPT = 4  # albums whose indices stay in the cache: one that changes leaves its old ones behind


def read_cached(checksum: str, form: str, shape: tuple[int, int]) -> Any | None:
    """The index of this form over vectors with this checksum, of this shape (n, d); None if there is none."""
    folder = _folder()
    file = folder / f"{checksum}-{form}.faiss"
    index = faiss().read_index(str(file)) if _is_ours(folder, file) else None
    return None if index is None or (index.ntotal, index.d) != shape else index


def write_cached(index: Any, checksum: str, form: str) -> None:
    """Keep an index; a cache that cannot be written costs time, nothing else."""
    folder = _folder()
    file = folder / f"{checksum}-{form}.faiss"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomically(file, lambda path: faiss().write_index(index, str(path)))
        write_atomically(_sum_file(file), checksum_of(file) + "\n")
        newest: dict[str, float] = {}  # by the checksum of the vectors, of which an index may have several pieces
        for kept in folder.glob("*.faiss"):
            newest[_vectors_of(kept)] = max(newest.get(_vectors_of(kept), 0.0), kept.stat().st_mtime)
        stale = sorted(newest, key=lambda vectors: newest[vectors])[:-_KEPT]
        for old in folder.glob("*.faiss"):
            if _vectors_of(old) in stale:
                old.unlink(missing_ok=True)
                _sum_file(old).unlink(missing_ok=True)
    except OSError:
        return


def faiss() -> Any:
    """FAISS, whose stubs do not know all that it has."""
    try:
        return import_module("faiss")
    except ModuleNotFoundError as missing:
        raise ValueError("The engines hnsw and pq need FAISS: pip install 'smoothap[search]'") from missing


def search(index: Any, query: Any, wanted: int, parameters: Any) -> Any:
    """The rows that an index names for a query (d,), about `wanted` of them."""
    # faiss.contrib.torch_utils, which other libraries import, replaces search by one without params.
    find = getattr(index, "search_numpy", index.search)
    _, rows = find(query[None], wanted, params=parameters)
    return rows[0][rows[0] >= 0]


def _folder() -> Path:
    return cache_folder() / "indices"


def belongs_to_us(*places: Path) -> bool:
    """Whether only this user can have written the folder and the files in it."""
    if os.name != "posix":
        return True
    for place in places:
        status = place.lstat()
        others_may_write = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if status.st_uid != os.getuid() or others_may_write or stat.S_ISLNK(status.st_mode):
            return False
    return True


def _is_ours(folder: Path, file: Path) -> bool:
    """Whether the file is one that this user wrote, in a folder that no other can write to, and is whole."""
    try:
        ours = belongs_to_us(folder, file, _sum_file(file))
        return ours and _sum_file(file).read_text(encoding="ascii").strip() == checksum_of(file)
    except (OSError, ValueError):
        return False


def _vectors_of(file: Path) -> str:
    return file.name.partition("-")[0]


def _sum_file(file: Path) -> Path:
    return file.with_suffix(".sha256")
