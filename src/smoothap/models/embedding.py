"""The vectors of a whole set of images, by all processes together."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from torch import Tensor

from smoothap._core.devices import pins_memory
from smoothap._core.distributed import Processes
from smoothap._core.memory import freed_memory_kept
from smoothap._core.precision import float32_networks
from smoothap._core.progress import Progress
from smoothap.data.dataset import ImageDataset, evaluation_batches
from smoothap.data.image_set import ImageSet
from smoothap.models.embedder import Embedder

BATCH_SIZE = 64  # one size everywhere: another one may change the last bit of a vector


class NoFeatures(ValueError):  # noqa: N818
    """A network that gives nothing but zeros for some images, which then cannot be ranked."""


@dataclass(frozen=True, eq=False)
class Embedded:
    """The vectors (n, d) of the images that could be read, and their rows (n,) in the set.

    `digests` (n,) are equal for views with the same pixels, None where they are not known.
    """

    vectors: np.ndarray
    rows: np.ndarray
    digests: np.ndarray | None = None


@freed_memory_kept()
@float32_networks()
def embed_set(
    model: Embedder,
    dataset: ImageDataset,
    *,
    rows: np.ndarray | None = None,
    view: int = 0,
    features: bool = False,
    workers: int = 0,
    shown: bool = True,
) -> Embedded:
    """Embed the test views of a set, or of some `rows` in rising order; under torchrun each process takes its share.

    All processes get everything. Another `view` than 0 is a random one, for images that can be read. With `features`,
    the vectors are what the backbone gives, before the linear layer.
    """
    processes = Processes.here()
    rows = np.arange(len(dataset)) if rows is None else rows
    layer = model.embedding if features else None
    vectors = np.zeros((len(rows), model.dimension if layer is None else layer.in_features), np.float32)
    readable, digests = np.zeros((2, len(rows)), np.int64)
    batches = evaluation_batches(
        dataset,
        BATCH_SIZE,
        rows=rows,
        view=view,
        rank=processes.rank,
        ranks=processes.number,
        workers=workers,
        pin_memory=pins_memory(model.device),
    )
    total, shown = len(rows) // processes.number, shown and processes.rank == 0
    with Progress(f"Embedding {dataset.images.name}", total, "images", shown) as line:
        for part, batch in model.embed_batches(((batch.images, batch) for batch in batches), features=features):
            places = np.searchsorted(rows, batch.rows.numpy())
            vectors[places], readable[places] = part, 1
            if dataset.images.features is None:  # features do not tell whether pixels are equal
                digests[places] = _digests(batch.images)
            line.advance(len(places))
    for filled in (vectors, readable, digests):  # each row has one process that filled it, the others hold zeros
        processes.add_up(filled)
    kept = np.flatnonzero(readable)
    blank = len(kept) - int(vectors[kept].any(axis=1).sum())
    if blank and not features:
        raise NoFeatures(
            f"{model.architecture} gives nothing but zeros for {blank:,} of {len(kept):,} images of "
            f"{model.transform.size} pixels, which cannot be ranked: give a larger --size."
        )
    known = digests[kept] if dataset.images.features is None else None
    return Embedded(vectors if len(kept) == len(vectors) else vectors[kept], rows[kept], known)


def embed_sets(model: Embedder, sets: Sequence[ImageSet], *, unreadable: Path) -> tuple[np.ndarray, np.ndarray]:
    """The vectors (n, d) and labels (n,) of several sets as one; no class is in two of them."""
    vectors, labels, classes = [], [], 0
    for images in sets:
        embedded = embed_set(model, ImageDataset(images, model.transform, report=unreadable))
        vectors.append(embedded.vectors)
        labels.append(images.labels[embedded.rows] + classes)
        classes += images.classes
    return np.concatenate(vectors), np.concatenate(labels)


def _digests(views: Tensor) -> np.ndarray:
    """A number (n,) for each of the views (n, 3, size, size) that only views of the same pixels share."""
    pixels = views.permute(0, 2, 3, 1).contiguous().numpy()  # as they are in memory
    contents = (hashlib.blake2b(view, digest_size=8).digest() for view in pixels)
    return np.array([int.from_bytes(content, "little", signed=True) for content in contents])
