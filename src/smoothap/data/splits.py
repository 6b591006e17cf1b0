"""Splits by class: no class is on both sides, and the same seed gives the same split on every machine."""

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np

from smoothap.data.image_set import ImageSet
from smoothap.data.tables import read_lines


def held_out_classes(class_names: "np.ndarray | list[str]", fraction: float, seed: int) -> np.ndarray:
    """Which classes are held out, as a mask (classes,): the share `fraction` with the lowest hash of seed and name.

    The order of the classes and of the files plays no part, so a class that is added moves few of the others.
    """
    if not 0 < fraction < 1:
        raise ValueError(f"The fraction of classes to hold out is between 0 and 1, not {fraction}.")
    count = round(fraction * len(class_names))
    if not 0 < count < len(class_names):
        raise ValueError(
            f"{fraction:g} of {len(class_names)} classes leaves one side of the split empty: "
            "use more classes or another fraction."
        )
    held_out = np.zeros(len(class_names), dtype=bool)
    held_out[_by_hash(class_names, seed)[:count]] = True
    return held_out


def class_folds(class_names: "np.ndarray | list[str]", folds: int, seed: int) -> np.ndarray:
    """The fold (classes,) of each class, 0 ... folds - 1, all of about the same size, by the hash of their names."""
    if not 2 <= folds <= len(class_names) // 2:
        raise ValueError(
            f"{len(class_names)} classes can be held out in 2 to {len(class_names) // 2} folds of two classes or more, "
            f"not in {folds}."
        )
    fold = np.empty(len(class_names), np.int64)
    fold[_by_hash(class_names, seed)] = np.arange(len(class_names)) % folds
    return fold


def _by_hash(class_names: "np.ndarray | list[str]", seed: int) -> list[int]:
    digests = [hashlib.sha256(f"{seed} {name}".encode()).digest() for name in class_names]
    return sorted(range(len(digests)), key=digests.__getitem__)


def split_at_classes(
    images: ImageSet, held_out: np.ndarray, parts: tuple[str, str] = ("train", "test")
) -> tuple[ImageSet, ImageSet]:
    """The images of the other classes and those of the held-out classes; held_out (classes,) bool.

    An image that has labels of both kinds is on neither side.
    """
    if images.marks is None:
        on_the_right = held_out[images.labels]
        on_the_left = ~on_the_right
    else:
        on_the_right, on_the_left = (~images.marks[:, other].any(1) for other in (~held_out, held_out))
    for side, classes in ((on_the_left, "the other classes"), (on_the_right, "the classes that are held out")):
        if not side.any():
            raise ValueError(f"No image of {images.name} has labels of {classes} alone: hold out others, or fewer.")
    return (
        images.rows(np.flatnonzero(on_the_left), f"{images.name} {parts[0]}"),
        images.rows(np.flatnonzero(on_the_right), f"{images.name} {parts[1]}"),
    )


def split_by_class(
    images: ImageSet, fraction: float, seed: int = 0, parts: tuple[str, str] = ("train", "test")
) -> tuple[ImageSet, ImageSet]:
    """Two sets with disjoint classes, the second with `fraction` of them."""
    return split_at_classes(images, held_out_classes(images.class_names, fraction, seed), parts)


def chosen_split(
    images: ImageSet, test_fraction: float, test_classes: Path | None, seed: int
) -> tuple[ImageSet, dict[str, ImageSet]]:
    """What to train on and what to test on, as users choose it for their own images; a fraction of 0 tests nothing."""
    if test_classes is None and test_fraction == 0:
        return replace(images, name=f"{images.name} train"), {}
    train, test = split_by_list(images, test_classes) if test_classes else split_by_class(images, test_fraction, seed)
    return train, {"test": test}


def split_by_list(images: ImageSet, test_classes: Path) -> tuple[ImageSet, ImageSet]:
    """Two sets with disjoint classes, the second with those that a text file names, one a line."""
    if not test_classes.is_file():
        raise FileNotFoundError(
            f"There is no file {test_classes}: give a text file that names the classes to test on, one a line."
        )
    wanted = set(read_lines(test_classes).to_pylist())
    unknown = sorted(wanted - set(images.class_names))
    if unknown:
        raise ValueError(
            f"{test_classes} names {len(unknown)} classes that {images.name} does not have, such as {unknown[0]!r}; "
            f"its classes are called like {str(images.class_names[0])!r}."
        )
    held_out = np.array([name in wanted for name in images.class_names])
    if held_out.all() or not held_out.any():
        raise ValueError(f"{test_classes} names {held_out.sum()} of {len(held_out)} classes: one side would be empty.")
    return split_at_classes(images, held_out)
