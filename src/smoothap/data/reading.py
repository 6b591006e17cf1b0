"""The one safe way from a file of any kind to an RGB image: it decodes, or says in words why it does not."""

import io
import os
import stat
import threading
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import BinaryIO

import numpy as np
from PIL import Image

PIXEL_LIMIT = 100_000_000  # more pixels than any camera of a data set; 300 MB once decoded

# What photographs and drawings come in. Pillow knows more formats, some of which start other programs (EPS).
_FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "AVIF", "JPEG2000")
SUFFIXES = (
    ".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".ppm", ".pgm", ".avif", ".jp2",
)  # fmt: skip
_ORIENTATION = 0x0112
_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_enough: ContextVar[int | None] = ContextVar("shorter side that is enough", default=None)


class UnreadableImage(ValueError):  # noqa: N818
    """An image that cannot be read: `name` says which, `reason` why."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, reason)
        self.name, self.reason = name, reason

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"


def read_image(
    source: Path | str | bytes | BinaryIO,
    *,
    box: tuple[int, int, int, int] | None = None,
    shorter_side: int | None = None,
    pixel_limit: int = PIXEL_LIMIT,
) -> Image.Image:
    """The image in `source` as upright RGB, transparency on white, the first frame of several.

    `box` (x, y, width, height, in pixels of the upright image) keeps the part of the image inside it. `shorter_side`
    is a hint: a JPEG that is read whole may come back smaller, by 2, 4 or 8, with no side below it, which is several
    times faster. Whatever is wrong with the image raises `UnreadableImage`, and it never waits for a pipe or a device.
    """
    if isinstance(source, bytes):
        return _decode(io.BytesIO(source), "image", box, shorter_side, pixel_limit)
    if not isinstance(source, str | Path):
        return _decode(source, str(getattr(source, "name", "image")), box, shorter_side, pixel_limit)
    with _open_file(source) as file:
        return _decode(file, str(source), box, shorter_side, pixel_limit)


@contextmanager
def enough_pixels(shorter_side: int | None) -> Generator[None]:
    """Inside this block `shorter_side` is the hint of every `read_image` that is given none.

    It reaches through whatever lies between the one who knows how many pixels are needed (a transform) and the one
    who opens the file (the `read` of an `ImageSet`).
    """
    token = _enough.set(shorter_side)
    try:
        yield
    finally:
        _enough.reset(token)


def _open_file(path: Path | str) -> BinaryIO:
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116 (a million times an epoch)
        if not stat.S_ISREG(mode):
            raise UnreadableImage(str(path), "a directory" if stat.S_ISDIR(mode) else "not a regular file")
        return os.fdopen(os.open(path, flags), "rb")
    except OSError as error:
        raise UnreadableImage(str(path), (error.strerror or str(error)).lower()) from error
    except ValueError as error:
        if isinstance(error, UnreadableImage):
            raise
        raise UnreadableImage(str(path), str(error)) from error  # such as a NUL in the name


def _decode(
    file: BinaryIO, name: str, box: tuple[int, int, int, int] | None, shorter_side: int | None, pixel_limit: int
) -> Image.Image:
    try:
        with _quiet_pillow(), Image.open(file, formats=_known_formats()) as image:
            width, height = image.size
            if width * height > pixel_limit:
                raise UnreadableImage(name, f"{width} x {height} pixels, more than the limit of {pixel_limit:,}")
            enough = _enough.get() if shorter_side is None else shorter_side
            if enough is not None and box is None and image.format == "JPEG":
                image.draft(None, (enough, enough))
            image.load()
            rgb = as_rgb(image)
            turn = _UPRIGHT.get(_orientation(image))
    except UnreadableImage:
        raise
    except Image.UnidentifiedImageError as error:
        raise UnreadableImage(name, "not an image of a known format, or an empty file") from error
    except Exception as error:  # a decoder that is fed a stranger's bytes may raise anything
        raise UnreadableImage(name, str(error) or type(error).__name__) from error
    if turn is not None:
        rgb = rgb.transpose(turn)
    return rgb if box is None else _cut(rgb, name, box)


def _cut(image: Image.Image, name: str, box: tuple[int, int, int, int]) -> Image.Image:
    left, upper, width, height = box
    right, lower = min(left + width, image.width), min(upper + height, image.height)
    left, upper = max(left, 0), max(upper, 0)
    if right <= left or lower <= upper:
        raise UnreadableImage(name, f"the box {box} lies outside of its {image.width} x {image.height} pixels")
    return image.crop((left, upper, right, lower))


def as_rgb(image: Image.Image) -> Image.Image:
    """The image as RGB, transparency on white."""
    if image.mode == "RGB" and "transparency" not in image.info:
        return image
    if image.mode.startswith("I") or image.mode == "F":
        return _eight_bits(np.asarray(image)).convert("RGB")
    if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        drawing = image.convert("RGBA")
        canvas = Image.new("RGB", drawing.size, "white")
        canvas.paste(drawing, mask=drawing.getchannel("A"))
        return canvas
    return image.convert("RGB")


def _eight_bits(values: np.ndarray) -> Image.Image:
    """Grey of 16 bits by its top 8; other whole numbers and fractions are stretched from the least to the greatest."""
    least, greatest = values.min(), values.max()
    if values.dtype.kind in "iu" and least >= 0 and greatest <= 65535:
        return Image.fromarray((values.astype(np.uint32) >> 8).astype(np.uint8))
    if not np.isfinite(greatest - least):
        raise ValueError("values that are not finite numbers")
    span = max(float(greatest) - float(least), 1e-30)
    return Image.fromarray(((values.astype(np.float64) - least) * (255 / span)).astype(np.uint8))


def _orientation(image: Image.Image) -> object:
    try:
        return image.getexif().get(_ORIENTATION)
    except Exception:  # broken EXIF data is no reason to lose the image
        return None


@cache
def _known_formats() -> tuple[str, ...]:
    Image.init()
    return tuple(name for name in _FORMATS if name in Image.OPEN)


_quiet_lock = threading.Lock()
_quiet: list[warnings.catch_warnings] = []  # one entry while any thread decodes
_decoding = 0


@contextmanager
def _quiet_pillow() -> Generator[None]:
    """No warnings out of Pillow; `catch_warnings` alone would leave the filters astray when threads overlap."""
    global _decoding
    with _quiet_lock:
        _decoding += 1
        if _decoding == 1:
            _quiet.append(warnings.catch_warnings())
            _quiet[0].__enter__()
            warnings.filterwarnings("ignore", module=r"PIL\.")
    try:
        yield
    finally:
        with _quiet_lock:
            _decoding -= 1
            if _decoding == 0:
                _quiet.pop().__exit__(None, None, None)


def image_size(content: bytes) -> tuple[int, int]:
    """The width and height, upright, that the head of an image file names; its pixels are not decoded."""
    try:
        with _quiet_pillow(), Image.open(io.BytesIO(content), formats=_known_formats()) as image:
            width, height = image.size
            turned = _orientation(image) in (5, 6, 7, 8)
    except Exception as error:
        raise UnreadableImage("image", str(error) or type(error).__name__) from error
    return (height, width) if turned else (width, height)
