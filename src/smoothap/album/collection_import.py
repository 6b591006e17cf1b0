"""Collections from elsewhere: a folder of folders, a table, or the JSON of another album."""

import csv
import io
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from smoothap._core.files import digest_of
from smoothap._core.progress import Progress
from smoothap.album.album import Album
from smoothap.album.collection_export import FORMULA
from smoothap.album.collections import LONGEST_NAME, checked_name
from smoothap.data.reading import SUFFIXES

_MARKS = {"right": True, "": True, "wrong": False}


@dataclass
class ImportReport:
    """How many photos came into which collection, and what was found in no album."""

    photos: dict[str, int] = field(default_factory=dict)  # by the name of the collection
    unknown: list[str] = field(default_factory=list)  # paths of photos that are not in the album
    beside: int = 0  # photos that are in no folder of a name


@dataclass(frozen=True)
class _Listed:
    collection: str
    path: str
    sha256: str = ""
    right: bool = True


def ids_of(album: Album, photos: Iterable[str | Path], *, progress: bool = True) -> dict[str, int | None]:
    """The ids of photos given by a path: of a file, or relative to the photo folder; None for what is not there.

    A file that lies elsewhere is known by its content.
    """
    given = [os.fspath(photo) for photo in photos]
    ids = {path: _by_path(album, path, Path()) for path in given}
    elsewhere = [path for path, identity in ids.items() if identity is None and Path(path).is_file()]
    with Progress("Reading", len(elsewhere), "photos", shown=progress) as line:
        for path in elsewhere:
            ids[path] = album.photos.find("", digest_of(Path(path)))
            line.advance()
    return ids


def import_collections(album: Album, source: Path, *, progress: bool = True) -> ImportReport:
    """Take in collections and add to those that are there by their name: one step, which can be undone.

    `source` is a folder with a folder of photos for each collection, or a CSV or JSON file as `smoothap collection`
    exports it; of a CSV, the columns collection and path are enough, with paths relative to the photo folder or to the
    folder of the table. Photos that are not in the album are reported.
    """
    if source.is_dir():
        report = ImportReport()
        listed = _in_folders(source, report)
        known = ids_of(album, [one.path for one in listed], progress=progress)
        return _put(album, listed, [known[one.path] for one in listed], report, source.name)
    if source.is_file():
        return import_text(album, source.read_bytes(), source.name, source.parent)
    raise FileNotFoundError(f"There is no {source}: give a folder of folders, or a CSV or JSON file.")


def import_text(album: Album, content: bytes, name: str = "a list", folder: Path | None = None) -> ImportReport:
    """Take in the content of a CSV or JSON file of this name; paths may be relative to the folder, if it is given."""
    is_json = content.lstrip()[:1] in (b"{", b"[")
    listed = _in_json(content, name) if is_json else _in_csv(content, name)
    # By content first: a list of another album may name other photos by the same paths.
    ids = (album.photos.find(one.path, one.sha256) if one.sha256 else None for one in listed)
    found = [
        _by_path(album, one.path, folder) if known is None else known for one, known in zip(listed, ids, strict=True)
    ]
    return _put(album, listed, found, ImportReport(), name)


def _put(
    album: Album, listed: Sequence[_Listed], ids: Sequence[int | None], report: ImportReport, name: str
) -> ImportReport:
    groups: dict[str, tuple[list[int], list[int]]] = {}
    for one, identity in zip(listed, ids, strict=True):
        if identity is None:
            report.unknown.append(one.path)
        else:
            right, wrong = groups.setdefault(checked_name(one.collection), ([], []))
            (right if one.right else wrong).append(identity)
    if not groups:
        examples = ", ".join(repr(path) for path in report.unknown[:3])
        what = (
            f"None of its {len(report.unknown):,} photos, such as {examples}, is" if examples else "No photo of it is"
        )
        raise ValueError(f"Nothing was imported from {name}. {what} in the album: index the photos first.")
    album.collections.put([(collection, *marks) for collection, marks in groups.items()], f"imported {name}")
    report.photos = {collection: len(right) + len(wrong) for collection, (right, wrong) in groups.items()}
    return report


def _in_folders(source: Path, report: ImportReport) -> list[_Listed]:
    listed: list[_Listed] = []
    for entry in sorted(source.iterdir()):
        if entry.name.startswith("."):
            continue
        if not entry.is_dir():
            report.beside += entry.name.lower().endswith(SUFFIXES)
            continue
        name = _possible_name(entry.name)
        files = sorted(Path(folder) / file for folder, _, names in os.walk(entry) for file in names)
        listed += [_Listed(name, str(file)) for file in files if file.name.lower().endswith(SUFFIXES)]
    if not listed:
        raise ValueError(f"{source} holds no folders of photos: give a folder with one for each collection.")
    return listed


def _possible_name(folder: str) -> str:
    """A folder's name as that of a collection: what is no UTF-8 is spelled out."""
    spelled = folder.encode(errors="backslashreplace").decode()
    return checked_name("".join(letter if letter.isprintable() else " " for letter in spelled)[:LONGEST_NAME])


def _in_csv(content: bytes, name: str) -> list[_Listed]:
    text = content.decode("utf-8-sig", errors="surrogateescape")
    try:
        rows = list(csv.DictReader(io.StringIO(text, newline=""), strict=True))
    except csv.Error as error:
        raise ValueError(f"{name} is no table: {error}.") from error
    listed: list[_Listed] = []
    for line, row in enumerate(rows, start=2):
        cells = {
            str(column).strip().lower(): _plain(cell or "") for column, cell in row.items() if isinstance(cell, str)
        }
        if not {"collection", "path"} <= cells.keys():
            raise ValueError(f"{name} has no columns collection and path, but {', '.join(map(repr, row))}.")
        mark = cells.get("mark", "").strip().lower()
        if mark not in _MARKS:
            raise ValueError(f"{name}, line {line}: mark is right or wrong, not {mark!r}.")
        listed.append(_Listed(cells["collection"], cells["path"], _digits(cells.get("sha256", "")), _MARKS[mark]))
    return listed


def _plain(cell: str) -> str:
    """A cell without the sign that keeps a spreadsheet from computing it."""
    return cell[1:] if cell[:1] == "'" and cell[1:].startswith(FORMULA) else cell


def _in_json(content: bytes, name: str) -> list[_Listed]:
    try:
        return [
            _Listed(str(one["name"]), str(photo["path"]), _digits(photo.get("sha256", "")), _MARKS[photo["mark"]])
            for one in json.loads(content)["collections"]
            for photo in one["photos"]
        ]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{name} is no JSON that smoothap album collections exported.") from error


def _digits(text: object) -> str:
    try:
        return bytes.fromhex(str(text)).hex()
    except ValueError:
        return ""


def _by_path(album: Album, path: str, folder: Path | None) -> int | None:
    """The photo at a path of the album, or at that of a file of a folder that is below the photo folder."""
    below = None if folder is None else _below(album.root, folder / path)
    found = (album.photos.find(one) for one in (below, path) if one)
    return next((identity for identity in found if identity is not None), None)


def _below(root: Path | None, file: Path) -> str | None:
    """The path of a file below the photo folder, by its name or where links lead; None if it lies elsewhere."""
    if root is None:
        return None
    for top, place in ((root.absolute(), Path(os.path.normpath(file.absolute()))), (root.resolve(), file.resolve())):
        if place.is_relative_to(top):
            return place.relative_to(top).as_posix()
    return None
