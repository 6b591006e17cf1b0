"""Exact retrieval metrics over the full ranking, at any size."""

import math
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from smoothap._core.devices import refuse_masked
from smoothap._core.distributed import Processes
from smoothap._core.precision import full_precision
from smoothap._core.threads import on_threads
from smoothap.metrics.cosine import given_rows
from smoothap.metrics.counting import Counter, count_negatives, ranges
from smoothap.metrics.report import Report
from smoothap.metrics.rows import Embeddings, Rows, SortedSets, device_of

Labels: TypeAlias = Tensor | np.ndarray | Sequence[int] | Sequence[str]


def evaluate(
    embeddings: Embeddings,
    labels: Labels,
    gallery: Embeddings | None = None,
    gallery_labels: Labels | None = None,
    recall_at: Sequence[int] | int = (1, 10, 100, 1000),
    *,
    ignore: Tensor | np.ndarray | None = None,
    block_size: int | None = None,
    device: torch.device | str | None = None,
    distributed: bool = False,
    progress: bool = True,
) -> Report:
    """Rank everything for every query and report how well, exactly.

    embeddings (n, d), labels (n,): without a gallery every row is a query in turn and all others are ranked (the
    paper's protocol); with gallery (m, d), gallery_labels (m,) the rows of the gallery are ranked for each.
    Scores are cosines. A tie counts against the positive, as in scikit-learn.
    ignore: a mask (items,) of items that count neither way for queries of their own class, or (queries, items) of
    pairs that count neither way.
    block_size: at most about that many queries at a time, to save memory; the answer is the same for any.
    distributed: share the work among the processes of torchrun; all of them must call, and all get the same report.

    >>> report = evaluate(torch.eye(3).repeat_interleave(2, 0), [0, 0, 1, 1, 2, 2], recall_at=(1,))
    >>> report.mean_average_precision, report.recall
    (1.0, {1: 1.0})
    """
    recall_at = _check_recall_at(recall_at)
    place = torch.device(device) if device is not None else device_of(embeddings)
    sets, classes = sorted_sets(embeddings, labels, gallery, gallery_labels, ignore=ignore, device=place)
    processes = Processes.here() if distributed else Processes()
    results = _Results(len(embeddings), recall_at)
    with torch.inference_mode(), full_precision(place.type):
        for ranked in count_negatives(sets, block_size, processes, progress):
            results.take(ranked, sets.queries.order)
    return results.report(_in_order_of_appearance(classes), sets.copies())


def report_of_ranks(
    ranks: Sequence[np.ndarray], labels: Labels, recall_at: Sequence[int] | int = (1, 10, 100, 1000)
) -> Report:
    """The report of lists that were ranked elsewhere: for each query the ranks of its positives, rising, from 1."""
    results = _Results(len(ranks), _check_recall_at(recall_at))
    for query, found in enumerate(ranks):
        if len(found):
            results.take_ranks(query, found)
    names = _as_labels(labels, len(ranks), "labels", "ranks")
    return results.report(_in_order_of_appearance(np.unique(names, return_inverse=True)[1]), 0)


def sorted_sets(
    embeddings: Embeddings,
    labels: Labels,
    gallery: Embeddings | None = None,
    gallery_labels: Labels | None = None,
    *,
    ignore: Tensor | np.ndarray | None = None,
    device: torch.device,
) -> tuple[SortedSets, np.ndarray]:
    """What `evaluate` was given, checked and sorted by class; and the class of each query as a number (n,)."""
    _check_matrix(embeddings, "embeddings")
    names = _as_labels(labels, len(embeddings), "labels", "embeddings")
    one_set = gallery is None
    if gallery is None:
        if gallery_labels is not None:
            raise ValueError("gallery_labels go with gallery, which is missing: give both or neither")
        items, item_names = embeddings, names
    else:
        _check_matrix(gallery, "gallery")
        if gallery_labels is None:
            raise ValueError("gallery_labels are missing: give one label per row of the gallery")
        items, item_names = gallery, _as_labels(gallery_labels, len(gallery), "gallery_labels", "gallery")
        if gallery.shape[1] != embeddings.shape[1]:
            raise ValueError(
                f"embeddings have {embeddings.shape[1]} dimensions and the gallery {gallery.shape[1]}: they must come "
                "from the same model"
            )
    classes, item_classes = _as_classes(names, item_names)
    order = np.argsort(classes, kind="stable")
    item_order = order if one_set else np.argsort(item_classes, kind="stable")
    left_out, ignored = _check_ignore(ignore, len(embeddings), len(items))
    groups = None if one_set else dict[bytes, int]()
    wide = given_rows(embeddings[:1]).dtype != given_rows(items[:1]).dtype
    queries = Rows.of(embeddings, order, device, "embeddings", groups, wide)
    sets = SortedSets(
        queries=queries,
        items=queries if one_set else Rows.of(items, item_order, device, "gallery", groups, wide),
        first=np.searchsorted(item_classes[item_order], classes[order]),
        last=np.searchsorted(item_classes[item_order], classes[order], side="right"),
        one_set=one_set,
        left_out=left_out[item_order],
        ignored=ignored,
    )
    return sets, classes


class _Results:
    """The metrics of each query, filled block by block from whole numbers."""

    def __init__(self, queries: int, recall_at: Sequence[int]) -> None:
        self.recall_at = recall_at
        self.average_precision = np.full(queries, np.nan)
        self.first_hit_rank = np.zeros(queries, np.int64)
        self.map_at_r = np.full(queries, np.nan)
        self.r_precision = np.full(queries, np.nan)
        self.positives_at_k = np.zeros((queries, len(recall_at)), np.int64)

    def take(self, ranked: Counter, order: np.ndarray) -> None:
        """Work out the queries of a block, a thousand at a time on each thread."""

        def take_part(part: int, parts: int) -> None:
            for start in range(ranked.start + 1024 * part, ranked.stop, 1024 * parts):
                rows = np.arange(start, min(start + 1024, ranked.stop))
                rows = rows[ranked.count[rows] > 0]
                if len(rows):
                    self._take(ranked, rows, order[rows])

        on_threads(take_part, torch.get_num_threads())

    def _take(self, ranked: Counter, rows: np.ndarray, queries: np.ndarray) -> None:
        size = ranked.count[rows]  # R, the positives of each query
        begins = np.cumsum(size) - size
        _, places = ranges(rows, ranked.offset[rows], ranked.offset[rows] + size)
        scores, negatives = ranked.exact[places], ranked.counts[places]
        # lowest score first: those at or above a positive are itself, those behind it, and the equal ones before it
        new_score = np.ones(len(scores), bool)
        new_score[1:] = scores[1:] != scores[:-1]
        new_score[begins] = True
        first_of_equals = np.maximum.accumulate(np.where(new_score, np.arange(len(scores)), 0))
        positives = np.repeat(begins + size, size) - first_of_equals
        rank = positives + negatives  # in Omega, ties against it
        precision = positives / rank
        self.average_precision[queries] = np.add.reduceat(precision, begins) / size
        self.first_hit_rank[queries] = 1 + negatives[begins + size - 1]
        within_r = rank <= np.repeat(size, size)
        self.map_at_r[queries] = np.add.reduceat(np.where(within_r, precision, 0.0), begins) / size
        self.r_precision[queries] = np.add.reduceat(within_r.astype(np.float64), begins) / size
        for column, k in enumerate(self.recall_at):
            self.positives_at_k[queries, column] = np.add.reduceat((rank <= k).astype(np.int64), begins)

    def take_ranks(self, query: int, ranks: np.ndarray) -> None:
        """Take one query whose positives have these ranks (R,), rising."""
        size = len(ranks)
        precision, within_r = np.arange(1, size + 1) / ranks, ranks <= size
        self.average_precision[query] = precision.sum() / size
        self.first_hit_rank[query] = ranks[0]
        self.map_at_r[query] = precision[within_r].sum() / size
        self.r_precision[query] = within_r.sum() / size
        self.positives_at_k[query] = [int((ranks <= k).sum()) for k in self.recall_at]

    def report(self, classes: np.ndarray, copies: int) -> Report:
        """Means over the queries that have a positive; classes (queries,), copies: queries that have one."""
        has_positive = self.first_hit_rank > 0

        def mean(values: np.ndarray) -> float:
            return _exact_mean(values[has_positive])

        sums = np.bincount(classes[has_positive], weights=self.average_precision[has_positive])
        sizes = np.bincount(classes[has_positive])
        return Report(
            mean_average_precision=mean(self.average_precision),
            recall={k: mean(self.first_hit_rank <= k) for k in self.recall_at},
            precision={k: mean(self.positives_at_k[:, column] / k) for column, k in enumerate(self.recall_at)},
            map_at_r=mean(self.map_at_r),
            r_precision=mean(self.r_precision),
            class_mean_average_precision=_exact_mean(sums[sizes > 0] / sizes[sizes > 0]),
            queries=int(has_positive.sum()),
            skipped=int((~has_positive).sum()),
            average_precision=self.average_precision,
            first_hit_rank=self.first_hit_rank,
            copies=copies,
            classes=classes,
            average_precision_at_r=self.map_at_r,
            precision_at_r=self.r_precision,
            positives_at_k=self.positives_at_k,
        )


def _in_order_of_appearance(classes: np.ndarray) -> np.ndarray:
    """Classes (n,) numbered from 0 by their first rows, whatever their labels and the gallery are."""
    _, first, inverse = np.unique(classes, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]


def _exact_mean(values: np.ndarray) -> float:
    """The mean, the same for any order of the values."""
    return math.fsum(values.tolist()) / len(values) if len(values) else math.nan


def _check_recall_at(recall_at: Sequence[int] | int) -> tuple[int, ...]:
    several = tuple(recall_at) if isinstance(recall_at, Iterable) else (recall_at,)
    try:
        numbers = tuple(int(k) for k in several)
    except (TypeError, ValueError, OverflowError):
        numbers = ()
    if numbers != several or any(k < 1 for k in numbers):
        raise ValueError(f"recall_at must be whole numbers from 1, such as (1, 10, 100), not {recall_at!r}")
    return tuple(dict.fromkeys(numbers))


def _check_matrix(matrix: Embeddings, name: str) -> None:
    refuse_masked(matrix, name)
    if not isinstance(matrix, Tensor | np.ndarray):
        raise TypeError(f"{name} must be a tensor or a numpy array, not {type(matrix).__name__}")
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise ValueError(
            f"{name} must have the shape (rows, dimension), with at least one row, not {tuple(matrix.shape)}"
        )
    is_real = not matrix.is_complex() if isinstance(matrix, Tensor) else matrix.dtype.kind in "fiub"
    if not is_real:
        raise ValueError(f"{name} must be real numbers, not {matrix.dtype}")


def _as_labels(labels: Labels, rows: int, name: str, of: str) -> np.ndarray:
    refuse_masked(labels, name)
    values = labels.detach().cpu().numpy() if isinstance(labels, Tensor) else np.asarray(labels)
    if values.shape != (rows,):
        raise ValueError(f"{name} has shape {values.shape}, but {of} has {rows} rows: give one label per row")
    if values.dtype.kind in "fUS" and not isinstance(labels, Tensor | np.ndarray):
        values = np.array(list(labels), object)  # as they were, before numpy made one kind of a mixture
    if values.dtype.kind == "O":
        return _of_one_kind(values, name)
    if values.dtype.kind not in "iubUS":
        raise ValueError(f"{name} must be whole numbers or strings, not {values.dtype}")
    return values


def _of_one_kind(labels: np.ndarray, name: str) -> np.ndarray:
    """Refuse labels (n,) of several kinds, and what is no label, such as None or NaN."""
    kinds = (str, bytes, (int, np.integer))
    kind = next((kind for kind in kinds if isinstance(labels[0], kind)), kinds)
    for row, label in enumerate(labels):
        if not isinstance(label, kind):
            raise ValueError(
                f"{name} has {label!r} in row {row}: labels must be whole numbers or strings, one kind for all rows; "
                "drop the rows that have no class"
            )
    return labels.astype(str) if kind is str else labels.astype(bytes) if kind is bytes else labels


def _as_classes(names: np.ndarray, item_names: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both lists of labels as numbers of classes, in which classes with as many items are neighbours."""
    text, item_text = (values.dtype.kind if values.dtype.kind in "US" else "" for values in (names, item_names))
    if text != item_text:
        raise ValueError(f"labels are {names.dtype} and gallery_labels {item_names.dtype}: use one kind for both")
    if np.result_type(names, item_names).kind == "f":  # int64 beside uint64: float64 would merge what is above 2^53
        names, item_names = names.astype(object), item_names.astype(object)
    both = names if names is item_names else np.concatenate([names, item_names])
    classes = np.unique(both, return_inverse=True)[1]
    item_classes = classes[-len(item_names) :]
    sizes = np.bincount(item_classes, minlength=classes.max() + 1)
    number = np.empty(len(sizes), np.int64)
    number[np.argsort(sizes, kind="stable")] = np.arange(len(sizes))
    return number[classes[: len(names)]], number[item_classes]


def _check_ignore(ignore: Tensor | np.ndarray | None, queries: int, items: int) -> tuple[np.ndarray, np.ndarray | None]:
    if ignore is None:
        return np.zeros(items, bool), None
    refuse_masked(ignore, "ignore")
    mask = ignore.detach().cpu().numpy() if isinstance(ignore, Tensor) else np.asarray(ignore)
    if mask.dtype != bool or mask.shape not in ((items,), (queries, items)):
        raise ValueError(
            f"ignore must be a mask of True and False with shape ({items},) or ({queries}, {items}), "
            f"not {mask.dtype} {mask.shape}"
        )
    return (mask, None) if mask.ndim == 1 else (np.zeros(items, bool), mask)
