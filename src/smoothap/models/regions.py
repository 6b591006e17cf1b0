"""Vectors of parts of a photo from one pass of the network: its last map, pooled over windows of several sizes.

A photo has `PARTS` windows: the whole, squares of 2/3 and of 1/2 of its shorter side, evenly spaced. The network sees
it once, in its own shape, with as many pixels as a square of `size`; where that is the size of the network's own views,
windows are of the view that describes the whole photo, and come from the same pass. A window is the root of the mean of
signed squares of the map in it (a generalised mean with p = 2), which goes through the embedding layer as a whole photo
does. How sizes, means and windows were chosen: benchmarks/RESULTS.md.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn.functional import normalize

from smoothap._core.memory import freed_memory_kept

if TYPE_CHECKING:
    from smoothap.data.transforms import Transform
    from smoothap.models.embedder import Embedder, Tag

# The side of a window as a share of the shorter side, and how many there are along the shorter and the longer side.
_LEVELS = ((1.0, 1, 1), (2 / 3, 2, 3), (1 / 2, 3, 4))
LEVELS = np.repeat(np.arange(len(_LEVELS)), [short * long for _, short, long in _LEVELS])  # of each window
PARTS = len(LEVELS)
_USUAL = 1.6  # times the side of the view of a whole photo: two and a half times its pixels
_CELL = 32  # pixels, to whole multiples of which sides are rounded
_LEAST_SIDE, _MOST_SIDES = 64, 4  # of a view: pixels, and times its size
_AT_ONCE = 1 << 20  # pixels that go through the network together

Size = tuple[int, int]  # width and height of a photo
View = tuple[Tensor, tuple[float, float]]  # (3, h, w) uint8 of what is that wide and high in a photo


def usual_size(model: Embedder) -> int:
    """The size of views for which a photo with its parts takes less than four times the time of a photo without."""
    return round(model.transform.size * _USUAL)


def region_view(image: Image.Image, size: int, of: Size | None = None) -> View:
    """An RGB image in its own shape, with about the pixels of a square of `size`; `of` is the size of its photo.

    There is one shape for each longer side, so that photos of about one shape go through the network together.
    """
    shorter, longer = sorted(image.size)
    long = max(_CELL * round(min(size * sqrt(longer / shorter), _MOST_SIDES * size) / _CELL), _LEAST_SIDE)
    short = max(_CELL * round(size * size / long / _CELL), _LEAST_SIDE)
    sides = (long, short) if image.width >= image.height else (short, long)
    pixels = np.array(image.resize(sides, Image.Resampling.BILINEAR))
    return torch.from_numpy(pixels).permute(2, 0, 1), image.size if of is None else of


def whole_view(image: Image.Image, transform: Transform, of: Size | None = None) -> View:
    """What the network is given of an RGB image to describe it as a whole; `of` is the size of its photo."""
    left, top, right, bottom = transform.test_corners(*(image.size if of is None else of))
    return transform.test(image), (right - left, bottom - top)


def windows(width: float, height: float) -> np.ndarray:
    """The windows of a view, (PARTS, 4): left, top, width and height as shares of its width and height."""
    shorter, longer = min(width, height), max(width, height)
    boxes: list[tuple[float, float, float, float]] = []
    for share, across, along in _LEVELS:
        side = share * shorter
        length = longer if share == 1 else min(longer, max(side, longer / along))  # no gaps in a panorama
        for first in np.linspace(0, shorter - side, across):
            for second in np.linspace(0, longer - length, along):
                boxes.append((second / longer, first / shorter, length / longer, side / shorter))
    found = np.array(boxes)
    return found if width >= height else found[:, [1, 0, 3, 2]]


def pixel_boxes(
    parts: np.ndarray, sizes: np.ndarray, transform: Transform | None = None
) -> list[tuple[int, int, int, int]]:
    """The windows with these numbers (n,) in photos of sizes (n, 2), as x, y, width, height in whole pixels.

    They are windows of what `transform` takes of a photo, or of all of it.
    """
    boxes = []
    for part, (width, height) in zip(parts.tolist(), sizes.tolist(), strict=True):
        first, above, end, below = (0, 0, width, height) if transform is None else transform.test_corners(width, height)
        seen = end - first, below - above
        left, top, across, down = windows(*seen)[part]
        x, y = (min(round(one), side - 1) for one, side in
                ((first + left * seen[0], width), (above + top * seen[1], height)))  # fmt: skip
        boxes.append(
            (x, y, max(1, min(round(across * seen[0]), width - x)), max(1, min(round(down * seen[1]), height - y)))
        )
    return boxes


def region_vectors(model: Embedder, views: Sequence[View]) -> np.ndarray:
    """The vectors of all windows of some photos, each of length 1: (n, PARTS, dimension) float32."""
    found = np.zeros((len(views), PARTS, model.dimension), np.float32)
    shapes: dict[tuple[int, ...], list[int]] = {}
    for place, (pixels, _) in enumerate(views):
        shapes.setdefault(tuple(pixels.shape), []).append(place)
    for (_, height, width), places in shapes.items():
        step = max(1, _AT_ONCE // (height * width))
        for start in range(0, len(places), step):
            some = places[start : start + step]
            images = torch.stack([views[place][0] for place in some])
            with model.evaluating(), torch.inference_mode():
                maps = feature_maps(model, images.to(model.device))
            found[some] = pooled(model, maps, [views[place][1] for place in some])
    return found


def embed_with_maps(model: Embedder, batches: Iterable[tuple[Tensor, Tag]]) -> Iterator[tuple[np.ndarray, Tensor, Tag]]:
    """What `embed_batches` of the model gives for each batch (images, tag), with the last maps that it comes from."""
    with model.evaluating():
        for images, tag in batches:
            with torch.inference_mode():
                maps = feature_maps(model, images.to(model.device, non_blocking=True))
                vectors = model.behind_map(maps).cpu().numpy()
            yield vectors, maps, tag


def pooled(model: Embedder, maps: Tensor, sizes: Sequence[tuple[float, float]]) -> np.ndarray:
    """The vectors (n, PARTS, dimension) of all windows of views of these sizes, by their maps (n, features, h, w)."""
    with model.evaluating(), torch.inference_mode():
        number, channels, height, width = maps.shape
        weights = np.stack([_weights(windows(*size), height, width) for size in sizes])
        cells = maps.float().flatten(2).transpose(1, 2)  # (n, cells, channels)
        means = torch.from_numpy(weights).to(cells) @ (cells * cells.abs())
        roots = (means.sign() * means.abs().sqrt()).reshape(number * PARTS, channels)
        vectors = model.behind_pooling(roots)
        return normalize(vectors.float(), dim=1).reshape(number, PARTS, -1).cpu().numpy()


def feature_maps(model: Embedder, images: Tensor) -> Tensor:
    """The last map of the network, (n, features, h, w), for images (n, 3, h, w) uint8; refused where it has none."""
    layers = getattr(model.backbone, "forward_features", None)
    if layers is None:
        raise ValueError(f"{model.architecture} has no map of features, so that it cannot describe parts of a photo.")
    images = model.transform.normalise(images).contiguous(memory_format=torch.channels_last)
    try:
        maps = layers(images)
    except (AssertionError, RuntimeError) as error:
        if isinstance(error, torch.OutOfMemoryError):
            raise
        raise ValueError(f"{model.architecture} takes no image of another shape than its own: {error}") from error
    if maps.ndim != 4 or maps.shape[1] != model.feature_dimension:
        raise ValueError(
            f"{model.architecture} gives {tuple(maps.shape)}, not a map of {model.feature_dimension} features: parts "
            "of photos are described by convolutional networks, such as tf_efficientnet_lite0 or resnet50."
        )
    return maps


def _weights(boxes: np.ndarray, height: int, width: int) -> np.ndarray:
    """How much each cell of a map counts in each window: its share of the window's area. (PARTS, height * width)"""
    left, top, across, down = boxes.T
    rows, columns = _covered(top * height, down * height, height), _covered(left * width, across * width, width)
    return (rows[:, :, None] * columns[:, None, :]).reshape(len(boxes), -1).astype(np.float32)


def _covered(starts: np.ndarray, lengths: np.ndarray, cells: int) -> np.ndarray:
    """The share of intervals (m,) that is in each cell, (m, cells)."""
    places, ends = np.arange(cells), (starts + lengths)[:, None]
    inside = np.minimum(places + 1, ends) - np.maximum(places, starts[:, None])
    return np.clip(inside, 0, None) / lengths[:, None]


def seconds_a_photo(model: Embedder, view: View) -> tuple[float, float]:
    """How long this machine takes for the parts of one photo, measured now: with the network's pass, and without."""
    images, times = view[0].expand(8, -1, -1, -1), []
    with freed_memory_kept(), torch.inference_mode():
        for _ in range(2):  # the first time sets things up
            began = time.perf_counter()
            maps = feature_maps(model, images.to(model.device))
            passed = time.perf_counter()
            pooled(model, maps, [view[1]] * 8)
            times = [(time.perf_counter() - start) / 8 for start in (began, passed)]
    return times[0], times[1]
