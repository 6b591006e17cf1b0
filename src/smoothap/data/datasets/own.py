"""The user's own images: in folders, or in a table."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from smoothap.data.benchmark import Benchmark
from smoothap.data.datasets.listing import image_files, missing_files, set_of_files
from smoothap.data.image_set import ImageSet
from smoothap.data.splits import chosen_split
from smoothap.data.tables import is_equal, label_by, read_table, replaced

_TRUE, _FALSE = {"1", "true", "yes"}, {"0", "false", "no", ""}


def folder(
    root: Path, *, test_fraction: float = 0.5, test_classes: Path | None = None, seed: int = 0, name: str = "folder"
) -> Benchmark:
    """The images in folders: a folder is a class, named by its path below the root.

    Train on some of the classes and test on the others: those that `test_classes` lists, or a fraction by a seed. With
    a fraction of 0 all classes are for training. Where the root has the folders `train` and `test`, these are the
    split, and a class may be in one of them only.
    """
    files = image_files(root)
    if not len(files):
        raise ValueError(f"There are no images in {root}: expected a folder of images for each class.")
    if {"train", "test"} <= set(replaced(files, "/.*$").unique().to_pylist()) and test_classes is None:
        train, test = (labelled_by_folder(root / part, f"{name} {part}") for part in ("train", "test"))
        shared = sorted(set(train.class_names) & set(test.class_names))
        if shared:
            raise ValueError(
                f"{len(shared)} classes of {root} are in train and in test, such as {shared[0]!r}; retrieval is tested "
                "on classes that were not trained on: put each class on one side, or merge the two folders and let a "
                "fraction of the classes be held out."
            )
        tests, chosen = {"test": test}, False
    else:
        images = labelled_by_folder(root, name, files)
        (train, tests), chosen = chosen_split(images, test_fraction, test_classes, seed), True
    lonely = sum(int((np.bincount(test.labels) == 1).sum()) for test in tests.values())
    warning = f"{lonely:,} test classes have one image only: as queries they have nothing to find."
    return Benchmark(name, train, tests, warnings=(warning,) if lonely else (), tests_are_chosen=chosen)


def labelled_by_folder(root: Path, name: str, files: pa.Array | None = None) -> ImageSet:
    """The images under `root`, labelled by the folder they are in; where folders nest, the outermost is the group."""
    files = image_files(root) if files is None else files
    folders = replaced(files, "/?[^/]*$")
    if (loose := is_equal(folders, "")).any():
        raise ValueError(
            f"{loose.sum():,} images are directly in {root}, such as {files[int(loose.argmax())]}, and have no class: "
            "move them into folders."
        )
    images = set_of_files(name, root, files, folders, (1, 2, 4, 8))
    groups, group_names = label_by(replaced(pa.array(images.class_names, pa.string()), "/.*$"))
    if not 1 < len(group_names) < images.classes:
        return images
    return replace(images, groups=groups[images.labels], group_names=group_names)


def table(
    path: Path,
    *,
    test_fraction: float = 0.5,
    test_classes: Path | None = None,
    seed: int = 0,
    name: str = "table",
    columns: str | None = None,
) -> Benchmark:
    """A table, CSV or Parquet, with the columns path, label [, group] [, is_query, is_gallery].

    Instead of label, a column labels may hold several with semicolons between them, such as "beach;dog": images that
    share one belong together. In a split by classes, an image with labels of both sides is left out.
    The split is chosen as for `folder`. Paths are relative to the table's folder, or absolute. With is_query and
    is_gallery the table says itself what to test: rows that are neither are for training, and a class may be on one
    side only. `columns` says what these are called here, such as "path=image_path,label=product_id".
    """
    read = read_table(path, ("path",), columns)
    if "labels" in read and "label" not in read:
        several = [[word.strip() for word in each.split(";") if word.strip()] for each in read["labels"].to_pylist()]
        read["label"] = pa.array([words[0] if words else "" for words in several])
        images = _with_all_labels(_image_set(path, read, name), several)
    else:
        images = _image_set(path, read if "label" in read else read_table(path, ("path", "label"), columns), name)
    protocol = [column for column in ("is_query", "is_gallery") if column in read]
    if len(protocol) == 1:
        raise ValueError(f"{path} has one of the columns is_query and is_gallery: give both or neither.")
    if protocol:
        return _given_protocol(images, *(_truths(path, column, read[column]) for column in protocol))
    train, tests = chosen_split(images, test_fraction, test_classes, seed)
    left_out = len(images) - sum(map(len, (train, *tests.values())))
    warnings = (
        f"Left out: {left_out:,} images that have labels to train on and labels to test on. --test-classes FILE "
        "chooses the labels to test on.",
    )
    return Benchmark(name, train, tests, warnings if left_out else (), tests_are_chosen=True)


def _image_set(path: Path, columns: dict[str, pa.Array], name: str) -> ImageSet:
    for column in ("path", "label"):
        empty = np.flatnonzero(is_equal(columns[column], ""))
        if len(empty):
            raise ValueError(f"{path}: {len(empty)} rows have no {column}, the first is row {empty[0] + 1}.")
    paths = columns["path"]
    if not len(paths):
        raise ValueError(f"{path} has no rows.")
    # Unlike Path.is_file, isfile takes a name that is too long for one that is not there.
    missing = [file for file in paths.to_pylist() if not os.path.isfile(path.parent / file)]  # noqa: PTH113
    if missing:
        raise missing_files(str(path), missing, len(paths), f"Paths are relative to {path.parent.resolve()}.")
    return set_of_files(name, path.parent, paths, columns["label"], (1, 2, 4, 8), groups=columns.get("group"))


def _with_all_labels(images: ImageSet, labels: list[list[str]]) -> ImageSet:
    """The images with all labels of each, the first of which they have already."""
    names = sorted({word for words in labels for word in words})
    numbers = {word: number for number, word in enumerate(names)}
    marks = np.zeros((len(labels), len(names)), np.uint8)
    for row, words in enumerate(labels):
        marks[row, [numbers[word] for word in words]] = 1
    first = np.array([numbers[str(images.class_names[label])] for label in images.labels])
    return replace(images, labels=first, class_names=np.array(names), marks=marks)


def _truths(path: Path, name: str, column: pa.Array) -> np.ndarray:
    words = [word.lower() for word in column.to_pylist()]
    strange = sorted(set(words) - _TRUE - _FALSE)
    if strange:
        raise ValueError(f"{path}: {name} holds {strange[0]!r}; write true or false, yes or no, 1 or 0.")
    return np.array([word in _TRUE for word in words])


def _given_protocol(images: ImageSet, is_query: np.ndarray, is_gallery: np.ndarray) -> Benchmark:
    tested = is_query | is_gallery
    if not is_query.any() or not is_gallery.any():
        raise ValueError(f"{images.name}: is_query and is_gallery each need at least one row that is true.")
    shared = np.intersect1d(images.labels[tested], images.labels[~tested])
    if len(shared):
        raise ValueError(
            f"{images.name}: {len(shared)} classes have rows to train on (neither query nor gallery) and rows to test "
            f"on, such as {images.class_names[shared[0]]!r}; retrieval is tested on classes that were not trained on."
        )
    marked = replace(images, is_query=is_query, is_gallery=is_gallery)
    test = marked.rows(np.flatnonzero(tested), f"{images.name} test")
    train = images.rows(np.flatnonzero(~tested), f"{images.name} train") if not tested.all() else None
    return Benchmark(images.name, train, {"test": test})
