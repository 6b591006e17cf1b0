"""Images decoded once for all runs of a comparison: bytes in one file, which the runs map into their memory."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image

from smoothap.data.benchmark import Benchmark
from smoothap.data.image_set import ImageSet
from smoothap.data.reading import UnreadableImage
from smoothap.data.transforms import Transform
from smoothap.files import write_atomically
from smoothap.progress import Progress
from smoothap.training.loop import fits_in_memory

_INDEX = "images.json"


def hold(benchmark: Benchmark, transform: Transform, folder: Path) -> None:
    """Decode the images of the benchmark into the folder, unless they are there or are too many to hold."""
    if (folder / _INDEX).is_file():
        return
    folder.mkdir(parents=True, exist_ok=True)
    sizes: list[list[tuple[int, int]] | None] = []
    for number, images in enumerate(benchmark.sets):
        sizes.append(_decode(images, transform, _bytes(folder, number)) if fits_in_memory(images, transform) else None)
    write_atomically(folder / _INDEX, json.dumps(sizes))


def held(benchmark: Benchmark, folder: Path) -> Benchmark:
    """The benchmark with its images read from the folder, those that `hold` put there."""
    if not (folder / _INDEX).is_file():
        return benchmark
    sizes = json.loads((folder / _INDEX).read_text())
    readers = {}
    for number, images in enumerate(benchmark.sets):
        if sizes[number] is not None:
            readers[id(images.read), id(images.names)] = _Held(images, sizes[number], _bytes(folder, number))

    def from_memory(images: ImageSet) -> ImageSet:
        return replace(images, read=readers.get((id(images.read), id(images.names)), images.read))

    return replace(
        benchmark,
        train=None if benchmark.train is None else from_memory(benchmark.train),
        tests={name: from_memory(images) for name, images in benchmark.tests.items()},
    )


class _Held:
    """Reads an image of a set from the file of its pixels, or from the set where it could not be decoded."""

    def __init__(self, images: ImageSet, sizes: list[tuple[int, int]], file: Path) -> None:
        self._read, self._sizes = images.read, sizes
        lengths = [3 * width * height for width, height in sizes]
        self._starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        self._pixels = np.memmap(file, np.uint8, "r") if self._starts[-1] else np.zeros(0, np.uint8)

    def __call__(self, row: int, shorter_side: int | None = None) -> Image.Image:
        width, height = self._sizes[row]
        if not width:
            return self._read(row, shorter_side)  # says why it cannot be read
        pixels = self._pixels[self._starts[row] : self._starts[row + 1]]
        return Image.fromarray(np.asarray(pixels).reshape(height, width, 3))


def _decode(images: ImageSet, transform: Transform, file: Path) -> list[tuple[int, int]]:
    sizes: list[tuple[int, int]] = []
    partial = file.with_suffix(".partial")
    with partial.open("wb") as out, Progress(f"Reading {images.name}", len(images), "images") as line:
        for row in range(len(images)):
            try:
                image = images.read(row, transform.enough_pixels(True))
            except UnreadableImage:
                sizes.append((0, 0))
            else:
                out.write(np.asarray(image).tobytes())
                sizes.append(image.size)
            line.advance()
    partial.replace(file)
    return sizes


def _bytes(folder: Path, number: int) -> Path:
    return folder / f"images-{number}.bytes"
