"""A look at every image of a benchmark: what there is, what cannot be read, and what stands in it twice."""

import hashlib
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from smoothap.data.benchmark import Benchmark
from smoothap.data.image_set import ImageSet
from smoothap.data.reading import UnreadableImage
from smoothap.progress import Progress

_BATCH = 64  # images that a thread reads at a time
_AHEAD = 4096  # images that are waiting to be read: futures for millions would fill the memory


class Part(NamedTuple):
    """The figures of one split."""

    name: str
    images: int
    classes: int
    fewest: int  # images of a class
    median: float
    most: int
    instances: int | None  # where several images make one instance


class Unreadable(NamedTuple):
    """An image that cannot be read, and why."""

    part: str
    name: str
    reason: str


class Duplicates(NamedTuple):
    """Images with the same pixels as another, and an example of each kind."""

    across_the_split: int  # test images that are in the training images too
    under_two_labels: int  # images of a split that another class of it has too
    within_a_class: int  # images that their class already has
    examples: tuple[str, ...]


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
    sets = ([benchmark.train] if benchmark.train is not None else []) + _different(list(benchmark.tests.values()))
    parts = [describe(images) for images in sets]
    if not read:
        return Findings(benchmark.name, parts, benchmark.warnings, None, None)
    unreadable: list[Unreadable] = []
    digests = []
    with Progress("Reading", sum(map(len, sets)), "images") as progress:
        for images in sets:
            digests.append(_digests(images, unreadable, progress))
    duplicates = find_duplicates(sets, digests, has_train=benchmark.train is not None)
    return Findings(benchmark.name, parts, benchmark.warnings, unreadable, duplicates)


def describe(images: ImageSet) -> Part:
    """Count the images, the classes and the images of a class."""
    per_class = np.bincount(images.labels, minlength=images.classes)
    instances = None if images.instances is None else len(np.unique(images.instances))
    median = float(np.median(per_class))
    return Part(images.name, len(images), images.classes, int(per_class.min()), median, int(per_class.max()), instances)


def find_duplicates(sets: list[ImageSet], digests: list[np.ndarray], has_train: bool) -> Duplicates:
    """Compare the digests (n, 16) of the images of each split; the first split is the training set if has_train."""
    across = two_labels = within = 0
    examples: list[str] = []
    keys = [each.view("V16").ravel() for each in digests]
    readable = [each.any(axis=1) for each in digests]
    for position, (images, key) in enumerate(zip(sets, keys, strict=True)):
        rows = np.flatnonzero(readable[position])
        _, content = np.unique(key[rows], return_inverse=True)
        pairs, first = np.unique(np.stack([content, images.labels[rows]]), axis=1, return_index=True)
        within += len(rows) - len(first)
        labels_of_content = np.bincount(pairs[0])
        shared = labels_of_content[content] > 1
        two_labels += int(shared.sum())
        if shared.any():
            one, other = rows[np.flatnonzero(content == content[shared.argmax()])[[0, -1]]]
            examples.append(f"{images.names[one]} = {images.names[other]} (two labels in {images.name})")
        if has_train and position > 0:
            seen = rows[np.isin(key[rows], keys[0][readable[0]])]
            across += len(seen)
            if len(seen):
                twin = int(np.flatnonzero(keys[0] == key[seen[0]])[0])
                examples.append(f"{sets[0].names[twin]} = {images.names[seen[0]]} (train and {images.name})")
    return Duplicates(across, two_labels, within, tuple(examples))


def _different(tests: list[ImageSet]) -> list[ImageSet]:
    """Without those that share their images with an earlier one, as the draws of a gallery do."""
    return list({id(images.read): images for images in reversed(tests)}.values())[::-1]


def _digests(images: ImageSet, unreadable: list[Unreadable], progress: Progress) -> np.ndarray:
    """A digest of the pixels of each image (n, 16) uint8, zero where it cannot be read."""
    digests = np.zeros((len(images), 16), dtype=np.uint8)

    def read(start: int) -> list[Unreadable]:
        failed = []
        for row in range(start, min(start + _BATCH, len(images))):
            try:
                image = images.read(row)
            except UnreadableImage as error:
                failed.append(Unreadable(images.name, str(images.names[row]), error.reason))
                continue
            content = hashlib.blake2b(f"{image.size} ".encode() + image.tobytes(), digest_size=16)
            digests[row] = np.frombuffer(content.digest(), np.uint8)
        return failed

    def batches() -> Iterator[list[Unreadable]]:
        with ThreadPoolExecutor(os.cpu_count()) as threads:  # Pillow decodes without holding the interpreter
            for start in range(0, len(images), _AHEAD):
                yield from threads.map(read, range(start, min(start + _AHEAD, len(images)), _BATCH))

    done = 0
    for failed in batches():
        unreadable += failed
        progress.advance(min(_BATCH, len(images) - done))
        done += _BATCH
    return digests
