"""Which photos are under a folder: every image file is found or reported, and no link leads out."""

import csv
import os
import stat
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from smoothap._core.files import csv_of, rows_of_csv, write_atomically
from smoothap.data.reading import SUFFIXES

REFUSALS = "unreadable.csv"  # in an album: what was not read and why, so that nobody waits for the same damage twice
_HEADER = ["path", "reason", "bytes", "modified_ns"]
_LEADS_OUT = "a link that leads out of the photo folder"
_LONGEST_NAME = 200  # bytes of a new file: systems have 255 for a name, of which the writing takes a few
_LATEST = 2**63 - 1  # nanoseconds, in the year 2262: what an album can hold
_OTHER_KINDS = {
    "a video": (".mov", ".mp4", ".m4v", ".avi", ".mkv", ".mts", ".m2ts", ".3gp", ".webm", ".wmv", ".mpg", ".mpeg"),
    "a raw file of a camera, which has to be converted first": (
        ".dng", ".cr2", ".cr3", ".crw", ".nef", ".nrw", ".arw", ".srf", ".orf", ".rw2", ".raf", ".pef", ".srw", ".raw",
    ),
}  # fmt: skip
_REASONS = {suffix: reason for reason, suffixes in _OTHER_KINDS.items() for suffix in suffixes}


class PhotoFile(NamedTuple):
    """A file: its path below the root, its size and its time of change in nanoseconds.

    `place` is where it begins in a file that holds many photos.
    """

    path: str
    bytes: int
    modified: int
    place: int = 0


@dataclass
class Walk:
    """What is under a folder: photos sorted by path, what could not be read and why, and what is no photo by name."""

    files: list[PhotoFile] = field(default_factory=list)
    unreadable: dict[str, str] = field(default_factory=dict)  # path of a file or folder -> reason
    others: dict[str, str] = field(default_factory=dict)  # path of a file -> what it is

    def add(self, path: str, status: os.stat_result) -> None:
        """Count in what is at a path: a photo, or something that cannot be one."""
        if stat.S_ISREG(status.st_mode):
            modified = max(-_LATEST, min(status.st_mtime_ns, _LATEST))
            self.files.append(PhotoFile(path, status.st_size, modified))
        else:
            self.unreadable[path] = "a directory" if stat.S_ISDIR(status.st_mode) else "not a regular file"

    def missing(self, paths: Iterable[str]) -> list[str]:
        """Those of the paths that are gone: all folders above them were read, and they are not in there."""
        present = {file.path for file in self.files}
        return [path for path in paths if path not in present and not self._is_hidden(path)]

    def _is_hidden(self, path: str) -> bool:
        """Whether the path, or a folder above it, could not be read, so that nobody knows what is there."""
        folders = (path[:end] for end, letter in enumerate(path) if letter == "/")
        return path in self.unreadable or any(folder in self.unreadable for folder in folders)


def kinds_of(paths: Iterable[str]) -> dict[str, int]:
    """How many files there are of each kind, by the end of their names, such as {".mov": 3}, the most first."""
    kinds = Counter(_suffix(path) or "without a suffix" for path in paths)
    return dict(sorted(kinds.items(), key=lambda kind: (-kind[1], kind[0])))


def kind_of(path: str) -> str | None:
    """What a file is, by its path: None for a photo; nothing is said of what is hidden and no photo."""
    is_photo = path.lower().endswith(SUFFIXES)
    if any(name.startswith(".") or name == "__MACOSX" for name in path.split("/")):
        return "a hidden file" if is_photo else ""
    return None if is_photo else _REASONS.get(_suffix(path), "not a photo, going by its file name")


def _suffix(path: str) -> str:
    return os.path.splitext(path)[1].lower()  # noqa: PTH122 (a path of the album, not of this machine)


def walk(root: Path, album: Path | None = None) -> Walk:
    """Find the image files under `root`, by their suffix, hidden ones and folders left out; there must be some.

    The folder of the album itself, should it are in there, is not entered.
    """
    if not root.is_dir():
        raise FileNotFoundError(f"There is no folder {root}: give the folder that holds the photos.")
    result, top, entered = Walk(), root.resolve(), set[tuple[int, int]]()
    if album is not None and album.is_dir():
        status = album.stat()
        entered.add((status.st_dev, status.st_ino))
    folders, links = [""], list[str]()  # to be entered; links last, so that a photo keeps its path when one is made
    while folders or links:
        folder = folders.pop() if folders else links.pop()
        try:
            status = os.stat(root / folder)  # noqa: PTH116
            if (status.st_dev, status.st_ino) in entered:
                continue
            with os.scandir(root / folder) as entries:
                listed = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            if not folder:
                raise ValueError(
                    f"The folder {root} cannot be read: {reason_of(error)}. Nothing was changed."
                ) from error
            result.unreadable[folder] = f"a folder that cannot be entered: {reason_of(error)}"
            continue
        entered.add((status.st_dev, status.st_ino))
        for entry in listed:
            path = f"{folder}/{entry.name}" if folder else entry.name
            if _take_in(result, entry, path, top):
                (links if entry.is_symlink() else folders).append(path)
    if not result.files and not result.unreadable:
        raise ValueError(f"There are no photos in {root}: give the folder that holds them, or mount its disk.")
    result.files.sort()
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
            result.unreadable[name] = reason_of(error)
    return result


def place_for(path: str, root: Path, album: Path | None) -> Path:
    """Where a new photo of this path is to be written: below the root, also where links are followed, and found there.

    `album` is the folder of the album, which may be among the photos.
    """
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or "\\" in path or any(part.startswith(".") for part in parts):
        raise ValueError("no path below the photo folder: give one such as shoes/red.jpg, without '.' in front")
    if len(path) > 1_000 or not path.isprintable():
        raise ValueError("a path has at most 1,000 letters, and none that steer")
    if any(len(os.fsencode(part)) > _LONGEST_NAME for part in parts):
        raise ValueError(f"a file or folder of it has a name of more than {_LONGEST_NAME} bytes: give a shorter one")
    if (kind := kind_of(path)) is not None:
        raise ValueError(f"{kind}: photos end in {', '.join(SUFFIXES)}")
    place = root.joinpath(*parts)
    folder = Path(os.path.realpath(place.parent))
    if not folder.is_relative_to(root.resolve()) or place.is_symlink():
        raise ValueError("it leads out of the photo folder")
    if album is not None and folder.is_relative_to(album.resolve()):
        raise ValueError("it leads into the folder of the album itself")
    if place.is_dir():
        raise ValueError("a folder of that name is there")
    if any(above.is_file() for above in place.parents if above.is_relative_to(root)):
        raise ValueError("a folder of it is a photo that is there")
    return place


def _take_in(result: Walk, entry: "os.DirEntry[str]", path: str, top: Path) -> bool:
    """Count in an entry of a folder, and say whether it is a folder to be entered."""
    kind = kind_of(entry.name)
    if entry.name.startswith(".") or entry.name == "__MACOSX":
        if kind:
            result.others[path] = kind
        return False
    try:
        if entry.is_symlink() and not Path(entry.path).resolve().is_relative_to(top):
            if kind is None or entry.is_dir():
                result.unreadable[path] = _LEADS_OUT
        elif entry.is_dir():
            return True
        elif kind is None:
            result.add(path, entry.stat())
        elif entry.is_symlink() and not entry.is_file():
            result.unreadable[path] = "a link to nothing"  # which may have been a folder of photos
        else:
            result.others[path] = kind
    except (OSError, RuntimeError, ValueError) as error:  # such as a link to itself
        result.unreadable[path] = reason_of(error)
    return False


def reason_of(error: Exception) -> str:
    """Why something could not be read, in the words of the system where it has any."""
    return str(getattr(error, "strerror", None) or error or type(error).__name__).lower()


def container_of(path: str) -> str:
    """The part of a photo's path by which it falls to a part of an album: its shard or group of rows, or all of it."""
    names = path.split("/")
    for place, name in enumerate(names[:-1]):
        if name.endswith(".tar"):
            return "/".join(names[: place + 1])
        if name.endswith(".parquet"):
            return "/".join(names[: place + 2])
    return path


class Refusal(NamedTuple):
    """Why something could not be read; size and time stand for a file that is damaged until one of them changes.

    Without them the reason may pass, such as a permission, and the file is tried again in every run.
    """

    reason: str
    bytes: int | None = None
    modified: int | None = None


def write_refusals(folder: Path, refusals: Mapping[str, Refusal]) -> None:
    """Make this the list of an album, by path; nothing is written where it is the list already."""
    file = folder / REFUSALS
    if not refusals:
        file.unlink(missing_ok=True)
        return
    content = csv_of([_HEADER, *sorted([path, *refusals[path]] for path in refusals)])
    if not file.is_file() or file.read_bytes() != content:
        write_atomically(file, content)


def read_refusals(folder: Path) -> dict[str, Refusal]:
    """The list of an album by path; what is no line of ours is left out, so that it is tried again."""
    try:
        header, *rows = rows_of_csv((folder / REFUSALS).read_bytes())
    except (OSError, ValueError, csv.Error):
        return {}
    known: dict[str, Refusal] = {}
    for row in rows if header == _HEADER else ():
        with suppress(ValueError, TypeError):
            path, reason, *numbers = row
            known[path] = Refusal(reason, *(int(number) if number else None for number in numbers))
    return known
