"""Training of the embedding layer alone: the backbone is frozen, and its features are computed once for all trainings.

The sets of a benchmark hand out features instead of pixels, and an `Embedder` without its backbone takes them. To
the training loop both look like any other set and model.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from smoothap._core.distributed import Processes
from smoothap._core.files import cache_folder
from smoothap._core.progress import Progress
from smoothap.data.benchmark import Benchmark
from smoothap.data.dataset import ImageDataset
from smoothap.data.decoded import decoded_once
from smoothap.data.image_set import ImageSet
from smoothap.data.stored_features import StoredFeatures, open_features, stored_type, write_features
from smoothap.models import Embedder
from smoothap.models.embedding import BATCH_SIZE, embed_set
from smoothap.training.config import FEATURE_VIEWS

_FORMAT = 1  # of the files; another one computes them again
_BLOCK = 8 * BATCH_SIZE  # images of a process between two writes


@dataclass(frozen=True, eq=False)
class Frozen:
    """A benchmark as a frozen backbone sees it, for any number of trainings of what comes behind the backbone.

    `benchmark` is the one that was given, with the same names, classes and protocols; its sets, and the parts that
    `train_and_validation` makes of them, hand out features of the backbone. `files` hold them.
    """

    benchmark: Benchmark
    backbone: Embedder
    files: tuple[Path, ...]

    def head(self, dimension: int | None, *, hidden: int = 0, seed: int = 0, saves_backbone: bool = True) -> Embedder:
        """A new embedding layer, drawn by the seed, as an `Embedder` that takes the features of `benchmark`.

        Without a `dimension` it gives the features themselves: the network before training. With `hidden`, a network
        with that many hidden dimensions is added to the linear layer. `save` writes an ordinary model, backbone and
        layer, which opens and embeds images like any other; without `saves_backbone` it writes the layer alone, 2 MB
        instead of 16, for the many models that nobody opens again.
        """
        head = self.backbone.on_features(saves_backbone=saves_backbone)
        torch.manual_seed(seed)
        head.renew_embedding(dimension, hidden)
        return head

    def __str__(self) -> str:
        """Where the features are, in a sentence."""
        size = sum(file.stat().st_size for file in self.files)
        return f"The features take {size / 1e6:,.0f} MB in {self.files[0].parent}, where the next training finds them."


def freeze(benchmark: Benchmark, backbone: Embedder, *, views: int = FEATURE_VIEWS, workers: int = 0) -> Frozen:
    """Compute the features that a backbone gives for the sets of a benchmark, or find them in the user's cache.

        frozen = freeze(open_data("emoji"), open_model("tf_efficientnet_lite0", size=64))
        images, validation = frozen.benchmark.train_and_validation(seed)
        model = frozen.head(512, seed=seed)
        train_and_test(model, loss, images, validation, FROZEN, folder, tests=[frozen.benchmark])

    Of each training image `views` random views are kept besides the test view, and a training draws one of them all
    wherever it would draw a random view. An embedding layer that `backbone` has plays no part. The features are
    computed on the device that the backbone is on, by all processes of torchrun together. Processes that start at the
    same time without finding any compute them each for itself, so call it once before you start several.
    """
    if views < 0:
        raise ValueError(f"views is the number of random views of each training image, at least 0, not {views}")
    files: list[Path] = []

    def frozen(images: ImageSet) -> ImageSet:
        features = _features(images, backbone, views if images is benchmark.train else 0, workers)
        files.append(features.file)
        return replace(images, features=features)

    return Frozen(benchmark.with_images(frozen), backbone, tuple(files))


def _features(images: ImageSet, backbone: Embedder, views: int, workers: int) -> StoredFeatures:
    """The features of a set, from the file that an earlier run left, or computed and left there."""
    folder, processes = cache_folder() / "features", Processes.here()
    dataset = ImageDataset(images, backbone.transform, report=folder / f"unreadable-{images.name}.csv")
    file = folder / f"{_identity(dataset, backbone, views)}.npy"
    features = open_features(file)
    if processes.any(features is None):
        _compute(file, dataset, backbone, views, workers)
        processes.wait()  # one process of a machine writes the file
        features = open_features(file)
    if features is None:
        raise OSError(f"{file} cannot be read though it was just written: look at the disk, or choose another folder.")
    return features


def _compute(file: Path, dataset: ImageDataset, backbone: Embedder, views: int, workers: int) -> None:
    images, processes = dataset.images, Processes.here()
    shape = 1 + views, len(images), backbone.feature_dimension
    stored = stored_type(shape[0])
    _check_room(file.parent, stored.itemsize * shape[0] * shape[1] * shape[2])
    held = decoded_once(images, backbone.transform)  # each image is needed several times
    dataset = ImageDataset(held, backbone.transform, report=dataset.bad.report)
    readable = np.zeros(len(images), bool)

    def blocks() -> Iterator[np.ndarray]:
        shown = processes.rank == 0
        with Progress(f"Features of {images.name}", shape[0] * len(images), "views", shown) as line:
            for view in range(shape[0]):
                for start in range(0, len(images), _BLOCK * processes.number):
                    rows = np.arange(start, min(start + _BLOCK * processes.number, len(images)))
                    wanted = rows[readable[rows]] if view else rows
                    embedded = embed_set(
                        backbone, dataset, rows=wanted, view=view, features=True, workers=workers, shown=False
                    )
                    if view and len(embedded.rows) < len(wanted):
                        raise ValueError(f"images of {images.name} were taken away while they were read: begin again")
                    readable[embedded.rows] = True
                    block = np.zeros((len(rows), shape[2]), stored)
                    with np.errstate(over="ignore"):
                        block[embedded.rows - start] = embedded.vectors
                    if not np.isfinite(block).all():
                        raise ValueError(
                            f"{backbone.architecture} gives features that are not numbers, or larger than 65,504, for "
                            f"images of {images.name}: it cannot be trained with a frozen backbone"
                        )
                    yield block
                    line.advance(len(rows))

    def unreadable() -> dict[int, str]:
        reasons = dataset.bad.reasons
        return {int(row): reasons.get(str(images.names[row]), "unreadable") for row in np.flatnonzero(~readable)}

    if int(os.environ.get("LOCAL_RANK", processes.rank)) == 0 or processes.number == 1:
        write_features(file, shape, blocks(), unreadable)
    else:
        for _ in blocks():  # its share of the work
            pass


def _check_room(folder: Path, needed: int) -> None:
    """Refuse before the work what the disk has no room for."""
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ValueError(
            f"The features are kept in {folder}, where nothing can be written: let XDG_CACHE_HOME name another folder"
        )
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise ValueError(
            f"The features take {needed / 1e6:,.0f} MB, and {folder} has {free / 1e6:,.0f} MB left: make room, take "
            "fewer --feature-views, or let XDG_CACHE_HOME name a folder on another disk"
        )


def _identity(dataset: ImageDataset, backbone: Embedder, views: int) -> str:
    """A digest of all that the features depend on: the images, their views and the weights of the backbone."""
    weights = hashlib.sha256()
    for name, value in backbone.backbone.state_dict().items():
        weights.update(f"{name} {value.dtype} {tuple(value.shape)} ".encode())
        weights.update(value.cpu().reshape(-1).contiguous().view(torch.uint8).numpy())
    config = {
        "format": _FORMAT,
        "architecture": backbone.architecture,
        "weights": weights.hexdigest(),
        "transform": backbone.transform.to_dict(),
        "views": views,
        "images": dataset.identity(),
        "files": _stamps(dataset.images),
    }
    return hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()[:32]


def _stamps(images: ImageSet) -> str:
    """A digest of the size and time of every file: an image that was changed has other features."""
    digest = hashlib.sha256()
    if (file := images.file) is not None:
        for row in range(len(images)):
            with suppress(OSError):  # of a file that is not there, reading says more
                status = file(row).stat()
                digest.update(f"{row} {status.st_size} {status.st_mtime_ns} ".encode())
    return digest.hexdigest()
