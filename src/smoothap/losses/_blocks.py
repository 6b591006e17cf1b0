"""Average Precision of a block, with any indicator or with the sigmoid of Smooth-AP.

Smooth-AP's block has compiled kernels, a symmetric pass, and an operator that torch.compile takes whole.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from smoothap.functional.block import average_precision_of_ranks, ranked_block, smooth_ap_block
from smoothap.functional.first_order import first_order
from smoothap.functional.indicators import Indicator
from smoothap.losses._streaming import Block, Request, Streamed
from smoothap.losses._symmetric import symmetric_smooth_ap
from smoothap.losses.inputs import Call


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
    """1 - smoothed AP with a sigmoid, Eq. 6."""

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
    ) -> Streamed | None:
        return symmetric_smooth_ap(units, labels.cpu(), self.tau, include_query, weights, with_gradient)

    def traced(self, request: Request, call: Call) -> Tensor | None:
        return _operator(*_pack(request, call))[0]


# An operator takes tensors and numbers, and answers with tensors: a gradient that is not made is an empty one.
_SCHEMA = """(
    Tensor embeddings, Tensor? ref_emb, Tensor? labels, Tensor? ref_labels, Tensor? self_index,
    Tensor? positive_pairs, Tensor? negative_pairs,
    Tensor? weights, float tau, bool include_query, bool mean, bool with_gradient, bool with_reference_gradient
) -> (Tensor, Tensor, Tensor)"""


def _pack(request: Request, call: Call, weights: Tensor | None = None) -> tuple[Any, ...]:
    assert isinstance(request.block, SmoothAPBlock)
    flags = request.include_query, request.mean, request.with_gradient, request.with_reference_gradient
    return *call.tensors(), weights, request.block.tau, *flags


def _unpack(packed: tuple[Any, ...]) -> tuple[Request, Call, Tensor | None]:
    *tensors, weights, tau, include_query, mean, with_gradient, with_reference_gradient = packed
    request = Request(SmoothAPBlock(tau), include_query, mean, with_gradient, with_reference_gradient)
    return request, Call.of_tensors(*tensors), weights


def _answer(*packed: Any) -> tuple[Tensor, ...]:
    request, call, weights = _unpack(packed)
    loss, *gradients = request.answer(call, weights)
    return loss, *(loss.new_empty(0) if gradient is None else gradient for gradient in gradients)


def _shapes(*packed: Any) -> tuple[Tensor, ...]:
    request, call, weights = _unpack(packed)
    embeddings = call.embeddings
    made = zip((embeddings, call.ref_emb), request.gradients_now(weights), strict=True)
    return (
        embeddings.new_empty(() if request.mean else (len(embeddings),), dtype=call.dtype),
        *(embeddings.new_empty(rows.shape if rows is not None and now else 0, dtype=call.dtype) for rows, now in made),
    )


def _remember(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.request, call, _ = _unpack(inputs)
    ctx.no_gradient = [None] * (len(inputs) - 2)  # for all but embeddings and ref_emb
    ctx.save_for_backward(*output[1:], *call.tensors())


def _send_back(ctx: Any, upstream: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
    request: Request = ctx.request
    saved = ctx.saved_tensors
    gradients, call = saved[:2], Call.of_tensors(*saved[2:])
    with torch.no_grad():
        if request.mean:
            gradients = [gradient * upstream for gradient in gradients]
        else:
            _, *gradients = _operator(*_pack(request, call, upstream))
    origins = upstream, call.embeddings, call.ref_emb
    wanted = zip(gradients, (request.with_gradient, request.with_reference_gradient), strict=True)
    return *(first_order(gradient, *origins) if is_wanted else None for gradient, is_wanted in wanted), *ctx.no_gradient


_operator = torch.library.custom_op("smoothap::smooth_ap_and_gradient", _answer, mutates_args=(), schema=_SCHEMA)
_operator.register_fake(_shapes)
_operator.register_autograd(_send_back, setup_context=_remember)
