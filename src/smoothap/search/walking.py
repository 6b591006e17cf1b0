"""Which photos lie under a folder: every image file is found or reported, and no link leads out.

What could not be read stands in the album's `unreadable.csv` with the reason, and is tried again when it changes.
"""

import csv
import io
import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from smoothap.data.reading import SUFFIXES
from smoothap.files import write_atomically

UNREADABLE = "unreadable.csv"
_LEADS_OUT = "a link that leads out of the photo folder"


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

    def add(self, path: str, status: os.stat_result) -> None:
        """Count in what lies at a path: a photo, or something that cannot be one."""
        if stat.S_ISREG(status.st_mode):
            self.found.append(Found(path, status.st_size, status.st_mtime_ns))
        else:
            self.unreadable[path] = "a directory" if stat.S_ISDIR(status.st_mode) else "not a regular file"


def walk(root: Path) -> Walk:
    """Find the image files under `root`, by their suffix, hidden ones and folders left out; there must be some."""
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
            result.unreadable[folder] = f"a folder that cannot be entered: {_reason(error)}"
            result.closed.append(folder)
            continue
        for entry in listed:
            path = f"{folder}/{entry.name}" if folder else entry.name
            _sort_in(result, waiting, entry, path, top)
    if not result.found and not result.unreadable:
        raise ValueError(f"There are no photos in {root}: give the folder that holds them, or mount its disk.")
    result.found.sort()
    return result


def look_at(root: Path, paths: Iterable[Path | str]) -> Walk:
    """Single files, by paths that are absolute or relative to the root; those that lie elsewhere are unreadable."""
    result, top = Walk(), root.resolve()
    for path in paths:
        place = root / path
        below = Path(os.path.relpath(place.parent.resolve(), top)).as_posix()
        name = place.name if below == "." else f"{below}/{place.name}"
        try:
            if place.resolve().is_relative_to(top):
                result.add(name, place.stat())
            else:
                result.unreadable[name] = _LEADS_OUT
        except (OSError, RuntimeError, ValueError) as error:
            result.unreadable[name] = _reason(error)
    return result


def _sort_in(result: Walk, waiting: list[str], entry: "os.DirEntry[str]", path: str, top: Path) -> None:
    image = entry.name.lower().endswith(SUFFIXES)
    if entry.name.startswith(".") or entry.name == "__MACOSX":
        result.ignored += image
        return
    try:
        if entry.is_symlink() and not Path(entry.path).resolve().is_relative_to(top):
            if image or entry.is_dir():
                result.unreadable[path] = _LEADS_OUT
        elif entry.is_dir():
            waiting.append(path)
        elif image:
            result.add(path, entry.stat())
        else:
            result.ignored += 1
    except (OSError, RuntimeError, ValueError) as error:  # such as a link to itself
        result.unreadable[path] = _reason(error)


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error).lower()


def write_unreadable(folder: Path, refused: Mapping[Found, str], not_found: Mapping[str, str]) -> None:
    """List files that could not be read, and those (links, folders) that could not even be looked at."""
    header = ["path", "reason", "bytes", "modified"]
    rows = [[file.path, reason, str(file.bytes), str(file.modified)] for file, reason in refused.items()]
    rows += [[path, reason, "", ""] for path, reason in not_found.items()]
    file = folder / UNREADABLE
    if not rows:
        file.unlink(missing_ok=True)
        return
    table = io.StringIO()
    csv.writer(table, lineterminator="\n").writerows([header, *sorted(rows)])
    content = table.getvalue().encode(errors="surrogateescape")
    if not file.is_file() or file.read_bytes() != content:
        write_atomically(file, content)


def read_unreadable(folder: Path) -> dict[Found, str]:
    """The files listed before, by path, size and time; whatever the list does not say is tried again."""
    try:
        text = (folder / UNREADABLE).read_bytes().decode(errors="surrogateescape")
        rows = list(csv.reader(io.StringIO(text, newline="")))
    except (OSError, csv.Error):
        return {}
    known: dict[Found, str] = {}
    for row in rows[1:]:
        if len(row) == 4 and row[2].isdecimal() and row[3].isdecimal():
            known[Found(row[0], int(row[2]), int(row[3]))] = row[1]
    return known
