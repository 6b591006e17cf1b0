"""The Smooth-AP loss, Eq. 7: one minus the smoothed Average Precision of every query of a batch."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from smoothap.functional.block import average_precision_of_ranks, ranked_block, smooth_ap_block
from smoothap.functional.indicators import Indicator, Sigmoid, refuse_tensor
from smoothap.losses.inputs import Call
from smoothap.losses.retrieval_loss import Block, Reduction, Request, RetrievalLoss, send_back, stream
from smoothap.losses.symmetric import Symmetric, symmetric_smooth_ap


@dataclass(frozen=True)
class IndicatorBlock(Block):
    """1 - AP, where `among` counts the positives above a positive and `above` the negatives."""

    among: Indicator
    above: Indicator

    def __call__(
        self, scores: Tensor, positive_scores: Tensor, valid: Tensor, weights: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        pull = None if weights is None else -weights
        average_precision, gradient = ranked_block(
            scores, positive_scores, valid, pull, average_precision_of_ranks, self.among, self.above
        )
        return 1 - average_precision, gradient


@dataclass(frozen=True)
class SmoothAPBlock(Block):
    """1 - smoothed AP with a sigmoid, Eq. 6: it has compiled kernels and a symmetric pass."""

    tau: float

    @property
    def scale(self) -> float:
        return 1 / self.tau

    def __call__(
        self, scores: Tensor, positive_scores: Tensor, valid: Tensor, weights: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        pull = None if weights is None else -weights / self.tau
        average_precision, gradient = smooth_ap_block(scores, positive_scores, valid, pull)
        return 1 - average_precision, gradient

    def symmetric(
        self, units: Tensor, labels: Tensor, include_query: bool, weights: Tensor | None, with_gradient: bool
    ) -> Symmetric | None:
        return symmetric_smooth_ap(units, labels.cpu(), self.tau, include_query, weights, with_gradient)


class SmoothAP(RetrievalLoss):
    """The loss of the paper: every item of the batch queries all the others, and the loss is the mean of 1 - AP.

    >>> import torch
    >>> embeddings = torch.eye(4).repeat_interleave(2, 0).requires_grad_()
    >>> loss = SmoothAP()(embeddings, torch.tensor([0, 0, 1, 1, 2, 2, 3, 3]))
    >>> round(loss.item(), 6)
    0.0

    tau: temperature of the sigmoid that stands for the indicator, Eq. 6.
    include_query: count the query among its own positives, as the authors' released code does.
    indicator: replaces that sigmoid and its tau; one of `smoothap.functional.indicators` or your own.
    reduction: "mean" over the queries that have a positive, or "none" for one value per query (0 where there is none).
    """

    def __init__(
        self,
        tau: float = 0.01,
        include_query: bool = False,
        reduction: Reduction = "mean",
        indicator: Indicator | None = None,
    ) -> None:
        super().__init__()
        refuse_tensor(tau, "tau")
        indicator = Sigmoid(tau) if indicator is None else indicator
        if reduction not in ("mean", "none"):
            raise ValueError(f'reduction must be "mean" or "none", not {reduction!r}')
        self.include_query, self.reduction = include_query, reduction
        if isinstance(indicator, Sigmoid):
            self.tau, self.block = float(indicator.tau), SmoothAPBlock(float(indicator.tau))
            self.tolerated_noise = self.tau / 5
        else:
            self.tau, self.block = float(tau), IndicatorBlock(indicator, indicator)

    def loss_of(self, call: Call) -> Tensor:
        """As `RetrievalLoss.loss_of`; with the sigmoid it is one operator in a graph of torch.compile."""
        if torch.compiler.is_compiling() and isinstance(self.block, SmoothAPBlock):
            return _stream_in_graph(call, self.request(call))[0]
        return super().loss_of(call)

    def extra_repr(self) -> str:
        indicator = self.block.above if isinstance(self.block, IndicatorBlock) else f"tau={self.tau}"
        return f"{indicator}, include_query={self.include_query}, reduction={self.reduction!r}"


@torch.library.custom_op("smoothap::smooth_ap_loss", mutates_args=())
def _operator(
    embeddings: Tensor,
    ref_emb: Tensor | None,
    sets: list[Tensor | None],
    weights: Tensor | None,
    tau: float,
    include_query: bool,
    mean: bool,
    wanted: list[bool],
) -> tuple[Tensor, Tensor, Tensor]:
    """`stream` for torch.compile, to which a gradient that is not made is an empty one; sets: the rest of a `Call`."""
    request = Request(SmoothAPBlock(tau), include_query, mean, *wanted)
    loss, *gradients = stream(Call(embeddings, ref_emb, *sets), request, weights)
    gradient, item_gradient = (loss.new_empty(0) if made is None else made for made in gradients)
    return loss, gradient, item_gradient


@_operator.register_fake
def _shapes(embeddings: Tensor, ref_emb: Tensor | None, *others: Any) -> tuple[Tensor, ...]:
    _, weights, _, _, mean, wanted = others
    loss = embeddings.new_empty(() if mean else len(embeddings), dtype=Call(embeddings, ref_emb).dtype)
    made = (asked and (mean or weights is not None) for asked in wanted)
    sides = zip((embeddings, ref_emb), made, strict=True)
    return loss, *(loss.new_empty(rows.shape if rows is not None and is_made else 0) for rows, is_made in sides)


def _stream_in_graph(call: Call, request: Request, weights: Tensor | None = None) -> tuple[Tensor, ...]:
    """`stream` as the operator: the same answer, with empty gradients for those that are not made."""
    assert isinstance(request.block, SmoothAPBlock)
    wanted = [request.with_gradient, request.with_reference_gradient]
    how = request.block.tau, request.include_query, request.mean, wanted
    return _operator(call.embeddings, call.ref_emb, list(call[2:]), weights, *how)


def _remember(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    embeddings, ref_emb, sets, _, tau, include_query, mean, wanted = inputs
    ctx.request = Request(SmoothAPBlock(tau), include_query, mean, *wanted)
    ctx.save_for_backward(*output[1:], embeddings, ref_emb, *sets)


def _backward(ctx: Any, upstream: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
    gradients, call = ctx.saved_tensors[:2], ctx.saved_tensors[2:]
    saved = gradients if ctx.request.mean else call
    return *send_back(ctx.request, saved, call[:2], upstream, _stream_in_graph), *([None] * 6)


_operator.register_autograd(_backward, setup_context=_remember)
