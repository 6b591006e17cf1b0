"""Average Precision of scores from any similarity: exact (Eq. 5) and smoothed (the equation between Eq. 6 and 7).

Ties count against a positive in the exact one, as in scikit-learn.
"""

from typing import Any

import torch
from torch import Tensor

from smoothap._core.devices import widest_float
from smoothap._core.precision import full_precision
from smoothap.functional.block import (
    OUTSIDE,
    first_order,
    graph_of,
    padded_columns,
    refuse_forward_mode,
    smooth_ap_block,
)
from smoothap.functional.indicators import check_temperature

_SCORES_AT_ONCE = 1 << 22


def average_precision(scores: Tensor, relevant: Tensor) -> Tensor:
    """AP of each query over its whole ranking, in float64 (float32 where a device has no other); NaN without positives.

    scores (queries, items) of any similarity, relevant (queries, items) bool -> (queries,); or (items,) -> ().

    >>> average_precision(torch.tensor([0.9, 0.8, 0.7]), torch.tensor([True, False, True]))
    tensor(0.8333, dtype=torch.float64)
    """
    matrix, mask = check_scores(scores, relevant)
    matrix = matrix.detach()
    items = matrix.shape[1]
    ascending = matrix.sort(1).values
    positives_ascending = matrix.masked_fill(~mask, float("-inf")).sort(1).values
    at_least = items - torch.searchsorted(ascending, matrix)  # items that score at least as high, itself included
    positives_at_least = items - torch.searchsorted(positives_ascending, matrix)
    wide = widest_float(matrix.device)
    precision = (positives_at_least.to(wide) / at_least.to(wide)).masked_fill_(~mask, 0.0)
    return (precision.sum(1) / mask.sum(1)).reshape(scores.shape[:-1])


def check_shapes(scores: Tensor, relevant: Tensor) -> None:
    """Refuse anything but one score and one flag for each item of each query."""
    for values, name in ((scores, "scores"), (relevant, "relevant")):
        if not isinstance(values, Tensor):
            raise TypeError(f"{name} must be a tensor, not {type(values).__name__}: wrap it with torch.as_tensor")
    if scores.shape != relevant.shape or scores.ndim not in (1, 2) or not scores.shape[-1]:
        raise ValueError(
            f"scores and relevant must both be (queries, items), not {tuple(scores.shape)} and {tuple(relevant.shape)}"
        )


def check_scores(scores: Tensor, relevant: Tensor) -> tuple[Tensor, Tensor]:
    """Scores and a relevance mask of shape (queries, items), from that or from one query's (items,).

    A score of -inf leaves an item out of the retrieval set; a relevant item must have a finite score.
    """
    check_shapes(scores, relevant)
    if not scores.is_floating_point():
        raise ValueError(f"scores must be floats, not {scores.dtype}: use scores.float()")
    if relevant.is_floating_point() or relevant.is_complex():
        raise ValueError(f"relevant must be a mask of True and False, not {relevant.dtype}: use relevant > 0")
    scores, relevant = scores.reshape(-1, scores.shape[-1]), relevant.reshape(-1, relevant.shape[-1]).bool()
    wrong = (scores.isnan() | (scores == float("inf")) | (relevant & ~scores.isfinite())).any(1)
    if bool(wrong.any()):
        row = int(wrong.nonzero()[0, 0])
        raise ValueError(
            f"scores of query {row} are NaN, +inf, or -inf for a relevant item: only items that are left out of the "
            "retrieval set may be -inf"
        )
    return scores, relevant


def smooth_ap(scores: Tensor, relevant: Tensor, tau: float = 0.01) -> Tensor:
    """Smoothed AP of each query, which backpropagates to the scores; NaN for a query without a relevant item.

    scores (queries, items), relevant (queries, items) bool -> (queries,); or (items,) -> (). Leave the query itself
    out of its row, or give it a score of -inf, which takes an item out of the retrieval set.

    >>> scores = torch.tensor([0.9, 0.8, 0.7], requires_grad=True)
    >>> smooth_ap(scores, torch.tensor([True, False, True]), tau=0.01)
    tensor(0.8333, grad_fn=<ViewBackward0>)
    """
    check_temperature(tau, "tau", "the paper's 0.01")
    check_shapes(scores, relevant)
    refuse_forward_mode(scores)
    learning = torch.is_grad_enabled() and scores.requires_grad
    rows = scores.reshape(-1, scores.shape[-1])
    mask = relevant.reshape(-1, relevant.shape[-1])
    (origin,) = graph_of(rows) if learning else (None,)
    return smooth_ap_of_scores(rows, mask, float(tau), learning, origin)[0].reshape(scores.shape[:-1])


@torch.library.custom_op("smoothap::smooth_ap_of_scores", mutates_args=())
def smooth_ap_of_scores(
    scores: Tensor, relevant: Tensor, tau: float, with_gradient: bool, origin: Tensor | None
) -> tuple[Tensor, Tensor]:
    """AP (queries,) and dAP/dscores (queries, items): a query's AP depends on its own row alone."""
    matrix, mask = check_scores(scores, relevant)
    negatives = matrix.to(torch.promote_types(matrix.dtype, torch.float32)) / tau
    if bool((negatives.isinf() & matrix.isfinite()).any()):
        raise ValueError(
            f"scores of up to {float(matrix[matrix.isfinite()].abs().max()):.3g} divided by tau={tau} are beyond "
            f"{negatives.dtype}: scale the scores down, or raise tau"
        )
    result = negatives.new_empty(len(negatives))
    step = max(1, _SCORES_AT_ONCE // negatives.shape[1])
    for start in range(0, len(negatives), step):
        rows = slice(start, start + step)
        block = negatives[rows]
        count = mask[rows].sum(1)
        first = count.cumsum(0) - count
        columns, valid = padded_columns(mask[rows].nonzero()[:, 1], first, count, int(count.max()))
        positive_scores = block.gather(1, columns)
        block.masked_fill_(mask[rows], OUTSIDE)
        weights = torch.full_like(result[rows], 1 / tau) if with_gradient else None
        with full_precision(scores.device.type):
            result[rows], positive_gradient = smooth_ap_block(block, positive_scores, valid, weights)
        if with_gradient:
            block.scatter_add_(1, columns, positive_gradient)
    return result, negatives if with_gradient else negatives.new_empty(0)


@smooth_ap_of_scores.register_fake
def _shapes(
    scores: Tensor, relevant: Tensor, tau: float, with_gradient: bool, origin: Tensor | None
) -> tuple[Tensor, Tensor]:
    dtype = torch.promote_types(scores.dtype, torch.float32)
    return (
        scores.new_empty(len(scores), dtype=dtype),
        scores.new_empty(scores.shape if with_gradient else 0, dtype=dtype),
    )


def _remember(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(output[1], inputs[4])


def _backward(ctx: Any, upstream: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
    gradient, origin = ctx.saved_tensors
    with torch.no_grad():
        result = gradient * upstream[:, None]
    return first_order(result, upstream, origin), None, None, None, None


smooth_ap_of_scores.register_autograd(_backward, setup_context=_remember)
