"""Frozen batch norm as part of the convolution before it: the same network, a third less memory and fewer passes.

With running statistics, batch norm multiplies each channel by a number and adds another. Both can be moved into the
weights of the convolution, so that what the convolution gives out need not be kept for the backward pass. The numbers
are worked out again at every pass, and so their own parameters learn as before.
"""

from collections import Counter
from functools import partial
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn

from smoothap.models.cpu.convolution import convolve_layer, is_convolution, is_timms


class NormAndActivation(nn.BatchNorm2d):
    """Batch norm followed by an activation, in one layer, which can be folded as one."""

    def __init__(self, channels: int, eps: float, activation: nn.Module) -> None:
        super().__init__(channels, eps=eps)
        self.act = activation

    def forward(self, input: Tensor) -> Tensor:
        return self.act(super().forward(input))


def fold_batch_norm(backbone: nn.Module, size: int) -> int:
    """Join each batch norm with the convolution that feeds it and nothing else; how many pairs there are.

    Names and shapes of the parameters stay. A pair is joined while its batch norm is in evaluation mode, as when it
    is frozen, and works as ever in training mode. A hook on a joined convolution sees normalised values.
    """
    pairs = _pairs(backbone, size)
    for convolution, norm in pairs:
        convolution.forward = partial(_convolve, convolution, norm)  # ty: ignore[invalid-assignment]
        norm.forward = partial(_after_folded, norm)  # ty: ignore[invalid-assignment]
    return len(pairs)


def keep_folded(backbone: nn.Module) -> None:
    """Keep what is folded from one pass without gradients to the next, until a weight changes."""
    for layer in backbone.modules():
        joined = vars(layer).get("forward")
        if isinstance(joined, partial) and joined.func is _convolve:
            layer.forward = partial(joined, kept={})


def _convolve(
    convolution: nn.Conv2d, norm: nn.BatchNorm2d, images: Tensor, kept: dict[Any, tuple[Tensor, Tensor]] | None = None
) -> Tensor:
    if norm.training:
        return type(convolution).forward(convolution, images)
    if kept is None or torch.is_grad_enabled():
        weight, bias = _folded(convolution, norm)
    else:
        sources = (convolution.weight, convolution.bias, norm.weight, norm.bias, norm.running_mean, norm.running_var)
        state = tuple((source.data_ptr(), source._version) for source in sources if source is not None)
        if state not in kept:
            folded = _folded(convolution, norm)
            kept.clear()
            kept[state] = folded
        weight, bias = kept.get(state) or _folded(convolution, norm)  # another thread may have cleared it
    return convolve_layer(convolution, images, weight, bias, _activation(norm))


def _folded(convolution: nn.Conv2d, norm: nn.BatchNorm2d) -> tuple[Tensor, Tensor]:
    """The weight and bias of both as one convolution."""
    mean, variance = norm.running_mean, norm.running_var
    assert mean is not None
    assert variance is not None
    offset = mean if convolution.bias is None else mean - convolution.bias
    return _Folded.apply(convolution.weight, norm.weight, norm.bias, offset, (variance + norm.eps).rsqrt())


class _Folded(torch.autograd.Function):
    """The weight and bias of a convolution and its norm, as one step: a graph of small ones costs as much again."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, scale: Tensor, shift: Tensor, offset: Tensor, norm: Tensor) -> Any:
        ctx.save_for_backward(weight, scale, offset, norm)
        factor = scale * norm
        return weight * factor[:, None, None, None], torch.addcmul(shift, factor, offset, value=-1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        of_weight, of_bias = gradients
        weight, scale, offset, norm = ctx.saved_tensors
        factor = scale * norm
        of_factor = torch.addcmul((of_weight * weight).flatten(1).sum(1), of_bias, offset, value=-1)
        of_offset = -factor * of_bias if ctx.needs_input_grad[3] else None
        return of_weight * factor[:, None, None, None], of_factor * norm, of_bias, of_offset, None


def _after_folded(norm: nn.BatchNorm2d, features: Tensor) -> Tensor:
    return type(norm).forward(norm, features) if norm.training else features


def _activation(norm: nn.BatchNorm2d) -> nn.Module | None:
    """What the norm itself does after normalising: timm's and ours may have an activation in them."""
    activation = getattr(norm, "act", None)
    return None if isinstance(activation, nn.Identity) else activation


def _pairs(backbone: nn.Module, size: int) -> list[tuple[nn.Conv2d, nn.BatchNorm2d]]:
    """Each convolution whose output goes into one batch norm and nowhere else, as a pass with an empty image shows."""
    layers = [layer for layer in backbone.modules() if is_convolution(layer) or _is_foldable(layer)]
    if not any(isinstance(layer, nn.BatchNorm2d) for layer in layers):
        return []
    calls: list[tuple[nn.Module, Tensor, Tensor]] = []  # a layer, what it was given, what it gave

    def note(layer: nn.Module, given: tuple[Tensor, ...], result: Tensor) -> None:
        calls.append((layer, given[0], result))

    hooks = [layer.register_forward_hook(note) for layer in layers]
    was_training, weight = backbone.training, next(backbone.parameters())
    image = torch.zeros(1, 3, size, size, dtype=weight.dtype, device=weight.device, requires_grad=True)
    try:
        with torch.enable_grad():
            output = backbone.eval()(image)
    except RuntimeError:
        return []  # an image too small for this network, which says so itself when it is used
    finally:
        backbone.train(was_training)
        for hook in hooks:
            hook.remove()
    times = Counter(id(layer) for layer, _, _ in calls)
    made_by = {id(result): layer for layer, _, result in calls if isinstance(layer, nn.Conv2d)}
    uses = _uses(output)
    pairs = [(made_by.get(id(given)), norm, given) for norm, given, _ in calls if isinstance(norm, nn.BatchNorm2d)]
    return [
        (convolution, norm)
        for convolution, norm, given in pairs
        if convolution is not None and uses[given.grad_fn] == 1 and times[id(convolution)] == times[id(norm)] == 1
    ]


def _is_foldable(layer: nn.Module) -> TypeGuard[nn.BatchNorm2d]:
    """Whether a layer is a batch norm with weights of its own and running statistics."""
    if not isinstance(layer, nn.BatchNorm2d) or not (layer.affine and layer.track_running_stats):
        return False
    if is_timms(layer, "norm_act.BatchNormAct2d"):
        return isinstance(layer.drop, nn.Identity)
    return type(layer) in (nn.BatchNorm2d, NormAndActivation)


def _uses(output: Tensor) -> Counter[Any]:
    """How many operations take the result of each operation, in the graph that leads to `output`."""
    uses: Counter[Any] = Counter()
    waiting: list[Any] = [output.grad_fn]
    while waiting:
        for before, _ in waiting.pop().next_functions:
            if before is not None:
                if before not in uses:
                    waiting.append(before)
                uses[before] += 1
    return uses
