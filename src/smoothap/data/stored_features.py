"""Features of the images of a set in a file, which a data set hands out instead of pixels.

The file is a .npy array, mapped from the disk, with a line of JSON behind it. It is written in one move, so that there
is all of it or nothing, and a file that is damaged counts as none.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from smoothap._core.files import write_atomically
from smoothap.data._class_stream import GOLDEN, mix

_BLOCK = 1 << 24


@dataclass(frozen=True, eq=False)
class StoredFeatures:
    """Views of each image as a network's features: array (views, images, features), float16, or float32 of one view.

    View 0 is the test view. `rows` (n,) says which image of the array each image of the set is.
    """

    file: Path
    array: np.ndarray
    rows: np.ndarray
    unreadable: dict[int, str]  # image of the array -> why it has no features

    def of(self, rows: np.ndarray) -> "StoredFeatures":
        """Those of some rows of the set."""
        return replace(self, rows=self.rows[rows])

    def reason(self, row: int) -> str | None:
        """Why an image has no features; None where it has."""
        return self.unreadable.get(int(self.rows[row]))

    def take(self, rows: Sequence[int], seeds: Sequence[tuple[int, int, int] | None]) -> Tensor:
        """The features (n, features, 1, 1) float32 of rows of the set, shaped as images of one pixel.

        A seed chooses one of the views; without one it is the test view.
        """
        drawn = np.array([seed is not None for seed in seeds])
        views = chosen_views(np.array([seed or (0, 0, 0) for seed in seeds]), len(self.array))
        features = self.array[np.where(drawn, views, 0), self.rows[np.asarray(rows)]]
        return torch.from_numpy(features).float()[
            :, :, None, None
        ]  # torch's conversion is ten times as fast as numpy's


def chosen_views(seeds: np.ndarray, views: int) -> np.ndarray:
    """Which of the views each of the seeds (n, 3) takes, (n,): splitmix64 over its numbers, all rows at once."""
    mixed = np.zeros(len(seeds), np.uint64)
    for part in seeds.astype(np.uint64).T:
        mixed = mix((mixed ^ part) + GOLDEN)
    return (mixed % np.uint64(views)).astype(np.int64)


def stored_type(views: int) -> np.dtype:
    """A set of one view is a test set, whose metrics are to be those of the images, to the last digit."""
    return np.dtype(np.float32 if views == 1 else np.float16)


def write_features(
    file: Path, shape: tuple[int, int, int], blocks: Iterator[np.ndarray], unreadable: Callable[[], dict[int, str]]
) -> None:
    """Write an array of this shape, whose rows come in blocks, one after the other and view by view.

    `unreadable` is asked when all blocks have come. The bytes are written, not mapped: a full disk is then an error,
    where a map would kill the process.
    """

    def write(path: Path) -> None:
        digest, stored = hashlib.sha256(), stored_type(shape[0])
        with path.open("wb") as stream:
            header = {"descr": np.lib.format.dtype_to_descr(stored), "fortran_order": False}
            np.lib.format.write_array_header_1_0(stream, {**header, "shape": shape})
            for block in blocks:
                content = np.ascontiguousarray(block, stored).tobytes()
                digest.update(content)
                stream.write(content)
            stream.write(json.dumps({"unreadable": unreadable(), "sha256": digest.hexdigest()}).encode())

    write_atomically(file, write)


def open_features(file: Path) -> StoredFeatures | None:
    """What `write_features` wrote, mapped from the disk; None where there is no such file, or no whole one."""
    try:
        array = np.load(file, mmap_mode="r", allow_pickle=False)
        digest = hashlib.sha256()
        with file.open("rb") as stream:
            stream.seek(array.offset)
            for start in range(0, array.nbytes, _BLOCK):
                digest.update(stream.read(min(_BLOCK, array.nbytes - start)))
            manifest = json.loads(stream.read())
        unreadable = {int(image): str(reason) for image, reason in manifest["unreadable"].items()}
        if manifest["sha256"] != digest.hexdigest() or array.dtype != stored_type(len(array)):
            return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, EOFError):
        return None
    return StoredFeatures(file, array, np.arange(array.shape[1]), unreadable)
