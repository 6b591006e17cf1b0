"""Layers that give what torch's give and take less time and memory on a CPU.

- **A convolution and its activation** are one step of oneDNN where it has one for them, and what is kept for the
  backward pass is the result alone.
- **Depthwise convolutions.** oneDNN has a fast weight gradient for kernels up to 3 wide on maps that are no smaller
  than the kernel. For all others it treats each channel as a convolution by itself, which takes up to a hundred times
  as long as a plain loop over the taps. Those loops are in `depthwise.py`; with many channels they are also faster
  where oneDNN does its best, since the activation is part of them, and a border need not be copied around the image.
- **Convolutions of 1 x 1** on few pixels: their weight gradient takes half of the time as a matrix product.
- **The slope of an activation** and the gradient of the bias, which is its sum, in one pass.

Which way a layer goes follows from its shapes alone, so that two runs of a training are the same run.
"""

from math import inf
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, pad

from smoothap._core.threads import numba_is_there
from smoothap.models.cpu import depthwise
from smoothap.models.cpu.depthwise import Geometry

_FEW_PIXELS = 1 << 15  # of all images together, below which oneDNN has too little to share among its threads
_FUSED: dict[type[nn.Module], tuple[str, list[float]]] = {  # what oneDNN calls an activation, and its numbers
    nn.ReLU: ("relu", []),
    nn.ReLU6: ("hardtanh", [0.0, 6.0]),
    nn.Hardswish: ("hardswish", []),
    nn.SiLU: ("swish", []),
}
# Between which results an activation has the slope 1, and 0 elsewhere; other activations need what went into them.
_STEEP: dict[type[nn.Module], depthwise.Bounds] = {nn.ReLU: (0.0, inf), nn.ReLU6: (0.0, 6.0)}
_FEW_CHANNELS = 64  # with which oneDNN's own loops over a kernel of 3 are faster than ours
_FEW_IMAGES = 8  # for which it is not worth it to load the compiled loops: a query has one
_WIDE = 5  # the widest kernel whose gradient of the images is ours


def kernels() -> str:
    """What the bits of these layers depend on, for the checkpoint: the number is that of the rule below."""
    by = "numba" if numba_is_there() else "torch"
    return f"{by} (rule 4, {torch.backends.cpu.get_cpu_capability()})"


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
    """What the layer gives with this weight and bias instead of its own, through the activation."""
    if layer.padding_mode != "zeros" or isinstance(layer.padding, str):
        features = layer._conv_forward(images, weight, bias)
        return features if activation is None else activation(features)
    padding, further = layer.padding, (0, 0)
    if _pads_as_tensorflow(layer):
        padding, further = _borders(images, layer)
    geometry = Geometry(layer.stride, padding, layer.dilation, layer.groups, further)
    return convolve(images, weight, bias, geometry, activation)


class SamePadding(nn.Conv2d):
    """A convolution that is padded as TensorFlow does: the odd row and column are below and to the right."""

    def forward(self, input: Tensor) -> Tensor:
        padding, further = _borders(input, self)
        geometry = Geometry(self.stride, padding, self.dilation, self.groups, further)
        return _torchs(input, self.weight, self.bias, geometry)


def _borders(images: Tensor, layer: nn.Conv2d) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """How many zeros TensorFlow puts on each side, and how many more below and right: each stride has an output."""
    short = [
        max((-(-side // stride) - 1) * stride + dilation * (kernel - 1) + 1 - side, 0)
        for side, kernel, stride, dilation in zip(
            images.shape[2:], layer.kernel_size, layer.stride, layer.dilation, strict=True
        )
    ]
    return tuple(zeros // 2 for zeros in short), tuple(zeros % 2 for zeros in short)


def _padded(images: Tensor, geometry: Geometry) -> Tensor:
    """The images with the further zeros that torch's convolutions do not know."""
    down, across = geometry.further
    return pad(images, [0, across, 0, down]) if down or across else images


def _torchs(images: Tensor, weight: Tensor, bias: Tensor | None, geometry: Geometry) -> Tensor:
    return conv2d(_padded(images, geometry), weight, bias, *geometry[:4])


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
    features = _torchs(images, weight, bias, geometry)
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
    bounds = depthwise.NO_ACTIVATION if activation is None else _STEEP.get(type(activation))
    if bounds is not None and _is_our_result(images, weight, geometry):
        return depthwise.convolve(images, weight, bias, geometry, bounds)
    fused = None if activation is None else _FUSED.get(type(activation))
    if fused is not None and images.dtype == torch.float32 and torch.backends.mkldnn.enabled:
        name, numbers = fused
        stride, padding, dilation, groups, _ = geometry
        return torch.ops.mkldnn._convolution_pointwise(
            _padded(images, geometry), weight, bias, padding, stride, dilation, groups, name, numbers, ""
        )
    features = _torchs(images, weight, bias, geometry)
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
        ctx.geometry = geometry
        ctx.bounds = depthwise.NO_ACTIVATION if activation is None else _STEEP[type(activation)]
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = gradients
        images, weight, *results = ctx.saved_tensors
        result = results[0] if results else None
        wanted = list(ctx.needs_input_grad[:3])
        if torch.is_grad_enabled():  # a gradient of the gradient is asked for, which torch has
            slope = gradient if result is None else torch.ops.aten.hardtanh_backward(gradient, result, *ctx.bounds)
            slopes = _torchs_gradients(images, weight, slope, ctx.geometry, wanted)
        else:
            slopes = _gradients(images, weight, gradient, ctx.geometry, result, ctx.bounds, wanted)
        return (*(slope if want else None for slope, want in zip(slopes, wanted, strict=True)), None, None)


def _torchs_gradients(
    images: Tensor, weight: Tensor, gradient: Tensor, geometry: Geometry, wanted: list[bool]
) -> list[Tensor | None]:
    """The gradients of images, weight and bias, of which some are wanted."""
    stride, padding, dilation, groups, _ = geometry
    of_padded, *others = torch.ops.aten.convolution_backward(
        gradient,
        _padded(images, geometry),
        weight,
        [len(weight)],
        stride,
        padding,
        dilation,
        False,
        [0, 0],
        groups,
        wanted,
    )
    return [of_padded[:, :, : images.shape[2], : images.shape[3]] if wanted[0] else None, *others]


def _gradients(
    images: Tensor,
    weight: Tensor,
    gradient: Tensor,
    geometry: Geometry,
    result: Tensor | None,
    bounds: depthwise.Bounds,
    wanted: list[bool],
) -> list[Tensor | None]:
    """The same, in the faster of the ways above; of the bias by itself, for which oneDNN reads everything once more."""
    gradient = gradient.contiguous(memory_format=torch.channels_last)
    of_images, of_weight, of_bias = wanted
    by_loops = of_weight and _has_our_gradient(images, weight, geometry)
    if by_loops and (_has_our_image_gradient(weight, geometry) or not of_images):
        return [*depthwise.gradients(images, weight, gradient, geometry, result, bounds, of_images=of_images)]
    slope, bias = gradient, None
    if result is not None and numba_is_there():
        slope, bias = depthwise.slopes_and_sum(gradient, result, bounds)
    elif result is not None:
        slope = torch.ops.aten.hardtanh_backward(gradient, result, *bounds)
    rows = slope.permute(0, 2, 3, 1).flatten(0, 2)  # (pixels, channels)
    if of_bias and bias is None:
        bias = rows.sum(0)
    ours = None
    if by_loops:
        ours = depthwise.gradients(images, weight, slope, geometry, of_images=False)[1]
    elif of_weight and _is_product(weight, geometry, len(rows)):
        ours = (rows.t() @ images.permute(0, 2, 3, 1).flatten(0, 2))[:, :, None, None]
    torchs = _torchs_gradients(images, weight, slope, geometry, [of_images, of_weight and ours is None, False])
    return [torchs[0], torchs[1] if ours is None else ours, bias]


def _is_product(weight: Tensor, geometry: Geometry, pixels: int) -> bool:
    return weight.shape[2:] == (1, 1) and geometry == Geometry() and pixels < _FEW_PIXELS


def _is_our_result(images: Tensor, weight: Tensor, geometry: Geometry) -> bool:
    """Whether the result is ours: of many images around which torch would have to copy a border."""
    return any(geometry.further) and len(images) >= _FEW_IMAGES and _is_loop(weight, geometry)


def _has_our_gradient(images: Tensor, weight: Tensor, geometry: Geometry) -> bool:
    kernel, side = weight.shape[2:], images.shape[2:]
    fast_in_torch = len(weight) < _FEW_CHANNELS and max(kernel) <= 3 and kernel[0] <= side[0] and kernel[1] <= side[1]
    return _is_loop(weight, geometry) and not fast_in_torch


def _has_our_image_gradient(weight: Tensor, geometry: Geometry) -> bool:
    return any(geometry.further) or (max(weight.shape[2:]) <= _WIDE and len(weight) >= _FEW_CHANNELS)


def _is_loop(weight: Tensor, geometry: Geometry) -> bool:
    """Whether this is a depthwise convolution, and there is something to compile our loops with."""
    return geometry.groups > 1 and weight.shape[:2] == (geometry.groups, 1) and numba_is_there()
