"""Rows of length 1, and the gradient back through that."""

import torch
from torch import Tensor

from smoothap.losses.inputs import first_of
from smoothap.numerics.threads import can_fuse


def normalise(matrix: Tensor, name: str, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Rows of length 1 in float32 or better, and the lengths (n, 1); NaN, infinite and zero rows are refused."""
    matrix = matrix.detach().to(dtype)
    limits = torch.finfo(dtype)
    least = limits.tiny**0.5 / limits.eps  # below it, the square of a length loses bits
    if can_fuse(matrix):
        from smoothap.losses import kernels

        units, lengths = torch.empty(matrix.shape), torch.empty(len(matrix), 1)
        good = kernels.normalise(matrix.contiguous().numpy(), units.numpy(), lengths.numpy(), least)
    else:
        lengths = torch.linalg.vector_norm(matrix, dim=1, keepdim=True)
        units = matrix / lengths
        good = bool(((lengths > least) & (lengths < float("inf"))).all())
    if good:
        return units, lengths
    return _normalise_odd_lengths(matrix, name)


def _normalise_odd_lengths(matrix: Tensor, name: str) -> tuple[Tensor, Tensor]:
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
    fits = (lengths[:, 0] >= torch.finfo(matrix.dtype).tiny) & (lengths[:, 0] < float("inf"))
    if not bool(fits.all()):
        raise ValueError(
            f"{name} holds numbers too large or too small for {matrix.dtype} in row {first_of(~fits)}: scale them "
            "nearer to 1"
        )
    return relative / relative_lengths, lengths


def check_gradient(gradient: Tensor, rows: Tensor, lengths: Tensor, name: str, upstream: Tensor | None) -> None:
    """Refuse rows (n, d) so short that their gradient (n, d), which grows as 1 / length, is beyond their dtype.

    A gradient that is so large because the upstream gradient is, as that of a loss scaler, is left to the scaler.
    """
    limits = torch.finfo(rows.dtype)
    if limits.max > 1e30 and bool(lengths.min() > limits.tiny**0.5):  # what is not so short stays far from the limit
        return
    most = limits.max if upstream is None else limits.max * max(1.0, float(upstream.abs().max()))
    beyond = ~(gradient.abs().amax(1) <= most)
    if bool(beyond.any()):
        raise ValueError(
            f"{name} is so short in row {first_of(beyond)}, with a length of {float(lengths[beyond][0]):.1g}, that its "
            f"gradient is beyond {rows.dtype}: scale the last layer's output up, or keep that layer in float32"
        )


def back_through_normalising(gradient: Tensor, units: Tensor, lengths: Tensor) -> Tensor:
    """The gradient with respect to x from that with respect to x / |x|, in place. (n, d), (n, d), (n, 1)"""
    if can_fuse(gradient):
        from smoothap.losses import kernels

        kernels.back_through_normalising(gradient.numpy(), units.numpy(), lengths.numpy())
        return gradient
    along = torch.linalg.vecdot(gradient, units)[:, None]
    return gradient.addcmul_(units, along, value=-1).div_(lengths)
