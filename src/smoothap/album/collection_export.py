"""Collections outside of the album: as a table, as JSON, and the original photos as a zip, as copies or as links."""

import csv
import filecmp
import io
import json
import os
import re
import shutil
import time
import unicodedata
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from smoothap._core.files import free_name, write_atomically
from smoothap._core.progress import Progress
from smoothap.album.album import Album
from smoothap.album.collections import Collection
from smoothap.data.without_place import without_place

COLUMNS = ("collection", "mark", "path", "label", "sha256")
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")  # a spreadsheet takes what begins so for a formula
_CHUNK = 1 << 18
_LONGEST = 180  # bytes of a file's name: systems take 255, and a number may be added
# What one system or another does not take in a name, or what would steer what shows it.
_UNSAFE = re.compile('[<>:"/\\\\|?*\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]')
_RESERVED = re.compile(r"(?i)^(con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|$)")


@dataclass(frozen=True)
class Original:
    """A photo's own file, and the name that it gets outside of the album: safe on any system, and no other's."""

    path: str
    file: Path
    name: str
    bytes: int
    modified: float


@dataclass(frozen=True)
class Originals:
    """The files of collections, and which photos have none, with the reason."""

    files: tuple[Original, ...]
    missing: dict[str, str] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        """The size of all files together."""
        return sum(original.bytes for original in self.files)


@dataclass
class CopyReport:
    """What became of originals that were to go into a folder."""

    copied: int = 0
    already_there: int = 0
    missing: dict[str, str] = field(default_factory=dict)  # path -> reason


def as_csv(album: Album, collections: Sequence[Collection]) -> bytes:
    """The photos of collections, right and wrong ones, as a table; names that are no UTF-8 keep their bytes."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    for collection in collections:
        for photo in _photos(album, collection):
            row = (collection.name, photo["mark"], photo["path"], photo["label"] or "", photo["sha256"])
            writer.writerow([f"'{cell}" if cell.startswith(FORMULA) else cell for cell in row])
    return stream.getvalue().encode(errors="surrogateescape")


def as_json(album: Album, collections: Sequence[Collection]) -> bytes:
    """The same as JSON."""
    plain = [{"name": collection.name, "photos": _photos(album, collection)} for collection in collections]
    return (json.dumps({"collections": plain}, indent=1) + "\n").encode()


def _photos(album: Album, collection: Collection) -> list[dict[str, Any]]:
    known = [(mark, album.photo(one)) for mark, ids in _marks(collection) for one in ids]
    rows: list[dict[str, Any]] = [
        {"mark": mark, "path": photo.path, "label": photo.label, "sha256": photo.sha256} for mark, photo in known
    ]
    return rows + [{"mark": "right", "path": path, "label": None, "sha256": ""} for path in collection.away]


def _marks(collection: Collection) -> tuple[tuple[str, tuple[int, ...]], ...]:
    return ("right", collection.right), ("wrong", collection.wrong)


def originals(album: Album, collections: Sequence[Collection] = (), ids: Iterable[int] = ()) -> Originals:
    """The files of photos: of collections, of which each gets a folder of its name if they are several, and by ids."""
    files: list[Original] = []
    missing: dict[str, str] = {}
    taken: set[str] = set()
    groups = [("", dict.fromkeys(ids))]  # a photo that is named twice is one
    for collection in collections:
        folder = f"{_free(safe_name(collection.name), taken)}/" if len(collections) > 1 else ""
        missing.update(dict.fromkeys(collection.away, "not in the album any more"))
        groups.append((folder, collection.right))
    for folder, identity in ((folder, identity) for folder, some in groups for identity in some):
        path = album.photo(identity).path
        try:
            file = album.photo_path(identity)
            status = file.stat()
            if not file.is_file():
                raise ValueError("not a file")
            name = _free(f"{folder}{safe_name(path.rpartition('/')[2])}", taken)
            files.append(Original(path, file, name, status.st_size, status.st_mtime))
        except (OSError, ValueError) as error:
            missing[path] = str(getattr(error, "strerror", None) or error).lower()
    return Originals(tuple(files), missing)


def safe_name(name: str) -> str:
    """A file's name that every system takes for one."""
    name = _UNSAFE.sub("_", unicodedata.normalize("NFC", name)).strip().rstrip(". ")
    if not name or name[0] == "." or _RESERVED.match(name):
        name = f"_{name}"
    stem, dot, suffix = name.rpartition(".")
    stem, suffix = (stem, dot + suffix) if stem and len(suffix) < 10 else (name, "")
    return stem.encode()[: _LONGEST - len(suffix.encode())].decode(errors="ignore") + suffix


def _free(name: str, taken: set[str]) -> str:
    """The name, with a number if another has it, in capitals or not; from now on it is taken."""
    free = free_name(name, lambda one: one.casefold() in taken, suffix=True)
    taken.add(free.casefold())
    return free


def zip_size(chosen: Originals) -> int:
    """How many bytes `zip_pieces` will give, exactly."""
    limit, offset, central = zipfile.ZIP64_LIMIT, 0, 0
    for original in chosen.files:
        name = len(original.name.encode())
        large = original.bytes * 1.05 > limit
        central += 46 + name + _wide_fields(original.bytes, offset, limit)
        offset += 30 + name + 20 * large + original.bytes + (24 if large else 16)
    wide = len(chosen.files) > zipfile.ZIP_FILECOUNT_LIMIT or offset > limit or central > limit
    return offset + central + 22 + 76 * wide


def _wide_fields(size: int, offset: int, limit: int) -> int:
    fields = 2 * (size > limit) + (offset > limit)
    return 4 + 8 * fields if fields else 0


def zip_pieces(chosen: Originals, *, places: bool = True) -> Iterator[bytes]:
    """The originals as a zip, piece by piece and nothing of it kept; photos are not compressed a second time.

    Without `places` they do not say where they were taken, and all else in them stays as it is; then one photo at a
    time is in memory.
    """
    sink = _Sink()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_STORED) as archive:  # ty: ignore[no-matching-overload]
        for original in chosen.files:
            info = zipfile.ZipInfo(original.name, _zip_time(original.modified))
            info.file_size, info.external_attr = original.bytes, 0o644 << 16
            left = original.bytes
            with original.file.open("rb") as file, archive.open(info, "w") as entry:
                photo = file if places else io.BytesIO(without_place(file.read()))
                while chunk := photo.read(_CHUNK):
                    left -= len(chunk)
                    entry.write(chunk)
                    yield sink.taken()
            if left:
                raise ValueError(f"{original.path} was changed while it was packed: pack the photos again.")
    yield sink.taken()


class _Sink:
    """Where a zip is written to and taken from; it cannot be wound back, so that nothing has to be kept."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, content: bytes) -> int:
        self._parts.append(bytes(content))
        return len(content)

    def flush(self) -> None:
        """Nothing is held back."""

    def taken(self) -> bytes:
        """What was written since this was last asked for."""
        content, self._parts = b"".join(self._parts), []
        return content


def _zip_time(modified: float) -> tuple[int, int, int, int, int, int]:
    try:
        year, *rest = time.localtime(modified)[:6]
    except (OSError, OverflowError, ValueError):
        year, rest = 0, [1, 1, 0, 0, 0]
    month, day, hour, minute, second = rest
    return (year, month, day, hour, minute, second) if 1980 <= year <= 2107 else (1980, 1, 1, 0, 0, 0)


def pack(chosen: Originals, out: Path, *, progress: bool = True) -> Path:
    """Write the originals as a zip; where there is no room for it, that is said before."""
    _check_room(zip_size(chosen), out.parent)

    def write(path: Path) -> None:
        size = zip_size(chosen)
        with path.open("wb") as stream, Progress("Packing", size // 1000, "kB", shown=progress) as line:
            for piece in zip_pieces(chosen):
                stream.write(piece)
                line.advance(len(piece) // 1000)

    return write_atomically(out, write)


def copy_originals(
    chosen: Originals, folder: Path, *, links: bool = False, places: bool = True, progress: bool = True
) -> CopyReport:
    """Copy the originals into a folder, or make links to them; a file that is there stays, and is never written over.

    A file that is already there with the same content is not copied again; one with other content gets a number.
    Without `places` the copies do not say where they were taken.
    """
    if not links:
        _check_room(chosen.bytes, folder)
    report = CopyReport(missing=dict(chosen.missing))
    with Progress("Linking" if links else "Copying", len(chosen.files), "photos", shown=progress) as line:
        for original in chosen.files:
            try:
                _place(original, folder, links, places, report)
            except FileNotFoundError:
                report.missing[original.path] = "no such file or directory"
            line.advance()
    return report


def _place(original: Original, folder: Path, links: bool, places: bool, report: CopyReport) -> None:
    def is_taken(name: str) -> bool:
        return os.path.lexists(folder / name) and not _is_same(original.file, folder / name, links)

    target = folder / free_name(original.name, is_taken, suffix=True)
    if os.path.lexists(target):
        report.already_there += 1
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    if links:
        try:
            target.symlink_to(original.file.resolve())
        except (OSError, NotImplementedError) as error:
            raise ValueError(f"{folder} takes no links ({error}): leave --links out to copy the photos.") from error
    else:

        def copy(path: Path) -> None:
            if not places:
                path.write_bytes(without_place(original.file.read_bytes()))
                shutil.copystat(original.file, path)
                return
            shutil.copy2(original.file, path)

        write_atomically(target, copy)
    report.copied += 1


def _is_same(file: Path, target: Path, links: bool) -> bool:
    if links or target.is_symlink():
        return target.resolve() == file.resolve()
    return target.is_file() and filecmp.cmp(file, target, shallow=False)


def _check_room(size: int, folder: Path) -> None:
    above = next(place for place in (folder.absolute(), *folder.absolute().parents) if place.exists())
    free = shutil.disk_usage(above).free
    if size > free:
        raise ValueError(
            f"The photos take {spoken_size(size)}, and there are {spoken_size(free)} free in {above}: make room, or "
            "choose another place."
        )


def spoken_size(size: int) -> str:
    """A number of bytes as people say it."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= factor:
            return f"{size / factor:.1f} {unit}"
    return f"{size} bytes"
