"""A look at every image of a benchmark: what there is, what cannot be read, and what is in it twice."""

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from smoothap._core.progress import Progress
from smoothap.data.benchmark import Benchmark
from smoothap.data.image_set import ImageSet
from smoothap.data.reading import UnreadableImage

_AHEAD = 4096  # images that are waiting to be read: futures for millions would fill the memory


@dataclass(frozen=True)
class Part:
    """The numbers of one split."""

    name: str
    images: int
    classes: int
    fewest: int  # images of a class
    median: float
    most: int
    instances: int | None  # where several images make one instance


@dataclass(frozen=True)
class Unreadable:
    """An image that cannot be read, and why."""

    part: str
    name: str
    reason: str


@dataclass
class Duplicates:
    """Images with the same pixels as another, and an example of each kind."""

    across_the_split: int  # test images that are in the training images too
    under_two_labels: int  # images of a split that another class of it has too
    within_a_class: int  # images that their class already has
    examples: list[str]


@dataclass(frozen=True)
class Findings:
    """What `check` found; `unreadable` and `duplicates` are None where the images were not read."""

    name: str
    parts: list[Part]
    warnings: tuple[str, ...]
    unreadable: list[Unreadable] | None
    duplicates: Duplicates | None

    @property
    def images(self) -> int:
        return sum(part.images for part in self.parts)


def check(benchmark: Benchmark, read: bool = True) -> Findings:
    """Count a benchmark and, unless read=False, read all its images to find the unreadable and the equal ones."""
    parts = [_part(images) for images in benchmark.sets]
    if not read:
        return Findings(benchmark.name, parts, benchmark.warnings, None, None)
    unreadable: list[Unreadable] = []
    with Progress("Reading", sum(map(len, benchmark.sets)), "images") as progress:
        digests = [_digests(images, unreadable, progress) for images in benchmark.sets]
    return Findings(benchmark.name, parts, benchmark.warnings, unreadable, _duplicates(benchmark, digests))


def _part(images: ImageSet) -> Part:
    sizes = np.bincount(images.labels, minlength=images.classes) if images.marks is None else images.marks.sum(0)
    spread = int(sizes.min()), float(np.median(sizes)), int(sizes.max())
    instances = None if images.instances is None else len(np.unique(images.instances))
    return Part(images.name, len(images), images.classes, *spread, instances)


def _digests(images: ImageSet, unreadable: list[Unreadable], progress: Progress) -> np.ndarray:
    """A digest of the pixels of each image (n,) of 16 bytes, zero where it cannot be read."""
    digests = np.zeros(len(images), dtype="V16")

    def read(row: int) -> list[Unreadable]:
        try:
            image = images.read(row)
        except UnreadableImage as error:
            return [Unreadable(images.name, str(images.names[row]), error.reason)]
        content = hashlib.blake2b(f"{image.size} ".encode() + image.tobytes(), digest_size=16)
        digests[row] = np.void(content.digest())
        return []

    with ThreadPoolExecutor(os.cpu_count()) as threads:  # Pillow decodes without holding the interpreter
        for start in range(0, len(images), _AHEAD):
            for failed in threads.map(read, range(start, min(start + _AHEAD, len(images)))):
                unreadable += failed
                progress.advance()
    return digests


def _duplicates(benchmark: Benchmark, digests: list[np.ndarray]) -> Duplicates:
    """Compare the digests of the images of each of the benchmark's sets."""
    found = Duplicates(0, 0, 0, [])
    for images, digest in zip(benchmark.sets, digests, strict=True):
        rows = np.flatnonzero(digest != np.void(bytes(16)))
        _, content = np.unique(digest[rows], return_inverse=True)
        pairs = np.unique(np.stack([content, images.labels[rows]]), axis=1)
        found.within_a_class += len(rows) - pairs.shape[1]
        shared = np.bincount(pairs[0])[content] > 1
        found.under_two_labels += int(shared.sum())
        if shared.any():
            one, other = rows[np.flatnonzero(content == content[shared.argmax()])[[0, -1]]]
            found.examples.append(f"{images.names[one]} = {images.names[other]} (two labels in {images.name})")
        if benchmark.train is not None and images is not benchmark.train:
            seen = rows[np.isin(digest[rows], digests[0])]
            found.across_the_split += len(seen)
            if len(seen):
                twin = benchmark.train.names[np.flatnonzero(digests[0] == digest[seen[0]])[0]]
                found.examples.append(f"{twin} = {images.names[seen[0]]} (train and {images.name})")
    return found
