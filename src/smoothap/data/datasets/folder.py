"""The user's own images in folders: a folder is a class, named by its path below the root."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from smoothap.data.benchmark import Benchmark
from smoothap.data.datasets.listing import image_files, set_of_files
from smoothap.data.image_set import ImageSet
from smoothap.data.splits import chosen_split
from smoothap.data.tables import is_equal, label_by, replaced


def folder(
    root: Path, *, test_fraction: float = 0.5, test_classes: Path | None = None, seed: int = 0, name: str = "folder"
) -> Benchmark:
    """Train on some of the classes and test on the others: those that `test_classes` lists, or a fraction by a seed.

    With a fraction of 0 all classes are for training. Where the root has the folders `train` and `test`, these are the
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
