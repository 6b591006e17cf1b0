"""Layers that give what torch's give and take less time and memory on a CPU.

- **Depthwise convolutions.** oneDNN has a fast weight gradient for kernels up to 3 wide on maps that are no smaller
  than the kernel. For all others it treats each channel as a convolution by itself, which takes up to a hundred times
  as long as a plain loop over the taps. That loop is `depthwise_kernels.add_gradients`.
- **Convolutions of 1 x 1** are matrix products, and as such their weight gradient takes half of the time.
- **ReLU6.** torch's in-place version keeps a copy of its input for the backward pass; its result is enough.

Which way a layer goes follows from its shapes alone, so that two runs of a training are the same run.
"""

from functools import partial
from typing import Any, TypeAlias, TypeGuard

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, linear, pad

from smoothap.numerics.threads import numba_is_there, on_threads

_TIMMS = "timm.layers.conv2d_same.Conv2dSame"
Sides: TypeAlias = tuple[int, ...]  # down and across
_CHUNKS = 8  # of the images, each summed by itself and added in order: the bits do not depend on the threads


def speed_up(backbone: nn.Module) -> None:
    """Let a network compute its layers as above; names and shapes of the parameters stay."""
    for layer in backbone.modules():
        if is_convolution(layer) and "forward" not in vars(layer):
            layer.forward = partial(_forward, layer)  # ty: ignore[invalid-assignment]
        elif type(layer) is nn.ReLU6 and layer.inplace:
            layer.forward = relu6  # ty: ignore[invalid-assignment]


def _forward(layer: nn.Conv2d, images: Tensor) -> Tensor:
    return convolve_layer(layer, images, layer.weight, layer.bias)


def is_convolution(layer: nn.Module) -> TypeGuard[nn.Conv2d]:
    """Whether a layer is torch's convolution or one that pads as TensorFlow does; heirs of these may do more."""
    return type(layer) is nn.Conv2d or _pads_as_tensorflow(layer)


def _pads_as_tensorflow(layer: nn.Module) -> bool:
    """Ours, or timm's, which is known by its name, since importing timm takes seconds."""
    return type(layer) is SamePadding or f"{type(layer).__module__}.{type(layer).__name__}" == _TIMMS


def convolve_layer(layer: nn.Conv2d, images: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """What the layer gives with this weight and bias in the place of its own."""
    if layer.padding_mode != "zeros" or isinstance(layer.padding, str):
        return layer._conv_forward(images, weight, bias)
    if _pads_as_tensorflow(layer):
        images = pad_as_tensorflow(images, layer)
    return convolve(images, weight, bias, layer.stride, layer.padding, layer.dilation, layer.groups)


class SamePadding(nn.Conv2d):
    """A convolution that is padded as TensorFlow does: the odd row and column are below and to the right."""

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(pad_as_tensorflow(input, self))


def pad_as_tensorflow(images: Tensor, layer: nn.Conv2d) -> Tensor:
    """The images with zeros around them, such that each stride has an output."""
    borders: list[int] = []
    for side, kernel, stride, dilation in zip(
        images.shape[:1:-1], layer.kernel_size[::-1], layer.stride[::-1], layer.dilation[::-1], strict=True
    ):
        short = max((-(-side // stride) - 1) * stride + dilation * (kernel - 1) + 1 - side, 0)
        borders += [short // 2, short - short // 2]
    return pad(images, borders)


def convolve(
    images: Tensor, weight: Tensor, bias: Tensor | None, stride: Sides, padding: Sides, dilation: Sides, groups: int
) -> Tensor:
    """`torch.nn.functional.conv2d`, in the faster of the ways above."""
    if not _is_on_cpu(images, weight):
        return conv2d(images, weight, bias, stride, padding, dilation, groups)
    if _is_product(images, weight, stride, padding, groups):
        return linear(images.permute(0, 2, 3, 1), weight[:, :, 0, 0], bias).permute(0, 3, 1, 2)
    if _has_our_gradient(images, weight, groups):
        return _Depthwise.apply(images, weight, bias, stride, padding, dilation)
    return conv2d(images, weight, bias, stride, padding, dilation, groups)


def _is_on_cpu(images: Tensor, weight: Tensor) -> bool:
    return (
        images.device.type == "cpu"
        and images.dtype == weight.dtype
        and weight.dtype in (torch.float32, torch.float64)
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
    )


def _is_product(images: Tensor, weight: Tensor, stride: Sides, padding: Sides, groups: int) -> bool:
    one_by_one = weight.shape[2:] == (1, 1) and groups == 1 and set(stride) == {1} and set(padding) == {0}
    return one_by_one and images.is_contiguous(memory_format=torch.channels_last)


def _has_our_gradient(images: Tensor, weight: Tensor, groups: int) -> bool:
    kernel, side = weight.shape[2:], images.shape[2:]
    depthwise = groups > 1 and weight.shape[:2] == (groups, 1) and images.shape[1] == groups
    fast_in_torch = max(kernel) <= 3 and kernel[0] <= side[0] and kernel[1] <= side[1]
    learns = weight.requires_grad and torch.is_grad_enabled()
    return depthwise and not fast_in_torch and learns and numba_is_there()


def relu6(features: Tensor) -> Tensor:
    """The features between 0 and 6, in place."""
    if torch.is_grad_enabled() and features.requires_grad and not torch.compiler.is_compiling():
        return _ReLU6.apply(features)
    return torch.nn.functional.relu6(features, inplace=True)


class _ReLU6(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, features: Tensor) -> Tensor:
        ctx.mark_dirty(features)
        features.clamp_(0, 6)
        ctx.save_for_backward(features)
        return features

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        (result,) = ctx.saved_tensors
        return torch.ops.aten.hardtanh_backward(gradients[0], result, 0.0, 6.0)


class _Depthwise(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        images: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        stride: Sides,
        padding: Sides,
        dilation: Sides,
    ) -> Tensor:
        ctx.save_for_backward(images, weight)
        ctx.geometry = stride, padding, dilation
        return conv2d(images, weight, bias, stride, padding, dilation, len(weight))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = gradients
        images, weight = ctx.saved_tensors
        stride, padding, dilation = ctx.geometry
        wanted = list(ctx.needs_input_grad[:3])
        once = not torch.is_grad_enabled()  # otherwise a gradient of the gradient is asked for, which torch has
        of_torch = [wanted[0], False, False] if once else wanted
        slopes = torch.ops.aten.convolution_backward(
            gradient, images, weight, [len(weight)], stride, padding, dilation, False, [0, 0], len(weight), of_torch
        )
        if once:
            ours = weight_and_bias_gradient(images, gradient, weight.shape[2:], stride, padding, dilation)
            slopes = [slopes[0], *ours]
        return (*(slope if want else None for slope, want in zip(slopes, wanted, strict=True)), None, None, None)


def weight_and_bias_gradient(
    images: Tensor, gradient: Tensor, kernel: torch.Size, stride: Sides, padding: Sides, dilation: Sides
) -> tuple[Tensor, Tensor]:
    """The gradients (c, 1, kh, kw) and (c,) for images (n, c, h, w) and the gradient of the output."""
    from smoothap.models.depthwise_kernels import add_gradients

    pixels, slopes = (
        tensor.detach().contiguous(memory_format=torch.channels_last).permute(0, 2, 3, 1).numpy()
        for tensor in (images, gradient)
    )
    chunks = min(_CHUNKS, len(pixels))
    borders = [len(pixels) * chunk // chunks for chunk in range(chunks + 1)]
    weights = np.zeros((chunks, *kernel, pixels.shape[3]), pixels.dtype)
    biases = np.zeros((chunks, pixels.shape[3]), pixels.dtype)

    def run(thread: int, threads: int) -> None:
        for chunk in range(thread, chunks, threads):
            here = slice(borders[chunk], borders[chunk + 1])
            add_gradients(pixels[here], slopes[here], (*stride, *padding, *dilation), weights[chunk], biases[chunk])

    on_threads(run, min(torch.get_num_threads(), chunks))
    weight, bias = (torch.from_numpy(parts.sum(axis=0)) for parts in (weights, biases))
    return weight.permute(2, 0, 1)[:, None], bias
