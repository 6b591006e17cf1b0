"""The labels of an album's photos: by their folders, or from a table."""

import os
from pathlib import Path

from smoothap.album.update import Labels, labels_by_folder
from smoothap.data.tables import read_table


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
