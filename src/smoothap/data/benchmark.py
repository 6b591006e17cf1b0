"""A benchmark: what to train on, what to test on, and what the user should know about this copy of it."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from smoothap.data.image_set import ImageSet
from smoothap.data.splits import class_folds, split_at_classes, split_by_class

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
    warnings: tuple[str, ...] = ()
    averages: dict[str, tuple[str, ...]] = field(default_factory=dict)
    tests_are_chosen: bool = False  # by the user, who can choose fewer test classes or none

    @property
    def sets(self) -> list[ImageSet]:
        """The training images, then the test sets, without those that share their images with an earlier one."""
        distinct: dict[tuple[int, int], ImageSet] = {}
        for images in (self.train, *self.tests.values()):
            if images is not None:
                distinct.setdefault(images.source, images)
        return list(distinct.values())

    def with_images(self, prepared: Callable[[ImageSet], ImageSet]) -> "Benchmark":
        """Itself with the ways to read images that a function returns, which is asked once for sets that share them."""
        ways = {images.source: prepared(images) for images in self.sets}

        def changed(images: ImageSet) -> ImageSet:
            way = ways[images.source]
            return replace(images, read=way.read, features=way.features, is_decoded=way.is_decoded)

        tests = {name: changed(images) for name, images in self.tests.items()}
        return replace(self, train=None if self.train is None else changed(self.train), tests=tests)

    def training_images(self) -> ImageSet:
        """All that there is to train on."""
        if self.train is None:
            raise ValueError(f"{self.name} has no training images: train on another set and test on this one.")
        return self.train

    def with_tests(self) -> "Benchmark":
        """Itself, or an error where there is nothing to test on."""
        if not self.tests:
            raise ValueError(f"{self.name} has no test classes: hold some out, with a --test-fraction above 0.")
        return self

    def train_and_validation(self, seed: int = 0, fraction: float = 0.1) -> tuple[ImageSet, ImageSet]:
        """The training images in two parts with disjoint classes, the second with at least `fraction` of them."""
        images = replace(self.training_images(), name=self.name)
        classes = images.classes
        fewest = max(2, min(_FEWEST_VALIDATION_CLASSES, classes // 4))  # with one class every ranking is perfect
        if classes - fewest < 2:
            raise ValueError(
                f"{self.name} has {classes} classes to train on, too few to learn from and to hold some out of: "
                f"training wants at least 4.{self._how_to_have_more(classes)}"
            )
        return split_by_class(images, max(fraction, fewest / classes), seed, ("train", "validation"))

    def _how_to_have_more(self, classes: int) -> str:
        """A sentence on classes that were set aside, if the user can take them back."""
        if not self.tests_are_chosen or not self.tests:
            return ""
        tested = sum(test.classes for test in self.tests.values())
        return (
            f" {tested} of its {classes + tested} classes {'was' if tested == 1 else 'were'} set aside to test on: "
            "give a smaller --test-fraction, 0 "
            "for none, and --validation-fraction 0 to hold none out while training (in Python: test_fraction and "
            "TrainingConfig.validation_fraction)."
        )

    def training_fold(self, fold: int, folds: int, seed: int = 0) -> tuple[ImageSet, ImageSet]:
        """The training images without one of `folds` disjoint parts of their classes, and that part, to validate on."""
        images = replace(self.training_images(), name=self.name)
        held_out = class_folds(images.class_names, folds, seed) == fold
        return split_at_classes(images, held_out, ("train", "validation"))
