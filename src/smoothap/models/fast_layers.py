"""Layers that give what torch's give and take less time and memory on a CPU.

- **A convolution and its activation** are one step of oneDNN where it has one for them, and what is kept for the
  backward pass is the result alone.
- **Depthwise convolutions.** oneDNN has a fast weight gradient for kernels up to 3 wide on maps that are no smaller
  than the kernel. For all others it treats each channel as a convolution by itself, which takes up to a hundred times
  as long as a plain loop over the taps. That loop is `depthwise_kernels.add_gradients`.
- **Convolutions of 1 x 1** on few pixels: their weight gradient takes half of the time as a matrix product.

Which way a layer goes follows from its shapes alone, so that two runs of a training are the same run.
"""

from functools import partial
from math import inf
from typing import Any, NamedTuple, TypeGuard

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, pad

from smoothap.numerics.threads import numba_is_there, on_threads

_CHUNKS = 8  # of the images, each summed by itself and added in order: the bits do not depend on the threads
_FEW_PIXELS = 1 << 15  # of all images together, below which oneDNN has too little to share among its threads
_FUSED: dict[type[nn.Module], tuple[str, list[float]]] = {  # what oneDNN calls an activation, and its numbers
    nn.ReLU: ("relu", []),
    nn.ReLU6: ("hardtanh", [0.0, 6.0]),
    nn.Hardswish: ("hardswish", []),
    nn.SiLU: ("swish", []),
}
# Between which results an activation has the slope 1, and 0 elsewhere; other activations need what went into them.
_STEEP: dict[type[nn.Module], tuple[float, float]] = {nn.ReLU: (0.0, inf), nn.ReLU6: (0.0, 6.0)}


class Geometry(NamedTuple):
    """How a convolution steps over its images: down and across."""

    stride: tuple[int, ...] = (1, 1)
    padding: tuple[int, ...] = (0, 0)
    dilation: tuple[int, ...] = (1, 1)
    groups: int = 1


def kernels() -> str:
    """What the bits of these layers depend on, for the checkpoint: the number is that of the rule below."""
    by = "numba" if numba_is_there() else "torch"
    return f"{by} (rule 2, {torch.backends.cpu.get_cpu_capability()})"


def speed_up(backbone: nn.Module) -> None:
    """Let a network compute its convolutions as above; names and shapes of the parameters stay."""
    for layer in backbone.modules():
        if is_convolution(layer) and "forward" not in vars(layer):
            layer.forward = partial(_forward, layer)  # ty: ignore[invalid-assignment]


def _forward(layer: nn.Conv2d, images: Tensor) -> Tensor:
    return convolve_layer(layer, images, layer.weight, layer.bias)


def is_convolution(layer: nn.Module) -> TypeGuard[nn.Conv2d]:
    """Whether a layer is torch's convolution or one that pads as TensorFlow does; heirs of these may do more."""
    return type(layer) is nn.Conv2d or _pads_as_tensorflow(layer)


def _pads_as_tensorflow(layer: nn.Module) -> bool:
    return type(layer) is SamePadding or is_timms(layer, "conv2d_same.Conv2dSame")


def is_timms(layer: nn.Module, name: str) -> bool:
    """Whether a layer is timm's, known by its name, since importing timm takes seconds."""
    return f"{type(layer).__module__}.{type(layer).__name__}" == f"timm.layers.{name}"


def convolve_layer(
    layer: nn.Conv2d, images: Tensor, weight: Tensor, bias: Tensor | None, activation: nn.Module | None = None
) -> Tensor:
    """What the layer gives with this weight and bias in the place of its own, through the activation."""
    if layer.padding_mode != "zeros" or isinstance(layer.padding, str):
        features = layer._conv_forward(images, weight, bias)
        return features if activation is None else activation(features)
    if _pads_as_tensorflow(layer):
        images = pad_as_tensorflow(images, layer)
    geometry = Geometry(layer.stride, layer.padding, layer.dilation, layer.groups)
    return convolve(images, weight, bias, geometry, activation)


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
    images: Tensor, weight: Tensor, bias: Tensor | None, geometry: Geometry, activation: nn.Module | None = None
) -> Tensor:
    """`torch.nn.functional.conv2d` and the activation, in the faster of the ways above."""
    if _is_on_cpu(images, weight):
        if not torch.is_grad_enabled() or not any(
            value is not None and value.requires_grad for value in (images, weight, bias)
        ):
            return _result(images, weight, bias, geometry, activation)
        if activation is None or type(activation) in _STEEP:
            return _Convolution.apply(images, weight, bias, geometry, activation)
        return activation(_Convolution.apply(images, weight, bias, geometry, None))
    features = conv2d(images, weight, bias, *geometry)
    return features if activation is None else activation(features)


def _is_on_cpu(images: Tensor, weight: Tensor) -> bool:
    return (
        images.device.type == "cpu"
        and images.dtype == weight.dtype
        and weight.dtype in (torch.float32, torch.float64)
        and images.is_contiguous(memory_format=torch.channels_last)
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
    )


def _result(
    images: Tensor, weight: Tensor, bias: Tensor | None, geometry: Geometry, activation: nn.Module | None
) -> Tensor:
    fused = None if activation is None else _FUSED.get(type(activation))
    if fused is not None and images.dtype == torch.float32 and torch.backends.mkldnn.enabled:
        name, numbers = fused
        stride, padding, dilation, groups = geometry
        return torch.ops.mkldnn._convolution_pointwise(
            images, weight, bias, padding, stride, dilation, groups, name, numbers, ""
        )
    features = conv2d(images, weight, bias, *geometry)
    return features if activation is None else activation(features)


class _Convolution(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        images: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        geometry: Geometry,
        activation: nn.Module | None,
    ) -> Tensor:
        result = _result(images, weight, bias, geometry, activation)
        ctx.save_for_backward(images, weight, *([] if activation is None else [result]))
        ctx.geometry, ctx.activation = geometry, type(activation)
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = gradients
        images, weight, *results = ctx.saved_tensors
        for result in results:
            gradient = torch.ops.aten.hardtanh_backward(gradient, result, *_STEEP[ctx.activation])
        wanted = list(ctx.needs_input_grad[:3])
        if torch.is_grad_enabled():  # a gradient of the gradient is asked for, which torch has
            slopes = _torchs_gradients(images, weight, gradient, ctx.geometry, wanted)
        else:
            slopes = _gradients(images, weight, gradient, ctx.geometry, wanted)
        return (*(slope if want else None for slope, want in zip(slopes, wanted, strict=True)), None, None)


def _torchs_gradients(
    images: Tensor, weight: Tensor, gradient: Tensor, geometry: Geometry, wanted: list[bool]
) -> list[Tensor | None]:
    """The gradients of images, weight and bias, of which some are wanted."""
    stride, padding, dilation, groups = geometry
    return torch.ops.aten.convolution_backward(
        gradient, images, weight, [len(weight)], stride, padding, dilation, False, [0, 0], groups, wanted
    )


def _gradients(
    images: Tensor, weight: Tensor, gradient: Tensor, geometry: Geometry, wanted: list[bool]
) -> list[Tensor | None]:
    """The same, in the faster of the ways above; of the bias by itself, for which oneDNN reads everything once more."""
    gradient = gradient.contiguous(memory_format=torch.channels_last)
    rows = gradient.permute(0, 2, 3, 1).flatten(0, 2)  # (pixels, channels)
    of_images, of_weight, of_bias = wanted
    if of_weight and _has_our_gradient(images, weight, geometry):
        of_weight, ours = False, weight_and_bias_gradient(images, gradient, tuple(weight.shape[2:]), geometry)
    else:
        product = of_weight and _is_product(weight, geometry, len(rows))
        ours = (
            (rows.t() @ images.permute(0, 2, 3, 1).flatten(0, 2))[:, :, None, None] if product else None,
            rows.sum(0) if of_bias else None,
        )
        of_weight = of_weight and not product
    torchs = _torchs_gradients(images, weight, gradient, geometry, [of_images, of_weight, False])
    return [torchs[0], torchs[1] if of_weight else ours[0], ours[1]]


def _is_product(weight: Tensor, geometry: Geometry, pixels: int) -> bool:
    return weight.shape[2:] == (1, 1) and geometry == Geometry() and pixels < _FEW_PIXELS


def _has_our_gradient(images: Tensor, weight: Tensor, geometry: Geometry) -> bool:
    kernel, side = weight.shape[2:], images.shape[2:]
    depthwise = geometry.groups > 1 and weight.shape[:2] == (geometry.groups, 1)
    fast_in_torch = max(kernel) <= 3 and kernel[0] <= side[0] and kernel[1] <= side[1]
    return depthwise and not fast_in_torch and numba_is_there()


def weight_and_bias_gradient(
    images: Tensor, gradient: Tensor, kernel: tuple[int, ...], geometry: Geometry
) -> tuple[Tensor, Tensor]:
    """The gradients (c, 1, kh, kw) and (c,) for images (n, c, h, w) and the gradient of the output."""
    from smoothap.models._depthwise_kernels import add_gradients

    pixels, slopes = (
        tensor.detach().contiguous(memory_format=torch.channels_last).permute(0, 2, 3, 1).numpy()
        for tensor in (images, gradient)
    )
    chunks = min(_CHUNKS, len(pixels))
    borders = [len(pixels) * chunk // chunks for chunk in range(chunks + 1)]
    weights = np.zeros((chunks, *kernel, pixels.shape[3]), pixels.dtype)
    biases = np.zeros((chunks, pixels.shape[3]), pixels.dtype)
    steps = (*geometry.stride, *geometry.padding, *geometry.dilation)

    def run(thread: int, threads: int) -> None:
        for chunk in range(thread, chunks, threads):
            here = slice(borders[chunk], borders[chunk + 1])
            add_gradients(pixels[here], slopes[here], steps, weights[chunk], biases[chunk])

    on_threads(run, min(torch.get_num_threads(), chunks))
    weight, bias = (torch.from_numpy(parts.sum(axis=0)) for parts in (weights, biases))
    return weight.permute(2, 0, 1)[:, None], bias
