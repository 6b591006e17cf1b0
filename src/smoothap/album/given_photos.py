"""The photos that an album is made of, as a user gives them: a folder, a table, shards, or an address; and labels."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from smoothap.album.prepare import Read, files_below
from smoothap.album.sources import Source, open_source
from smoothap.album.update import Columns, Labels, labels_by_folder
from smoothap.album.walk import Walk, look_at, walk
from smoothap.data.tables import read_table

TABLES = (".csv", ".parquet")


@dataclass(frozen=True, eq=False)
class GivenPhotos:
    """Where photos lie and what is said of them; `root` is None where no folder of this machine holds them."""

    root: Path | None
    labels: Labels | None
    unknown: list[str] = field(default_factory=list)  # paths of a table that name no photo
    table: PhotoTable | None = None
    source: Source | None = None

    @classmethod
    def open(cls, photos: str, labels: str | None, columns: str | None) -> GivenPhotos:
        """What the user's words stand for; `columns` says what the columns of a table are called."""
        if (source := open_source(photos)) is not None:
            if columns is not None:
                raise ValueError("--columns names the columns of a table of paths: leave it out.")
            return cls(None, None if labels is None else read_labels(labels, None)[0], source=source)
        place = Path(photos)
        if place.suffix.lower() not in TABLES or place.is_dir():
            if columns is not None and (labels is None or labels == "folders"):
                raise ValueError("--columns names the columns of a table: give one as the photos, or as --labels.")
            label_of, unknown = (None, list[str]()) if labels is None else read_labels(labels, place, columns)
            return cls(place, label_of, unknown)
        if labels is not None:
            raise ValueError(f"{place} lists the photos and their labels too: leave --labels out, or see --columns.")
        table = read_photo_table(place, columns)
        return cls(table.root, table.label if table.labelled else None, table.missing, table)

    @property
    def columns(self) -> Columns | None:
        """What else a table says of a photo."""
        return None if self.table is None else self.table.columns

    @property
    def read(self) -> Read:
        """What reads a photo."""
        if self.source is not None:
            return self.source.read
        assert self.root is not None
        return files_below(self.root)

    def walk(self, album: Path | None = None) -> Walk:
        """All photos, and what cannot be read; the album's own folder is left out."""
        if self.source is not None:
            return self.source.walk()
        assert self.root is not None
        return walk(self.root, album) if self.table is None else look_at(self.root, self.table.rows)


@dataclass(frozen=True)
class PhotoTable:
    """Photos by their paths below `root`; `rows` is what the table says of each, by the names of its columns."""

    root: Path
    rows: Mapping[str, Mapping[str, str]]
    labelled: bool
    missing: list[str]  # paths as the table has them, of files that are not there

    def label(self, path: str) -> str | None:
        """The label of a photo."""
        return self.rows.get(path, {}).get("label") or None

    def columns(self, path: str) -> dict[str, str]:
        """What else the table says of a photo; an empty cell says nothing."""
        return {name: value for name, value in self.rows.get(path, {}).items() if value and name != "label"}


def read_photo_table(file: Path, columns: str | None) -> PhotoTable:
    """The photos of a CSV or Parquet file with a column path, relative to the file's folder or absolute.

    The root is the table's folder if all photos are below it, and otherwise the folder that has them all.
    """
    table = read_table(file, ("path",), columns)
    names, cells = [name for name in table if name != "path"], [column.to_pylist() for column in table.values()]
    places, missing = dict[Path, dict[str, str]](), list[str]()
    at = list(table).index("path")
    for row in zip(*cells, strict=True):
        path, said = row[at], dict(zip(names, (*row[:at], *row[at + 1 :]), strict=True))
        if not path:
            raise ValueError(
                f"{file} has rows without a path: take them out, or say --columns path=NAME of its column."
            )
        place = Path(os.path.normpath(file.absolute().parent / path))
        # Unlike Path.is_file, isfile takes a name that is too long for one that is not there.
        if not os.path.isfile(place):  # noqa: PTH113
            missing.append(path)
        elif places.setdefault(place, said) != said:
            raise ValueError(f"{file} lists {path!r} twice, with other values: keep one of the rows.")
    if not places:
        example = f", such as {missing[0]!r}" if missing else ""
        raise ValueError(
            f"None of the {len(missing):,} paths in {file}{example}, is a file. Paths are relative to "
            f"{file.absolute().parent}, or absolute."
        )
    root = file.absolute().parent
    if not all(place.is_relative_to(root) for place in places):
        root = Path(os.path.commonpath([place.parent for place in places]))
    rows = {place.relative_to(root).as_posix(): said for place, said in places.items()}
    return PhotoTable(root, rows, "label" in table, missing)


def read_labels(labels: str, photos: Path | None, columns: str | None = None) -> tuple[Labels, list[str]]:
    """What gives the label of a photo by its path below `photos`, and paths of the table that name no file there.

    Paths in a table are relative to its folder, or absolute, as in every table of images.
    """
    if labels == "folders":
        return labels_by_folder, []
    if photos is None:
        raise ValueError(
            "Photos that are in no folder of this machine are labelled by their folders only: --labels folders."
        )
    file = Path(labels)
    if not file.is_file():
        raise ValueError(f"--labels takes 'folders' or a CSV file with the columns path and label, not {labels!r}.")
    table = read_table(file, ("path", "label"), columns)
    listed = [Path(path) for path in table["path"].to_pylist()]
    # A table names many photos of few folders, and links are followed for the folders only.
    folders = {folder: _below(photos, file.parent / folder) for folder in {path.parent for path in listed}}
    by_path, unknown = dict[str, str](), list[str]()
    for path, label in zip(listed, table["label"].to_pylist(), strict=True):
        folder = folders[path.parent]
        # Unlike Path.is_file, isfile takes a name that is too long for one that is not there.
        if folder is None or not os.path.isfile(photos / folder / path.name):  # noqa: PTH113
            unknown.append(str(path))
        elif by_path.setdefault(key := (folder / path.name).as_posix(), label) != label:
            raise ValueError(f"{file} labels {key!r} as {by_path[key]!r} and as {label!r}: give it one label.")
    if not by_path:
        example = f", such as {unknown[0]!r}" if unknown else ""
        raise ValueError(
            f"None of the {len(listed):,} paths in {file}{example}, names a photo in {photos}. Paths are relative to "
            f"the folder of the table, {file.parent.resolve()}, or absolute."
        )
    return lambda path: by_path.get(path) or None, unknown


def _below(photos: Path, folder: Path) -> Path | None:
    """The folder as seen from the photo folder, by its name or else by where links lead; None if it lies elsewhere."""
    by_name = (Path(os.path.normpath(place.absolute())) for place in (photos, folder))
    by_links = (place.resolve() for place in (photos, folder))
    for top, place in (by_name, by_links):
        if place.is_relative_to(top):
            return place.relative_to(top)
    return None
