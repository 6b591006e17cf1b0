"""A loss of a batch against a retrieval set, streamed in blocks of queries: never all scores at once."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from smoothap.losses.inputs import as_pairs, check_inputs, check_own
from smoothap.losses.retrieval_sets import LabelledSets, ListedSets
from smoothap.losses.symmetric import symmetric_smooth_ap
from smoothap.losses.unit_rows import back_through_units, unit_rows
from smoothap.ranking.block import smooth_ap_block
from smoothap.ranking.precision import full_precision
from smoothap.ranking.threads import can_fuse

_SCORES_AT_ONCE = 1 << 22  # 16 MB in float32
_MOST_QUERIES_AT_ONCE = 512


class Block(Protocol):
    """What a loss makes of a few queries, given their scores (cosine times `scale`) with the whole retrieval set.

    scores (b, m): those of the negatives, `OUTSIDE` wherever an item is not a negative of that query.
    positive_scores (b, p), valid (b, p) bool: which of the p slots hold a positive; every query has one.
    weights (b, *values): if given, `scores` is overwritten with the gradient of the weighted values with respect to
    the cosines, and the second result (b, p) is that of the positives. The first result is the values (b, *values).
    """

    @property
    def scale(self) -> float: ...

    @property
    def values(self) -> tuple[int, ...]: ...

    def __call__(
        self, scores: Tensor, positive_scores: Tensor, valid: Tensor, weights: Tensor | None
    ) -> tuple[Tensor, Tensor]: ...


@dataclass(frozen=True)
class SmoothAPBlock:
    """1 - smoothed AP with a sigmoid, Eq. 6: the block that has compiled kernels."""

    tau: float
    values: tuple[int, ...] = ()

    @property
    def scale(self) -> float:
        return 1 / self.tau

    def __call__(
        self, scores: Tensor, positive_scores: Tensor, valid: Tensor, weights: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """As `Block`."""
        pull = None if weights is None else -weights / self.tau
        average_precision, gradient = smooth_ap_block(scores, positive_scores, valid, pull)
        return 1 - average_precision, gradient


def retrieval_loss(
    block: Block,
    embeddings: Tensor,
    labels: Tensor | None,
    indices_tuple: tuple[Tensor, ...] | None,
    ref_emb: Tensor | None,
    ref_labels: Tensor | None,
    own: Tensor | None,
    *,
    include_query: bool = False,
    mean: bool = True,
) -> Tensor:
    """The block's loss, which backpropagates: the mean over the queries with a positive, or each query's values.

    The arguments are those of `SmoothAP.forward`; a query without a positive has the value 0.
    """
    check_inputs(embeddings, labels, indices_tuple, ref_emb, ref_labels, own, include_query)
    positive_pairs, negative_pairs = as_pairs(indices_tuple, embeddings.device)
    learning = torch.is_grad_enabled()
    sets = (embeddings, ref_emb, labels, ref_labels, own, positive_pairs, negative_pairs, None)
    flags = (
        include_query,
        mean,
        learning and embeddings.requires_grad,
        learning and ref_emb is not None and ref_emb.requires_grad,
    )
    if torch.compiler.is_compiling() and isinstance(block, SmoothAPBlock):
        return _whole(*sets, block.tau, *flags)[0]
    return _Eager.apply(*sets, block, *flags)


def loss_and_gradient(
    embeddings: Tensor,
    ref_emb: Tensor | None,
    labels: Tensor | None,
    ref_labels: Tensor | None,
    own: Tensor | None,
    positive_pairs: Tensor | None,
    negative_pairs: Tensor | None,
    weights: Tensor | None,
    block: Block,
    include_query: bool,
    mean: bool,
    with_gradient: bool,
    with_reference_gradient: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """The values of each query or their mean, and the gradient with respect to embeddings (b, d) and ref_emb (m, d).

    The gradient is that of the mean over the queries with a positive, or of the sum weighted by weights (b, *values).
    The mean's is known with its value and made in the same pass; values of each query ask for a second pass.
    """
    now = mean or weights is not None
    with full_precision(embeddings.device.type):
        queries, lengths = unit_rows(embeddings, "embeddings")
        items, item_lengths = (queries, lengths) if ref_emb is None else unit_rows(ref_emb, "ref_emb")
        fused = None
        batch_alone = labels is not None and ref_emb is None and positive_pairs is None
        if isinstance(block, SmoothAPBlock) and batch_alone and can_fuse(queries):
            fused = symmetric_smooth_ap(queries, labels.cpu(), block.tau, include_query, weights, with_gradient and now)
        if fused is not None:
            per_query, asking, gradient, item_gradient = *fused, None
        else:
            if positive_pairs is not None and negative_pairs is not None:
                sets = ListedSets.of(positive_pairs, negative_pairs, len(queries), len(items))
            else:
                sets = _labelled(queries, items, labels, ref_labels, own, include_query)
            per_query, asking, gradient, item_gradient = _stream(
                queries, items, sets, weights, block, with_gradient and now, with_reference_gradient and now
            )
        loss = per_query.sum() / max(1, asking) if mean else per_query
        first = second = None
        if gradient is not None:
            first = back_through_units(gradient, queries, lengths).to(embeddings.dtype)
        if item_gradient is not None and ref_emb is not None:
            second = back_through_units(item_gradient, items, item_lengths).to(ref_emb.dtype)
    return (
        loss,
        embeddings.new_empty(0) if first is None else first,
        embeddings.new_empty(0) if second is None else second,
    )


def smooth_ap_and_gradient(
    embeddings: Tensor,
    ref_emb: Tensor | None,
    labels: Tensor | None,
    ref_labels: Tensor | None,
    own: Tensor | None,
    positive_pairs: Tensor | None,
    negative_pairs: Tensor | None,
    weights: Tensor | None,
    tau: float,
    include_query: bool,
    mean: bool,
    with_gradient: bool,
    with_reference_gradient: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """`loss_and_gradient` of Smooth-AP, with arguments that an operator may have."""
    return loss_and_gradient(
        embeddings, ref_emb, labels, ref_labels, own, positive_pairs, negative_pairs, weights, SmoothAPBlock(tau),
        include_query, mean, with_gradient, with_reference_gradient,
    )  # fmt: skip


def _shapes(
    embeddings: Tensor,
    ref_emb: Tensor | None,
    labels: Tensor | None,
    ref_labels: Tensor | None,
    own: Tensor | None,
    positive_pairs: Tensor | None,
    negative_pairs: Tensor | None,
    weights: Tensor | None,
    tau: float,
    include_query: bool,
    mean: bool,
    with_gradient: bool,
    with_reference_gradient: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    now = mean or weights is not None
    dtype = torch.promote_types(embeddings.dtype, torch.float32)
    return (
        embeddings.new_empty(() if mean else (len(embeddings),), dtype=dtype),
        torch.empty_like(embeddings) if with_gradient and now else embeddings.new_empty(0),
        torch.empty_like(ref_emb)
        if ref_emb is not None and with_reference_gradient and now
        else embeddings.new_empty(0),
    )


def _remember(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    ctx.settings, (ctx.mean, ctx.with_gradient, ctx.with_reference_gradient) = inputs[8:10], inputs[10:]
    ctx.save_for_backward(*(output[1:] if ctx.mean else inputs[:7]))


def _send_back(ctx: Any, upstream: Tensor, again: Callable[..., Any]) -> tuple[Tensor | None, ...]:
    if ctx.mean:
        gradient, item_gradient = ctx.saved_tensors
        gradient = gradient * upstream if ctx.with_gradient else None
        item_gradient = item_gradient * upstream if ctx.with_reference_gradient else None
    else:
        _, gradient, item_gradient = again(
            *ctx.saved_tensors, upstream, *ctx.settings, False, ctx.with_gradient, ctx.with_reference_gradient
        )
    return (
        gradient if ctx.with_gradient else None,
        item_gradient if ctx.with_reference_gradient else None,
        *[None] * 11,
    )


class _Eager(torch.autograd.Function):
    """The loss in eager mode: autograd's own class costs half a millisecond less than a registered operator."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        output = loss_and_gradient(*inputs)
        _remember(ctx, inputs, output)
        return output[0]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        return _send_back(ctx, upstream[0], loss_and_gradient)


def _backward(ctx: Any, upstream: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
    return _send_back(ctx, upstream, _whole)


# Smooth-AP as one registered operator, which torch.compile takes as a whole.
_whole = torch.library.custom_op("smoothap::smooth_ap_and_gradient", smooth_ap_and_gradient, mutates_args=())
_whole.register_fake(_shapes)
_whole.register_autograd(_backward, setup_context=_remember)


def _labelled(
    queries: Tensor, items: Tensor, labels: Tensor | None, ref_labels: Tensor | None, own: Tensor | None, include: bool
) -> LabelledSets:
    assert labels is not None
    labels = labels.to(queries.device, torch.long)
    if items is queries:
        return LabelledSets.of(labels, labels, None if include else torch.arange(len(queries), device=queries.device))
    assert ref_labels is not None
    if own is not None:
        own = own.to(queries.device, torch.long)
        check_own(own, len(items))
    return LabelledSets.of(labels, ref_labels.to(queries.device, torch.long), own)


def _stream(
    queries: Tensor,
    items: Tensor,
    sets: LabelledSets | ListedSets,
    weights: Tensor | None,
    block: Block,
    with_gradient: bool,
    with_item_gradient: bool,
) -> tuple[Tensor, int, Tensor | None, Tensor | None]:
    """The block's values per query (0 without a positive), how many have one, and both gradients for unit rows."""
    positives = sets.positives()
    asking = (positives > 0).nonzero()[:, 0]
    loss = queries.new_zeros(len(queries), *block.values)
    gradient = torch.zeros_like(queries) if with_gradient else None
    item_gradient = gradient if items is queries else torch.zeros_like(items) if with_item_gradient else None
    if weights is None:
        weights = loss.new_full(loss.shape, 1 / max(1, len(asking)))
    weights = weights.to(loss.dtype) if with_gradient or with_item_gradient else None

    for asked in _blocks(asking, positives, len(items)):
        rows = queries[asked]
        scores = torch.addmm(rows.new_empty(len(rows), len(items)), rows, items.T, beta=0, alpha=block.scale)
        columns, valid, positive_scores = sets.block(asked, scores)
        loss[asked], positive_gradient = block(
            scores, positive_scores, valid, None if weights is None else weights[asked]
        )
        if weights is None:
            continue
        score_gradient = scores.scatter_add_(1, columns, positive_gradient)
        if item_gradient is gradient is not None and isinstance(asked, slice) and len(rows) == len(items):
            torch.mm(score_gradient + score_gradient.T, items, out=gradient)  # one product for both sides
            break
        if gradient is not None:
            gradient[asked] += score_gradient @ items
        if item_gradient is not None:
            item_gradient.addmm_(score_gradient.T, rows)
    return loss, len(asking), gradient, item_gradient


def _blocks(asking: Tensor, positives: Tensor, items: int) -> list[Tensor | slice]:
    """Blocks of the queries that have a positive; those with as many positives together, so that little is padded."""
    size = min(_MOST_QUERIES_AT_ONCE, max(16, _SCORES_AT_ONCE // items))
    if len(asking) == len(positives) and bool((positives == positives[0]).all()):
        return [slice(start, min(start + size, len(asking))) for start in range(0, len(asking), size)]
    by_positives = asking[torch.argsort(positives[asking], stable=True)]
    return list(by_positives.split(size)) if len(asking) else []
