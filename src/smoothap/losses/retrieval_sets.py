"""Who is a positive and who a negative of each query: P_q, N_q and Omega, for a block of queries at a time."""

from dataclasses import dataclass

import torch
from torch import Tensor

from smoothap.functional.block import OUTSIDE, padded_columns
from smoothap.losses.inputs import Call, check_self_index

_MARKS_AT_ONCE = 1 << 24  # of a mask: 16 MB


@dataclass(frozen=True)
class LabelledSets:
    """P_q is every item with the query's label, N_q every other; `self_index` (queries,) is the column left out, or
    -1."""

    order: Tensor  # (items,) columns sorted by label
    positives: Tensor  # (queries,) how many positives each query has
    first: Tensor  # (queries,) where the query's class begins in `order`
    size: Tensor  # (queries,) items of the query's class
    self_index: Tensor | None

    @classmethod
    def of(cls, labels: Tensor, item_labels: Tensor, self_index: Tensor | None) -> "LabelledSets":
        """Sort the retrieval set by label once; `self_index` may have any label."""
        sorted_labels, order = torch.sort(item_labels, stable=True)
        first = torch.searchsorted(sorted_labels, labels)
        size = torch.searchsorted(sorted_labels, labels, right=True) - first
        if self_index is None:
            return cls(order, size, first, size, self_index)
        self_is_positive = (self_index >= 0) & (item_labels[self_index.clamp(min=0)] == labels)
        return cls(order, size - self_is_positive.long(), first, size, self_index)

    @property
    def counts(self) -> list[Tensor]:
        """How many positives each query has, then how many columns it needs in a block. (queries,) each"""
        return [self.positives, self.size]

    def block(self, queries: Tensor | slice, scores: Tensor, widest: int) -> tuple[Tensor, Tensor, Tensor]:
        """Split a block of scores (b, m): positives' columns (b, p), which are valid (b, p), their scores (b, p).

        In `scores` everything that is not a negative of its query becomes `OUTSIDE`. `widest` is how many
        columns one of the queries needs at most.
        """
        columns, valid = padded_columns(self.order, self.first[queries], self.size[queries], widest)
        positive_scores = scores.gather(1, columns)
        # The padding of a query whose class is not in the set is a negative of another class, which stays.
        outside = torch.where(self.size[queries, None] > 0, OUTSIDE, positive_scores)
        scores.scatter_(1, columns, outside)
        if self.self_index is not None:
            valid &= columns != self.self_index[queries, None]
            _leave_out(scores, self.self_index, queries)
        return columns, valid, positive_scores


@dataclass(frozen=True)
class ListedSets:
    """P_q and N_q are the pairs that were listed; a pair that is not listed is outside the retrieval set."""

    positive_columns: Tensor  # sorted by query
    positive_first: Tensor  # (queries + 1,)
    negative_columns: Tensor
    negative_first: Tensor  # (queries + 1,)

    @classmethod
    def of(cls, positive_pairs: Tensor, negative_pairs: Tensor, queries: int, items: int) -> "ListedSets":
        """From (query, positive) and (query, negative) pairs (2, n); a pair listed twice counts once."""
        columns: list[Tensor] = []
        for rows, items_of_row in (positive_pairs, negative_pairs):
            pairs = torch.unique(rows * items + items_of_row)
            first = torch.searchsorted(pairs, torch.arange(queries + 1, device=pairs.device) * items)
            columns += [pairs % items, first]
        return cls(*columns)

    @property
    def positives(self) -> Tensor:
        """How many positives each query has. (queries,)"""
        return self.positive_first.diff()

    @property
    def counts(self) -> list[Tensor]:
        """As `LabelledSets.counts`, with columns of positives and columns of negatives."""
        return [self.positives, self.positives, self.negative_first.diff()]

    def block(self, queries: Tensor | slice, scores: Tensor, *widest: int) -> tuple[Tensor, Tensor, Tensor]:
        """As `LabelledSets.block`."""
        (columns, valid), (negatives, negative_valid) = (
            padded_columns(listed, first[:-1][queries], first.diff()[queries], width)
            for listed, first, width in (
                (self.positive_columns, self.positive_first, widest[0]),
                (self.negative_columns, self.negative_first, widest[1]),
            )
        )
        positive_scores = scores.gather(1, columns)
        negative_scores = scores.gather(1, negatives).masked_fill_(~negative_valid, OUTSIDE)
        scores.fill_(OUTSIDE)
        # a padded slot repeats a real column with a score of -inf: the larger of the two is the real one
        scores.scatter_reduce_(1, negatives, negative_scores, "amax")
        return columns, valid, positive_scores


@dataclass(frozen=True)
class MaskedSets:
    """P_q is every item that its row of a mask marks, N_q every other; `self_index` as in `LabelledSets`."""

    left: Tensor  # (queries, items) the mask; or (queries, labels) of 0 and 1, of which a positive shares one
    right: Tensor | None  # (items, labels)
    positives: Tensor  # (queries,) how many positives each query has
    self_index: Tensor | None
    include_query: bool

    @classmethod
    def of(cls, left: Tensor, right: Tensor | None, self_index: Tensor | None, include_query: bool) -> "MaskedSets":
        """Count the positives of each query, some rows of the mask at a time."""
        sets = cls(left, right, left.new_zeros(len(left), dtype=torch.long), self_index, include_query)
        step = max(1, _MARKS_AT_ONCE // len(left if right is None else right))
        for start in range(0, len(left), step):
            rows = slice(start, min(start + step, len(left)))
            sets.positives[rows] = sets._marked(rows).sum(1)
        return sets

    @property
    def counts(self) -> list[Tensor]:
        """As `LabelledSets.counts`."""
        return [self.positives, self.positives]

    def _marked(self, queries: Tensor | slice) -> Tensor:
        """Which items are positives of some queries. (b, m) bool"""
        rows = self.left[queries]
        marked = rows.clone() if self.right is None else rows @ self.right.T > 0
        if self.include_query:
            marked[torch.arange(len(rows), device=rows.device), self._all(queries)] = True
        elif self.self_index is not None:
            self_index = self.self_index[queries, None]
            here = self_index.clamp(min=0)
            marked.scatter_(1, here, marked.gather(1, here) & (self_index < 0))
        return marked

    def _all(self, queries: Tensor | slice) -> Tensor:
        return torch.arange(len(self.left), device=self.left.device)[queries]

    def block(self, queries: Tensor | slice, scores: Tensor, widest: int) -> tuple[Tensor, Tensor, Tensor]:
        """As `LabelledSets.block`."""
        marked, count = self._marked(queries), self.positives[queries]
        columns, valid = padded_columns(marked.nonzero()[:, 1], count.cumsum(0) - count, count, widest)
        positive_scores = scores.gather(1, columns)
        scores.masked_fill_(marked, OUTSIDE)
        _leave_out(scores, self.self_index, queries)
        return columns, valid, positive_scores


RetrievalSets = LabelledSets | ListedSets | MaskedSets


def _leave_out(scores: Tensor, self_index: Tensor | None, queries: Tensor | slice) -> None:
    """Take the query itself out of its row of scores, where it has a column."""
    if self_index is not None:
        self_index = self_index[queries, None]
        here = self_index.clamp(min=0)
        scores.scatter_(1, here, torch.where(self_index >= 0, OUTSIDE, scores.gather(1, here)))


def with_plain_labels(call: Call) -> Call:
    """The call with one label for each image instead of a mask or of columns of 0 and 1, where these say no more."""
    if call.positives is not None and call.ref_emb is None:
        together = call.positives.clone().fill_diagonal_(True)
        labels = together.to(torch.uint8).argmax(1)  # the first image that each belongs to
        if bool((together == (labels[:, None] == labels)).all()):
            return call._replace(labels=labels, positives=None)
    if call.labels is not None and call.labels.ndim == 2 and call.positive_pairs is None:
        sides = [side for side in (call.labels, call.ref_labels) if side is not None]
        _check_columns(sides)
        if all(bool((side.sum(1) == 1).all()) for side in sides):
            labels, ref_labels = (
                None if side is None else side.long().argmax(1) for side in (call.labels, call.ref_labels)
            )
            return call._replace(labels=labels, ref_labels=ref_labels)
    return call


def _check_columns(sides: list[Tensor]) -> None:
    for side, name in zip(sides, ("labels", "ref_labels"), strict=False):
        if not bool(((side == 0) | (side == 1)).all()):
            raise ValueError(f"{name} of shape {tuple(side.shape)} must be 0 and 1, a column for each class")


def retrieval_sets(call: Call, include_query: bool) -> RetrievalSets:
    """The sets of a call that was checked; the query is in its own set only with `include_query`."""
    queries = call.embeddings
    items = queries if call.ref_emb is None else call.ref_emb
    if call.positive_pairs is not None and call.negative_pairs is not None:
        return ListedSets.of(call.positive_pairs, call.negative_pairs, len(queries), len(items))
    self_index = call.self_index
    if call.ref_emb is None:
        self_index = None if include_query else torch.arange(len(queries), device=queries.device)
    elif self_index is not None:
        self_index = self_index.to(queries.device, torch.long)
        check_self_index(self_index, len(items))
    if call.positives is not None:
        return MaskedSets.of(call.positives.to(queries.device), None, self_index, include_query)
    assert call.labels is not None
    labels = call.labels.to(queries.device, torch.long)
    ref_labels = labels if call.ref_labels is None else call.ref_labels.to(queries.device, torch.long)
    if labels.ndim == 2:
        return MaskedSets.of(labels.to(queries.dtype), ref_labels.to(queries.dtype), self_index, include_query)
    return LabelledSets.of(labels, ref_labels, self_index)
