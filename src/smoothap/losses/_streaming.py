"""A loss of a batch against a retrieval set, streamed in blocks of queries: never all scores at once.

`streamed_loss` makes a `Request` of a call, autograd's function `_Eager` keeps what the backward pass needs, and
`Request.answer` does the work: unit rows, scores block by block, what the loss's `Block` makes of them, and back.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import torch
from torch import Tensor

from smoothap._core.devices import on_cpu
from smoothap._core.precision import full_precision
from smoothap._core.threads import can_fuse
from smoothap.functional.first_order import first_order, graph_of
from smoothap.losses._normalising import normalise
from smoothap.losses._retrieval_sets import RetrievalSets, retrieval_sets
from smoothap.losses.inputs import Call, check_inputs

_SCORES_AT_ONCE = 1 << 22  # 16 MB in float32
_MOST_QUERIES_AT_ONCE = 512


class Streamed(NamedTuple):
    """The values of each query (0 without a positive), how many have one, and the gradients for rows of length 1."""

    per_query: Tensor
    with_positive: int
    gradient: Tensor | None
    item_gradient: Tensor | None = None


class Block(Protocol):
    """What a loss makes of a few queries; a loss derives its own, and may leave out all but `__call__`."""

    values: ClassVar[tuple[int, ...]] = ()  # the shape of what one query gets: a single number, or several

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
    ) -> Streamed | None:
        """A faster way for units (b, d), float32 on the CPU, that retrieve from themselves by labels (b,), or None."""
        return None

    def traced(self, request: "Request", call: Call) -> Tensor | None:
        """The loss as one operator of the graph that torch.compile makes; None where there is none."""
        return None


@dataclass(frozen=True)
class Request:
    """What is wanted of a call; without its tensors, which autograd saves, and frees after the backward pass."""

    block: Block
    include_query: bool
    mean: bool
    with_gradient: bool
    with_reference_gradient: bool

    def gradients_now(self, weights: Tensor | None) -> tuple[bool, bool]:
        """Whether a pass with these weights makes the gradients of embeddings and of ref_emb.

        The mean's gradient is known with its value and made in the same pass; values of each query wait for weights.
        """
        now = self.mean or weights is not None
        return self.with_gradient and now, self.with_reference_gradient and now

    def answer(self, call: Call, weights: Tensor | None = None) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """The values of each query or their mean, and the gradients of embeddings (b, d) and ref_emb (m, d), or None.

        The gradient is that of the mean over the queries with a positive, or of the sum with weights (b, *values).
        """
        embeddings, ref_emb = call.embeddings, call.ref_emb
        with full_precision(embeddings.device.type):
            rows = normalise(embeddings, call.dtype)
            items = rows if ref_emb is None else normalise(ref_emb, call.dtype)
            symmetric = call.retrieves_from_itself and can_fuse(rows.units)
            sets = None if symmetric else retrieval_sets(call, self.include_query)
            # one look at what the CPU must know, since each makes it wait for a GPU
            flags, *counts = on_cpu(
                torch.stack([rows.ordinary, items.ordinary]), *([] if sets is None else sets.counts)
            )
            rows = rows.checked(bool(flags[0]), embeddings, "embeddings")
            items = rows if ref_emb is None else items.checked(bool(flags[1]), ref_emb, "ref_emb")
            streamed = None
            if symmetric and call.labels is not None:
                with_gradient, _ = self.gradients_now(weights)
                streamed = self.block.symmetric(rows.units, call.labels, self.include_query, weights, with_gradient)
            if streamed is None:
                if sets is None:
                    sets = retrieval_sets(call, self.include_query)
                    counts = sets.counts
                streamed = self.stream(rows.units, items.units, sets, counts, weights)
            per_query, with_positive, gradient, item_gradient = streamed
            loss = per_query.sum() / max(1, with_positive) if self.mean else per_query
            if gradient is not None:
                gradient = rows.gradient_back(gradient, embeddings, "embeddings", weights)
            if ref_emb is None:
                item_gradient = None  # the gradient of the batch holds both sides
            elif item_gradient is not None:
                item_gradient = items.gradient_back(item_gradient, ref_emb, "ref_emb", weights)
        return loss, gradient, item_gradient

    def stream(
        self, queries: Tensor, items: Tensor, sets: RetrievalSets, counts: list[Tensor], weights: Tensor | None
    ) -> Streamed:
        """The answer for rows of length 1, block by block; `answer` says what the weights are.

        counts: what `sets.counts` says, on the CPU.
        """
        positives, *widths = counts
        with_positive = int((positives > 0).sum())
        loss = queries.new_zeros(len(queries), *self.block.values)
        with_gradient, with_item_gradient = self.gradients_now(weights)
        gradient = torch.zeros_like(queries) if with_gradient else None
        item_gradient = gradient if items is queries else torch.zeros_like(items) if with_item_gradient else None
        if weights is None:
            weights = loss.new_full(loss.shape, 1 / max(1, with_positive))
        weights = weights.to(loss.dtype) if with_gradient or with_item_gradient else None

        for place in _blocks(positives, len(items)):
            widest = [int(width[place].max()) for width in widths]
            chosen = place if isinstance(place, slice) else place.to(queries.device)
            rows = queries[chosen]
            scores = torch.addmm(rows.new_empty(len(rows), len(items)), rows, items.T, beta=0, alpha=self.block.scale)
            columns, valid, positive_scores = sets.block(chosen, scores, *widest)
            loss[chosen], positive_gradient = self.block(
                scores, positive_scores, valid, None if weights is None else weights[chosen]
            )
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
        return Streamed(loss, with_positive, gradient, item_gradient)


def streamed_loss(block: Block, call: Call, include_query: bool = False, mean: bool = True) -> Tensor:
    """The block's loss, which backpropagates: the mean over the queries with a positive, or each query's values."""
    check_inputs(call, include_query)
    embeddings, ref_emb = call.embeddings, call.ref_emb
    learning = torch.is_grad_enabled()
    wanted = (learning and rows is not None and rows.requires_grad for rows in (embeddings, ref_emb))
    request = Request(block, include_query, mean, *wanted)
    traced = block.traced(request, call) if torch.compiler.is_compiling() else None
    return _Eager.apply(embeddings, ref_emb, call, request) if traced is None else traced


class _Eager(torch.autograd.Function):
    """The loss in eager mode: autograd's own class costs half a millisecond less than a registered operator."""

    @staticmethod
    def forward(ctx: Any, embeddings: Tensor, ref_emb: Tensor | None, call: Call, request: Request) -> Tensor:
        loss, *gradients = request.answer(call)
        ctx.request, ctx.origins = request, graph_of(embeddings, ref_emb)
        ctx.save_for_backward(*(gradients if request.mean else call.tensors()))
        return loss

    @staticmethod
    def backward(ctx: Any, *upstreams: Tensor) -> tuple[Tensor | None, ...]:
        (upstream,) = upstreams  # there is one output
        # autograd rounds the product to the rows' dtype; rounded before, small float16 gradients would be lost to a
        # loss scaler, whose factor comes with the upstream gradient
        with torch.no_grad():
            if ctx.request.mean:
                gradients = [None if gradient is None else gradient * upstream for gradient in ctx.saved_tensors]
            else:
                _, *gradients = ctx.request.answer(Call.of_tensors(*ctx.saved_tensors), upstream)
        return *(first_order(gradient, upstream, *ctx.origins) for gradient in gradients), None, None


def _blocks(positives: Tensor, items: int) -> list[Tensor | slice]:
    """Blocks of the queries that have a positive; those with as many positives together, so that little is padded."""
    size = min(_MOST_QUERIES_AT_ONCE, max(16, _SCORES_AT_ONCE // items))
    if bool((positives == positives[0]).all()) and int(positives[0]):
        return [slice(start, min(start + size, len(positives))) for start in range(0, len(positives), size)]
    with_positive = positives.nonzero()[:, 0]
    by_positives = with_positive[torch.argsort(positives[with_positive], stable=True)]
    return list(by_positives.split(size)) if len(with_positive) else []
