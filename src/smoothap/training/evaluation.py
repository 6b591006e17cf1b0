"""A model evaluated on a set by the set's own protocol: leave-one-out or a gallery, images or instances."""

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from smoothap._core.distributed import Processes
from smoothap.data.benchmark import Benchmark
from smoothap.data.dataset import ImageDataset
from smoothap.data.image_set import ImageSet
from smoothap.data.names import open_data
from smoothap.metrics import Report, evaluate
from smoothap.metrics.rows import queries_with_copies
from smoothap.models import Embedder, open_model
from smoothap.models.embedding import Embedded, embed_set
from smoothap.training.head_init import class_means

Ranked = Callable[[np.ndarray, np.ndarray, Sequence[int]], Report]  # from vectors, labels and the K of Recall@K


def evaluate_model(
    model: str,
    data: str,
    *,
    weights: str | None = None,
    size: int | None = None,
    recall_at: Sequence[int] | None = None,
    test_fraction: float | None = None,
    test_classes: Path | None = None,
    columns: str | None = None,
    device: str | None = None,
    workers: int = 0,
    unreadable: Path | str = "unreadable-images.csv",
    rerank: Ranked | None = None,
) -> dict[str, Report]:
    """The report of a model for every test protocol of a set: `smoothap evaluate --model`.

        evaluate_model("runs/mine/model", "folder:photos")["test"].mean_average_precision

    `model` is the folder of a trained one, or a timm name, which alone takes `weights` and `size`; `unreadable` is the
    file that will list the images that cannot be read. `rerank` ranks the set in another way too, for a second report.
    """
    benchmark = open_data(data, test_fraction=test_fraction, test_classes=test_classes, columns=columns).with_tests()
    embedder = open_model(model, size=size, weights=weights).to(device)
    return evaluate_benchmark(
        embedder, benchmark, unreadable=unreadable, recall_at=recall_at, workers=workers, rerank=rerank
    )


def evaluate_embedded(embedded: Embedded, images: ImageSet, recall_at: Sequence[int] | None = None) -> Report:
    """The exact report by the protocol of the set: its K, its queries and gallery, its instances."""
    vectors, rows = embedded.vectors, embedded.rows
    if images.instances is not None:
        vectors, first = instance_means(vectors, images.instances[rows])
        rows = rows[first]
    labels, digests = images.ranked_labels(rows), embedded.digests if images.instances is None else None
    classes = images.label_sets()[0][rows]  # the set's own numbers, whatever could not be read or is no query
    recall_at = images.recall_at if recall_at is None else recall_at
    shown = Processes.here().rank == 0
    if images.is_query is None and images.is_gallery is None:
        report = evaluate(vectors, labels, recall_at=recall_at, distributed=True, progress=shown)
        report = replace(report, classes=classes)
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
    report = replace(report, classes=classes[queries])
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
    rerank: Ranked | None = None,
) -> dict[str, Report]:
    """The report of every test protocol by name; protocols over the same images embed them once.

    With `rerank`, each has a second one whose name says so. A protocol in `averages` is the mean over its draws, which
    are not reported one by one.
    """
    embedded: dict[tuple[int, int], Embedded] = {}
    reports: dict[str, Report] = {}
    for name, images in benchmark.tests.items():
        if images.source not in embedded:
            dataset = ImageDataset(images, model.transform, report=unreadable)
            embedded[images.source] = embed_set(model, dataset, workers=workers)
        reports[name] = evaluate_embedded(embedded[images.source], images, recall_at)
        if rerank is not None:
            reports[f"{name}, re-ranked"] = _reranked(embedded[images.source], images, recall_at, rerank)
    for name, draws in benchmark.averages.items():
        reports[name] = mean_report([reports.pop(draw) for draw in draws])
    return reports


def _reranked(embedded: Embedded, images: ImageSet, recall_at: Sequence[int] | None, rerank: Ranked) -> Report:
    if images.marks is not None and (images.marks.sum(1) > 1).any():
        raise ValueError(
            f"{images.name} has several labels for an image, and a list that is ranked by neighbourhood is judged by "
            "one: leave --rerank out."
        )
    if images.instances is not None or images.is_query is not None or images.is_gallery is not None:
        raise ValueError(
            f"{images.name} has queries or a gallery of its own, and only a set in which each image queries all others "
            "can be ranked by neighbourhood: leave --rerank out."
        )
    return rerank(embedded.vectors, images.labels[embedded.rows], recall_at or images.recall_at)


def mean_report(reports: Sequence[Report]) -> Report:
    """The mean of each metric over several draws; counts are added, and the values of queries follow draw by draw."""

    def joined(values: Sequence[Any]) -> Any:
        if isinstance(values[0], dict):
            return {key: joined([value[key] for value in values]) for key in values[0]}
        if isinstance(values[0], np.ndarray):
            return np.concatenate(values)
        if values[0] is None:
            return None
        return sum(values) if isinstance(values[0], int) else float(np.mean(values))

    names = [field.name for field in fields(Report)]
    return Report(**{name: joined([getattr(report, name) for report in reports]) for name in names})


def instance_means(vectors: np.ndarray, instances: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mean of the vectors (n, d) of each of m instances (n,), (m, d), and the row of its first image, (m,)."""
    return class_means(vectors, instances)[0].astype(np.float32), np.unique(instances, return_index=True)[1]
