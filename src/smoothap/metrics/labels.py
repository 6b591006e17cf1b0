"""Labels of any kind: one for each image, as numbers or names, or several; and who is relevant to whom by them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from torch import Tensor

from smoothap._core.devices import refuse_layout, refuse_masked

Labels: TypeAlias = (
    Tensor | np.ndarray | Sequence[int] | Sequence[str] | Sequence[Iterable[int]] | Sequence[Iterable[str]]
)


@dataclass(frozen=True)
class ByClass:
    """One class for each query (n,) and item (m,), in the order of their rows; `table` (c, c) has gains by class."""

    classes: np.ndarray
    item_classes: np.ndarray
    table: np.ndarray | None = None

    def positives(self, queries: slice) -> np.ndarray:
        """As `Relevance.positives`: those of the query's class."""
        return self.classes[queries, None] == self.item_classes

    def gains(self, queries: slice) -> np.ndarray | None:
        """As `Relevance.gains`: what the table says."""
        return None if self.table is None else self.table[self.classes[queries]][:, self.item_classes]


@dataclass(frozen=True)
class BySeveral:
    """Several labels for each query and item: the columns that each query has, and the items that have each column."""

    columns: list[np.ndarray]
    members: list[np.ndarray]
    items: int

    def positives(self, queries: slice) -> np.ndarray:
        """As `Relevance.positives`: those that share a label with the query."""
        chosen = self.columns[queries]
        marked = np.zeros((len(chosen), self.items), bool)
        for row, columns in zip(marked, chosen, strict=True):
            for column in columns:
                row[self.members[column]] = True
        return marked

    def gains(self, queries: slice) -> None:
        """As `Relevance.gains`: not asked."""


def have_several(labels: Labels) -> bool:
    """Whether there may be several labels for each row: (n, c) of 0 and 1, or lists of names."""
    if isinstance(labels, Tensor | np.ndarray):
        return labels.ndim == 2 and labels.shape[1] > 1
    first = next(iter(labels), "")
    return not isinstance(first, str | bytes) and isinstance(first, Iterable) and getattr(first, "ndim", 1) > 0


def as_matrix(labels: Labels) -> Labels:
    """Labels (n, c) of 0 and 1 that came as a list of rows, as the matrix that they are; others as they were."""
    if isinstance(labels, Tensor | np.ndarray) or not have_several(labels):
        return labels
    rows: list[Any] = [np.asarray(row).tolist() if isinstance(row, Tensor | np.ndarray) else row for row in labels]
    same = all(isinstance(row, Sequence) and len(row) == len(rows[0]) > 1 for row in rows)
    if same and all(type(value) in (int, bool) and value in (0, 1) for row in rows for value in row):
        return np.array(rows, np.uint8)
    return labels


def by_several(labels: Labels, rows: int, item_labels: Labels | None, items: int) -> tuple[BySeveral, np.ndarray]:
    """Who shares a label with whom, and the class (n,) of each query: those with the same labels are one."""
    numbers: dict[Any, int] = {}
    columns = _columns(labels, rows, "labels", "embeddings", numbers)
    item_columns = (
        columns if item_labels is None else _columns(item_labels, items, "gallery_labels", "gallery", numbers)
    )
    item, column = (
        np.repeat(np.arange(items), [len(each) for each in item_columns]),
        np.concatenate([*item_columns, []]),
    )
    order = np.argsort(column, kind="stable")
    edges = np.searchsorted(column[order], np.arange(len(numbers) + 1))
    members = [item[order][first:last] for first, last in pairwise(edges)]
    known: dict[bytes, int] = {}
    classes = np.array([known.setdefault(np.sort(each).tobytes(), len(known)) for each in columns])
    return BySeveral(columns, members, items), classes


def _columns(labels: Labels, rows: int, name: str, of: str, numbers: dict[Any, int]) -> list[np.ndarray]:
    """The labels of each row as numbers; `numbers` has those of the names that were met before."""
    refuse_masked(labels, name)
    if len(labels) != rows:
        raise ValueError(f"{name} has {len(labels)} rows, but {of} has {rows}: give the labels of every row")
    if isinstance(labels, Tensor | np.ndarray):
        values = labels.detach().cpu().numpy() if isinstance(labels, Tensor) else labels
        if values.dtype.kind not in "iub" or not ((values == 0) | (values == 1)).all():
            raise ValueError(f"{name} of shape {values.shape} must be 0 and 1, whole numbers, a column for each class")
        for column in range(values.shape[1]):
            numbers.setdefault(column, column)
        if len(numbers) != values.shape[1]:
            raise ValueError(f"{name} has {values.shape[1]} columns and labels {len(numbers)}: give both the same")
        return [np.flatnonzero(row) for row in values]
    several = [
        dict.fromkeys(each) for each in labels if isinstance(each, Iterable) and not isinstance(each, str | bytes)
    ]
    if len(several) != rows:
        raise ValueError(f"{name} has lists of names and single ones: give each row a list")
    flat = np.fromiter((each for row in several for each in row), object)
    if len(flat):
        _of_one_kind(flat, name, np.repeat(np.arange(rows), [len(row) for row in several]))
        other = next(iter(numbers), flat[0])
        if isinstance(other, str | bytes) != isinstance(flat[0], str | bytes):
            raise ValueError(f"{name} has {flat[0]!r} and labels {other!r}: use one kind for both")
    return [np.array([numbers.setdefault(each, len(numbers)) for each in row], np.int64) for row in several]


def checked_table(relevance: Any, classes: np.ndarray, item_classes: np.ndarray) -> np.ndarray:
    """A table (c, c) of gains, if the labels are its rows and columns."""
    refuse_masked(relevance, "relevance")
    if isinstance(relevance, Tensor):
        refuse_layout(relevance, "relevance")
        relevance = relevance.detach().cpu()
    wanted = "relevance must be a table (classes, classes) of what an item of one class is worth to a query of another"
    try:
        table = np.asarray(relevance)
        if table.dtype.kind not in "fiubO":
            raise TypeError(f"it holds {table.dtype}")
        table = table.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{wanted}, which this {type(relevance).__name__} is not: {error}") from error
    if table.ndim != 2 or table.shape[0] != table.shape[1] or not (np.isfinite(table) & (table >= 0)).all():
        raise ValueError(f"{wanted}, 0 or more, not {table.shape}")
    for values in (classes, item_classes):
        if values.dtype.kind not in "iu" or values.min() < 0 or values.max() >= len(table):
            raise ValueError(f"with relevance, labels are rows of that table: whole numbers from 0 to {len(table) - 1}")
    return table


def as_labels(labels: Labels, rows: int, name: str, of: str) -> np.ndarray:
    refuse_masked(labels, name)
    values = labels.detach().cpu().numpy() if isinstance(labels, Tensor) else np.asarray(labels)
    if values.shape != (rows,):
        raise ValueError(f"{name} has shape {values.shape}, but {of} has {rows} rows: give one label per row")
    if values.dtype.kind == "T" or (values.dtype.kind in "fUS" and not isinstance(labels, Tensor | np.ndarray)):
        values = np.array(list(labels), object)  # as they were, before numpy made one kind of a mixture
    if values.dtype.kind == "O":
        return _of_one_kind(values, name)
    if values.dtype.kind not in "iubUS":
        raise ValueError(f"{name} must be whole numbers or strings, not {values.dtype}")
    return values


def _of_one_kind(labels: np.ndarray, name: str, rows: np.ndarray | None = None) -> np.ndarray:
    """Refuse labels (n,) of several kinds, and what is no label, such as None or NaN; rows (n,): whose they are."""
    rows = np.arange(len(labels)) if rows is None else rows
    kinds = (str, bytes, (int, np.integer))
    kind = next((kind for kind in kinds if isinstance(labels[0], kind)), kinds)
    for row, label in zip(rows, labels, strict=True):
        if not isinstance(label, kind):
            raise ValueError(
                f"{name} has {label!r} in row {row}: labels must be whole numbers or strings, one kind for all rows; "
                "drop the rows that have no class"
            )
    if kind not in (str, bytes):
        return labels
    end = "\0" if kind is str else b"\0"
    for row, label in ((row, label) for row, label in zip(rows, labels, strict=True) if label.endswith(end)):
        raise ValueError(f"{name} has {label!r} in row {row}: numpy drops the NUL at its end, so take it away")
    return np.array([label[:] for label in labels])  # plain strings: numpy cuts the names of an Enum of strings short


def as_classes(names: np.ndarray, item_names: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
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


def checked_ignore(
    ignore: Tensor | np.ndarray | None, queries: int, items: int
) -> tuple[np.ndarray, np.ndarray | None]:
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
