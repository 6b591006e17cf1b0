"""Photos that a table lists: their paths, labels, and whatever else its columns say."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from smoothap.data.tables import read_table

TABLES = (".csv", ".parquet")


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
