"""Gradients made by formula, which autograd cannot differentiate again: they say so and do not pass for constants."""

from typing import Any

import torch
from torch import Tensor


def graph_of(*tensors: Tensor | None) -> tuple[Tensor, ...]:
    """Empty tensors with the history of those that have one: a backward pass keeps them to know what it came from."""
    with torch.enable_grad():
        return tuple(tensor[:0].clone() for tensor in tensors if tensor is not None and tensor.requires_grad)


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
