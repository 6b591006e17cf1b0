"""Images decoded once and read many times: held in memory, or in a file that the runs of a comparison share."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image

from smoothap._core.files import write_atomically
from smoothap._core.progress import Progress
from smoothap.data.image_set import ImageSet, Reader
from smoothap.data.reading import UnreadableImage
from smoothap.data.transforms import Transform

_MOST_BYTES = 1 << 30  # sets that decode to more stay as they are


def decoded_once(images: ImageSet, transform: Transform, file: Path | None = None) -> ImageSet:
    """The set with its images decoded in advance, if they are small enough; with stored features it stays as it is.

    They are held in memory, or mapped from `file`, which the first to ask for it writes. Batches are the same, but for
    the last grey levels of large JPEGs under the released transform, which are held at one size for all views.
    """
    if images.is_decoded or images.features is not None:
        return images
    if file is not None and file.is_file():
        with file.open("rb") as stream:
            sizes = np.load(stream, allow_pickle=False)
            pixels = np.asarray(np.memmap(file, np.uint8, "r", stream.tell()))
    elif _fits(images, transform):
        sizes, pixels = _decode(images, transform)
        if file is not None:
            write_atomically(file, partial(_write, sizes, pixels))
    else:
        return images
    ends = np.cumsum(3 * sizes[:, 0] * sizes[:, 1])
    return replace(images, read=partial(_read, images.read, pixels, sizes, ends), is_decoded=True)


def a_few_rows(images: Sequence[object] | ImageSet) -> list[int]:
    """Rows that stand for the whole set, evenly spaced."""
    return np.linspace(0, len(images) - 1, 16).astype(int).tolist()


def _fits(images: ImageSet, transform: Transform) -> bool:
    """Whether the decoded set is small enough, judged by a few of its images."""
    sizes = [0]
    for row in a_few_rows(images):
        with suppress(UnreadableImage):
            image = images.read(row, transform.enough_pixels(True))
            sizes.append(3 * image.width * image.height)
    return 0 < max(sizes) * len(images) <= _MOST_BYTES


def _decode(images: ImageSet, transform: Transform) -> tuple[np.ndarray, np.ndarray]:
    """Width and height of each image (n, 2), 0 where it cannot be read, and the bytes of all, one after the other."""
    sizes, pixels = np.zeros((len(images), 2), np.int64), bytearray()
    with Progress(f"Reading {images.name}", len(images), "images") as line:
        for row in range(len(images)):
            with suppress(UnreadableImage):
                image = images.read(row, transform.enough_pixels(True))
                sizes[row] = image.size
                pixels += image.tobytes()
            line.advance()
    return sizes, np.frombuffer(pixels, np.uint8)


def _write(sizes: np.ndarray, pixels: np.ndarray, path: Path) -> None:
    with path.open("wb") as stream:
        np.save(stream, sizes)
        stream.write(pixels.data)  # numpy's tofile does not say that the disk is full


def _read(
    read: Reader, pixels: np.ndarray, sizes: np.ndarray, ends: np.ndarray, row: int, shorter_side: int | None = None
) -> Image.Image:
    width, height = sizes[row].tolist()
    if not width:
        return read(row, shorter_side)  # says why it cannot be read
    return Image.fromarray(pixels[ends[row] - 3 * width * height : ends[row]].reshape(height, width, 3))
