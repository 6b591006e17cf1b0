"""A model evaluated on a set by the set's own protocol: leave-one-out or a gallery, images or instances."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from smoothap._core.devices import pins_memory
from smoothap._core.distributed import Processes
from smoothap._core.memory import freed_memory_kept
from smoothap._core.precision import float32_networks
from smoothap._core.progress import Progress
from smoothap.data.benchmark import Benchmark
from smoothap.data.dataset import ImageDataset, evaluation_batches
from smoothap.data.image_set import ImageSet
from smoothap.metrics import Report, evaluate
from smoothap.metrics.rows import queries_with_copies
from smoothap.models import Embedder

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
    pixels = views.permute(0, 2, 3, 1).contiguous().numpy()  # as they lie in memory
    contents = (hashlib.blake2b(view, digest_size=8).digest() for view in pixels)
    return np.array([int.from_bytes(content, "little", signed=True) for content in contents])


def evaluate_embedded(embedded: Embedded, images: ImageSet, recall_at: Sequence[int] | None = None) -> Report:
    """The exact report by the protocol of the set: its K, its queries and gallery, its instances."""
    vectors, rows = embedded.vectors, embedded.rows
    if images.instances is not None:
        vectors, first = instance_means(vectors, images.instances[rows])
        rows = rows[first]
    labels, digests = images.labels[rows], embedded.digests if images.instances is None else None
    recall_at = images.recall_at if recall_at is None else recall_at
    shown = Processes.here().rank == 0
    if images.is_query is None and images.is_gallery is None:
        report = evaluate(vectors, labels, recall_at=recall_at, distributed=True, progress=shown)
        return report if digests is None else replace(report, copies=queries_with_copies(digests))
    queries, gallery = (
        np.arange(len(rows)) if mask is None else np.flatnonzero(mask[rows])
        for mask in (images.is_query, images.is_gallery)
    )
    itself = queries[:, None] == gallery[None, :] if len(np.intersect1d(queries, gallery)) else None
    report = evaluate(
        vectors[queries], labels[queries], vectors[gallery], labels[gallery], recall_at,
        ignore=itself, distributed=True, progress=shown,
    )  # fmt: skip
    report = replace(report, classes=labels[queries])  # the set's own numbers: draws of queries are put together
    if digests is None:
        return report
    return replace(report, copies=queries_with_copies(digests[queries], digests[gallery], itself))


def evaluate_set(model: Embedder, images: ImageSet, *, unreadable: Path | str) -> Report:
    """Embed a set and evaluate it; `unreadable` is the file that will list images that cannot be read."""
    return evaluate_embedded(embed_set(model, ImageDataset(images, model.transform, report=unreadable)), images)


def evaluate_benchmark(
    model: Embedder,
    benchmark: Benchmark,
    *,
    unreadable: Path | str,
    recall_at: Sequence[int] | None = None,
    workers: int = 0,
) -> dict[str, Report]:
    """The report of every test protocol by name; protocols over the same images embed them once.

    A protocol in `averages` is the mean over its draws, which are not reported one by one.
    """
    embedded: dict[tuple[int, int], Embedded] = {}
    reports: dict[str, Report] = {}
    for name, images in benchmark.tests.items():
        if images.source not in embedded:
            dataset = ImageDataset(images, model.transform, report=unreadable)
            embedded[images.source] = embed_set(model, dataset, workers=workers)
        reports[name] = evaluate_embedded(embedded[images.source], images, recall_at)
    for name, draws in benchmark.averages.items():
        reports[name] = mean_report([reports.pop(draw) for draw in draws])
    return reports


def mean_report(reports: Sequence[Report]) -> Report:
    """The mean of each metric over several draws; counts are added, and the values of queries follow draw by draw."""

    def joined(values: Sequence[Any]) -> Any:
        if isinstance(values[0], dict):
            return {key: joined([value[key] for value in values]) for key in values[0]}
        if isinstance(values[0], np.ndarray):
            return np.concatenate(values)
        return sum(values) if isinstance(values[0], int) else float(np.mean(values))

    names = [field.name for field in fields(Report)]
    return Report(**{name: joined([getattr(report, name) for report in reports]) for name in names})


def instance_means(vectors: np.ndarray, instances: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mean of the vectors (n, d) of each of m instances (n,), (m, d), and the row of its first image, (m,)."""
    _, first, instance, images = np.unique(instances, return_index=True, return_inverse=True, return_counts=True)
    sums = np.zeros((len(first), vectors.shape[1]))
    np.add.at(sums, instance.reshape(-1), vectors)
    return (sums / images[:, None]).astype(np.float32), first
