"""Images decoded once for all runs of a comparison, as bytes in files that every process reads."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image

from smoothap._core.files import write_atomically
from smoothap._core.progress import Progress
from smoothap.data.benchmark import Benchmark
from smoothap.data.dataset import fits_in_memory
from smoothap.data.image_set import ImageSet
from smoothap.data.reading import UnreadableImage
from smoothap.data.transforms import Transform

Sizes = list[tuple[int, int]]  # width and height of each image; 0 and 0 where it could not be decoded


def with_cached_images(benchmark: Benchmark, transform: Transform, folder: Path) -> Benchmark:
    """The benchmark with its images read from the folder, where the first run decodes those that are not too many."""
    distinct = {images.source: images for images in benchmark.sets}
    index = folder / "images.json"
    files = [folder / f"images-{number}.bytes" for number in range(len(distinct))]
    if not index.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        decoded = [
            _decode(images, transform, file) if fits_in_memory(images, transform) else None
            for images, file in zip(distinct.values(), files, strict=True)
        ]
        write_atomically(index, json.dumps(decoded))
    sizes: list[Sizes | None] = json.loads(index.read_text())
    readers = {
        source: _reader(images, of_set, file)
        for (source, images), of_set, file in zip(distinct.items(), sizes, files, strict=True)
        if of_set is not None
    }

    def cached(images: ImageSet) -> ImageSet:
        return replace(images, read=readers.get(images.source, images.read))

    return replace(
        benchmark,
        train=None if benchmark.train is None else cached(benchmark.train),
        tests={name: cached(images) for name, images in benchmark.tests.items()},
    )


def _reader(images: ImageSet, sizes: Sizes, file: Path) -> Callable[..., Image.Image]:
    ends = np.cumsum([3 * width * height for width, height in sizes]).tolist()

    def read(row: int, shorter_side: int | None = None) -> Image.Image:
        width, height = sizes[row]
        if not width:
            return images.read(row, shorter_side)  # says why it cannot be read
        length = 3 * width * height
        pixels = np.fromfile(file, np.uint8, length, offset=ends[row] - length)
        return Image.fromarray(pixels.reshape(height, width, 3))

    return read


def _decode(images: ImageSet, transform: Transform, file: Path) -> Sizes:
    sizes: Sizes = []
    with file.open("wb") as out, Progress(f"Reading {images.name}", len(images), "images") as line:
        for row in range(len(images)):
            try:
                image = images.read(row, transform.enough_pixels(True))
            except UnreadableImage:
                sizes.append((0, 0))
            else:
                out.write(image.tobytes())
                sizes.append(image.size)
            line.advance()
    return sizes
