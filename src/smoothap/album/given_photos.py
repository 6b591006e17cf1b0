"""The photos that an album is made of, as a user gives them: a folder, a table, shards, or an address; and labels."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from smoothap.album.prepare import files_below
from smoothap.album.sources import Folder, Source, open_source
from smoothap.album.update import Columns, Labels, labels_by_folder
from smoothap.album.walk import PhotoFile, Walk, look_at
from smoothap.data.tables import read_table

TABLES = (".csv", ".parquet")


class GivenPhotos(NamedTuple):
    """Where photos lie and what is said of them, and paths of a table that name no photo."""

    source: Source
    labels: Labels | None
    columns: Columns | None
    unknown: list[str]

    @classmethod
    def open(cls, photos: str, labels: str | None, columns: str | None) -> GivenPhotos:
        """What the user's words stand for; `columns` says what the columns of a table are called."""
        place, source = Path(photos), open_source(photos)
        if source is None and place.suffix.lower() in TABLES and not place.is_dir():
            if labels is not None:
                raise ValueError(
                    f"{place} lists the photos and their labels too: leave --labels out, or see --columns."
                )
            table = PhotoTable.read_from(place, columns)
            return cls(table, table.label if table.is_labelled else None, table.columns, table.missing)
        source = source or Folder(place)
        if columns is not None and source.root is None:
            raise ValueError("--columns names the columns of a table of paths: leave it out.")
        if columns is not None and labels in (None, "folders"):
            raise ValueError("--columns names the columns of a table: give one as the photos, or as --labels.")
        if labels in (None, "folders"):
            return cls(source, None if labels is None else labels_by_folder, None, [])
        if source.root is None:
            raise ValueError(
                "Photos that are in no folder of this machine are labelled by their folders only: --labels folders."
            )
        if not Path(labels).is_file():
            raise ValueError(f"--labels takes 'folders' or a CSV file with the columns path and label, not {labels!r}.")
        table = PhotoTable.read_from(Path(labels), columns, place)
        return cls(source, table.label, None, table.missing)


@dataclass(frozen=True)
class PhotoTable:
    """Photos by their paths below `root`; `rows` is what the table says of each, by the names of its columns."""

    root: Path
    rows: Mapping[str, Mapping[str, str]]
    is_labelled: bool
    missing: list[str]  # paths as the table has them, of files that are not there

    @classmethod
    def read_from(cls, file: Path, columns: str | None, labelled: Path | None = None) -> PhotoTable:
        """The photos of a CSV or Parquet file with a column path, relative to the file's folder or absolute.

        The root is the table's folder if all photos are below it, and otherwise the folder that has them all. Where the
        table gives `labelled` photos their labels, it is the folder of these, and only labels are read.
        """
        table = read_table(file, ("path",) if labelled is None else ("path", "label"), columns)
        names = [name for name in table if name != "path"] if labelled is None else ["label"]
        top, listed = file.absolute().parent, table["path"].to_pylist()
        if not all(listed):
            raise ValueError(
                f"{file} has rows without a path: take them out, or say --columns path=NAME of its column."
            )
        root = _root_of([top / path for path in listed], top) if labelled is None else labelled
        # A table names many photos of few folders, and links are followed for the folders only.
        folders = {folder: _below(root, top / folder) for folder in {os.path.dirname(path) for path in listed}}  # noqa: PTH120
        rows, missing = dict[str, Mapping[str, str]](), list[str]()
        said = dict[tuple[str, ...], Mapping[str, str]]()  # of many photos
        for path, *values in zip(listed, *(table[name].to_pylist() for name in names), strict=True):
            folder, name = folders[os.path.dirname(path)], os.path.basename(path)  # noqa: PTH119, PTH120
            # Unlike Path.is_file, isfile takes a name that is too long for one that is not there.
            if folder is None or not os.path.isfile(root / folder / name):  # noqa: PTH113
                missing.append(path)
                continue
            row = said.setdefault(tuple(values), dict(zip(names, values, strict=True)))
            key = (folder / name).as_posix()
            if (before := rows.setdefault(key, row)) != row:
                raise ValueError(
                    f"{file} lists {key!r} twice, with other values ({before} and {row}): keep one of the rows."
                )
        if not rows:
            example = f", such as {missing[0]!r}" if missing else ""
            raise ValueError(
                f"None of the {len(missing):,} paths in {file}{example}, is a file below {root}. Paths are relative to "
                f"the folder of the table, {top}, or absolute."
            )
        return cls(root, rows, "label" in table, missing)

    def walk(self, album: Path | None = None) -> Walk:
        """All photos that it lists."""
        return look_at(self.root, self.rows)

    def read(self, file: PhotoFile) -> bytes:
        """The content of one file."""
        return files_below(self.root)(file)

    def label(self, path: str) -> str | None:
        """The label of a photo."""
        return self.rows.get(path, {}).get("label") or None

    def columns(self, path: str) -> dict[str, str]:
        """What else the table says of a photo; an empty cell says nothing."""
        return {name: value for name, value in self.rows.get(path, {}).items() if value and name != "label"}


def _root_of(places: list[Path], top: Path) -> Path:
    """The folder that holds those of these files that are there: `top`, if it does."""
    by_name = (Path(os.path.normpath(place)) for place in places)
    elsewhere = {place.parent for place in by_name if not place.is_relative_to(top) and os.path.isfile(place)}  # noqa: PTH113
    if not elsewhere:
        return top
    there = {place.parent for place in map(Path, map(os.path.normpath, places)) if os.path.isfile(place)}  # noqa: PTH113
    return Path(os.path.commonpath(there))


def _below(photos: Path, folder: Path) -> Path | None:
    """The folder as seen from the photo folder, by its name or else by where links lead; None if it lies elsewhere."""
    by_name = (Path(os.path.normpath(place.absolute())) for place in (photos, folder))
    by_links = (place.resolve() for place in (photos, folder))
    for top, place in (by_name, by_links):
        if place.is_relative_to(top):
            return place.relative_to(top)
    return None
