"""What to compare and how, and the guarantee that a folder holds one comparison."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from smoothap._core.files import write_atomically
from smoothap._core.numbers import Count, Positive, Range, Share, WholeNumber, check_numbers
from smoothap.data.names import open_data
from smoothap.training.config import DIMENSION, NETWORK, QUICK, TrainingConfig

if TYPE_CHECKING:
    from smoothap.data.benchmark import Benchmark
    from smoothap.data.image_set import ImageSet
    from smoothap.models import Embedder

_HERE = ("out", "device", "workers", "jobs")  # where and on what it runs, which changes no result
_GROWING = ("methods", "seeds", "splits", "rounds", "chosen")  # what may be added to a comparison that was begun
_IMAGES = "digests_of_images"  # in compare.json, beside the options
_SEEDS = 1000  # of a split; those from `_SEARCH` on belong to its search
_SEARCH = 900


# By default, of trainings of the whole network, and of the embedding layer alone.
WHOLE = {"steps": 60, "batch_size": 64, "learning_rate": 5e-4, "validations": 4, "jobs": 1}
FROZEN = {"steps": 300, "batch_size": 256, "learning_rate": 1e-3, "validations": 6, "jobs": os.cpu_count() or 1}


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The options of `smoothap compare`; methods, seeds, splits and rounds may be added when it is resumed.

    Parameters
    ----------
    data
        NAME or NAME:PATH, such as emoji, sop:PATH or folder:PATH.
    out
        The folder for all runs, the tables, the page and results.json.
    methods
        Names with commas, or all; NAME+NAME trains with the first, then fine-tunes with the second, and two-stages has
        those of the paper; NAME:KEY=VALUE is a row with a number fixed, such as smooth-ap:tau=0.1.
    frozen
        Train the embedding layer alone, on features that are computed once: 300 steps in seconds.
    trials
        Whole trainings of each method at random values, of which the best on validation classes is chosen; 0 takes
        the learning rate as it is and the published values.
    seeds
        How often to train each method; a seed chooses the batches, the validation classes and the new weights.
    splits
        Draws of training and test classes, each with a search and all seeds of its own; for folder, csv, parquet, emoji
        and glyphs.
    steps
        Training steps, of each stage where there are two.
    jobs
        Trainings at a time, which share the cores; with frozen one for each core.
    rounds
        How often at most every method gets as many trials, should the best of one be at an edge of its range.
    folds
        Judge each trial on that many folds of the training classes, in as many trainings; for small sets.
    rate_only
        Search the learning rate alone, and leave the published values of each method.
    minutes
        Stop each training after that many minutes; one that is not done by then counts as failed.
    validations
        How often to look at the validation classes during a training; the best look is kept.
    learning_rate
        The middle of the range that is searched, from a tenth to ten times of it.
    batch_size
        Images in a batch, or as many as few training classes allow.
    samples_per_class
        Images of each class in a batch.
    classes
        Train on that many of the training classes, drawn by the seed; by default on all.
    model
        A network by its timm name, with its published weights; or the folder of a trained model.
    weights
        A .safetensors or .pth file for the network instead of the published weights, or none for random ones.
    size
        The side of the images in pixels.
    dimension
        The length of the embedding vectors.
    flip
        Mirror half of the images; not for things whose mirror image is another thing, such as arrows or letters.
    test_fraction
        The share of the classes to test on, for folder, album, csv and parquet; by default half, for album a quarter.
    test_classes
        A file that names the classes to test on, one a line, for folder, album, csv and parquet.
    columns
        What the columns of a table are called, such as path=image_path,label=product_id.
    chosen
        Values of an earlier search, for each split.
    """

    data: str
    out: Path = Path("runs/compare")
    methods: str = "all"
    frozen: bool = False
    trials: WholeNumber = 8
    seeds: Annotated[int, Range(1, _SEARCH)] = 5
    splits: Count = 1
    steps: Count
    jobs: Count = 1
    rounds: Count = 2
    folds: Count = 1
    rate_only: bool = False
    minutes: Positive | None = None
    validations: Count
    learning_rate: Positive
    batch_size: Count
    samples_per_class: Count = 4
    classes: Count | None = None
    model: str = NETWORK
    weights: str | None = None
    size: Count = 64
    dimension: Count = DIMENSION
    flip: bool = True
    test_fraction: Share | None = None
    test_classes: Path | None = None
    columns: str | None = None
    chosen: Mapping[str, Sequence[Mapping[str, Any]]] | None = None
    device: str
    workers: WholeNumber = 0

    def __post_init__(self) -> None:
        check_numbers(self)

    @property
    def config(self) -> TrainingConfig:
        """How all methods are trained, in trials and in the end, but for the values that are found for each."""
        return replace(
            QUICK, steps=self.steps, batch_size=self.batch_size, samples_per_class=self.samples_per_class,
            learning_rate=self.learning_rate, warm_up=min(QUICK.warm_up, self.steps), head_lr_multiplier=1.0,
            head_init="components" if self.frozen else "random", diagnose_every=self.steps + 1,
        )  # fmt: skip

    @property
    def epoch_steps(self) -> int:
        """Steps between two looks at the validation classes."""
        return math.ceil(self.steps / self.validations)

    def seed(self, split: int, number: int) -> int:
        """The seed of a training: the same for all methods, another one in every split."""
        return _SEEDS * split + number

    def search_seed(self, split: int) -> int:
        """The seed of all trials of a split, which no row of the table uses."""
        return _SEEDS * split + _SEARCH

    def open_benchmark(self, split: int = 0) -> Benchmark:
        """The data set, in one of its draws of training and test classes."""
        benchmark = open_data(
            self.data,
            test_fraction=self.test_fraction,
            test_classes=self.test_classes,
            columns=self.columns,
            split=split,
        )
        return benchmark.with_tests()

    def open_network(self, dimension: int | None, seed: int) -> Embedder:
        """The network that all methods start from with this seed; without a dimension, the features of its backbone."""
        from smoothap.models import open_model  # brings torch, which the help does without

        model = open_model(self.model, dimension=dimension, size=self.size, weights=self.weights, seed=seed)
        model.transform = replace(model.transform, flip=self.flip)
        return model

    def training_classes(self, split: int) -> list[ImageSet]:
        """The images that trainings of a split learn from: of a seed, and of a fold where there are several."""
        benchmark, seed = self.open_benchmark(split), self.seed(split, 0)
        images = [benchmark.train_and_validation(seed)[0]]
        images += [] if self.folds == 1 else [benchmark.training_fold(0, self.folds)[0]]
        return [self.learned_from(each, seed) for each in images]

    def learned_from(self, images: ImageSet, seed: int) -> ImageSet:
        """The training images, or those of as many classes as the plan says; fewer are among those of more."""
        if self.classes is None:
            return images
        if not 2 <= self.classes <= images.classes:
            raise ValueError(f"classes must be from 2 to {images.classes}, which there are, not {self.classes}.")
        drawn = np.random.default_rng(seed).permutation(images.classes)[: self.classes]
        return images.rows(np.flatnonzero(np.isin(images.labels, drawn)))

    def fitted(self) -> Plan:
        """The plan with a batch that is no larger than few training classes allow."""
        classes = min(images.classes for split in range(self.splits) for images in self.training_classes(split))
        return replace(self, batch_size=min(self.batch_size, classes * self.samples_per_class))

    def described(self) -> dict[str, Any]:
        """All options but where it runs, as JSON gives them back: those that make the same comparison again."""
        options = {name: value for name, value in vars(self).items() if name not in _HERE and value is not None}
        return json.loads(json.dumps(options, default=str))

    def check_folder(self) -> None:
        """Refuse a folder that holds a comparison with other options; leave a note of these in it."""
        benchmark = self.open_benchmark()
        sets = [*([] if benchmark.train is None else [benchmark.train]), *benchmark.tests.values()]
        file, described = self.out / "compare.json", {**self.described(), _IMAGES: [each.digest() for each in sets]}
        before = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else described
        changes = [
            f"{name} was {before.get(name)} and is {described.get(name)}"
            for name in {**before, **described}
            if name not in (*_GROWING, _IMAGES) and before.get(name) != described.get(name)
        ]
        if changes:
            raise ValueError(
                f"{self.out} holds a comparison with other settings ({', '.join(changes)}): repeat its command, or "
                "choose another --out"
            )
        if before.get(_IMAGES) != described[_IMAGES]:
            raise ValueError(
                f"{self.out} holds a comparison of other images or classes than {self.data} has now: choose another "
                "--out, or bring back the images that were there"
            )
        write_atomically(file, json.dumps(described, indent=1) + "\n")


def read_plan(file: Path) -> dict[str, Any]:
    """The options of an earlier comparison: of its compare.json, or of its results.json with the values that it found.

    With the latter nothing is searched again, so that any row can be repeated alone.
    """
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        options = {**content["settings"], "chosen": content["chosen"]} if "settings" in content else dict(content)
        options.pop(_IMAGES, None)
        known = set(options) <= set(Plan.__dataclass_fields__) and "data" in options
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{file} is no compare.json or results.json of a comparison: {error}") from error
    if not known:
        raise ValueError(f"{file} is no compare.json or results.json of a comparison: it has {', '.join(options)}.")
    if options.get("test_classes") is not None:
        options["test_classes"] = Path(options["test_classes"])
    return options
