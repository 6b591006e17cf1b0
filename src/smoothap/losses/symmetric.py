"""The batch that retrieves from itself, on the CPU: two passes over half of the scores instead of one over all.

The product x x^T is symmetric. A first pass makes each tile of its upper half and sums what the ranks need; a second
makes it again, turns each score into a gradient that stands for both of its queries, and multiplies that once. So two
products do where autograd takes three for the bare similarity, in the memory of a tile.
"""

import numpy as np
import torch
from torch import Tensor

from smoothap.losses.streaming import Streamed
from smoothap.ranking.threads import on_threads, parts_for

_TILE_ROWS, _TILE_COLUMNS = 512, 2048


def symmetric_smooth_ap(
    units: Tensor, labels: Tensor, tau: float, include_query: bool, weights: Tensor | None, with_gradient: bool
) -> Streamed | None:
    """As `Block.symmetric`, for float32 on the CPU; None where the positives are too far apart for it."""
    from smoothap.ranking import symmetric_kernels as kernels
    from smoothap.ranking.kernels import WIDEST_SPREAD

    batch = len(units)
    order, first, size = _by_class(labels.numpy())
    count = size if include_query else size - 1
    slots, asking = int(count.max()), int(np.count_nonzero(count))
    if not slots:
        return None
    if order is not None:
        units = units[order]
        weights = weights if weights is None else weights[order]
    matrix = units.numpy()
    parts = parts_for(batch * batch * slots)

    scores = np.zeros((slots, batch), np.float32)
    kernels.score_positives(matrix, 1 / tau, first, count, include_query, scores)
    middle, reach = kernels.middle_of(scores, count)
    if not reach < WIDEST_SPREAD:
        return None
    own = np.empty_like(scores)
    kernels.set_own(scores, count, middle, own)

    sums = np.zeros((parts, 2, slots, batch), np.float32)
    tiles = [
        (top, min(top + _TILE_ROWS, batch), left, min(left + _TILE_COLUMNS, batch))
        for top in range(0, batch, _TILE_ROWS)
        for left in range(top, batch, _TILE_COLUMNS)
    ]
    tile = units
    for top, bottom, left, right in tiles:
        tile = _tile(units, tau, top, bottom, left, right)
        array = tile.numpy()

        def first_pass(part: int, array: np.ndarray = array, corner: tuple[int, int] = (top, left)) -> None:
            kernels.sum_over_negatives(array, corner, (part, parts), first, size, count, own, middle, *sums[part])

        on_threads(first_pass, parts)

    totals, slopes = sums.sum(0) if parts > 1 else sums[0]
    losses = torch.empty(batch)
    each = np.full(batch, 1 / asking, np.float32) if weights is None else weights.to(torch.float32).numpy()
    kernels.weigh(scores, count, middle, own, each, -1 / tau, totals, slopes, losses.numpy())
    if not with_gradient:
        return Streamed(_in_the_order_given(losses, order), asking, None)

    gradient = torch.zeros_like(units) if len(tiles) > 1 else torch.empty_like(units)
    for top, bottom, left, right in tiles:
        if len(tiles) > 1:
            tile = _tile(units, tau, top, bottom, left, right)
        array = tile.numpy()

        def second_pass(part: int, array: np.ndarray = array, corner: tuple[int, int] = (top, left)) -> None:
            kernels.gradient_of_scores(
                array, corner, (part, parts), first, size, count, own, middle, totals, slopes, include_query,
                len(tiles) == 1,
            )  # fmt: skip

        on_threads(second_pass, parts)
        if len(tiles) == 1:
            torch.mm(tile + tile.T, units, out=gradient)
        else:
            gradient[top:bottom].addmm_(tile, units[left:right])
            gradient[left:right].addmm_(tile.T, units[top:bottom])
    return Streamed(_in_the_order_given(losses, order), asking, _in_the_order_given(gradient, order))


def _by_class(labels: np.ndarray) -> tuple[Tensor | None, np.ndarray, np.ndarray]:
    """The order that puts each class together, small classes first (None: as it is), and each row's class there.

    first (b,): where the row's class begins; size (b,): how many rows it has.
    """
    order = np.argsort(labels, kind="stable")
    begins, size = _runs(labels[order])
    if size.min() != size.max():
        order = order[np.argsort(np.repeat(size, size), kind="stable")]
        begins, size = _runs(labels[order])
    as_it_is = bool((order[1:] > order[:-1]).all())
    return None if as_it_is else torch.from_numpy(order), np.repeat(begins, size), np.repeat(size, size)


def _runs(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where each run of equal values begins, and its length."""
    begins = np.concatenate(([0], np.flatnonzero(values[1:] != values[:-1]) + 1))
    return begins, np.diff(begins, append=len(values))


def _tile(units: Tensor, tau: float, top: int, bottom: int, left: int, right: int) -> Tensor:
    empty = units.new_empty(bottom - top, right - left)
    return torch.addmm(empty, units[top:bottom], units[left:right].T, beta=0, alpha=1 / tau)


def _in_the_order_given(values: Tensor, order: Tensor | None) -> Tensor:
    if order is None:
        return values
    result = torch.empty_like(values)
    result[order] = values
    return result
