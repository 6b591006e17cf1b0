"""A benchmark: what to train on, what to test on, and what the user should know about this copy of it."""

from dataclasses import dataclass, field, replace

from smoothap.data.image_set import ImageSet
from smoothap.data.splits import split_by_class

_FEWEST_VALIDATION_CLASSES = 10  # fewer say little about a model; a quarter of the classes where there are few


@dataclass(frozen=True, eq=False)
class Benchmark:
    """A data set as opened: its training images, its test protocols by name, and warnings in whole sentences.

    `averages` names the protocols whose result is the mean over several entries of `tests` (draws of a gallery). Such
    entries share `read` and `names` and differ in `is_query` and `is_gallery` only: embed one, evaluate all.
    """

    name: str
    train: ImageSet | None
    tests: dict[str, ImageSet]
    validation_fraction: float = 0.1  # of the training classes, held out to pick the best checkpoint
    warnings: tuple[str, ...] = ()
    averages: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def sets(self) -> list[ImageSet]:
        """The training images, then the test sets, without those that share their images with an earlier one."""
        distinct: dict[tuple[int, int], ImageSet] = {}
        for images in (self.train, *self.tests.values()):
            if images is not None:
                distinct.setdefault(images.source, images)
        return list(distinct.values())

    def train_and_validation(self, seed: int = 0) -> tuple[ImageSet, ImageSet]:
        """The training images in two parts with disjoint classes; the test classes are in neither."""
        if self.train is None:
            raise ValueError(f"{self.name} has no training images: train on another set and test on this one.")
        classes = self.train.classes
        fewest = max(2, min(_FEWEST_VALIDATION_CLASSES, classes // 4))  # with one class every ranking is perfect
        if classes - fewest < 2:
            raise ValueError(
                f"{self.name} has {classes} classes to train on, too few to learn from and to hold some out of: "
                "training wants at least 4."
            )
        images = replace(self.train, name=self.name)
        fraction = max(self.validation_fraction, fewest / classes)
        return split_by_class(images, fraction, seed, ("train", "validation"))
