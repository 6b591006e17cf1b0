"""The figures of a model on a set, by the set's own protocol: leave-one-out or a gallery, images or instances."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from smoothap.data.benchmark import Benchmark
from smoothap.data.dataset import ImageDataset, evaluation_batches
from smoothap.data.image_set import ImageSet
from smoothap.distributed import Processes
from smoothap.memory import freed_memory_kept
from smoothap.metrics import Report, evaluate
from smoothap.models import Embedder
from smoothap.progress import Progress

BATCH_SIZE = 64  # one size everywhere: another one may change the last bit of a vector


class NoFeatures(ValueError):  # noqa: N818
    """A network that gives nothing but zeros for some images, which then cannot be ranked."""


@dataclass(frozen=True, eq=False)
class Embedded:
    """The vectors (n, d) of the images that could be read, and their rows (n,) in the set."""

    vectors: np.ndarray
    rows: np.ndarray


@freed_memory_kept()
def embed_set(model: Embedder, dataset: ImageDataset, *, workers: int = 0, shown: bool = True) -> Embedded:
    """Embed the test views of a set; under torchrun each process takes its share, and all get everything."""
    processes = Processes.here()
    device = next(model.parameters()).device
    vectors = np.zeros((len(dataset), model.dimension), np.float32)
    there = np.zeros(len(dataset), np.int64)
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    parts = evaluation_batches(
        dataset,
        BATCH_SIZE,
        rank=processes.rank,
        ranks=processes.number,
        workers=workers,
        pin_memory=device.type == "cuda",
    )
    total = len(dataset) // processes.number
    try:
        with (
            torch.inference_mode(),
            Progress(f"Embedding {dataset.images.name}", total, "images", shown and processes.rank == 0) as line,
        ):
            for batch in parts:
                rows = batch.rows.numpy()
                vectors[rows] = model(batch.images.to(device, non_blocking=True)).float().cpu().numpy()
                there[rows] = 1
                line.advance(len(rows))
    finally:
        for module, mode in modes:
            module.training = mode
    processes.add_up(vectors)  # each row has one process that filled it, the others hold zeros
    processes.add_up(there)
    rows = np.flatnonzero(there)
    blank = len(rows) - int(vectors[rows].any(axis=1).sum())
    if blank:
        raise NoFeatures(
            f"{model.architecture} gives nothing but zeros for {blank:,} of {len(rows):,} images of "
            f"{model.transform.size} pixels, which cannot be ranked: give a larger --size."
        )
    return Embedded(vectors if len(rows) == len(vectors) else vectors[rows], rows)


def figures_of(embedded: Embedded, images: ImageSet, recall_at: Sequence[int] | None = None) -> Report:
    """Exact figures by the protocol of the set: its K, its queries and gallery, its instances."""
    vectors, labels = embedded.vectors, images.labels[embedded.rows]
    is_query, is_gallery = (
        None if mask is None else mask[embedded.rows] for mask in (images.is_query, images.is_gallery)
    )
    if images.instances is not None:
        _, first, instance = np.unique(images.instances[embedded.rows], return_index=True, return_inverse=True)
        vectors = group_means(vectors, instance.reshape(-1), len(first))
        labels = labels[first]
        is_query, is_gallery = (None if mask is None else mask[first] for mask in (is_query, is_gallery))
    recall_at = images.recall_at if recall_at is None else recall_at
    shown = Processes.here().rank == 0
    if is_query is None and is_gallery is None:
        return evaluate(vectors, labels, recall_at=recall_at, distributed=True, progress=shown)
    queries = np.arange(len(labels)) if is_query is None else np.flatnonzero(is_query)
    gallery = np.arange(len(labels)) if is_gallery is None else np.flatnonzero(is_gallery)
    itself = queries[:, None] == gallery[None, :] if len(np.intersect1d(queries, gallery)) else None
    return evaluate(
        vectors[queries], labels[queries], vectors[gallery], labels[gallery], recall_at,
        ignore=itself, distributed=True, progress=shown,
    )  # fmt: skip


def image_set_figures(
    model: Embedder,
    images: ImageSet,
    *,
    unreadable: Path | str,
    recall_at: Sequence[int] | None = None,
    workers: int = 0,
) -> Report:
    """Embed a set and evaluate it; `unreadable` is the file that will list images that cannot be read."""
    embedded = embed_set(model, ImageDataset(images, model.transform, report=unreadable), workers=workers)
    return figures_of(embedded, images, recall_at)


def benchmark_figures(
    model: Embedder,
    benchmark: Benchmark,
    *,
    unreadable: Path | str,
    recall_at: Sequence[int] | None = None,
    workers: int = 0,
) -> dict[str, Report]:
    """The figures of every test protocol by name; protocols over the same images embed them once.

    A protocol in `averages` is the mean over its draws, which are not reported one by one.
    """
    embedded: dict[tuple[int, int], Embedded] = {}
    reports: dict[str, Report] = {}
    for name, images in benchmark.tests.items():
        same = (id(images.read), id(images.names))
        if same not in embedded:
            dataset = ImageDataset(images, model.transform, report=unreadable)
            embedded[same] = embed_set(model, dataset, workers=workers)
        reports[name] = figures_of(embedded[same], images, recall_at)
    for name, draws in benchmark.averages.items():
        reports[name] = mean_of([reports.pop(draw) for draw in draws])
    return reports


def mean_of(reports: Sequence[Report]) -> Report:
    """The mean of each figure over several draws; the values of the queries stand one draw after the other."""
    first = reports[0]

    def mean(values: Sequence[float]) -> float:
        return float(np.mean(values))

    return Report(
        mean_average_precision=mean([each.mean_average_precision for each in reports]),
        recall={k: mean([each.recall[k] for each in reports]) for k in first.recall},
        precision={k: mean([each.precision[k] for each in reports]) for k in first.precision},
        map_at_r=mean([each.map_at_r for each in reports]),
        r_precision=mean([each.r_precision for each in reports]),
        class_mean_average_precision=mean([each.class_mean_average_precision for each in reports]),
        queries=sum(each.queries for each in reports),
        skipped=sum(each.skipped for each in reports),
        average_precision=np.concatenate([each.average_precision for each in reports]),
        first_hit_rank=np.concatenate([each.first_hit_rank for each in reports]),
    )


def group_means(vectors: np.ndarray, group: np.ndarray, groups: int) -> np.ndarray:
    """The mean of the vectors (n, d) of each group (n,): (groups, d)."""
    sums = np.zeros((groups, vectors.shape[1]))
    np.add.at(sums, group, vectors)
    return (sums / np.bincount(group, minlength=groups)[:, None]).astype(np.float32)
