"""Average Precision with a sigmoid instead of the indicator (the equation between Eq. 6 and 7), and its gradient.

Everything goes through one block: a few queries against the whole retrieval set, positives apart from negatives, so
that nothing larger than queries x retrieval set is ever made, and that only for a block of queries at a time.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from smoothap._core.threads import can_fuse, on_threads, parts_for
from smoothap.functional.indicators import Indicator, Sigmoid

OUTSIDE = float("-inf")  # the score of an item that is not in the retrieval set
SIGMOID = Sigmoid(1.0)  # of scores that were divided by tau before

# How many positives and negatives are above each positive, softly, and which slots hold one, (b, p) each -> the value
# of each query (b,) and its derivatives with respect to the first two (b, p), 0 in an empty slot.
Measure = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]
_TERMS_AT_ONCE = 1 << 21  # sigmoids held at once by the torch path: 8 MB in float32


def smooth_ap_block(
    scores: Tensor, positive_scores: Tensor, valid: Tensor, weights: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Smoothed AP of each query, from scores already divided by tau; NaN for a query without a positive.

    scores (b, m): those of the negatives, `OUTSIDE` wherever an item is not a negative of that query.
    positive_scores (b, p), valid (b, p) bool: which of the p slots hold a positive.
    weights (b,): if given, `scores` is overwritten with weights * dAP/dscores, and the second result (b, p) holds
    weights * dAP/dpositive_scores (without weights it is empty, and `scores` may be lost).
    """
    if can_fuse(scores):
        fused = _fused_block(scores, positive_scores, valid, weights)
        if fused is not None:
            return fused
    return ranked_block(scores, positive_scores, valid, weights)


def padded_columns(columns: Tensor, first: Tensor, size: Tensor, widest: int) -> tuple[Tensor, Tensor]:
    """Columns first[q] ... first[q] + size[q] - 1 of each query, padded to (b, p), and which of them are no padding.

    The padding repeats the query's first column. p is `widest`, the largest size, and 1 at least.
    """
    slots = torch.arange(max(1, widest), device=columns.device)
    valid = slots < size[:, None]
    if not len(columns):
        return torch.zeros_like(valid, dtype=torch.long), valid
    places = first[:, None] + torch.where(valid, slots, 0)
    return columns[places.clamp_(max=len(columns) - 1)], valid


def average_precision_of_ranks(among: Tensor, above: Tensor, valid: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """AP of each query from what is above its positives, and the derivatives; a `Measure`."""
    count = valid.sum(1, keepdim=True)
    among_positives = 1 + among  # R(i, S_P)
    rank = among_positives + above  # R(i, S_Omega)
    value = (among_positives / rank * valid).sum(1, keepdim=True) / count
    share = valid.to(rank.dtype) / count.clamp(min=1) / rank / rank
    return value[:, 0], share * above, -share * among_positives


def ranked_block(
    scores: Tensor,
    positive_scores: Tensor,
    valid: Tensor,
    weights: Tensor | None,
    measure: Measure = average_precision_of_ranks,
    among_indicator: Indicator = SIGMOID,
    above_indicator: Indicator = SIGMOID,
) -> tuple[Tensor, Tensor]:
    """A measure of the smoothed ranks of each query's positives; otherwise as `smooth_ap_block`.

    The indicators count the positives and the negatives that are above a positive.
    """
    queries, items = scores.shape
    slots = positive_scores.shape[1]
    learning = weights is not None
    gradient = torch.zeros_like(scores) if learning else scores
    positive_gradient = torch.zeros_like(positive_scores if learning else positive_scores[:0])
    values = scores.new_empty(queries)
    rows_at_once = max(1, _TERMS_AT_ONCE // max(1, items * slots))
    slots_at_once = max(1, _TERMS_AT_ONCE // max(1, items * rows_at_once))
    parts = [slice(slot, min(slot + slots_at_once, slots)) for slot in range(0, slots, slots_at_once)]
    at_once = learning and len(parts) == 1

    def compare(rows: slice, here: slice, with_slopes: bool) -> list[tuple[Tensor, Tensor | None]]:
        """What is above the positives i of some slots: positives, then negatives; sums (r, n) and slopes."""
        held = valid[rows]
        positive = positive_scores[rows, here].masked_fill(~held[:, here], 0.0)[:, :, None]
        among = positive_scores[rows].masked_fill(~held, OUTSIDE)[:, None, :] - positive  # D_ij = z_j - z_i
        among.diagonal(offset=here.start, dim1=1, dim2=2).fill_(OUTSIDE)  # j != i, Eq. 3
        above = scores[rows, None, :] - positive
        return [_sum(among_indicator, among, with_slopes), _sum(above_indicator, above, with_slopes)]

    for row in range(0, queries, rows_at_once):
        rows = slice(row, row + rows_at_once)
        compared = [compare(rows, here, at_once) for here in parts]
        among, above = (torch.cat([sums[side][0] for sums in compared], 1) for side in (0, 1))
        values[rows], pull, push = measure(among, above, valid[rows])
        if weights is None:
            continue
        pull, push = pull * weights[rows, None], push * weights[rows, None]
        for here, kept in zip(parts, compared, strict=True):
            # slopes that would not fit beside those of the other slots are made again
            (_, among_slope), (_, above_slope) = kept if at_once else compare(rows, here, True)
            assert among_slope is not None
            assert above_slope is not None
            gradient[rows] += torch.bmm(push[:, None, here], above_slope)[:, 0]
            positive_gradient[rows] += torch.bmm(pull[:, None, here], among_slope)[:, 0]
            positive_gradient[rows, here] -= push[:, here] * above_slope.sum(2) + pull[:, here] * among_slope.sum(2)
    if learning:
        scores.copy_(gradient)
    return values, positive_gradient


def _sum(indicator: Indicator, difference: Tensor, with_slopes: bool) -> tuple[Tensor, Tensor | None]:
    """The sum of the indicator over the last dimension, and its slopes where they are asked for."""
    value, slope = indicator.with_slope(difference) if with_slopes else (indicator(difference), None)
    return value.sum(-1), slope


def _fused_block(
    scores: Tensor, positive_scores: Tensor, valid: Tensor, weights: Tensor | None
) -> tuple[Tensor, Tensor] | None:
    """The same in one pass, or None (with nothing changed) where the positives of a query are too far apart for it."""
    from smoothap.functional.kernels import rows_against_set

    middles = middles_of(positive_scores, valid)
    if middles is None:
        return None
    average_precision = scores.new_empty(len(scores))
    positive_gradient = torch.empty_like(positive_scores)
    row_weights = torch.ones_like(middles) if weights is None else weights.to(scores.dtype)
    read = [tensor.contiguous() for tensor in (positive_scores, valid, row_weights, middles)]
    arrays = [tensor.detach().numpy() for tensor in (scores, *read, average_precision, positive_gradient)]
    parts = parts_for(scores.numel() * positive_scores.shape[1])
    on_threads(rows_against_set, parts, *arrays, weights is not None)
    return average_precision, positive_gradient if weights is not None else positive_gradient[:0]


def middles_of(positive_scores: Tensor, valid: Tensor) -> Tensor | None:
    """The middle (b,) of each query's positive scores (b, p); None if those of one are too far apart for kernels."""
    from smoothap.functional.kernels import WIDEST_SPREAD

    highest = positive_scores.masked_fill(~valid, OUTSIDE).amax(1)
    middles = 0.5 * (positive_scores.masked_fill(~valid, float("inf")).amin(1) + highest)
    return None if bool((highest - middles > WIDEST_SPREAD).any()) else middles


def graph_of(*tensors: Tensor | None) -> tuple[Tensor, ...]:
    """Empty tensors with the history of those that have one: a backward pass keeps them to know what it came from."""
    with torch.enable_grad():
        return tuple(tensor[:0].clone() for tensor in tensors if tensor is not None and tensor.requires_grad)


def refuse_forward_mode(*tensors: Tensor | None) -> None:
    """Refuse tangents of forward-mode derivatives, which would be lost without a word."""
    if forward_ad._current_level >= 0:  # a level is open: torch.compile sees this number, and not the tangents
        _refuse_tangents(*tensors)


@torch.compiler.disable  # ty: ignore[dynamic-function-decorator-return]
def _refuse_tangents(*tensors: Tensor | None) -> None:
    for tensor in tensors:
        if tensor is not None and forward_ad.unpack_dual(tensor).tangent is not None:
            raise RuntimeError(
                "Smoothed AP has no forward-mode derivative (torch.func.jvp, jacfwd), and torch.func.vjp and jacrev "
                "cannot take it: use backward, torch.autograd.grad or torch.autograd.functional.vjp"
            )


def first_order(gradient: Tensor | None, *origins: Tensor | None) -> Tensor | None:
    """The gradient, to be called in a backward pass. A second derivative, by way of any of the origins, raises.

    torch's `once_differentiable` raises only if the upstream gradient has a history. Without one the gradient would be
    a constant to autograd, and a gradient penalty silently nothing.
    """
    if gradient is None or not torch.is_grad_enabled():  # enabled in a backward pass by create_graph=True alone
        return gradient
    return _FirstOrder.apply(gradient, *origins)


class _FirstOrder(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gradient: Tensor, *origins: Tensor | None) -> Tensor:
        return gradient.view_as(gradient)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, ...]:
        raise RuntimeError(
            "The gradient of this loss cannot be differentiated again, as a gradient penalty or a Hessian needs it: "
            "leave that term out, or take it from the difference of two gradients"
        )
