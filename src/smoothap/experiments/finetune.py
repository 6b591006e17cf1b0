"""Fine-tuning from start to end: open the data, hold classes out, train, test before and after, save the model."""

import shlex
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import isnan
from pathlib import Path
from typing import Any

import torch
from torch import nn

from smoothap._core.devices import chosen_device
from smoothap._core.distributed import Processes, joined_processes
from smoothap.data.benchmark import Benchmark
from smoothap.data.image_set import ImageSet
from smoothap.experiments._frozen_recipe import frozen_recipe
from smoothap.experiments._losses import build_loss, check_losses, chosen_trainings
from smoothap.experiments.before_after import measure_untrained
from smoothap.experiments.data_sets import DATA, open_data
from smoothap.losses import SmoothAP
from smoothap.metrics import Report
from smoothap.models import Embedder, open_model
from smoothap.training.evaluation import NoFeatures, evaluate_benchmark, evaluate_set
from smoothap.training.frozen import freeze
from smoothap.training.loop import MODEL, alone_in, train
from smoothap.training.recipe import Recipe, Weights, load_recipe
from smoothap.training.settings import DIMENSION, FEATURE_VIEWS, FROZEN, NETWORK, QUICK, SIZE, Settings


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
            "better than before. The model is the network as the training began with it. Try more steps or epochs, a "
            "lower learning rate, a larger size, or more images and classes."
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
    loss: nn.Module,
    images: ImageSet,
    validation: ImageSet | None,
    settings: Settings,
    folder: Path,
    *,
    tests: Sequence[Benchmark] = (),
    **running: Any,
) -> FineTuned:
    """Train a model, or go on with it, and test the one that did best on the validation classes on `tests`.

    `running` goes to `smoothap.training.loop.train`: resume, minutes, to_beat, batches, callbacks, device, workers ...
    """
    with alone_in(folder):
        result = train(model, loss, images, validation, settings, folder, **running)
        if not result.finished:
            raise Interrupted(f"Interrupted after step {result.steps}.")
        after = reports_on(tests, model, folder, workers=running.get("workers", 0))
    return FineTuned(model, folder, result.steps, result.best_step, result.best, after)


def validation_map(model: Embedder, validation: ImageSet, folder: Path, device: torch.device | str | None) -> float:
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


def fine_tune(
    data: str,
    out: Path | str,
    *,
    model: str = NETWORK,
    weights: str | None = None,
    size: int | None = None,
    dimension: int = DIMENSION,
    hidden: int = 0,
    transform: Mapping[str, Any] | None = None,
    frozen: bool = False,
    feature_views: int = FEATURE_VIEWS,
    settings: Settings | None = None,
    batch_size: int | None = None,
    loss: str | None = None,
    loss_options: Mapping[str, Any] | None = None,
    test_on: Sequence[str | Benchmark] = (),
    test_fraction: float | None = None,
    test_classes: Path | None = None,
    columns: str | None = None,
    run: Callable[..., Generator[tuple[str, FineTuned]]] | None = None,
    **running: Any,
) -> FineTuned:
    """Fine-tune a network and test it before and after on classes it never saw: `smoothap train`.

        tuned = fine_tune("folder:photos", "runs/mine", settings=replace(QUICK, steps=200))
        print(tuned.before["test"], tuned.after["test"])

    `data` and `test_on` are NAME or NAME:PATH, `model` is a timm name or the folder of a trained model, `size` the side
    of the images: by default 112 pixels, or what the trained model takes. `transform` has further changes to the views,
    such as {"flip": False}. The `batch_size` is by default that of the settings; it is less where classes are few.
    With `frozen` the backbone stays as it is, and what is behind it learns in seconds from features that are computed
    once, of so many `feature_views` of each image besides the test view; `hidden` gives a new layer that many hidden
    numbers. The settings are `QUICK` by default, or `FROZEN`.
    The loss is Smooth-AP, or another of `METHODS` by its name, such as "triplet" with `loss_options` {"margin": 0.1}.
    `run` takes the place of `run_recipe`, as `Rehearsal.run` can. `running` goes to `smoothap.training.loop.train`:
    resume, minutes, device, workers, tensorboard.
    """

    settings = settings or (FROZEN if frozen else QUICK)
    seed = settings.seed

    def benchmark(_: Path) -> Benchmark:
        return open_data(data, test_fraction=test_fraction, test_classes=test_classes, columns=columns)

    def network(_: Weights, dimension: int | None = None) -> Embedder:
        return open_model(model, dimension=dimension, hidden=hidden, size=size or SIZE, weights=weights, seed=seed)

    def smooth_ap(settings: Settings) -> SmoothAP:
        return SmoothAP(settings.tau, include_query=settings.include_query)

    views = dict(transform or {}) | ({} if size is None else {"size": size})
    if batch_size is not None:
        settings = replace(settings, batch_size=batch_size)
    if loss is not None or loss_options:
        settings = replace(settings, loss=loss or settings.loss, loss_options=dict(loss_options or {}))
    recipe = Recipe(benchmark, partial(network, dimension=dimension), smooth_ap, settings, before=network)
    if frozen:
        backbone, workers = network(True).to(chosen_device(running.get("device"))), running.pop("workers", 0)
        backbone.transform = replace(backbone.transform, **views)
        recipe = frozen_recipe(
            recipe, backbone, dimension=dimension, hidden=hidden, seed=seed, views=feature_views, workers=workers
        )
        further = [test if isinstance(test, Benchmark) else open_data(test) for test in test_on]
        test_on = [freeze(replace(test, train=None), backbone, workers=workers).benchmark for test in further]
    split = {"--test-fraction": test_fraction, "--test-classes": test_classes, "--columns": columns}
    options = "".join(f" {name} {shlex.quote(str(value))}" for name, value in split.items() if value is not None)
    trainings = (run or run_recipe)(
        recipe, data, out, transform=views, fewer_images=True, test_on=test_on, options=options,
        **running,
    )  # fmt: skip
    tuned = next(tuned for _, tuned in trainings)
    return replace(tuned, model=open_model(tuned.folder / MODEL).to(tuned.model.device)) if frozen else tuned


def open_recipe(file: Path, data: str, *, weights: Weights = True, changes: Mapping[str, Any] | None = None) -> Recipe:
    """The recipe of a file with changes to its settings; what does not go with it is said before anything is read."""
    name, colon, path = data.partition(":")
    if colon and name in DATA and DATA[name].path and not Path(data).exists():
        raise ValueError(f"{file} says itself which set it is for: give the path alone, --data {path}.")
    recipe = load_recipe(file)
    recipe = replace(recipe, settings=chosen_trainings(recipe, changes or {}))
    clash = [f"--{name.replace('_', '-')}" for name in sorted(recipe.varies() & set(changes or {}))]
    if clash:
        raise ValueError(f"{clash[0]} is what varies in a recipe: copy {file} and change it there")
    if recipe.weights and weights is True:
        raise ValueError(
            f"{file} starts from published weights that must be fetched by hand: {recipe.weights}. Give the file "
            "as --weights FILE (--weights none: random ones, to try the recipe out)"
        )
    changed = {name: replace(settings, **(changes or {})) for name, settings in recipe.trainings().items()}
    return replace(recipe, settings=changed[""] if list(changed) == [""] else changed)


def run_recipe(
    recipe: Recipe,
    data: str,
    out: Path | str,
    *,
    weights: Weights = True,
    transform: Mapping[str, Any] | None = None,
    fewer_images: bool = False,
    test_on: Sequence[str | Benchmark] = (),
    options: str = "",
    **running: Any,
) -> Generator[tuple[str, FineTuned]]:
    """Every training of a recipe by its name, each when it is done; `data` is what the recipe opens, mostly a path.

    With `fewer_images` a batch is no larger than few training classes allow. `options` chose the test classes, as the
    command line spells them.
    """
    check_losses(recipe)
    benchmark = recipe.data(Path(data).expanduser())
    name = data if data.partition(":")[0] in DATA else f"{benchmark.name}:{data}"
    tests = [benchmark, *(test if isinstance(test, Benchmark) else open_data(test) for test in test_on)]
    experiment = _Experiment(
        recipe, tests, shlex.quote(name) + options, weights, dict(transform or {}), fewer_images, running
    )
    with joined_processes() as processes:
        for number, (training, settings) in enumerate(recipe.trainings().items()):
            if training and processes.rank == 0:
                print(f"\n{training}: training {number + 1} of {len(recipe.trainings())}")
            with alone_in(Path(out) / training):
                tuned = experiment.run(settings, Path(out) / training, processes)
            yield training, tuned


@dataclass(frozen=True, eq=False)
class _Experiment:
    """What the trainings of a recipe share."""

    recipe: Recipe
    tests: list[Benchmark]  # the first is trained on too
    data: str
    weights: Weights
    transform: dict[str, Any]
    fewer_images: bool
    running: dict[str, Any]

    def run(self, settings: Settings, folder: Path, processes: Processes) -> FineTuned:
        """Train, test before and after, and save the model with its reports."""
        benchmark, shown = self.tests[0], processes.rank == 0
        training, validation = benchmark.training_images(), None
        if settings.validation_fraction:
            training, validation = benchmark.train_and_validation(settings.seed, settings.validation_fraction)
        if self.fewer_images:
            settings = _smaller_batches(settings, training, shown)
        torch.manual_seed(settings.seed)
        model = self.recipe.model(self.weights)
        model.transform = replace(model.transform, **self.transform)
        batches = None if self.recipe.batches is None else self.recipe.batches(training, settings, processes)
        if shown:
            for warning in (line for test in self.tests for line in test.warnings):
                print(f"Warning: {warning}")
            held_out = validation.classes if validation else 0
            tested = sum(test.classes for test in benchmark.tests.values())
            print(
                f"{len(training):,} images of {training.classes:,} classes to train on, {held_out:,} classes "
                f"to pick the best epoch, {tested:,} to test on."
            )
        to_beat = -1.0
        if (
            self.recipe.before is not None and validation is not None
        ):  # else it is the model itself, as the training begins with it
            untrained = self.recipe.before(self.weights)
            untrained.transform = model.transform
            to_beat = validation_map(untrained, validation, folder, self.running.get("device"))
        loss = build_loss(self.recipe, settings, training, model, batches, processes)
        tuned = train_and_test(
            model, loss.loss, training, validation, loss.settings, folder, tests=self.tests, batches=loss.batches,
            callbacks=loss.callbacks, to_beat=to_beat, **self.running,
        )  # fmt: skip
        torch.manual_seed(settings.seed)
        if tuned.after:
            before, sentence = measure_untrained(
                partial(self._reports_before, model, folder),
                lambda: (self.recipe.before or self.recipe.model)(self.weights),
                lambda: self.recipe.model(self.weights),
            )
            if sentence and shown:
                print(sentence)
            tuned = replace(tuned, before=before)
        tuned = replace(tuned, data=self.data)
        if shown:
            model.save(folder / MODEL, data_set=self.data, metrics=tuned.metrics())
        return tuned

    def _reports_before(self, trained: Embedder, folder: Path, model: Embedder) -> dict[str, Report]:
        """The reports of an untrained model under the transform and on the device of the trained one."""
        model.transform = trained.transform
        model.to(trained.device)
        return reports_on(self.tests, model, folder, workers=self.running.get("workers", 0))


def _smaller_batches(settings: Settings, training: ImageSet, shown: bool) -> Settings:
    """The settings with batches that are no larger than few training classes allow; says so where they are smaller."""
    largest = training.classes * settings.samples_per_class
    if settings.batch_size <= largest:
        return settings
    if shown:
        print(
            f"Batches have {largest} images, not {settings.batch_size}: {settings.samples_per_class} of each of "
            f"{training.classes} classes."
        )
    return replace(settings, batch_size=largest)
