"""Fine-tuning from start to end: open the data, hold classes out, train, test before and after, save the model."""

import copy
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import isnan
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch

from smoothap._core.devices import chosen_device
from smoothap._core.distributed import Processes, joined_processes
from smoothap.data.benchmark import Benchmark
from smoothap.data.image_set import ImageSet
from smoothap.data.names import open_data
from smoothap.data.samplers import Batches
from smoothap.losses import SmoothAP
from smoothap.metrics import Report
from smoothap.models import Embedder, open_model
from smoothap.models.embedding import NoFeatures
from smoothap.training.before_after import measure_untrained
from smoothap.training.config import (
    DIMENSION,
    FEATURE_VIEWS,
    FROZEN,
    HERE,
    NETWORK,
    QUICK,
    SIZE,
    RunOptions,
    TrainingConfig,
)
from smoothap.training.evaluation import evaluate_benchmark, evaluate_set
from smoothap.training.frozen import freeze
from smoothap.training.loop import MODEL, alone_in, train
from smoothap.training.loss import Loss, TrainingSetup

Network: TypeAlias = Callable[[], Embedder]
BatchesOf: TypeAlias = Callable[[ImageSet, TrainingConfig, Processes], Batches | None]  # None: balanced ones


class Interrupted(KeyboardInterrupt):
    """Ctrl-C or SIGTERM ended a training after a whole step; its checkpoint is written."""


@dataclass(frozen=True, eq=False)
class FineTuned:
    """A trained model with the weights that did best on the validation classes, and what the training did for it.

    Where no step did better on them than the network before training, `improved` is False, and the model is the network
    as the training began. Without validation classes it is the last one, and `validation_map` is NaN. `before` and
    `after` hold a report for each test protocol of the data, and for each of the further sets; they are empty where it
    was not tested.
    """

    model: Embedder
    folder: Path
    steps: int
    best_step: int
    validation_map: float
    after: dict[str, Report]
    before: dict[str, Report] = field(default_factory=dict)
    data: str = ""  # as `smoothap evaluate --data` takes it

    @property
    def improved(self) -> bool:
        return self.best_step > 0

    @property
    def verdict(self) -> str:
        """What to say of a training that did not improve the network; nothing where it did."""
        if self.improved:
            return ""
        return (
            "The training did not improve the network: no step ranked the validation classes "
            "better than before. The model is the network as the training began with it, with its embedding layer. Try "
            "more steps or epochs, a lower learning rate, a larger size, or more images and classes."
        )

    def metrics(self) -> dict[str, Any]:
        """What the description of the model says of its training."""
        return {
            "steps": self.steps,
            "best step": self.best_step,
            "improved": self.improved,
            "validation mAP": None if isnan(self.validation_map) else self.validation_map,
            "before": {name: report.summary() for name, report in self.before.items()},
            "after": {name: report.summary() for name, report in self.after.items()},
        }


def train_and_test(
    model: Embedder,
    loss: Loss,
    images: ImageSet,
    validation: ImageSet | None,
    config: TrainingConfig,
    folder: Path,
    options: RunOptions = HERE,
    *,
    tests: Sequence[Benchmark] = (),
    batches: Batches | None = None,
    to_beat: float = -1.0,
) -> FineTuned:
    """Train a model, or go on with it, and test the one that did best on the validation classes on `tests`.

    The arguments are those of `smoothap.training.loop.train`, which runs in a folder that the caller is `alone_in`.
    """
    result = train(model, loss, images, validation, config, folder, options, batches=batches, to_beat=to_beat)
    if not result.finished:
        raise Interrupted(f"Interrupted after step {result.steps}.")
    after = reports_on(tests, model, folder, workers=options.workers)
    return FineTuned(model, folder, result.steps, result.best_step, result.best, after)


def validation_map(model: Embedder, validation: ImageSet, folder: Path, device: str | None = None) -> float:
    """The mAP of an untrained model on the validation classes; -1 where it gives features that cannot be ranked."""
    try:
        report = evaluate_set(
            model.to(chosen_device(device)), validation, unreadable=folder / "unreadable-validation.csv"
        )
    except NoFeatures:
        return -1.0
    return report.mean_average_precision


def reports_on(tests: Sequence[Benchmark], model: Embedder, folder: Path, *, workers: int = 0) -> dict[str, Report]:
    """The reports of the first set by the names of its protocols, those of further sets with the set's name before.

    `folder` receives the lists of images that cannot be read.
    """
    reports: dict[str, Report] = {}
    for place, benchmark in enumerate(tests):
        unreadable = folder / (f"unreadable-test-{benchmark.name}.csv" if place else "unreadable-test.csv")
        for name, report in evaluate_benchmark(model, benchmark, unreadable=unreadable, workers=workers).items():
            reports[f"{benchmark.name} {name}" if place else name] = report
    return reports


def smooth_ap(setup: TrainingSetup) -> SmoothAP:
    """The usual loss: Smooth-AP with the numbers of the config."""
    return SmoothAP(setup.config.tau, include_query=setup.config.include_query)


def fine_tune(
    data: str | Benchmark,
    out: Path | str,
    *,
    model: str | Network = NETWORK,
    before: Network | None = None,
    weights: str | None = None,
    size: int | None = None,
    dimension: int = DIMENSION,
    hidden: int = 0,
    transform: Mapping[str, Any] | None = None,
    frozen: bool = False,
    feature_views: int = FEATURE_VIEWS,
    config: TrainingConfig | None = None,
    loss: Loss = smooth_ap,
    batches: BatchesOf | None = None,
    fit_batch: bool = True,
    test_on: Sequence[str | Benchmark] = (),
    test_fraction: float | None = None,
    test_classes: Path | None = None,
    columns: str | None = None,
    data_name: str | None = None,
    options: RunOptions = HERE,
) -> FineTuned:
    """Fine-tune a network and test it before and after on classes it never saw: `smoothap train`.

        tuned = fine_tune("folder:photos", "runs/mine", config=replace(QUICK, steps=200))
        print(tuned.before["test"], tuned.after["test"])

    `data` and `test_on` are NAME or NAME:PATH, or sets that are open already, whose `data_name` is then what the model
    says it was trained on. `model` is a timm name or the folder of a trained model, for which `weights`, `size` (112
    pixels, or what the trained model takes), `dimension` and `hidden`, the hidden dimensions of a new layer, are meant;
    or a function that opens one, beside `before`, which opens the network to compare with. `transform` has changes to
    the views, such as {"flip": False}. With `frozen` the backbone stays as it is, and what is behind it learns in
    seconds from features that are computed once, of this many `feature_views` of each image besides the test view.
    The config is `QUICK` by default, or `FROZEN`; with `fit_batch` a batch is no larger than few classes allow. The
    loss is Smooth-AP, a module of yours, or one of `smoothap.benchmark.METHODS`.
    """
    config = config or (FROZEN if frozen else QUICK)
    views = dict(transform or {}) | ({} if size is None else {"size": size})
    if isinstance(model, str):
        named = partial(open_model, model, hidden=hidden, size=size or SIZE, weights=weights, seed=config.seed)
        model, before = partial(named, dimension=dimension), partial(named, dimension=None)
    split = {"--test-fraction": test_fraction, "--test-classes": test_classes, "--columns": columns}
    if isinstance(data, str):
        benchmark = open_data(data, test_fraction=test_fraction, test_classes=test_classes, columns=columns)
        chosen = "".join(f" {name} {shlex.quote(str(value))}" for name, value in split.items() if value is not None)
        data_name = shlex.quote(data) + chosen
    else:
        benchmark, data_name = data, shlex.quote(data_name or data.name)
    tests = [benchmark, *(test if isinstance(test, Benchmark) else open_data(test) for test in test_on)]
    folder = Path(out)
    with joined_processes() as processes, alone_in(folder):
        shown = processes.rank == 0
        if frozen:
            if config.validation_fraction:  # too few classes are refused before the features are computed
                benchmark.train_and_validation(config.seed, config.validation_fraction)
            backbone = (before or model)().to(chosen_device(options.device))
            backbone.transform = replace(backbone.transform, **views)
            tests = _frozen(tests, backbone, feature_views, options.workers, shown)
            options = replace(options, workers=0)  # features need no reading
            before = partial(_behind, backbone)
            model = partial(_behind, backbone, dimension, hidden, config.seed)
            benchmark = tests[0]
        training, validation = benchmark.training_images(), None
        if config.validation_fraction:
            training, validation = benchmark.train_and_validation(config.seed, config.validation_fraction)
        if fit_batch:
            config = _fitted(config, training, shown)
        torch.manual_seed(config.seed)
        network = model()
        network.transform = replace(network.transform, **views)
        drawn = None if batches is None else batches(training, config, processes)
        if shown:
            for warning in (line for test in tests for line in test.warnings):
                print(f"Warning: {warning}")
            held_out = validation.classes if validation else 0
            tested = sum(test.classes for test in benchmark.tests.values())
            print(
                f"{len(training):,} images of {training.classes:,} classes to train on, {held_out:,} classes "
                f"to pick the best epoch, {tested:,} to test on."
            )

        def like_the_trained(untrained: Embedder) -> Embedder:
            untrained.transform = network.transform
            return untrained

        to_beat = -1.0
        if before is not None and validation is not None:  # else it is the model itself, as the training begins with it
            to_beat = validation_map(like_the_trained(before()), validation, folder, options.device)
        tuned = train_and_test(
            network, loss, training, validation, config, folder, options, tests=tests, batches=drawn, to_beat=to_beat
        )
        torch.manual_seed(config.seed)
        if tuned.after:
            reports, sentence = measure_untrained(
                lambda untrained: reports_on(
                    tests, like_the_trained(untrained).to(network.device), folder, workers=options.workers
                ),
                before or model,
                model,
            )
            if sentence and shown:
                print(sentence)
            tuned = replace(tuned, before=reports)
        tuned = replace(tuned, data=data_name)
        if shown:
            network.save(folder / MODEL, data_set=data_name, metrics=tuned.metrics())
        processes.wait()
        return replace(tuned, model=open_model(folder / MODEL).to(network.device)) if frozen else tuned


def _frozen(tests: Sequence[Benchmark], backbone: Embedder, views: int, workers: int, shown: bool) -> list[Benchmark]:
    """The sets with features of the backbone instead of images; only the first is trained on."""
    first = freeze(tests[0], backbone, views=views, workers=workers)
    if shown and first.files:
        print(first)
    further = (freeze(replace(test, train=None), backbone, workers=workers).benchmark for test in tests[1:])
    return [first.benchmark, *further]


def _behind(backbone: Embedder, dimension: int | None = None, hidden: int = 0, seed: int = 0) -> Embedder:
    """What is behind the backbone; with a dimension, a new layer of it where there is none yet."""
    head = copy.deepcopy(backbone.on_features())
    if dimension is not None and head.embedding is None:
        torch.manual_seed(seed)
        head.renew_embedding(dimension, hidden)
    return head


def largest_batch(images: ImageSet, config: TrainingConfig) -> int:
    """How many images a batch may have: by size, classes with fewer than samples_per_class are left out."""
    enough = (np.bincount(images.labels) >= config.samples_per_class).sum() if config.by_size else images.classes
    return int(enough) * config.samples_per_class


def _fitted(config: TrainingConfig, training: ImageSet, shown: bool) -> TrainingConfig:
    """The config with batches that are no larger than few training classes allow; says so where they are smaller."""
    largest = largest_batch(training, config)
    if config.batch_size <= largest:
        return config
    if shown:
        print(
            f"Batches have {largest} images, not {config.batch_size}: {config.samples_per_class} of each of "
            f"{training.classes} classes."
        )
    return replace(config, batch_size=largest)
