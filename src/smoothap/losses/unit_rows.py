"""Rows of length 1, and the gradient back through that."""

import torch
from torch import Tensor

from smoothap.losses.inputs import first_of
from smoothap.numerics.threads import can_fuse


def unit_rows(matrix: Tensor, name: str) -> tuple[Tensor, Tensor]:
    """Rows of length 1 in float32 or better, and the lengths (n, 1); NaN, infinite and zero rows are refused."""
    matrix = matrix.detach().to(torch.promote_types(matrix.dtype, torch.float32))
    limits = torch.finfo(matrix.dtype)
    least = limits.tiny**0.5 / limits.eps  # below it, the square of a length loses bits
    if can_fuse(matrix):
        from smoothap.losses import kernels

        units, lengths = torch.empty(matrix.shape), torch.empty(len(matrix), 1)
        good = kernels.scale_rows(matrix.contiguous().numpy(), units.numpy(), lengths.numpy(), least)
    else:
        lengths = torch.linalg.vector_norm(matrix, dim=1, keepdim=True)
        units = matrix / lengths
        good = bool(((lengths > least) & (lengths < float("inf"))).all())
    if good:
        return units, lengths
    return _unit_rows_of_odd_lengths(matrix, name)


def _unit_rows_of_odd_lengths(matrix: Tensor, name: str) -> tuple[Tensor, Tensor]:
    finite = matrix.isfinite().all(1)
    if not bool(finite.all()):
        raise ValueError(
            f"{name} has NaN or infinite values in row {first_of(~finite)}: look for a learning rate that is too high, "
            "a division by zero, or float16 overflow before the loss"
        )
    largest = matrix.abs().amax(1, keepdim=True)
    if not bool((largest > 0).all()):
        raise ValueError(
            f"{name} is all zeros in row {first_of(largest[:, 0] == 0)}, which has no direction: look for a dead last "
            "layer or an image that was not read"
        )
    relative = matrix / largest
    relative_lengths = torch.linalg.vector_norm(relative, dim=1, keepdim=True)
    lengths = relative_lengths * largest
    if not bool(((lengths >= torch.finfo(matrix.dtype).tiny) & (lengths < float("inf"))).all()):
        raise ValueError(f"{name} holds numbers too large or too small for {matrix.dtype}: scale them nearer to 1")
    return relative / relative_lengths, lengths


def back_through_units(gradient: Tensor, units: Tensor, lengths: Tensor) -> Tensor:
    """The gradient with respect to x from that with respect to x / |x|, in place. (n, d), (n, d), (n, 1)"""
    if can_fuse(gradient):
        from smoothap.losses import kernels

        kernels.back_through_units(gradient.numpy(), units.numpy(), lengths.numpy())
        return gradient
    along = torch.linalg.vecdot(gradient, units)[:, None]
    return gradient.addcmul_(units, along, value=-1).div_(lengths)
