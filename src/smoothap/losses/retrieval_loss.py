"""A loss of a batch against a retrieval set, streamed in blocks of queries: never all scores at once.

`RetrievalLoss.forward` checks what it is given, the autograd function `Streamed` makes the scores block by block and
sends their gradient back to the embeddings, and the loss's `Block` turns the scores of some queries into values.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Protocol

import torch
from torch import Tensor, nn

from smoothap._core.devices import on_cpu
from smoothap._core.precision import full_precision
from smoothap._core.threads import can_fuse
from smoothap.functional.block import first_order, graph_of, refuse_forward_mode
from smoothap.losses.inputs import Call, checked_call
from smoothap.losses.retrieval_sets import LabelledSets, RetrievalSets, retrieval_sets, with_plain_labels
from smoothap.losses.symmetric import Symmetric
from smoothap.losses.unit_rows import normalise

Reduction = Literal["mean", "none"]
_SCORES_AT_ONCE = 1 << 22  # 16 MB in float32
_MOST_QUERIES_AT_ONCE = 512


class Block(Protocol):
    """What a loss makes of a few queries; a loss derives its own, and may leave out all but `__call__`."""

    values: ClassVar[tuple[int, ...]] = ()  # the shape of what one query gets: a single number, or several
    needs_positives: ClassVar[bool] = True  # queries without one are left out

    @property
    def scale(self) -> float:
        """What cosines are multiplied with before they are scores."""
        return 1.0

    def __call__(
        self, scores: Tensor, positive_scores: Tensor, valid: Tensor, weights: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """The values (b, *values) of b queries, given their scores with the whole retrieval set.

        scores (b, m): those of the negatives, `OUTSIDE` wherever an item is not a negative of that query.
        positive_scores (b, p), valid (b, p) bool: which of the p slots hold a positive; every query has one.
        weights (b, *values): if given, `scores` is overwritten with the gradient of the weighted values with respect
        to the cosines, and the second result (b, p) is that of the positives.
        """
        ...

    def symmetric(
        self, units: Tensor, labels: Tensor, include_query: bool, weights: Tensor | None, with_gradient: bool
    ) -> Symmetric | None:
        """A faster way for units (b, d), float32 on the CPU, that retrieve from themselves by labels (b,), or None."""
        return None


@dataclass(frozen=True)
class Request:
    """What is wanted of a call; without its tensors, which autograd saves, and frees after the backward pass."""

    block: Block
    include_query: bool
    mean: bool  # over the queries with a positive; else each query's values
    with_gradient: bool  # of the embeddings
    with_reference_gradient: bool  # of ref_emb

    def gradients_now(self, weights: Tensor | None) -> tuple[bool, bool]:
        """Whether a pass with these weights makes the gradients of embeddings and of ref_emb.

        The mean's gradient is known with its value and made in the same pass; values of each query wait for weights.
        """
        now = self.mean or weights is not None
        return self.with_gradient and now, self.with_reference_gradient and now


class RetrievalLoss(nn.Module):
    """A loss of queries against a retrieval set: what its `block` makes of them."""

    block: Block
    include_query: bool = False
    reduction: Reduction = "mean"
    # The standard deviation that differences of scores may be off by before the loss is blurred: a fifth of the
    # temperature of a sigmoid; None where a loss does not say. Training asks for it before it computes in 16 bits.
    tolerated_noise: float | None = None

    def forward(
        self,
        embeddings: Tensor,
        labels: Tensor | None = None,
        indices_tuple: tuple[Tensor, ...] | None = None,
        ref_emb: Tensor | None = None,
        ref_labels: Tensor | None = None,
        self_index: Tensor | None = None,
        positives: Tensor | None = None,
    ) -> Tensor:
        """The loss of embeddings (b, d) with labels (b,), whatever their order, length or device.

        labels (b, c) of 0 and 1: an image may have several; those that share one are positives of each other.
        ref_emb (m, d), ref_labels (m,) or (m, c): replace the batch as the retrieval set. If `ref_emb` is the very
        tensor `embeddings`, each query is left out of its own ranking, as without it.
        self_index (b,): each query's own column in `ref_emb`, which is left out; -1 where it has none.
        indices_tuple: pairs (a, p, a, n) or triplets (a, p, n) that are P_q and N_q; labels then play no part.
        positives (b, b) or (b, m) bool, instead of labels: the positives of each query; all others are its negatives.
        """
        refuse_forward_mode(embeddings, ref_emb)
        return self.loss_of(
            checked_call(
                embeddings, labels, indices_tuple, ref_emb, ref_labels, self_index, positives, self.include_query
            )
        )

    # A graph of torch.compile ends before this and begins after it; `SmoothAP` can be part of one.
    @torch.compiler.disable  # ty: ignore[dynamic-function-decorator-return]
    def loss_of(self, call: Call) -> Tensor:
        """The loss of a call that was checked."""
        return Streamed.apply(call.embeddings, call.ref_emb, call, self.request(call))

    def request(self, call: Call) -> Request:
        """What this loss wants of a call."""
        learning = torch.is_grad_enabled()
        wanted = (learning and rows is not None and rows.requires_grad for rows in (call.embeddings, call.ref_emb))
        return Request(self.block, self.include_query, self.reduction == "mean", *wanted)

    def extra_repr(self) -> str:
        return repr(self.block).partition("(")[2].removesuffix(")")


class Streamed(torch.autograd.Function):
    """The answer to a request; eager, where a registered operator would cost half a millisecond more."""

    @staticmethod
    def forward(ctx: Any, embeddings: Tensor, ref_emb: Tensor | None, call: Call, request: Request) -> Tensor:
        loss, *gradients = stream(call, request)
        # the gradients of a mean are known; values of each query wait for weights, with which they are streamed again
        ctx.request, ctx.origins = request, graph_of(embeddings, ref_emb)
        ctx.save_for_backward(*(gradients if request.mean else call))
        return loss

    @staticmethod
    def backward(ctx: Any, *upstreams: Tensor) -> tuple[Tensor | None, ...]:
        return *send_back(ctx.request, ctx.saved_tensors, ctx.origins, upstreams[0], stream), None, None


def send_back(
    request: Request,
    saved: Sequence[Any],
    origins: Sequence[Tensor | None],
    upstream: Tensor,
    stream: Callable[..., tuple[Tensor | None, ...]],
) -> list[Tensor | None]:
    """The gradients of embeddings and ref_emb from that of the loss; None for one that is not wanted.

    saved: the gradients of a mean, or the call; origins: the tensors that the gradients come from.
    """
    # autograd rounds the product to the rows' dtype; rounded before, small float16 gradients would be lost to a loss
    # scaler, whose factor comes with the upstream gradient
    with torch.no_grad():
        if request.mean:
            gradients = [None if gradient is None else gradient * upstream for gradient in saved]
        else:
            _, *gradients = stream(Call(*saved), request, upstream)
    wanted = zip(gradients, (request.with_gradient, request.with_reference_gradient), strict=True)
    return [first_order(gradient, upstream, *origins) if is_wanted else None for gradient, is_wanted in wanted]


def stream(call: Call, request: Request, weights: Tensor | None = None) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """The values of each query or their mean, and the gradients of embeddings (b, d) and ref_emb (m, d), or None.

    The gradient is that of the mean over the queries with a positive, or of the sum with weights (b, *values).
    """
    call = with_plain_labels(call)
    embeddings, ref_emb, labels = call.embeddings, call.ref_emb, call.labels
    with full_precision(embeddings.device.type):
        rows = normalise(embeddings, call.dtype)
        items = rows if ref_emb is None else normalise(ref_emb, call.dtype)
        symmetric = call.retrieves_from_itself and can_fuse(rows.units)
        sets = None if symmetric else retrieval_sets(call, request.include_query)
        # one look at what the CPU must know, since each makes it wait for a GPU
        flags, *counts = on_cpu(torch.stack([rows.ordinary, items.ordinary]), *([] if sets is None else sets.counts))
        rows = rows.checked(bool(flags[0]), embeddings, "embeddings")
        items = rows if ref_emb is None else items.checked(bool(flags[1]), ref_emb, "ref_emb")
        streamed = None
        if symmetric and labels is not None:
            streamed = _stream_symmetric(request, rows.units, labels, weights)
        if streamed is None:
            if sets is None:
                sets = retrieval_sets(call, request.include_query)
                counts = sets.counts
            streamed = _stream_blocks(request, rows.units, items.units, sets, counts, weights)
        per_query, with_positive, gradient, *item_gradients = streamed
        item_gradient = None
        loss = per_query.sum() / max(1, with_positive) if request.mean else per_query
        if gradient is not None:
            gradient = rows.gradient_back(gradient, embeddings, "embeddings", weights)
        if ref_emb is not None and item_gradients[0] is not None:  # else the gradient of the batch holds both sides
            item_gradient = items.gradient_back(item_gradients[0], ref_emb, "ref_emb", weights)
    return loss, gradient, item_gradient


def _stream_symmetric(
    request: Request, units: Tensor, labels: Tensor, weights: Tensor | None
) -> tuple[Tensor, int, Tensor | None, Tensor | None] | None:
    """As `_stream_blocks` by the block's faster way, if it has one; queries that it leaves are streamed."""
    with_gradient, _ = request.gradients_now(weights)
    answer = request.block.symmetric(units, labels, request.include_query, weights, with_gradient)
    if answer is None:
        return None
    values, with_positive, gradient, left = answer
    if len(left):
        labels = labels.to(units.device, torch.long)
        sets = LabelledSets.of(labels[left], labels, None if request.include_query else left)
        weights = units.new_full((len(units),), 1 / with_positive) if weights is None else weights
        rest = replace(request, with_gradient=with_gradient, with_reference_gradient=with_gradient)
        found = _stream_blocks(rest, units[left], units, sets, sets.counts, weights[left])
        values[left] = found[0]
        if gradient is not None and found[2] is not None and found[3] is not None:
            gradient += found[3]
            gradient[left] += found[2]
    return values, with_positive, gradient, None


def _stream_blocks(
    request: Request, queries: Tensor, items: Tensor, sets: RetrievalSets, counts: list[Tensor], weights: Tensor | None
) -> tuple[Tensor, int, Tensor | None, Tensor | None]:
    """As `Block.symmetric`, then the gradient of items (m, d): for rows of length 1, block by block.

    counts: what `sets.counts` says, on the CPU.
    """
    block, (positives, *widths) = request.block, counts
    with_positive = int((positives > 0).sum())
    loss = queries.new_zeros(len(queries), *block.values)
    with_gradient, with_item_gradient = request.gradients_now(weights)
    gradient = torch.zeros_like(queries) if with_gradient else None
    item_gradient = gradient if items is queries else torch.zeros_like(items) if with_item_gradient else None
    if weights is None:
        weights = loss.new_full(loss.shape, 1 / max(1, with_positive))
    weights = weights.to(loss.dtype) if with_gradient or with_item_gradient else None

    for place in _blocks(positives, len(items), block.needs_positives):
        widest = [int(width[place].max()) for width in widths]
        chosen = place if isinstance(place, slice) else place.to(queries.device)
        rows = queries[chosen]
        scores = torch.addmm(rows.new_empty(len(rows), len(items)), rows, items.T, beta=0, alpha=block.scale)
        columns, valid, positive_scores = sets.block(chosen, scores, *widest)
        chosen_weights = None if weights is None else weights[chosen]
        loss[chosen], positive_gradient = block(scores, positive_scores, valid, chosen_weights)
        if weights is None:
            continue
        scores.scatter_add_(1, columns, positive_gradient)  # now the gradient with respect to each score
        if item_gradient is gradient is not None and isinstance(chosen, slice) and len(rows) == len(items):
            torch.mm(scores + scores.T, items, out=gradient)  # one product for both sides
            break
        if gradient is not None:
            gradient[chosen] += scores @ items
        if item_gradient is not None:
            item_gradient.addmm_(scores.T, rows)
    return loss, with_positive, gradient, item_gradient


def _blocks(positives: Tensor, items: int, only_with_positives: bool) -> list[Tensor | slice]:
    """Blocks of the queries that count; those with as many positives together, so that little is padded."""
    size = min(_MOST_QUERIES_AT_ONCE, max(16, _SCORES_AT_ONCE // items))
    least = int(only_with_positives)
    if bool((positives == positives[0]).all()) and int(positives[0]) >= least:
        return [slice(start, min(start + size, len(positives))) for start in range(0, len(positives), size)]
    counted = (positives >= least).nonzero()[:, 0]
    by_positives = counted[torch.argsort(positives[counted], stable=True)]
    return list(by_positives.split(size)) if len(counted) else []
