"""What every set of images looks like to the rest of the project: rows with a label, and a way to read each."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import numpy as np
from PIL import Image

from smoothap.data.stored_features import StoredFeatures


class Reader(Protocol):
    """Opens the image of a row as RGB or raises `UnreadableImage`; `shorter_side` is the hint of `read_image`."""

    def __call__(self, row: int, shorter_side: int | None = None, /) -> Image.Image: ...


@dataclass(frozen=True, eq=False)
class ImageSet:
    """One split of a data set: n labelled images that are read on demand.

    `read(i)` opens image i; `names[i]` says in words which image that is (its path relative to the set, or such as
    "Goog/1f600"). Labels are 0 ... classes - 1.
    """

    name: str  # such as "sop test"
    names: "np.ndarray | list[str]"  # (n,)
    labels: np.ndarray  # (n,) int64; the first one where an image has several
    class_names: "np.ndarray | list[str]"  # (classes,)
    read: Reader = field(repr=False)
    recall_at: tuple[int, ...] = (1, 10, 100, 1000)  # the K of Recall@K that the set's protocol reports
    marks: np.ndarray | None = None  # (n, classes) uint8: all labels of each image, where it may have several
    groups: np.ndarray | None = None  # (n,) int64: super-category of each image, for hard-negative batches
    group_names: "np.ndarray | list[str] | None" = None
    is_query: np.ndarray | None = None  # (n,) bool; None: leave-one-out, every image is a query in turn
    is_gallery: np.ndarray | None = None  # (n,) bool
    instances: np.ndarray | None = None  # (n,) int64: rows of one instance (a video) are averaged into one vector
    file: Callable[[int], Path] | None = field(default=None, repr=False)  # where the image of a row is, if in a file
    features: StoredFeatures | None = field(default=None, repr=False)  # for trainings behind a frozen backbone
    is_decoded: bool = False  # whether `read` takes the image from memory, or nearly so

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def classes(self) -> int:
        return len(self.class_names)

    @property
    def source(self) -> tuple[int, int]:
        """Equal for sets over the same images, which need to be decoded and embedded only once."""
        return id(self.read), id(self.names)

    def digest(self) -> str:
        """What tells this set from others: a digest of its names and labels, and of where its features are stored."""
        digest = hashlib.sha256(self.ranked_labels(np.arange(len(self))).tobytes())
        for names in (self.names, self.class_names):
            digest.update("\0".join(map(str, names)).encode(errors="backslashreplace"))
        if self.features is not None:
            digest.update(self.features.file.name.encode())
        return digest.hexdigest()

    def ranked_labels(self, rows: np.ndarray) -> np.ndarray:
        """What losses and metrics compare images by: their labels (k,), or all of them (k, classes)."""
        one_each = self.marks is None or self.marks.shape[1] == 1
        return self.labels[rows] if one_each else self.marks[rows]

    def label_sets(self) -> tuple[np.ndarray, "np.ndarray | list[str]"]:
        """The class of each image (n,) and the names of these; of several labels, those with the same are a class."""
        if self.marks is None or self.marks.shape[1] == 1:
            return self.labels, self.class_names
        sets, number = np.unique(self.marks, axis=0, return_inverse=True)
        names = np.asarray(self.class_names)
        return number.reshape(-1), [";".join(names[each > 0]) for each in sets]

    def rows(self, rows: np.ndarray, name: str | None = None) -> "ImageSet":
        """The set with these rows only, labels counted again from 0 in the order of the old ones."""
        marks = None if self.marks is None else self.marks[rows]
        kept = np.unique(self.labels[rows]) if marks is None else np.flatnonzero(marks.any(0))
        labels = np.searchsorted(kept, self.labels[rows])
        columns = {
            column: getattr(self, column) for column in ("names", "groups", "is_query", "is_gallery", "instances")
        }
        read, file = self.read, self.file
        return replace(
            self,
            name=name or self.name,
            labels=labels.astype(np.int64),
            class_names=np.asarray(self.class_names)[kept],
            marks=None if marks is None else marks[:, kept],
            read=lambda row, shorter_side=None: read(int(rows[row]), shorter_side),
            file=None if file is None else lambda row: file(int(rows[row])),
            features=None if self.features is None else self.features.of(rows),
            **{column: np.asarray(values)[rows] for column, values in columns.items() if values is not None},
        )
