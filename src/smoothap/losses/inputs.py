"""What a loss may be given: each fault is answered with what was given, what was expected and what to do."""

from typing import NamedTuple

import torch
from torch import Tensor

from smoothap._core.devices import refuse_layout, refuse_masked


class Call(NamedTuple):
    """What a loss was called with, as tensors that autograd can keep; the two that may learn come first."""

    embeddings: Tensor
    ref_emb: Tensor | None = None
    labels: Tensor | None = None  # (n,), or (n, c) of 0 and 1 where an image has several
    ref_labels: Tensor | None = None
    self_index: Tensor | None = None
    positive_pairs: Tensor | None = None  # (2, n): queries and items that were listed
    negative_pairs: Tensor | None = None
    positives: Tensor | None = None  # (n, m) bool: the positives of each query

    @property
    def dtype(self) -> torch.dtype:
        """What the loss is computed in: float32, or better where one of the sides is."""
        dtype = torch.promote_types(self.embeddings.dtype, torch.float32)
        return dtype if self.ref_emb is None else torch.promote_types(dtype, self.ref_emb.dtype)

    @property
    def retrieves_from_itself(self) -> bool:
        """Whether each row of the batch is ranked against the others, by one label each."""
        is_labelled = self.labels is not None and self.labels.ndim == 1 and self.positive_pairs is None
        return is_labelled and self.ref_emb is None


def checked_call(
    embeddings: Tensor,
    labels: Tensor | None,
    indices_tuple: tuple[Tensor, ...] | None = None,
    ref_emb: Tensor | None = None,
    ref_labels: Tensor | None = None,
    self_index: Tensor | None = None,
    positives: Tensor | None = None,
    include_query: bool = False,
) -> Call:
    """The arguments of a loss, if their shapes and types fit together; numbers are looked at by `normalise`."""
    _check_matrix(embeddings, "embeddings")
    if positives is not None:
        _check_alone(labels, indices_tuple, ref_labels)
    elif indices_tuple is None:
        if labels is None:
            raise ValueError(
                "labels are missing: give one whole number per embedding, a mask of positives, or an indices_tuple"
            )
        _check_labels(labels, "labels", len(embeddings), "embeddings", several=True)
    call = Call(embeddings, ref_emb, labels, ref_labels, self_index, positives=positives)
    if ref_emb is None:
        for value, name in ((ref_labels, "ref_labels"), (self_index, "self_index")):
            if value is not None:
                raise ValueError(f"{name} goes with ref_emb, which is missing: give the retrieval set too")
    else:
        _check_reference(call, ref_emb, indices_tuple is None and positives is None, include_query)
        if self_index is None and indices_tuple is None and ref_emb is embeddings:
            call = call._replace(self_index=torch.arange(len(embeddings), device=embeddings.device))
    if positives is not None:
        items = embeddings if ref_emb is None else ref_emb
        _check_mask(positives, len(embeddings), len(items))
    if indices_tuple is None:
        return call
    _check_listed(call, indices_tuple, include_query)
    anchors, positives, *rest = (indices.to(embeddings.device, torch.long) for indices in indices_tuple)
    negatives = rest if len(rest) == 2 else [anchors, *rest]
    return call._replace(positive_pairs=torch.stack([anchors, positives]), negative_pairs=torch.stack(negatives))


def first_of(rows: Tensor) -> str:
    bad = rows.nonzero()[:, 0].tolist()
    return f"{bad[0]}" if len(bad) == 1 else f"{bad[0]} (and {len(bad) - 1} more)"


def _check_tensor(values: Tensor, name: str) -> None:
    refuse_masked(values, name)
    if not isinstance(values, Tensor):
        raise TypeError(f"{name} must be a tensor, not {type(values).__name__}: wrap it with torch.as_tensor")


def _check_matrix(matrix: Tensor, name: str) -> None:
    _check_tensor(matrix, name)
    refuse_layout(matrix, name)
    if matrix.ndim != 2 or not matrix.is_floating_point():
        raise ValueError(f"{name} must be floats of shape (rows, dimension), not {matrix.dtype} {tuple(matrix.shape)}")
    if 0 in matrix.shape:
        raise ValueError(f"{name} is empty, {tuple(matrix.shape)}: a loss needs at least one row")


def _check_labels(labels: Tensor, name: str, rows: int, of: str, several: bool = False) -> None:
    _check_tensor(labels, name)
    refuse_layout(labels, name)
    if labels.shape != (rows,) and not (several and labels.ndim == 2 and len(labels) == rows and labels.shape[1] > 1):
        columns = ", or a row of 0 and 1 for each" if several else ""
        raise ValueError(
            f"{name} has shape {tuple(labels.shape)}, but {of} has {rows} rows: give one label per row{columns}"
        )
    if labels.is_floating_point() or labels.is_complex():
        raise ValueError(f"{name} must be whole numbers, not {labels.dtype}: use labels.long() if they are class ids")


def _check_alone(labels: Tensor | None, indices_tuple: tuple[Tensor, ...] | None, ref_labels: Tensor | None) -> None:
    given = {"labels": labels, "indices_tuple": indices_tuple, "ref_labels": ref_labels}
    for name in (name for name, value in given.items() if value is not None):
        raise ValueError(f"positives say who belongs to whom, and so does {name}: give one of them")


def _check_mask(positives: Tensor, queries: int, items: int) -> None:
    _check_tensor(positives, "positives")
    refuse_layout(positives, "positives")
    if positives.dtype != torch.bool or positives.shape != (queries, items):
        raise ValueError(
            f"positives must be a mask of True and False with shape ({queries}, {items}), a row for each query, not "
            f"{positives.dtype} {tuple(positives.shape)}"
        )


def _check_reference(call: Call, ref_emb: Tensor, labelled: bool, include_query: bool) -> None:
    embeddings, ref_labels = call.embeddings, call.ref_labels
    _check_matrix(ref_emb, "ref_emb")
    if include_query:
        raise ValueError(
            "include_query=True is for a batch that retrieves from itself; with ref_emb the query is in the "
            "retrieval set only if you put it there: use include_query=False, and `self_index` to leave it out"
        )
    if ref_emb.shape[1] != embeddings.shape[1]:
        raise ValueError(
            f"embeddings have {embeddings.shape[1]} dimensions and ref_emb {ref_emb.shape[1]}: use the same model"
        )
    if labelled:
        if ref_labels is None:
            raise ValueError("ref_labels are missing: give one label per row of ref_emb")
        _check_labels(ref_labels, "ref_labels", len(ref_emb), "ref_emb", several=True)
        if call.labels is not None and call.labels.shape[1:] != ref_labels.shape[1:]:
            raise ValueError(
                f"labels have shape {tuple(call.labels.shape)} and ref_labels {tuple(ref_labels.shape)}: give both one "
                "label per row, or both the same columns of 0 and 1"
            )
    if call.self_index is not None:
        _check_labels(call.self_index, "self_index", len(embeddings), "embeddings")


def check_self_index(self_index: Tensor, items: int) -> None:
    """Refuse a column that is not in the retrieval set."""
    wrong = (self_index < -1) | (self_index >= items)
    if bool(wrong.any()):
        raise ValueError(
            f"self_index names a column outside ref_emb, which has {items} rows, at row {first_of(wrong)}: use the "
            "row of the query in ref_emb, or -1 where it is not there"
        )


def _check_listed(call: Call, listed: tuple[Tensor, ...], include_query: bool) -> None:
    if len(listed) not in (3, 4):
        raise ValueError(f"indices_tuple must be pairs (a, p, a, n) or triplets (a, p, n), not {len(listed)} tensors")
    if include_query or call.self_index is not None:
        raise ValueError(
            "indices_tuple already says who is in the retrieval set: leave out include_query and self_index, and "
            "list the pairs you want"
        )
    queries, items = len(call.embeddings), len(call.embeddings if call.ref_emb is None else call.ref_emb)
    limits = (queries, items, items) if len(listed) == 3 else (queries, items, queries, items)
    for place, (indices, limit) in enumerate(zip(listed, limits, strict=True)):
        partner = listed[0] if len(listed) == 3 or place < 2 else listed[2]
        _check_labels(indices, f"indices_tuple[{place}]", len(partner), "its other side")
        if indices.numel() and not (int(indices.min()) >= 0 and int(indices.max()) < limit):
            raise ValueError(
                f"indices_tuple[{place}] goes up to {int(indices.max())}, but there are {limit} rows to point to"
            )
