"""A figure that is laid out in pixels, so that pictures are drawn one to one and captions stand exactly at them."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

from smoothap.plots.palette import LIGHT
from smoothap.plots.tiles import framed

DOTS_PER_INCH = 160  # as `save_figure` writes them


class Canvas:
    """Pictures, text and axes on white, all placed by their left and top in pixels."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self.figure = Figure(figsize=(width / DOTS_PER_INCH, height / DOTS_PER_INCH), dpi=DOTS_PER_INCH)

    def axes(self, left: float, top: float, width: float, height: float) -> Axes:
        """Axes whose frame is this box."""
        return self.figure.add_axes(
            (left / self.width, 1 - (top + height) / self.height, width / self.width, height / self.height)
        )

    def picture(self, picture: Image.Image, left: int, top: int) -> None:
        """A picture, pixel for pixel."""
        axes = self.axes(left, top, picture.width, picture.height)
        axes.imshow(np.asarray(picture), interpolation="none", aspect="auto")
        axes.set_axis_off()

    def text(self, left: float, top: float, text: str, size: float = 10, colour: str = "ink", **options: Any) -> None:
        """A line of text whose middle is at this height; dollar signs are dollar signs."""
        given: dict[str, Any] = {"va": "center", "ha": "left"} | options
        self.figure.text(
            left / self.width,
            1 - top / self.height,
            text,
            fontsize=size,
            color=LIGHT[colour],
            parse_math=False,
            **given,
        )

    def key(self, left: int, top: int) -> None:
        """What the frames mean, in one line of 24 pixels."""
        for kind, text, width in (
            ("query", "query", 124),
            ("right", "of its class", 180),
            ("wrong", "of another class", 0),
        ):
            self.picture(framed(Image.new("RGB", (18, 18), "white"), kind, 3), left, top)
            self.text(left + 32, top + 12, text, 9, "soft")
            left += width
