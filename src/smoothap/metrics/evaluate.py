"""Exact retrieval figures over the full ranking, at any size."""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from smoothap.distributed import Processes
from smoothap.metrics.counting import Counts, Problem, count_negatives
from smoothap.metrics.report import Report, make_report
from smoothap.metrics.rows import Embeddings, Rows
from smoothap.numerics.precision import full_precision
from smoothap.numerics.threads import on_threads

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
    block_size: at most about so many queries at a time, to save memory; the answer is the same for any.
    distributed: share the work among the processes of torchrun; all of them must call, and all get the same report.

    >>> report = evaluate(torch.eye(3).repeat_interleave(2, 0), [0, 0, 1, 1, 2, 2], recall_at=(1,))
    >>> report.mean_average_precision, report.recall
    (1.0, {1: 1.0})
    """
    recall_at = _check_recall_at(recall_at)
    place = torch.device(device) if device is not None else _device_of(embeddings)
    problem, classes = ranking_problem(embeddings, labels, gallery, gallery_labels, ignore=ignore, device=place)
    processes = Processes.here() if distributed else Processes()
    results = _Results(len(embeddings), recall_at)
    with torch.inference_mode(), full_precision(place.type):
        for counts in count_negatives(problem, block_size, processes, progress):
            results.take(counts, problem.queries.order)
    return make_report(
        results.average_precision, results.first_hit_rank, results.map_at_r, results.r_precision, results.precision,
        classes, recall_at,
    )  # fmt: skip


def ranking_problem(
    embeddings: Embeddings,
    labels: Labels,
    gallery: Embeddings | None = None,
    gallery_labels: Labels | None = None,
    *,
    ignore: Tensor | np.ndarray | None = None,
    device: torch.device,
) -> tuple[Problem, np.ndarray]:
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
    order, item_order = _small_classes_first(classes, item_classes)
    left_out, ignored = _check_ignore(ignore, len(embeddings), len(items))
    queries = Rows.of(embeddings, order, device, "embeddings")
    problem = Problem(
        queries=queries,
        items=queries if one_set else Rows.of(items, item_order, device, "gallery"),
        first=_edge(item_classes[item_order], classes[order], right=False),
        last=_edge(item_classes[item_order], classes[order], right=True),
        one_set=one_set,
        left_out=left_out[item_order],
        ignored=ignored,
    )
    return problem, classes


class _Results:
    """The figures of each query, filled block by block from whole numbers."""

    def __init__(self, queries: int, recall_at: Sequence[int]) -> None:
        self.recall_at = recall_at
        self.average_precision = np.full(queries, np.nan)
        self.first_hit_rank = np.zeros(queries, np.int64)
        self.map_at_r = np.full(queries, np.nan)
        self.r_precision = np.full(queries, np.nan)
        self.precision = np.full((queries, len(recall_at)), np.nan)

    def take(self, counts: Counts, order: np.ndarray) -> None:
        """Work out the queries of these counts, a thousand at a time on each thread."""

        def take_part(part: int, parts: int) -> None:
            for start in range(counts.start + 1024 * part, counts.stop, 1024 * parts):
                rows = np.arange(start, min(start + 1024, counts.stop))
                rows = rows[counts.count[rows] > 0]
                if len(rows):
                    self._take(counts, rows, order[rows])

        on_threads(take_part, torch.get_num_threads())

    def _take(self, counts: Counts, rows: np.ndarray, queries: np.ndarray) -> None:
        size = counts.count[rows]  # R, the positives of each query
        begins = np.cumsum(size) - size
        position = np.arange(size.sum()) - np.repeat(begins, size)
        places = np.repeat(counts.offset[rows], size) + position
        scores, negatives = counts.scores[places], counts.negatives[places]
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
            self.precision[queries, column] = np.add.reduceat((rank <= k).astype(np.float64), begins) / k


def _check_recall_at(recall_at: Sequence[int] | int) -> tuple[int, ...]:
    several = tuple(recall_at) if isinstance(recall_at, Iterable) else (recall_at,)
    try:
        numbers = tuple(int(k) for k in several)
    except (TypeError, ValueError, OverflowError):
        numbers = ()
    if numbers != several or any(k < 1 for k in numbers):
        raise ValueError(f"recall_at must be whole numbers from 1, such as (1, 10, 100), not {recall_at!r}")
    return numbers


def _check_matrix(matrix: Embeddings, name: str) -> None:
    if not isinstance(matrix, Tensor | np.ndarray):
        raise TypeError(f"{name} must be a tensor or a numpy array, not {type(matrix).__name__}")
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise ValueError(
            f"{name} must have the shape (rows, dimension), with at least one row, not {tuple(matrix.shape)}"
        )


def _as_labels(labels: Labels, rows: int, name: str, of: str) -> np.ndarray:
    values = labels.detach().cpu().numpy() if isinstance(labels, Tensor) else np.asarray(labels)
    if values.shape != (rows,):
        raise ValueError(f"{name} has shape {values.shape}, but {of} has {rows} rows: give one label per row")
    if values.dtype.kind not in "iubUSO":
        raise ValueError(f"{name} must be whole numbers or strings, not {values.dtype}")
    return values.astype(str) if values.dtype.kind == "O" else values


def _as_classes(names: np.ndarray, item_names: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both lists of labels as numbers of classes."""
    if (names.dtype.kind in "US") != (item_names.dtype.kind in "US"):
        raise ValueError(f"labels are {names.dtype} and gallery_labels {item_names.dtype}: use one kind for both")
    if names is item_names:
        classes = np.unique(names, return_inverse=True)[1]
        return classes, classes
    both = np.unique(np.concatenate([names, item_names]), return_inverse=True)[1]
    return both[: len(names)], both[len(names) :]


def _small_classes_first(classes: np.ndarray, item_classes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Orders that put each class together, and classes with as many items beside each other; renumbers in place."""
    sizes = np.bincount(item_classes, minlength=max(classes.max(), item_classes.max()) + 1)
    number = np.empty(len(sizes), np.int64)
    number[np.argsort(sizes, kind="stable")] = np.arange(len(sizes))
    order = np.argsort(number[classes], kind="stable")
    return order, order if classes is item_classes else np.argsort(number[item_classes], kind="stable")


def _edge(sorted_items: np.ndarray, sorted_queries: np.ndarray, right: bool) -> np.ndarray:
    """Where each query's class begins or ends among the items, both in runs of one class."""
    begins = np.flatnonzero(np.diff(sorted_items, prepend=-1))
    ends = np.append(begins[1:], len(sorted_items))
    edges = np.zeros(max(sorted_items.max(), sorted_queries.max()) + 1, np.int64)
    edges[sorted_items[begins]] = ends if right else begins
    return edges[sorted_queries]


def _check_ignore(ignore: Tensor | np.ndarray | None, queries: int, items: int) -> tuple[np.ndarray, np.ndarray | None]:
    if ignore is None:
        return np.zeros(items, bool), None
    mask = ignore.detach().cpu().numpy() if isinstance(ignore, Tensor) else np.asarray(ignore)
    if mask.dtype != bool or mask.shape not in ((items,), (queries, items)):
        raise ValueError(
            f"ignore must be a mask of True and False with shape ({items},) or ({queries}, {items}), "
            f"not {mask.dtype} {mask.shape}"
        )
    return (mask, None) if mask.ndim == 1 else (np.zeros(items, bool), mask)


def _device_of(embeddings: Embeddings) -> torch.device:
    return embeddings.device if isinstance(embeddings, Tensor) else torch.device("cpu")
