"""Rows of length 1, and the gradient back through that."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from smoothap._core.threads import can_fuse
from smoothap.losses.inputs import first_of


@dataclass(frozen=True)
class UnitRows:
    """Rows of length 1 in float32 or better, (n, d), and the lengths that they had, (n, 1)."""

    units: Tensor
    lengths: Tensor
    ordinary: Tensor  # a flag: no length is so small or so large that it needs a second look

    def checked(self, ordinary: bool, matrix: Tensor, name: str) -> "UnitRows":
        """The rows as they are, or made with care from the matrix; NaN, infinite and zero rows are refused."""
        if ordinary:
            return replace(self, ordinary=torch.ones_like(self.ordinary))
        return _normalise_odd_lengths(matrix.detach().to(self.units.dtype), name)

    def gradient_back(self, gradient: Tensor, matrix: Tensor, name: str, upstream: Tensor | None) -> Tensor:
        """The gradient of the matrix (n, d) from that of its unit rows, in place; rows too short for it are refused."""
        if can_fuse(gradient):
            from smoothap.losses import kernels

            kernels.back_through_normalising(gradient.numpy(), self.units.numpy(), self.lengths.numpy())
        else:
            along = torch.linalg.vecdot(gradient, self.units)[:, None]
            gradient.addcmul_(self.units, along, value=-1).div_(self.lengths)
        if torch.finfo(matrix.dtype).max < 1e30 or not bool(self.ordinary):  # others stay far from the limit
            _check_gradient(gradient, matrix, self.lengths, name, upstream)
        return gradient


def normalise(matrix: Tensor, dtype: torch.dtype) -> UnitRows:
    """The rows divided by their lengths, which are still to be `checked`: on a GPU a look at them is a wait."""
    matrix = matrix.detach().to(dtype)
    limits = torch.finfo(dtype)
    least = limits.tiny**0.5 / limits.eps  # below it, the square of a length loses bits
    if can_fuse(matrix):
        from smoothap.losses import kernels

        units, lengths = (
            torch.empty_like(matrix, memory_format=torch.contiguous_format),
            matrix.new_empty(len(matrix), 1),
        )
        good = kernels.normalise(matrix.contiguous().numpy(), units.numpy(), lengths.numpy(), least)
        return UnitRows(units, lengths, torch.tensor(good, device=units.device))
    lengths = torch.linalg.vector_norm(matrix, dim=1, keepdim=True)
    return UnitRows(matrix / lengths, lengths, ((lengths > least) & (lengths < float("inf"))).all())


def _normalise_odd_lengths(matrix: Tensor, name: str) -> UnitRows:
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
    return UnitRows(relative / relative_lengths, lengths, torch.tensor(False, device=matrix.device))


def _check_gradient(gradient: Tensor, rows: Tensor, lengths: Tensor, name: str, upstream: Tensor | None) -> None:
    """Refuse rows (n, d) so short that their gradient (n, d), which grows as 1 / length, is beyond their dtype.

    A gradient that is so large because the upstream gradient is, as that of a loss scaler, is left to the scaler.
    """
    limits = torch.finfo(rows.dtype)
    most = limits.max if upstream is None else limits.max * max(1.0, float(upstream.abs().max()))
    beyond = ~(gradient.abs().amax(1) <= most)
    if bool(beyond.any()):
        raise ValueError(
            f"{name} is so short in row {first_of(beyond)}, with a length of {float(lengths[beyond][0]):.1g}, that its "
            f"gradient is beyond {rows.dtype}: scale the last layer's output up, or keep that layer in float32"
        )
