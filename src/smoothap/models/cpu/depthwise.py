"""Depthwise convolutions by loops of ours: the activation in the same pass, and no copy of an image for its border.

The work is cut into chunks of images, which are summed by themselves and added in order, so that bits do not depend on
the number of threads.
"""

from collections.abc import Callable
from functools import lru_cache
from math import inf
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from smoothap._core.threads import on_threads

_CHUNKS = 8  # of the images
_BAND = 16  # pixels at least whose products with one tap are added in one go, all of them near each other in memory
Bounds = tuple[float, float]  # between which an activation has the slope 1; elsewhere it is flat
NO_ACTIVATION: Bounds = (-inf, inf)


class Geometry(NamedTuple):
    """How a convolution steps over its images: down and across."""

    stride: tuple[int, ...] = (1, 1)
    padding: tuple[int, ...] = (0, 0)
    dilation: tuple[int, ...] = (1, 1)
    groups: int = 1
    further: tuple[int, ...] = (0, 0)  # more zeros below and to the right, as TensorFlow pads

    def result_shape(self, images: tuple[int, ...], kernel: tuple[int, ...]) -> tuple[int, ...]:
        """Rows and columns of the result, from those of the images."""
        return tuple(
            (side + 2 * padding + further - dilation * (taps - 1) - 1) // stride + 1
            for side, taps, stride, padding, dilation, further in zip(
                images, kernel, self.stride, self.padding, self.dilation, self.further, strict=True
            )
        )


class _Sums(NamedTuple):
    """Which rows are multiplied, and where their products are added: see `_depthwise_kernels`."""

    starts: np.ndarray
    targets: np.ndarray
    pairs: np.ndarray


class _Plan(NamedTuple):
    of_result: _Sums
    of_images: _Sums
    of_weight: _Sums


def convolve(images: Tensor, weight: Tensor, bias: Tensor | None, geometry: Geometry, bounds: Bounds) -> Tensor:
    """The depthwise convolution of images (n, c, h, w), channels last, kept between the bounds."""
    from smoothap.models.cpu.kernels import convolve_images

    shape = geometry.result_shape(images.shape[2:], weight.shape[2:])
    result = _empty(images, (*images.shape[:2], *shape))
    pixels, results, taps = _pixels(images), _pixels(result), _taps(weight)
    start = np.zeros(taps.shape[1], taps.dtype) if bias is None else bias.detach().numpy()
    sums = _plan(tuple(images.shape[2:]), tuple(weight.shape[2:]), geometry).of_result

    def run(chunk: int, here: slice) -> None:
        convolve_images(pixels[here], taps, start, *bounds, *sums, results[here])

    _by_chunks(run, len(pixels))
    return result


def gradients(
    images: Tensor,
    weight: Tensor,
    gradient: Tensor,
    geometry: Geometry,
    result: Tensor | None = None,
    bounds: Bounds = NO_ACTIVATION,
    *,
    of_images: bool,
) -> tuple[Tensor | None, Tensor, Tensor]:
    """The gradients of the images, if wanted, of the weight (c, 1, kh, kw) and of the bias (c,).

    With a result and bounds, they are those of the convolution with its activation.
    """
    from smoothap.models.cpu.kernels import add_gradients

    plan = _plan(tuple(images.shape[2:]), tuple(weight.shape[2:]), geometry)
    slope = _empty(images, images.shape if of_images else (0, len(weight), 1, 1))
    pixels, slopes, taken = (_pixels(tensor) for tensor in (images, slope, gradient))
    results = taken[:0] if result is None else _pixels(result)
    taps, chunks = _taps(weight), _chunks(len(pixels))
    weights = np.zeros((chunks, *taps.shape), taps.dtype)
    biases = np.zeros((chunks, taps.shape[1]), taps.dtype)

    def run(chunk: int, here: slice) -> None:
        tables = pixels[here], taps, results[here], taken[here]
        sums = *plan.of_images, *plan.of_weight
        add_gradients(*tables, *bounds, *sums, slopes[here], weights[chunk], biases[chunk])

    _by_chunks(run, len(pixels))
    of_weight, of_bias = (torch.from_numpy(parts.sum(axis=0)) for parts in (weights, biases))
    return slope if of_images else None, of_weight.t().reshape(weight.shape), of_bias


def slopes_and_sum(gradient: Tensor, result: Tensor, bounds: Bounds) -> tuple[Tensor, Tensor]:
    """The gradient (n, c, h, w) of what went into the activation, and its sum (c,), in one pass."""
    from smoothap.models.cpu.kernels import add_slopes

    slope = torch.empty_like(result)
    taken, results, slopes = (_pixels(tensor) for tensor in (gradient, result, slope))
    sums = np.zeros((_chunks(len(taken)), taken.shape[2]), taken.dtype)

    def run(chunk: int, here: slice) -> None:
        rows = (table[here].reshape(-1, table.shape[2]) for table in (taken, results))
        add_slopes(*rows, *bounds, slopes[here].reshape(-1, slopes.shape[2]), sums[chunk])

    _by_chunks(run, len(taken))
    return slope, torch.from_numpy(sums.sum(axis=0))


def _empty(images: Tensor, shape: tuple[int, ...]) -> Tensor:
    return torch.empty(shape, dtype=images.dtype, memory_format=torch.channels_last)


def _pixels(images: Tensor) -> np.ndarray:
    """Images (n, c, h, w) as a table of pixels (n, h * w, c), without a copy where channels are last."""
    return images.detach().permute(0, 2, 3, 1).flatten(1, 2).contiguous().numpy()


def _taps(weight: Tensor) -> np.ndarray:
    """A weight (c, 1, kh, kw) as a table (kh * kw, c)."""
    return weight.detach().flatten(1).t().contiguous().numpy()


def _chunks(images: int) -> int:
    return min(_CHUNKS, images)


def _by_chunks(run: Callable[[int, slice], None], images: int) -> None:
    """Call run(chunk, its images) for each chunk, side by side."""
    chunks = _chunks(images)
    borders = [images * chunk // chunks for chunk in range(chunks + 1)]

    def share(thread: int, threads: int) -> None:
        for chunk in range(thread, chunks, threads):
            run(chunk, slice(borders[chunk], borders[chunk + 1]))

    on_threads(share, min(torch.get_num_threads(), chunks))


@lru_cache(maxsize=256)
def _plan(images: tuple[int, ...], kernel: tuple[int, ...], geometry: Geometry) -> _Plan:
    """All the products of one image: a pixel of the result takes a pixel of the image times a tap."""
    shape = geometry.result_shape(images, kernel)
    places = [  # (result, taps): which row of the image, or column
        np.arange(results)[:, None] * stride - padding + np.arange(taps) * dilation
        for results, taps, stride, padding, dilation in zip(
            shape, kernel, geometry.stride, geometry.padding, geometry.dilation, strict=True
        )
    ]
    y, x = places[0][:, None, :, None], places[1][None, :, None, :]
    row, column, tap_y, tap_x = np.nonzero((y >= 0) & (y < images[0]) & (x >= 0) & (x < images[1]))
    pixel = places[0][row, tap_y] * images[1] + places[1][column, tap_x]
    result, tap = row * shape[1] + column, tap_y * kernel[1] + tap_x
    band = row // max(1, _BAND // max(shape[1], 1))
    return _Plan(
        _sums(result, result, pixel, tap),
        _sums(pixel, pixel, tap, result),
        _sums(band * kernel[0] * kernel[1] + tap, tap, pixel, result),
    )


def _sums(part: np.ndarray, target: np.ndarray, left: np.ndarray, right: np.ndarray) -> _Sums:
    order = np.argsort(part, kind="stable")
    starts = np.flatnonzero(np.diff(part[order], prepend=-1))
    pairs = np.stack([left[order], right[order]], axis=1)
    return _Sums(np.append(starts, len(order)), target[order][starts], pairs.astype(np.int32))
