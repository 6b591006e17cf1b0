"""Which image files lie under a folder: found once, remembered in the user's cache, found anew when a folder changes.

A manifest is a Parquet file with a row for each image and for each folder; a folder's row carries the time at which it
last changed, which the file system moves whenever a file in it is added, removed or renamed.
"""

import hashlib
import os
import time
import warnings
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from smoothap.data.places import cache_folder, write_cache
from smoothap.data.reading import SUFFIXES

_SCHEMA = pa.schema([("path", pa.string()), ("modified", pa.int64())])
_SETTLED = 2_000_000_000  # nanoseconds after which a folder's time of change can be trusted to show the next change


def image_files(root: Path) -> pa.Array:
    """The images under `root` as sorted paths relative to it, with forward slashes."""
    if not root.is_dir():
        raise FileNotFoundError(f"There is no folder {root}: give the folder that holds the images.")
    manifest = manifest_of(root)
    paths = _remembered(root, manifest)
    return _scan(root, manifest) if paths is None else paths


def manifest_of(root: Path) -> Path:
    """The file in the cache that remembers what lies under `root`."""
    scanned = os.fsencode(root.resolve()) + "".join(SUFFIXES).encode()  # one of other suffixes has other files
    return cache_folder() / "manifests" / f"{hashlib.sha256(scanned).hexdigest()[:32]}.parquet"


def _remembered(root: Path, manifest: Path) -> pa.Array | None:
    """The paths of an earlier scan, or None where there is none or a folder has changed since."""
    try:
        table = pq.read_table(manifest)
        if not table.schema.equals(_SCHEMA):
            return None
        folders = table.filter(table["modified"].is_valid())
        for path, modified in zip(folders["path"].to_pylist(), folders["modified"].to_pylist(), strict=True):
            if (root / path).stat().st_mtime_ns != modified:
                return None
    except (OSError, pa.ArrowException, TypeError, ValueError):  # the manifest or a folder is gone, or never was one
        return None
    return table["path"].filter(table["modified"].is_null()).combine_chunks()


def _scan(root: Path, manifest: Path) -> pa.Array:
    """Walk the folders, following links but entering no folder twice, and remember what was found."""
    started = time.time_ns()
    folders: dict[str, int] = {}
    files: list[str] = []
    left_out: list[str] = []
    entered: set[tuple[int, int]] = set()
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        status = (root / folder).stat()
        if (status.st_dev, status.st_ino) in entered:
            continue
        entered.add((status.st_dev, status.st_ino))
        folders[folder] = status.st_mtime_ns
        with os.scandir(root / folder) as entries:
            for entry in entries:
                is_image = entry.name.lower().endswith(SUFFIXES)
                if entry.name.startswith(".") or entry.name == "__MACOSX" or not (is_image or entry.is_dir()):
                    continue
                path = f"{folder}/{entry.name}" if folder else entry.name
                if path.encode(errors="ignore").decode() != path:  # not UTF-8, which Arrow refuses
                    left_out.append(path)
                else:
                    (waiting if entry.is_dir() else files).append(path)
    files.sort()
    for path in left_out:
        warnings.warn(f"{root}: {os.fsencode(path)!r} is left out, for its name is not UTF-8: rename it.", stacklevel=2)
    if not left_out and max(folders.values()) < started - _SETTLED:
        times = [*folders.values(), *[None] * len(files)]
        table = pa.table({"path": [*folders, *files], "modified": times}, schema=_SCHEMA)
        write_cache(manifest, lambda path: pq.write_table(table, path, compression="zstd"))
    return pa.array(files, pa.string())
