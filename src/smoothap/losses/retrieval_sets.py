"""Who is a positive and who a negative of each query: P_q, N_q and Omega, for a block of queries at a time."""

from dataclasses import dataclass

import torch
from torch import Tensor

from smoothap.functional.block import OUTSIDE, padded_columns
from smoothap.losses.inputs import Call, check_self_index


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
        scores.scatter_(1, columns, OUTSIDE)
        if self.self_index is not None:
            self_index = self.self_index[queries, None]
            valid &= columns != self_index
            here = self_index.clamp(min=0)
            scores.scatter_(1, here, torch.where(self_index >= 0, OUTSIDE, scores.gather(1, here)))
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


RetrievalSets = LabelledSets | ListedSets


def retrieval_sets(call: Call, include_query: bool) -> RetrievalSets:
    """The sets of a call that was checked; the query is in its own set only with `include_query`."""
    queries = call.embeddings
    items = queries if call.ref_emb is None else call.ref_emb
    if call.positive_pairs is not None and call.negative_pairs is not None:
        return ListedSets.of(call.positive_pairs, call.negative_pairs, len(queries), len(items))
    assert call.labels is not None
    labels = call.labels.to(queries.device, torch.long)
    if call.ref_emb is None:
        return LabelledSets.of(
            labels, labels, None if include_query else torch.arange(len(labels), device=labels.device)
        )
    assert call.ref_labels is not None
    self_index = call.self_index
    if self_index is not None:
        self_index = self_index.to(queries.device, torch.long)
        check_self_index(self_index, len(items))
    return LabelledSets.of(labels, call.ref_labels.to(queries.device, torch.long), self_index)
