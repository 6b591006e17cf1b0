"""Average Precision with a sigmoid in the place of the indicator (the equation between Eq. 6 and 7), and its gradient.

Everything goes through one block: a few queries against the whole retrieval set, positives apart from negatives, so
that nothing larger than queries x retrieval set is ever made, and that only for a block of queries at a time.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from smoothap.ranking.indicators import Indicator, Sigmoid
from smoothap.ranking.threads import can_fuse, on_threads, parts_for

OUTSIDE = float("-inf")  # the score of an item that is not in the retrieval set
SIGMOID = Sigmoid(1.0)  # of scores that were divided by tau before

# How many positives and negatives stand above each positive, softly, and which slots hold one, (b, p) each -> the value
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


def average_precision_of_ranks(among: Tensor, above: Tensor, valid: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """AP of each query from what stands above its positives, and the derivatives; a `Measure`."""
    count = valid.sum(1, keepdim=True)
    among_positives = 1 + among  # R(i, S_P)
    rank = among_positives + above  # R(i, S_Omega)
    value = (among_positives / rank * valid).sum(1, keepdim=True) / count
    share = valid / count.clamp(min=1) / rank / rank
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

    The indicators count the positives and the negatives that stand above a positive.
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
    for row in range(0, queries, rows_at_once):
        rows = slice(row, row + rows_at_once)
        row_scores, row_valid = scores[rows], valid[rows]
        row_positives = positive_scores[rows].masked_fill(~row_valid, OUTSIDE)
        among, above = torch.empty_like(row_positives), torch.empty_like(row_positives)
        slopes = None
        for here in parts:
            own = positive_scores[rows, here].masked_fill(~row_valid[:, here], 0.0)[:, :, None]
            slopes = _compare(row_positives, row_scores, own, here, among_indicator, above_indicator, among, above)
        values[rows], pull, push = measure(among, above, row_valid)
        if weights is None:
            continue
        pull, push = pull * weights[rows, None], push * weights[rows, None]
        for here in parts:
            if len(parts) > 1:  # what did not fit beside the rest is made again
                own = positive_scores[rows, here].masked_fill(~row_valid[:, here], 0.0)[:, :, None]
                slopes = _compare(row_positives, row_scores, own, here, among_indicator, above_indicator, among, above)
            assert slopes is not None
            gradient[rows] += torch.bmm(push[:, None, here], slopes[1])[:, 0]
            positive_gradient[rows] += torch.bmm(pull[:, None, here], slopes[0])[:, 0]
            positive_gradient[rows, here] -= push[:, here] * slopes[1].sum(2) + pull[:, here] * slopes[0].sum(2)
    if learning:
        scores.copy_(gradient)
    return values, positive_gradient


def _compare(
    positives: Tensor,
    negatives: Tensor,
    own: Tensor,
    here: slice,
    among_indicator: Indicator,
    above_indicator: Indicator,
    among: Tensor,
    above: Tensor,
) -> tuple[Tensor, Tensor]:
    """Sum the indicators of D = z_j - z_i for the positives i of some slots; the slopes. (b, n, p), (b, n, m)

    positives (b, p), negatives (b, m), own (b, n, 1); the sums go to `among` and `above` (b, p), at the slots `here`.
    """
    term, among_slope = among_indicator.with_slope(positives[:, None, :] - own)
    for each in (term, among_slope):
        each.diagonal(offset=here.start, dim1=1, dim2=2).zero_()  # j != i, Eq. 3
    among[:, here] = term.sum(2)
    term, above_slope = above_indicator.with_slope(negatives[:, None, :] - own)
    above[:, here] = term.sum(2)
    return among_slope, above_slope


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
