"""A benchmark with few images to validate and test on, for a rehearsal."""

from dataclasses import dataclass, field, replace

import numpy as np

from smoothap.data.benchmark import Benchmark
from smoothap.data.image_set import ImageSet

_IMAGES, _PER_CLASS = 200, 8  # that are validated on, and of each test


@dataclass(frozen=True, eq=False)
class FewTests(Benchmark):
    """A benchmark with all of its training images, and few to validate and test on."""

    split: list[tuple[ImageSet, int]] = field(default_factory=list)  # training images, how many are validated on
    tested: dict[str, int] = field(default_factory=dict)  # images of each test set of the whole benchmark

    @classmethod
    def of(cls, whole: Benchmark, missing: list[str]) -> "FewTests":
        tests: dict[str, ImageSet] = {}
        shared: dict[tuple[int, int], ImageSet] = {}  # protocols over the same images embed them once
        for name, images in whole.tests.items():
            rows = _few(images)
            if rows is None:
                missing.append(f"{images.name} has no two classes of two images and more: nothing can be tested on it.")
                continue
            first = shared.setdefault(images.source, images.rows(rows))
            masks = {mask: getattr(images, mask) for mask in ("is_query", "is_gallery")}
            masks = {mask: None if value is None else value[rows] for mask, value in masks.items()}
            tests[name] = replace(first, name=images.name, **masks)
        averages = {name: draws for name, draws in whole.averages.items() if set(draws) <= set(tests)}
        tested = {images.name: len(images) for images in whole.sets if images is not whole.train}
        return cls(whole.name, whole.train, tests, whole.warnings, averages, tested=tested)

    def training_images(self) -> ImageSet:
        self.split.append((super().training_images(), 0))
        return self.split[-1][0]

    def train_and_validation(self, seed: int = 0, fraction: float = 0.1) -> tuple[ImageSet, ImageSet]:
        training, validation = super().train_and_validation(seed, fraction)
        self.split.append((training, len(validation)))
        rows = _few(validation)
        return training, validation if rows is None else validation.rows(rows)


def _few(images: ImageSet) -> np.ndarray | None:
    """Rows of some hundred images, a few of each of several classes from all over the set; None where it has no two."""
    order = np.argsort(images.labels, kind="stable")
    sizes = np.bincount(images.labels, minlength=images.classes)
    classes = [rows for rows in np.split(order, np.cumsum(sizes)[:-1]) if len(rows) > 1]
    each = _PER_CLASS
    if images.is_query is not None and images.is_gallery is not None:
        query, gallery = images.is_query, images.is_gallery
        classes = [rows for rows in classes if query[rows].any() and gallery[rows].any()]
        each = len(images)  # the whole class, with its query and its gallery
    if len(classes) < 2:
        return None
    usual = min(each, int(np.mean([len(rows) for rows in classes])))
    wanted = min(len(classes), max(2, _IMAGES // max(1, usual)))
    chosen = [classes[place] for place in np.linspace(0, len(classes) - 1, wanted).astype(int)]
    spread = [rows[np.linspace(0, len(rows) - 1, min(each, len(rows))).astype(int)] for rows in chosen]
    return np.sort(np.concatenate(spread))
