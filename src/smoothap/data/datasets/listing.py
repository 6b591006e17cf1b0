"""Sets whose images a list or a table names: the files of the list on disk, and the set that they make."""

import os
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
from PIL import Image

from smoothap.data.datasets.counts import refuse_partial
from smoothap.data.image_set import ImageSet
from smoothap.data.reading import SUFFIXES, read_image
from smoothap.data.tables import label_by, positions


def find_file(root: Path, *candidates: str) -> Path:
    """The first of these paths below `root` that is a file."""
    for candidate in candidates:
        if (root / candidate).is_file():
            return root / candidate
    paths = " or ".join(candidates)
    raise FileNotFoundError(f"There is no {paths} in {root}: give the folder into which the set was unpacked.")


def find_folder(root: Path, name: str) -> Path:
    """The folder of that name in `root` where there is one, else `root` itself."""
    return root / name if (root / name).is_dir() else root


def image_files(root: Path) -> pa.Array:
    """The images under `root` as sorted paths relative to it, with forward slashes.

    Links are followed, and no folder is entered twice.
    """
    if not root.is_dir():
        raise FileNotFoundError(f"There is no folder {root}: give the folder that holds the images.")
    files: list[str] = []
    entered: set[tuple[int, int]] = set()
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        status = (root / folder).stat()
        if (status.st_dev, status.st_ino) in entered:
            continue
        entered.add((status.st_dev, status.st_ino))
        with os.scandir(root / folder) as entries:
            for entry in entries:
                is_image = entry.name.lower().endswith(SUFFIXES)
                if entry.name.startswith(".") or entry.name == "__MACOSX" or not (is_image or entry.is_dir()):
                    continue
                path = f"{folder}/{entry.name}" if folder else entry.name
                if path.encode(errors="ignore").decode() != path:  # Arrow refuses it
                    name = os.fsencode(path)
                    warnings.warn(f"{root}: {name!r} is left out, for its name is not UTF-8: rename it.", stacklevel=2)
                else:
                    (waiting if entry.is_dir() else files).append(path)
    return pa.array(sorted(files), pa.string())


def find_listed(folder: Path, listed: pa.Array, listing: Path | str) -> pa.Array:
    """The file below `folder` for each listed path, whatever the case of its letters; an error where some are missing.

    `listing` is where the paths come from, for the error. Where partial copies are taken, a missing file is null.
    """
    if not len(listed):
        raise ValueError(f"{listing} lists no images: fetch it again.")
    files = image_files(folder)
    rows = positions(listed, files)
    if rows.null_count:
        rows = positions(listed, files, any_case=True)
    if rows.null_count:
        missing = listed.filter(rows.is_null()).to_pylist()
        refusal = missing_files(str(listing), missing, len(listed), f"Unpack the images into {folder}.")
        if len(missing) == len(listed):
            raise refusal
        refuse_partial(refusal)
    return files.take(rows)


def missing_files(where: str, missing: list[str], listed: int, remedy: str) -> ValueError:
    """The error for files that a list names and the disk, or another table, does not have."""
    return ValueError(
        f"{where}: {len(missing):,} of {listed:,} listed files are missing, such as {missing[0][:200]}. {remedy}"
    )


def set_of_files(
    name: str,
    folder: Path,
    files: pa.Array,
    classes: pa.Array,
    recall_at: tuple[int, ...],
    *,
    groups: pa.Array | None = None,
    faces: tuple[Callable[[Path, np.ndarray], Image.Image], np.ndarray] | None = None,
) -> ImageSet:
    """The images at these paths below `folder`, with the class and the group of each in words.

    `faces` is what crops a file to its face, and the place (n, 4) or (n, 10) of each; it counts the pixels of the whole
    image, so that no hint makes that smaller. The reader keeps the paths packed, so that worker processes share them.
    """
    if files.null_count:  # a partial copy, which `find_listed` took
        there = files.is_valid()
        files, classes = files.filter(there), classes.filter(there)
        groups = None if groups is None else groups.filter(there)
        faces = None if faces is None else (faces[0], faces[1][there.to_numpy(zero_copy_only=False)])
    labels, class_names = label_by(classes)
    group_labels, group_names = (None, None) if groups is None else label_by(groups)

    def file(row: int) -> Path:
        return folder / files[row].as_py()

    def read(row: int, shorter_side: int | None = None) -> Image.Image:
        if faces is None:
            return read_image(file(row), shorter_side=shorter_side)
        return faces[0](file(row), faces[1][row])

    return ImageSet(
        name=name,
        names=files.to_numpy(zero_copy_only=False),
        labels=labels,
        class_names=class_names,
        read=read,
        recall_at=recall_at,
        groups=group_labels,
        group_names=group_names,
        file=file,
    )
