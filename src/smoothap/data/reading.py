"""The one safe way from a file of any kind to an RGB image: it decodes, or says in words why it does not."""

import io
import math
import os
import re
import stat
import threading
import warnings
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import BinaryIO

import numpy as np
from PIL import ExifTags, Image, ImageOps

PIXEL_LIMIT = 100_000_000  # more pixels than any camera of a data set; 300 MB once decoded

# What photographs and drawings come in. Pillow knows more formats, some of which start other programs (EPS).
_FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "AVIF", "JPEG2000")
SUFFIXES = (
    ".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".ppm", ".pgm", ".avif", ".jp2",
    ".heic", ".heif", ".hif",
)  # fmt: skip
_HEIF = tuple(f"ftyp{brand}".encode() for brand in ("heic", "heix", "heim", "heis", "hevc", "hevx", "hevm", "hevs"))
_HEIF_OR_AVIF = (b"ftypmif1", b"ftypmsf1")
_LONGEST = 100  # letters of a camera's name: it is a stranger's text
# When the light fell on the sensor; when it was scanned; when the file was last written by a camera that says no more.
_DATES = (ExifTags.Base.DateTimeOriginal, ExifTags.Base.DateTimeDigitized)

PixelBox = tuple[int, int, int, int]  # x, y, width, height, in pixels of the upright image


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
    box: PixelBox | None = None,
    shorter_side: int | None = None,
    pixel_limit: int = PIXEL_LIMIT,
    most_pixels: int | None = None,
) -> Image.Image:
    """The image in `source` as upright RGB, transparency on white, the first frame of several.

    `box` keeps the part of the image inside it. `shorter_side` is a hint: a JPEG that is read whole may come back
    smaller, by 2, 4 or 8, with no side below it, which is several times faster. `most_pixels` is for those who must be
    careful with memory: an image that has more is decoded smaller where its format allows that, or made smaller at
    once. Whatever is wrong with the image raises `UnreadableImage`, and it never waits for a pipe or a device.
    """
    with _opened(source) as image:
        width, height = image.size
        if width * height > pixel_limit:
            raise ValueError(f"{width} x {height} pixels, more than the limit of {pixel_limit:,}")
        if image.format == "JPEG" and box is None:
            shrink = _shrink_of_jpeg(image.size, shorter_side, most_pixels)
            image.draft(None, (width // shrink, height // shrink))
        image.load()
        try:
            ImageOps.exif_transpose(image, in_place=True)
        except MemoryError:
            raise
        except Exception:  # broken EXIF data is no reason to lose the image
            pass
        rgb = as_rgb(image if most_pixels is None else _reduced(image, most_pixels))
        return rgb if box is None else cut(rgb, box)


def _shrink_of_jpeg(size: tuple[int, int], shorter_side: int | None, most_pixels: int | None) -> int:
    """1, 2, 4 or 8: by how much a JPEG is to be decoded smaller."""
    shrink = 1
    while shrink < 8 and (
        (shorter_side is not None and min(size) // (2 * shrink) >= shorter_side)
        or (most_pixels is not None and size[0] * size[1] > most_pixels * shrink**2)
    ):
        shrink *= 2
    return shrink


def _reduced(image: Image.Image, most_pixels: int) -> Image.Image:
    factor = math.ceil(math.sqrt(image.width * image.height / most_pixels))
    if factor <= 1:
        return image
    if image.mode not in ("L", "LA", "RGB", "RGBA", "CMYK") or "transparency" in image.info:
        image = as_rgb(image)  # a palette or 16 bits have no mean
    return image.reduce(factor)


@dataclass(frozen=True)
class ImageHead:
    """What the head of an image file says: the size, upright, when it was taken, and by which camera ("": none)."""

    width: int
    height: int
    taken: datetime | None
    camera: str


def image_head(content: Path | str | bytes) -> ImageHead:
    """What is in the head of an image file; its pixels are not decoded, and where it was taken is not read."""
    with _opened(content) as image:
        (width, height), taken, camera = image.size, None, ""
        with suppress(Exception):  # broken EXIF data is no reason to lose the image
            exif = Image.Image.getexif(image)  # a PNG's own would decode its pixels to look for more behind them
            # Pillow turns the size of a TIFF by itself.
            if _orientation(exif) >= 5 and image.format != "TIFF":
                width, height = height, width
            camera = _camera_name(exif)
            taken = _date_taken(exif)
        return ImageHead(width, height, taken, camera)


def _orientation(exif: Image.Exif) -> int:
    """How the pixels have to be turned, 1 where they stand upright or nobody says."""
    value = exif.get(ExifTags.Base.Orientation)
    return value if value is not None and value in range(1, 9) else 1


def _date_taken(exif: Image.Exif) -> datetime | None:
    """The camera's own clock when the photo was taken, without a time zone; None where there is no such date."""
    details = exif.get_ifd(ExifTags.IFD.Exif)
    for value in (*(details.get(tag) for tag in _DATES), exif.get(ExifTags.Base.DateTime)):
        with suppress(ValueError):  # such as 0000:00:00 00:00:00, of a camera whose clock was never set
            return datetime.strptime(str(value).strip(" \0")[:19], "%Y:%m:%d %H:%M:%S")
    return None


def _camera_name(exif: Image.Exif) -> str:
    """Maker and model, such as "Apple iPhone 15 Pro"; the maker once where the model names it too; "" for neither."""
    maker, model = (_plain(exif.get(tag)) for tag in (ExifTags.Base.Make, ExifTags.Base.Model))
    if maker and model.lower().startswith(maker.split()[0].lower()):
        maker = ""
    return f"{maker} {model}".strip()[:_LONGEST].rstrip()


def _plain(value: object) -> str:
    """Text without letters that steer, which UTF-8 can spell."""
    text = value if isinstance(value, str) else ""
    text = text.encode(errors="replace").decode()
    return re.sub(r"[\x00-\x20\x7f-\x9f\s]+", " ", text).strip()


@contextmanager
def _opened(source: Path | str | bytes | BinaryIO) -> Generator[Image.Image]:
    """The image in a file, of which the head is read; whatever goes wrong inside becomes `UnreadableImage`."""
    is_path = isinstance(source, str | Path)
    file = _open_file(source) if is_path else io.BytesIO(source) if isinstance(source, bytes) else source
    name = str(source) if is_path else str(getattr(file, "name", "image"))
    try:
        with _quiet_pillow():
            image = Image.open(file, formats=_formats_for(file))
            with image:
                yield image
    except ModuleNotFoundError as error:
        raise UnreadableImage(name, "a HEIC photo, which needs pi-heif: pip install 'smoothap[heic]'") from error
    except Image.UnidentifiedImageError as error:
        raise UnreadableImage(name, "not an image of a known format, or an empty file") from error
    except Exception as error:  # a decoder that is fed a stranger's bytes may raise anything
        raise UnreadableImage(name, str(error) or type(error).__name__) from error
    finally:
        if is_path:
            file.close()


def _open_file(path: Path | str) -> BinaryIO:
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116 (a million times an epoch)
        if stat.S_ISREG(mode):
            return os.fdopen(os.open(path, flags), "rb")
    except (OSError, ValueError) as error:  # a ValueError is about the name, such as a NUL in it
        reason = getattr(error, "strerror", None) or str(error)
        raise UnreadableImage(str(path), reason.lower()) from error
    raise UnreadableImage(str(path), "a directory" if stat.S_ISDIR(mode) else "not a regular file")


def cut(image: Image.Image, box: PixelBox) -> Image.Image:
    """The part of the image inside the box."""
    left, top, width, height = box
    right, bottom = min(left + width, image.width), min(top + height, image.height)
    left, top = max(left, 0), max(top, 0)
    if right <= left or bottom <= top:
        raise ValueError(f"the box {box} is outside of its {image.width} x {image.height} pixels")
    return image.crop((left, top, right, bottom))


def upright(image: Image.Image) -> Image.Image:
    """An image that somebody opened with Pillow, as RGB and as its camera was held, which is how a path is read."""
    return as_rgb(ImageOps.exif_transpose(image))


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


def _formats_for(file: BinaryIO) -> tuple[str, ...]:
    """The formats that a file may be in; what HEIC needs is loaded for the first such file: it takes a while."""
    head = file.read(32)
    file.seek(0)
    if head[4:12] in _HEIF or (head[4:12] in _HEIF_OR_AVIF and b"avif" not in head):
        _load_heif()
        return ("HEIF",)
    return _known_formats()


@cache
def _known_formats() -> tuple[str, ...]:
    Image.init()
    return tuple(name for name in _FORMATS if name in Image.OPEN)


@cache
def _load_heif() -> None:
    # Several photos are read at once: one thread for each. Of each, the photo alone.
    import_module("pi_heif").register_heif_opener(
        decode_threads=1, thumbnails=False, depth_images=False, aux_images=False
    )


def load_all_formats() -> None:
    """Load the decoders of all formats now, and not when the first such photo comes."""
    _known_formats()
    with suppress(ImportError):  # told when a photo comes that needs it
        _load_heif()


_quiet_lock = threading.Lock()
_quiet = ExitStack()  # holds the filter while any thread decodes
_decoding = 0


@contextmanager
def _quiet_pillow() -> Generator[None]:
    """No warnings out of Pillow. When threads overlap, `catch_warnings` alone would restore the wrong filters."""
    global _decoding
    with _quiet_lock:
        _decoding += 1
        if _decoding == 1:
            _quiet.enter_context(warnings.catch_warnings())
            warnings.filterwarnings("ignore", module=r"PIL\.")
    try:
        yield
    finally:
        with _quiet_lock:
            _decoding -= 1
            if _decoding == 0:
                _quiet.close()
