"""Which photos lie under a folder: every image file is found or reported, and no link leads out."""

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from smoothap.data.reading import SUFFIXES

LEADS_OUT = "a link that leads out of the photo folder"


class Found(NamedTuple):
    """A file: its path below the root, its size and its time of change in nanoseconds."""

    path: str
    bytes: int
    modified: int


@dataclass
class Walk:
    """What lies under a folder: photos sorted by path, what could not be entered and why, files of other kinds."""

    found: list[Found] = field(default_factory=list)
    unreadable: dict[str, str] = field(default_factory=dict)
    closed: list[str] = field(default_factory=list)  # folders that could not be entered
    ignored: int = 0


def walk(root: Path) -> Walk:
    """Find the image files under `root`, by their suffix, hidden ones and folders left out."""
    if not root.is_dir():
        raise FileNotFoundError(f"There is no folder {root}: give the folder that holds the photos.")
    result, top, waiting, entered = Walk(), root.resolve(), [""], set[tuple[int, int]]()
    while waiting:
        folder = waiting.pop()
        try:
            status = os.stat(root / folder)  # noqa: PTH116
            if (status.st_dev, status.st_ino) in entered:
                continue
            entered.add((status.st_dev, status.st_ino))
            with os.scandir(root / folder) as entries:
                listed = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            result.unreadable[folder] = f"a folder that cannot be entered: {(error.strerror or str(error)).lower()}"
            result.closed.append(folder)
            continue
        for entry in listed:
            path = f"{folder}/{entry.name}" if folder else entry.name
            _sort_in(result, waiting, entry, path, top)
    result.found.sort()
    return result


def walk_photos(root: Path) -> Walk:
    """What `walk` finds under a folder of photos; an error where it holds none."""
    found = walk(root)
    if not found.found and not found.unreadable:
        raise ValueError(f"There are no photos in {root}: give the folder that holds them, or mount its disk.")
    return found


def _sort_in(result: Walk, waiting: list[str], entry: "os.DirEntry[str]", path: str, top: Path) -> None:
    image = entry.name.lower().endswith(SUFFIXES)
    if entry.name.startswith(".") or entry.name == "__MACOSX":
        result.ignored += image
        return
    try:
        if entry.is_symlink() and not Path(entry.path).resolve().is_relative_to(top):
            if image or entry.is_dir():
                result.unreadable[path] = LEADS_OUT
            return
        if entry.is_dir():
            waiting.append(path)
        elif not image:
            result.ignored += 1
        else:
            status = entry.stat()
            if stat.S_ISREG(status.st_mode):
                result.found.append(Found(path, status.st_size, status.st_mtime_ns))
            else:
                result.unreadable[path] = "not a regular file"
    except (OSError, RuntimeError, ValueError) as error:  # such as a link to itself
        result.unreadable[path] = str(getattr(error, "strerror", None) or error).lower()


def look_at(root: Path, paths: Iterable[Path | str]) -> Walk:
    """Single files, by paths that are absolute or relative to the root; those that lie elsewhere are unreadable."""
    result, top = Walk(), root.resolve()
    for path in paths:
        place = Path(path) if Path(path).is_absolute() else root / path
        below = Path(os.path.relpath(place.parent.resolve(), top)).as_posix()
        name = place.name if below == "." else f"{below}/{place.name}"
        seen = _look(root, name)
        if isinstance(seen, str):
            result.unreadable[name] = seen
        else:
            result.found.append(seen)
    return result


def _look(root: Path, path: str) -> Found | str:
    """One file below the root, or the reason why it cannot be a photo of the album."""
    try:
        place = root / path
        if not place.resolve().is_relative_to(root.resolve()):
            return LEADS_OUT
        status = place.stat()
    except (OSError, RuntimeError, ValueError) as error:
        return str(getattr(error, "strerror", None) or error).lower()
    if not stat.S_ISREG(status.st_mode):
        return "a directory" if stat.S_ISDIR(status.st_mode) else "not a regular file"
    return Found(path, status.st_size, status.st_mtime_ns)
