"""Smooth-AP of a batch against a retrieval set, streamed in blocks of queries: never all scores at once."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from smoothap.losses.inputs import check_own
from smoothap.losses.retrieval_sets import LabelledSets, ListedSets
from smoothap.losses.symmetric import symmetric_smooth_ap
from smoothap.losses.unit_rows import back_through_units, unit_rows
from smoothap.ranking.block import smooth_ap_block
from smoothap.ranking.precision import full_precision
from smoothap.ranking.threads import can_fuse

_SCORES_AT_ONCE = 1 << 22  # 16 MB in float32
_MOST_QUERIES_AT_ONCE = 512


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
    """1 - AP of each query or their mean, and its gradient with respect to embeddings (b, d) and ref_emb (m, d).

    The gradient is that of the mean over the queries with a positive, or of the sum weighted by weights (b,). The
    mean's is known with its value and made in the same pass; one value per query asks for a second pass.
    """
    now = mean or weights is not None
    with full_precision(embeddings.device.type):
        queries, lengths = unit_rows(embeddings, "embeddings")
        items, item_lengths = (queries, lengths) if ref_emb is None else unit_rows(ref_emb, "ref_emb")
        fused = None
        if labels is not None and ref_emb is None and positive_pairs is None and can_fuse(queries):
            fused = symmetric_smooth_ap(queries, labels.cpu(), tau, include_query, weights, with_gradient and now)
        if fused is not None:
            per_query, asking, gradient, item_gradient = *fused, None
        else:
            if positive_pairs is not None and negative_pairs is not None:
                sets = ListedSets.of(positive_pairs, negative_pairs, len(queries), len(items))
            else:
                sets = _labelled(queries, items, labels, ref_labels, own, include_query)
            per_query, asking, gradient, item_gradient = _stream(
                queries, items, sets, weights, tau, with_gradient and now, with_reference_gradient and now
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


def _backward(ctx: Any, upstream: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
    if ctx.mean:
        gradient, item_gradient = ctx.saved_tensors
        gradient = gradient * upstream if ctx.with_gradient else None
        item_gradient = item_gradient * upstream if ctx.with_reference_gradient else None
    else:
        _, gradient, item_gradient = _whole(
            *ctx.saved_tensors, upstream, *ctx.settings, False, ctx.with_gradient, ctx.with_reference_gradient
        )
    return (
        gradient if ctx.with_gradient else None,
        item_gradient if ctx.with_reference_gradient else None,
        *[None] * 11,
    )


class _Eager(torch.autograd.Function):
    """The operator for eager mode: autograd's own class costs half a millisecond less than a registered operator."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        output = smooth_ap_and_gradient(*inputs)
        _remember(ctx, inputs, output)
        return output[0]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        return _backward(ctx, *upstream)


# The same as one registered operator, which torch.compile takes as a whole.
_whole = torch.library.custom_op("smoothap::smooth_ap_and_gradient", smooth_ap_and_gradient, mutates_args=())
_whole.register_fake(_shapes)
_whole.register_autograd(_backward, setup_context=_remember)


def smooth_ap_loss(*inputs: Any) -> Tensor:
    """The loss alone, which backpropagates; the inputs of `smooth_ap_and_gradient` in their order."""
    return _whole(*inputs)[0] if torch.compiler.is_compiling() else _Eager.apply(*inputs)


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
    tau: float,
    with_gradient: bool,
    with_item_gradient: bool,
) -> tuple[Tensor, int, Tensor | None, Tensor | None]:
    """1 - AP per query (0 without a positive), how many queries have one, and both gradients for unit rows."""
    positives = sets.positives()
    asking = (positives > 0).nonzero()[:, 0]
    loss = queries.new_zeros(len(queries))
    gradient = torch.zeros_like(queries) if with_gradient else None
    item_gradient = gradient if items is queries else torch.zeros_like(items) if with_item_gradient else None
    if weights is None:
        weights = loss.new_full((len(queries),), 1 / max(1, len(asking)))
    pull = -weights.to(loss.dtype) / tau if with_gradient or with_item_gradient else None

    for block in _blocks(asking, positives, len(items)):
        rows = queries[block]
        scores = torch.addmm(rows.new_empty(len(rows), len(items)), rows, items.T, beta=0, alpha=1 / tau)
        columns, valid, positive_scores = sets.block(block, scores)
        average_precision, positive_gradient = smooth_ap_block(
            scores, positive_scores, valid, None if pull is None else pull[block]
        )
        loss[block] = 1 - average_precision
        if pull is None:
            continue
        score_gradient = scores.scatter_add_(1, columns, positive_gradient)
        if item_gradient is gradient is not None and isinstance(block, slice) and len(rows) == len(items):
            torch.mm(score_gradient + score_gradient.T, items, out=gradient)  # one product for both sides
            break
        if gradient is not None:
            gradient[block] += score_gradient @ items
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
