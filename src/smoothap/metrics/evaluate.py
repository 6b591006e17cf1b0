"""Exact retrieval metrics over the full ranking, at any size."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from smoothap._core.devices import refuse_layout, refuse_masked
from smoothap._core.distributed import Processes
from smoothap._core.precision import full_precision
from smoothap._core.threads import on_threads
from smoothap.metrics.cosine import given_rows
from smoothap.metrics.counting import Counter, count_negatives, ranges
from smoothap.metrics.labels import (
    ByClass,
    Labels,
    as_classes,
    as_labels,
    as_matrix,
    by_several,
    checked_ignore,
    checked_table,
    have_several,
)
from smoothap.metrics.report import Report
from smoothap.metrics.rows import Embeddings, Rows, SortedSets, copies_among, device_of
from smoothap.metrics.sorting import RankedBlock, RankedSets, rank_rows, sorting_pays

_POSITIVES_AT_ONCE = 1 << 15  # whose arrays stay in the cache


def evaluate(
    embeddings: Embeddings,
    labels: Labels,
    gallery: Embeddings | None = None,
    gallery_labels: Labels | None = None,
    recall_at: Sequence[int] | int = (1, 10, 100, 1000),
    *,
    relevance: Tensor | np.ndarray | Sequence[Sequence[float]] | None = None,
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
    labels (n, c) of 0 and 1, or a list of names for each row: an image may have several, and its positives are those
    that share one with it.
    relevance (classes, classes): what an item of each class is worth to a query of each class, such as 0.5 for
    siblings; labels are then rows of that table, and the report has the nDCG of the whole ranking too.
    ignore: a mask (items,) of items that count neither way for queries of their own class, or (queries, items) of
    pairs that count neither way.
    block_size: at most about that many queries at a time, to save memory; the answer is the same for any.
    distributed: share the work among the processes of torchrun; all of them must call, and all get the same report.

    >>> report = evaluate(torch.eye(3).repeat_interleave(2, 0), [0, 0, 1, 1, 2, 2], recall_at=(1,))
    >>> report.mean_average_precision, report.recall
    (1.0, {1: 1.0})
    """
    recall_at = _check_recall_at(recall_at)
    if block_size is not None and (not isinstance(block_size, int | np.integer) or block_size < 1):
        raise ValueError(f"block_size must be a whole number from 1, or None, not {block_size!r}")
    place = torch.device(device) if device is not None else device_of(embeddings)
    processes = Processes.here() if distributed else Processes()
    results = _Results(len(embeddings), recall_at, graded=relevance is not None)
    labels, gallery_labels = as_matrix(labels), None if gallery_labels is None else as_matrix(gallery_labels)
    if have_several(labels):
        if relevance is not None:
            raise ValueError(
                "relevance is a table of classes, and these labels are several for an image: give one of them"
            )
        sets, classes = _sets_of_several(embeddings, labels, gallery, gallery_labels, ignore, place)
    else:
        sets, classes = sorted_sets(embeddings, labels, gallery, gallery_labels, ignore=ignore, device=place)
        if relevance is not None or sorting_pays(sets):
            sets = _ranked_sets(sets, labels, gallery_labels, relevance)
    with torch.inference_mode(), full_precision(place.type):
        cutting = block_size, processes, progress
        blocks = rank_rows(sets, *cutting) if isinstance(sets, RankedSets) else count_negatives(sets, *cutting)
        for ranked in blocks:
            results.take(ranked, sets.queries.order)
    copies = copies_among(sets.queries, sets.items, sets.one_set, sets.ignored)
    return results.report(_in_order_of_appearance(classes), copies)


def report_of_ranks(
    ranks: Sequence[np.ndarray], labels: Labels, recall_at: Sequence[int] | int = (1, 10, 100, 1000)
) -> Report:
    """The report of lists that were ranked elsewhere: for each query the ranks of its positives, rising, from 1."""
    results = _Results(len(ranks), _check_recall_at(recall_at))
    for query, found in enumerate(ranks):
        if len(found):
            results.take_ranks(query, found)
    names = as_labels(labels, len(ranks), "labels", "ranks")
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
    items = _checked_items(embeddings, gallery, gallery_labels)
    names = as_labels(labels, len(embeddings), "labels", "embeddings")
    item_names = names if gallery_labels is None else as_labels(gallery_labels, len(items), "gallery_labels", "gallery")
    classes, item_classes = as_classes(names, item_names)
    order = np.argsort(classes, kind="stable")
    item_order = order if gallery is None else np.argsort(item_classes, kind="stable")
    left_out, ignored = checked_ignore(ignore, len(embeddings), len(items))
    queries, ranked = _rows_of(embeddings, order, gallery, item_order, device)
    sorted_classes, sorted_item_classes = classes[order], item_classes[item_order]
    sets = SortedSets(
        queries=queries,
        items=ranked,
        classes=sorted_classes,
        item_classes=sorted_item_classes,
        first=np.searchsorted(sorted_item_classes, sorted_classes),
        last=np.searchsorted(sorted_item_classes, sorted_classes, side="right"),
        one_set=gallery is None,
        left_out=left_out[item_order],
        ignored=ignored,
    )
    return sets, classes


def _checked_items(embeddings: Embeddings, gallery: Embeddings | None, gallery_labels: Labels | None) -> Embeddings:
    """What is ranked: the gallery, or the embeddings themselves."""
    _check_matrix(embeddings, "embeddings")
    if gallery is None:
        if gallery_labels is not None:
            raise ValueError("gallery_labels go with gallery, which is missing: give both or neither")
        return embeddings
    _check_matrix(gallery, "gallery")
    if gallery_labels is None:
        raise ValueError("gallery_labels are missing: give one label per row of the gallery")
    if gallery.shape[1] != embeddings.shape[1]:
        raise ValueError(
            f"embeddings have {embeddings.shape[1]} dimensions and the gallery {gallery.shape[1]}: they must come "
            "from the same model"
        )
    return gallery


def _rows_of(
    embeddings: Embeddings, order: np.ndarray, gallery: Embeddings | None, item_order: np.ndarray, device: torch.device
) -> tuple[Rows, Rows]:
    """The rows of queries and items in these orders."""
    if gallery is None:
        queries = Rows.of(embeddings, order, device, "embeddings")
        return queries, queries
    groups = dict[bytes, int]()
    wide = given_rows(embeddings[:1]).dtype != given_rows(gallery[:1]).dtype
    queries = Rows.of(embeddings, order, device, "embeddings", groups, wide)
    return queries, Rows.of(gallery, item_order, device, "gallery", groups, wide)


def _sets_of_several(
    embeddings: Embeddings,
    labels: Labels,
    gallery: Embeddings | None,
    gallery_labels: Labels | None,
    ignore: Tensor | np.ndarray | None,
    device: torch.device,
) -> tuple[RankedSets, np.ndarray]:
    """As `sorted_sets`, for images with several labels."""
    items = _checked_items(embeddings, gallery, gallery_labels)
    relevance, classes = by_several(labels, len(embeddings), gallery_labels, len(items))
    left_out, ignored = checked_ignore(ignore, len(embeddings), len(items))
    orders = np.arange(len(embeddings)), np.arange(len(items))
    queries, ranked = _rows_of(embeddings, orders[0], gallery, orders[1], device)
    return RankedSets(queries, ranked, relevance, gallery is None, left_out, ignored), classes


def _ranked_sets(sets: SortedSets, labels: Labels, gallery_labels: Labels | None, relevance: Any) -> RankedSets:
    """The same sets for rankings by whole rows, with a table of what classes are worth to each other, if given."""
    by_class = ByClass(sets.classes, sets.item_classes)
    if relevance is not None:
        names = as_labels(labels, len(sets.queries.order), "labels", "embeddings")[sets.queries.order]
        item_names = names
        if gallery_labels is not None:
            item_names = as_labels(gallery_labels, len(sets.items.order), "gallery_labels", "gallery")[sets.items.order]
        by_class = ByClass(names, item_names, checked_table(relevance, names, item_names))
    return RankedSets(sets.queries, sets.items, by_class, sets.one_set, sets.left_out, sets.ignored)


class _Results:
    """The metrics of each query, filled block by block from whole numbers."""

    def __init__(self, queries: int, recall_at: Sequence[int], graded: bool = False) -> None:
        self.recall_at = recall_at
        self.ndcg = np.full(queries, np.nan) if graded else None
        self.average_precision = np.full(queries, np.nan)
        self.first_hit_rank = np.zeros(queries, np.int64)
        self.map_at_r = np.full(queries, np.nan)
        self.r_precision = np.full(queries, np.nan)
        self.positives_at_k = np.zeros((queries, len(recall_at)), np.int64)

    def take(self, ranked: Counter | RankedBlock, order: np.ndarray) -> None:
        """Work out the queries of a block, some at a time on each thread."""
        if self.ndcg is not None and isinstance(ranked, RankedBlock):
            self.ndcg[order[ranked.start : ranked.stop]] = ranked.ndcg

        step = max(1, _POSITIVES_AT_ONCE // max(1, int(ranked.count.max())))

        def take_part(part: int, parts: int) -> None:
            for start in range(ranked.start + step * part, ranked.stop, step * parts):
                rows = np.arange(start, min(start + step, ranked.stop))
                rows = rows[ranked.count[rows] > 0]
                if len(rows):
                    self._take(ranked, rows, order[rows])

        on_threads(take_part, torch.get_num_threads())

    def _take(self, ranked: Counter | RankedBlock, rows: np.ndarray, queries: np.ndarray) -> None:
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
            ndcg=None if self.ndcg is None else _exact_mean(self.ndcg[~np.isnan(self.ndcg)]),
            ndcg_of_queries=self.ndcg,
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
    if isinstance(matrix, Tensor):
        refuse_layout(matrix, name)
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise ValueError(
            f"{name} must have the shape (rows, dimension), with at least one row, not {tuple(matrix.shape)}"
        )
    is_real = not matrix.is_complex() if isinstance(matrix, Tensor) else matrix.dtype.kind in "fiub"
    if not is_real:
        raise ValueError(f"{name} must be real numbers, not {matrix.dtype}")
