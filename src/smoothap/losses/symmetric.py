"""The batch that retrieves from itself, on the CPU: two passes over half of the scores instead of one over all.

The product x x^T is symmetric. A first pass makes each tile of its upper half and sums what the ranks need; a second
makes it again, turns each score into a gradient that stands for both of its queries, and multiplies that once. So two
products do where autograd takes three for the bare similarity, in the memory of a tile.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from smoothap._core.threads import on_threads, parts_for

_TILE_ROWS, _TILE_COLUMNS = 512, 2048


class Symmetric(NamedTuple):
    """The answer for a batch that retrieves from itself, but for the queries that are left to the other way."""

    values: Tensor  # (b,)
    with_positive: int  # queries that have a positive, those that are left too
    gradient: Tensor | None  # (b, d) of the units
    left: Tensor  # (k,) rows whose positives are too far apart, or too many: 0, and no part of the gradient, as queries


_MOST_TOO_FAR = 4  # one query in that many: with more, the other way takes all of them sooner
_MANY = 128  # positives: the other way then has fewer sums, `functional/kernels.py`


def symmetric_smooth_ap(
    units: Tensor, labels: Tensor, tau: float, include_query: bool, weights: Tensor | None, with_gradient: bool
) -> Symmetric | None:
    """As `Block.symmetric`, for float32 on the CPU; None where few queries would gain by it."""
    from smoothap.losses import kernels

    batch = len(units)
    order, first, size = _by_class(labels.numpy())
    count = size if include_query else size - 1
    with_positive = int(np.count_nonzero(count))
    taken = int(np.searchsorted(count, _MANY, side="right"))  # the rows behind them are items alone
    slots = int(count[taken - 1]) if taken else 0
    if not slots:
        return None
    if order is not None:
        units = units[order]
        weights = weights if weights is None else weights[order]
    parts = parts_for(taken * batch * slots)

    scores, factors = np.zeros((2, slots, taken), np.float32)
    too_far = np.zeros(taken, bool)
    middle = kernels.score_positives(units.numpy(), 1 / tau, first, count, include_query, scores, factors, too_far)
    if _MOST_TOO_FAR * np.count_nonzero(too_far) > taken:
        return None
    left = np.concatenate([np.flatnonzero(too_far), np.arange(taken, batch)])
    known = first, size, count, factors, middle

    totals, slopes = sums = np.zeros((2, slots, taken), np.float32)
    corners = [(top, left) for top in range(0, taken, _TILE_ROWS) for left in range(top, batch, _TILE_COLUMNS)]
    tile = units
    for corner in corners:
        tile = _tile(units, tau, corner)
        on_threads(kernels.sum_over_rows, parts, tile.numpy(), corner, *known, *sums)
        on_threads(kernels.sum_over_columns, parts, tile.numpy(), corner, *known, *sums)
    losses = units.new_zeros(batch)
    row_weights = (
        np.full(batch, 1 / with_positive, np.float32) if weights is None else weights.to(torch.float32).numpy()
    )
    kernels.weigh(scores, count, middle, factors, row_weights, -1 / tau, totals, slopes, losses.numpy(), too_far)
    rows_left = torch.from_numpy(left) if order is None else order[left]
    if not with_gradient:
        return Symmetric(_in_the_order_given(losses, order), with_positive, None, rows_left)

    one_tile = len(corners) == 1
    gradient = torch.zeros_like(units)
    for corner in corners:
        if not one_tile:
            tile = _tile(units, tau, corner)
        on_threads(
            kernels.gradient_of_scores, parts, tile.numpy(), corner, *known, totals, slopes, include_query, one_tile
        )
        if one_tile and len(tile) == batch:
            torch.mm(tile + tile.T, units, out=gradient)
        else:
            rows, columns = _sides(units, corner)
            _sides(gradient, corner)[0].addmm_(tile, columns)
            _sides(gradient, corner)[1].addmm_(tile.T, rows)
    gradient = _in_the_order_given(gradient, order)
    return Symmetric(_in_the_order_given(losses, order), with_positive, gradient, rows_left)


def _by_class(labels: np.ndarray) -> tuple[Tensor | None, np.ndarray, np.ndarray]:
    """The order that puts each class together, small classes first (None: as it is), and each row's class there.

    first (b,): where the row's class begins; size (b,): how many rows it has.
    """
    _, appears, classes, sizes = np.unique(labels, return_index=True, return_inverse=True, return_counts=True)
    order = np.lexsort((appears[classes], sizes[classes]))  # whatever numbers the labels are
    classes = classes[order]
    begins = np.flatnonzero(np.diff(classes, prepend=-1))
    as_it_is = bool((order[1:] > order[:-1]).all())
    size = sizes[classes]
    return None if as_it_is else torch.from_numpy(order), np.repeat(begins, size[begins]), size


def _sides(rows: Tensor, corner: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """Which rows of the batch the rows of the tile at this corner stand for, and which its columns."""
    top, left = corner
    return rows[top : top + _TILE_ROWS], rows[left : left + _TILE_COLUMNS]


def _tile(units: Tensor, tau: float, corner: tuple[int, int]) -> Tensor:
    rows, columns = _sides(units, corner)
    return torch.addmm(units.new_empty(len(rows), len(columns)), rows, columns.T, beta=0, alpha=1 / tau)


def _in_the_order_given(values: Tensor, order: Tensor | None) -> Tensor:
    if order is None:
        return values
    result = torch.empty_like(values)
    result[order] = values
    return result
