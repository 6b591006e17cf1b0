"""From an RGB image of any size to the square that a network takes: the paper's way and the released code's way.

A transform hands out bytes, (3, size, size) uint8, and `normalise` turns a whole batch of them into numbers on the
device: a batch waits in a quarter of the memory, and the arithmetic is done once for all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import ceil, exp, log, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

if TYPE_CHECKING:  # the server's decoder cuts out views and never loads torch
    from torch import Tensor

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)

_NAMES = ("paper", "released", "whole")
_RATIO = (3 / 4, 4 / 3)  # width over height of the released code's random crop
_ATTEMPTS = 10
_LARGEST = 10_000  # as many pixels as an image that is read may have

Corners = tuple[float, float, float, float]  # left, top, right, bottom, in pixels of the image


@dataclass(frozen=True)
class Transform:
    """How images become input of a network; part of what a saved model carries (`to_dict`, `from_dict`).

    `paper`: resize to 256 x 256, crop 224 x 224 at random, flip half of the time; test: the centre crop.
    `released` (the authors' code): crop a random part of 8% to 100% of the area, resize it to 224 x 224, flip;
    test: shorter side to 256, centre crop. Another `size` keeps the proportion (64 is cut from 73); `min_crop_area` may
    replace the 8%.
    `whole`: the image as it is, resized to `size` x `size`, flipped in training; for faces that are cut out already.

    A pixel value v of 0 ... 255 enters the network as (v * scale - mean) / std, the channels in `channel_order`, in
    which `mean` and `std` are given too. The view of a face for SENet-50 is `SENET`.
    """

    name: str = "paper"
    size: int = 224
    mean: tuple[float, float, float] = IMAGENET_MEAN
    std: tuple[float, float, float] = IMAGENET_STD
    channel_order: str = "RGB"
    scale: float = 1 / 255
    min_crop_area: float = 0.08  # the smallest share of the image that a random crop takes, for `released`
    flip: bool = True  # False where a mirror image is another thing: arrows, clocks, letters

    def __post_init__(self) -> None:
        if self.name not in _NAMES:
            raise ValueError(f"a transform is one of {', '.join(_NAMES)}, not {self.name!r}")
        if self.channel_order not in ("RGB", "BGR"):
            raise ValueError(f"channel_order is RGB or BGR, not {self.channel_order!r}")
        if not 1 <= self.size <= _LARGEST:
            raise ValueError(f"size is the side of the square in pixels, from 1 to {_LARGEST:,}, not {self.size}")
        if not 0 < self.min_crop_area <= 1:
            raise ValueError(
                f"min_crop_area is a share of the image, more than 0 and at most 1, not {self.min_crop_area}"
            )

    @property
    def resized(self) -> int:
        """The side to which an image is resized before the crop: 256 for 224, or the size where nothing is cut."""
        return self.size if self.name == "whole" else round(self.size * 256 / 224)

    def enough_pixels(self, train: bool, seed: tuple[int, int, int] | None = None) -> int:
        """The shorter side at which an image may be decoded: its view has no more pixels than that gives.

        Grey levels of a photo change by one or two of 255, as they do between two ways of resizing.
        The released random crop needs more of the image the smaller the part that `seed` will take; without a seed,
        enough for any.
        """
        if not train or self.name != "released":
            return self.resized
        share = self.min_crop_area if seed is None else np.random.default_rng(seed).uniform(self.min_crop_area, 1)
        return ceil(self.size / sqrt(share))

    def train(self, image: Image.Image, seed: tuple[int, int, int]) -> Tensor:
        """A random view, (3, size, size) uint8: a pure function of the image and of (seed, epoch, position)."""
        random = np.random.default_rng(seed)
        if self.name != "released":
            left, top = random.integers(self.resized - self.size + 1, size=2).tolist()
            corners = self._cut(image.size, (self.resized, self.resized), left, top)
        else:
            corners = _random_part(image.width, image.height, self.min_crop_area, random)
        view = self._view(image, corners)
        if self.flip and random.random() < 0.5:
            view = view.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        return _pixels(view)

    def test(self, image: Image.Image) -> Tensor:
        """The centre of the image, (3, size, size) uint8."""
        return _pixels(self.test_view(image))

    def test_view(self, image: Image.Image) -> Image.Image:
        """The centre of the image, as an image of size x size."""
        return self._view(image, self.test_corners(*image.size))

    def test_corners(self, across: int, down: int) -> Corners:
        """The left, top, right and bottom edge of what it takes of an image of that width and height."""
        width = height = self.resized
        if self.name == "released" and across > down:
            width = int(self.resized * across / down)
        elif self.name == "released":
            height = int(self.resized * down / across)
        left, top = round((width - self.size) / 2), round((height - self.size) / 2)
        return self._cut((across, down), (width, height), left, top)

    def normalise(self, images: Tensor) -> Tensor:
        """images (n, 3, h, w) uint8 -> (n, 3, h, w) float32 as the network takes them, on their device."""
        import torch

        if self.channel_order == "BGR":
            images = images.flip(1)
        last = images.is_contiguous(memory_format=torch.channels_last)
        layout = torch.channels_last if last else torch.contiguous_format
        mean, std = (torch.tensor(values, dtype=torch.float64).view(1, 3, 1, 1) for values in (self.mean, self.std))
        # Spelled out for every pixel, in the same layout: six times faster than 3 numbers along a short last axis.
        multiplier, offset = (
            values.float().to(images.device).expand(1, *images.shape[1:]).contiguous(memory_format=layout)
            for values in (self.scale / std, -mean / std)
        )
        return images.to(torch.float32).mul_(multiplier).add_(offset)

    def sentence(self) -> str:
        """The test view in words, for whoever has to make it elsewhere."""
        side, size = self.resized, self.size
        resized = {
            "paper": f"Resize the image to {side} x {side} pixels",
            "released": f"Resize the image so that its shorter side has {side} pixels",
            "whole": f"Resize the image to {size} x {size} pixels",
        }[self.name]
        cropped = "" if side == size else f", cut out the {size} x {size} in its centre"
        numbers = (" ".join(f"{value:g}" for value in values) for values in (self.mean, self.std))
        return (
            f"{resized}, bilinear and antialiased as Pillow and torchvision do{cropped}, and keep whole levels from 0 "
            "to 255. A level v then enters the network as (v * {:g} - mean) / std, channels in the order {}, mean {}, "
            "std {}."
        ).format(self.scale, self.channel_order, *numbers)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, fit for json."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Transform:
        """The transform that `to_dict` described."""
        fields: dict[str, Any] = {**values, "mean": tuple(values["mean"]), "std": tuple(values["std"])}
        return cls(**fields)

    def _cut(self, size: tuple[int, int], resized: tuple[int, int], left: int, top: int) -> Corners:
        """Where the square at (left, top) of the resized image is in an image of that size."""
        across, down = size[0] / resized[0], size[1] / resized[1]
        return left * across, top * down, (left + self.size) * across, (top + self.size) * down

    def _view(self, image: Image.Image, corners: Corners) -> Image.Image:
        # Resizing the whole image and then cropping would give the same pixels, but takes longer.
        return image.resize((self.size, self.size), Image.Resampling.BILINEAR, box=corners)


def _pixels(view: Image.Image) -> Tensor:
    """An RGB image as (3, h, w) uint8."""
    import torch

    return torch.from_numpy(np.array(view)).permute(2, 0, 1)


def _random_part(width: int, height: int, min_crop_area: float, random: np.random.Generator) -> Corners:
    """The box of torchvision's RandomResizedCrop: ten attempts at an area and a ratio, then the centre.

    It is not rounded to whole pixels, so that an image decoded at half its size has the same part taken out.
    """
    for _ in range(_ATTEMPTS):
        area = width * height * random.uniform(min_crop_area, 1)
        ratio = exp(random.uniform(log(_RATIO[0]), log(_RATIO[1])))
        across, down = sqrt(area * ratio), sqrt(area / ratio)
        if across <= width and down <= height:
            left, top = random.random() * (width - across), random.random() * (height - down)
            return left, top, left + across, top + down
    across, down = min(width, height * _RATIO[1]), min(height, width / _RATIO[0])
    left, top = (width - across) / 2, (height - down) / 2
    return left, top, left + across, top + down


# What SENet-50 for faces (VGGFace2) takes. The paper resizes the box of a face, extended by 1.3, to 224 x 224, for
# training and test; that half of the training faces are mirrored is our guess. VGGFace2's own protocol cuts 224 out
# of a shorter side of 256, as `released` does.
SENET = Transform("whole", mean=(91.4953, 103.8827, 131.0912), std=(1.0, 1.0, 1.0), channel_order="BGR", scale=1.0)
