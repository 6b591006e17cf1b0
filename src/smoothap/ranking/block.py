"""Average Precision with a sigmoid in the place of the indicator (the equation between Eq. 6 and 7), and its gradient.

Everything goes through one block: a few queries against the whole retrieval set, positives apart from negatives, so
that nothing larger than queries x retrieval set is ever made, and that only for a block of queries at a time.
"""

import torch
from torch import Tensor

from smoothap.ranking.threads import can_fuse, on_threads, parts_for

OUTSIDE = float("-inf")  # the score of an item that is not in the retrieval set
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
    return _torch_block(scores, positive_scores, valid, weights)


def _torch_block(
    scores: Tensor, positive_scores: Tensor, valid: Tensor, weights: Tensor | None
) -> tuple[Tensor, Tensor]:
    queries, items = scores.shape
    slots = positive_scores.shape[1]
    count = valid.sum(1)
    gradient = torch.zeros_like(scores) if weights is not None else scores
    positive_gradient = torch.zeros_like(positive_scores if weights is not None else positive_scores[:0])
    precision_sum = scores.new_zeros(queries)
    rows_at_once = max(1, _TERMS_AT_ONCE // max(1, items * min(slots, 8)))
    slots_at_once = max(1, _TERMS_AT_ONCE // max(1, items * rows_at_once))
    for row in range(0, queries, rows_at_once):
        rows = slice(row, row + rows_at_once)
        row_positives = positive_scores[rows].masked_fill(~valid[rows], OUTSIDE)
        for slot in range(0, slots, slots_at_once):
            here = slice(slot, slot + slots_at_once)
            held = valid[rows, here]
            own = positive_scores[rows, here].masked_fill(~held, 0.0)[:, :, None]
            among = torch.sigmoid(row_positives[:, None, :] - own)
            among.diagonal(offset=slot, dim1=1, dim2=2).zero_()  # j != i, Eq. 3
            above = torch.sub(scores[rows, None, :], own).sigmoid_()
            among_positives = 1 + among.sum(2)  # R(i, S_P)
            negatives_above = above.sum(2)
            rank = among_positives + negatives_above  # R(i, S_Omega)
            precision_sum[rows] += (among_positives / rank).mul_(held).sum(1)
            if weights is None:
                continue
            scale = weights[rows, None] / count[rows, None].clamp(min=1) / rank.square() * held
            above.addcmul_(above, above, value=-1)  # G' = g (1 - g), of D = z_j - z_i
            among.addcmul_(among, among, value=-1)
            push, pull = scale * among_positives, scale * negatives_above
            gradient[rows] -= torch.bmm(push[:, None, :], above)[:, 0]
            positive_gradient[rows] += torch.bmm(pull[:, None, :], among)[:, 0]
            positive_gradient[rows, here] += push * above.sum(2) - pull * among.sum(2)
    if weights is not None:
        scores.copy_(gradient)
    return torch.where(count > 0, precision_sum / count, torch.nan), positive_gradient


def _fused_block(
    scores: Tensor, positive_scores: Tensor, valid: Tensor, weights: Tensor | None
) -> tuple[Tensor, Tensor] | None:
    """The same in one pass, or None (with nothing changed) where the positives of a query are too far apart for it."""
    from smoothap.ranking.kernels import positives_are_near, rows_against_set

    queries, items = scores.shape
    average_precision = scores.new_empty(queries)
    positive_gradient = torch.empty_like(positive_scores)
    each_row = scores.new_ones(queries) if weights is None else weights.to(scores.dtype)
    matrix = scores.detach().numpy()
    arrays = [tensor.detach().contiguous().numpy() for tensor in (positive_scores, valid, each_row)]
    results = [average_precision.numpy(), positive_gradient.numpy()]
    middles = torch.empty(queries).numpy()
    if not positives_are_near(arrays[0], arrays[1], middles):
        return None
    parts = parts_for(queries * items * positive_scores.shape[1])

    def run(part: int) -> None:
        rows = slice(part, None, parts)
        rows_against_set(
            matrix[rows], *(array[rows] for array in arrays), middles[rows], *(result[rows] for result in results),
            weights is not None,
        )  # fmt: skip

    on_threads(run, parts)
    return average_precision, positive_gradient if weights is not None else positive_gradient[:0]
