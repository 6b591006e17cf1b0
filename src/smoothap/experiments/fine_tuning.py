"""Fine-tuning from start to end: open the data, hold classes out, train, test before and after, save the model."""

import shlex
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from smoothap.data.benchmark import Benchmark
from smoothap.distributed import Processes, joined_processes
from smoothap.experiments import DIMENSION, NETWORK, SIZE
from smoothap.experiments.before_after import measure_untrained
from smoothap.experiments.data_sets import DATA, open_data
from smoothap.losses import SmoothAP
from smoothap.metrics import Report
from smoothap.models import Embedder, open_model
from smoothap.training.evaluation import evaluate_benchmark
from smoothap.training.loop import MODEL, train
from smoothap.training.recipe import Recipe, Weights
from smoothap.training.settings import QUICK, Settings


class Interrupted(Exception):  # noqa: N818
    """Ctrl-C or SIGTERM ended a training after a whole step; its checkpoint is written."""


@dataclass(frozen=True, eq=False)
class FineTuned:
    """A trained model with the weights that did best on the validation classes, and what the training did for it.

    `before` and `after` hold a report for each test protocol of the data, and for each of the further sets.
    """

    model: Embedder
    folder: Path
    data: str  # as `smoothap evaluate --data` takes it
    steps: int
    best_step: int
    validation_map: float
    before: dict[str, Report]
    after: dict[str, Report]


def fine_tune(
    data: str,
    out: Path | str,
    *,
    model: str = NETWORK,
    weights: str | None = None,
    size: int | None = None,
    dimension: int = DIMENSION,
    transform: Mapping[str, Any] | None = None,
    settings: Settings = QUICK,
    batch_size: int | None = None,
    test_on: Sequence[str] = (),
    test_fraction: float | None = None,
    test_classes: Path | None = None,
    **running: Any,
) -> FineTuned:
    """Fine-tune a network with Smooth-AP and test it before and after on classes it never saw: `smoothap train`.

        tuned = fine_tune("folder:photos", "runs/mine", settings=replace(QUICK, steps=200))
        print(tuned.before["test"], tuned.after["test"])

    `data` and `test_on` are NAME or NAME:PATH, `model` is a timm name or the folder of a trained model, `size` the side
    of the images: by default 112 pixels, or what the trained model takes. `transform` has further changes to the views,
    such as {"flip": False}. Without a `batch_size` it is that of the settings, or less where training classes are few.
    `running` goes to `smoothap.training.loop.train`: resume, minutes, device, workers, tensorboard.
    """

    def benchmark(_: Path) -> Benchmark:
        return open_data(data, test_fraction=test_fraction, test_classes=test_classes)

    def network(_: Weights, dimension: int | None = None) -> Embedder:
        return open_model(model, dimension=dimension, size=size or SIZE, weights=weights, seed=settings.seed)

    def loss(settings: Settings) -> SmoothAP:
        return SmoothAP(settings.tau)

    views = dict(transform or {}) | ({} if size is None else {"size": size})
    if batch_size is not None:
        settings = replace(settings, batch_size=batch_size)
    recipe = Recipe(benchmark, partial(network, dimension=dimension), loss, settings, before=network)
    split = {"--test-fraction": test_fraction, "--test-classes": test_classes}
    options = "".join(f" {name} {shlex.quote(str(value))}" for name, value in split.items() if value is not None)
    trainings = run_recipe(
        recipe, data, out, transform=views, fewer_images=batch_size is None, test_on=test_on, options=options,
        **running,
    )  # fmt: skip
    return next(tuned for _, tuned in trainings)


def run_recipe(
    recipe: Recipe,
    data: str,
    out: Path | str,
    *,
    weights: Weights = True,
    transform: Mapping[str, Any] | None = None,
    fewer_images: bool = False,
    test_on: Sequence[str] = (),
    options: str = "",
    **running: Any,
) -> Generator[tuple[str, FineTuned]]:
    """Every training of a recipe by its name, each when it is done; `data` is what the recipe opens, mostly a path.

    With `fewer_images` a batch is no larger than few training classes allow. `options` chose the test classes, as the
    command line spells them.
    """
    benchmark = recipe.data(Path(data).expanduser())
    name = data if data.partition(":")[0] in DATA else f"{benchmark.name}:{data}"
    experiment = _Experiment(
        recipe, benchmark, [open_data(further) for further in test_on], name + options, weights, dict(transform or {}),
        fewer_images, running,
    )  # fmt: skip
    with joined_processes() as processes:
        for number, (training, settings) in enumerate(recipe.trainings().items()):
            if training and processes.rank == 0:
                print(f"\n{training}: training {number + 1} of {len(recipe.trainings())}")
            yield training, experiment.run(settings, Path(out) / training, processes)


@dataclass(frozen=True, eq=False)
class _Experiment:
    """What the trainings of a recipe share."""

    recipe: Recipe
    benchmark: Benchmark
    further: list[Benchmark]
    data: str
    weights: Weights
    transform: dict[str, Any]
    fewer_images: bool
    running: dict[str, Any]

    def run(self, settings: Settings, folder: Path, processes: Processes) -> FineTuned:
        """Train, test before and after, and save the model with its reports."""
        training, validation = self.benchmark.train_and_validation(settings.seed)
        if self.fewer_images:
            largest = training.classes * settings.per_class
            settings = replace(settings, batch_size=min(settings.batch_size, largest))
        torch.manual_seed(settings.seed)
        model = self.recipe.model(self.weights)
        model.transform = replace(model.transform, **self.transform)
        batches = None if self.recipe.batches is None else self.recipe.batches(training, settings, processes)
        if processes.rank == 0:
            for warning in [*self.benchmark.warnings, *(line for other in self.further for line in other.warnings)]:
                print(f"Warning: {warning}")
            print(
                f"{len(training):,} images of {training.classes:,} classes to train on, {validation.classes:,} classes "
                f"to pick the best epoch, {sum(test.classes for test in self.benchmark.tests.values()):,} to test on."
            )
        result = train(
            model, self.recipe.loss(settings), training, validation, settings, folder, batches=batches, **self.running
        )
        if not result.finished:
            raise Interrupted(f"Interrupted after step {result.steps}.")
        measure = partial(self._reports, model, folder / "unreadable-test.csv")
        torch.manual_seed(settings.seed)
        before, sentence = measure_untrained(
            measure,
            lambda: (self.recipe.before or self.recipe.model)(self.weights),
            lambda: self.recipe.model(self.weights),
        )
        if sentence and processes.rank == 0:
            print(sentence)
        tuned = FineTuned(model, folder, self.data, result.steps, result.best_step, result.best, before, measure(model))
        if processes.rank == 0:
            model.save(folder / MODEL, data_set=self.data, figures=_summary(tuned))
        return tuned

    def _reports(self, trained: Embedder, unreadable: Path, model: Embedder) -> dict[str, Report]:
        """The reports of a model under the transform and on the device of the trained one.

        Those of the first set go by the names of its protocols, those of further sets have the set's name before.
        """
        model.transform = trained.transform
        model.to(next(trained.parameters()).device)
        workers = self.running.get("workers", 0)
        reports = evaluate_benchmark(model, self.benchmark, unreadable=unreadable, workers=workers)
        for other in self.further:
            listed = unreadable.with_stem(f"{unreadable.stem}-{other.name}")
            for name, report in evaluate_benchmark(model, other, unreadable=listed, workers=workers).items():
                reports[f"{other.name} {name}"] = report
        return reports


def _summary(tuned: FineTuned) -> dict[str, Any]:
    return {
        "steps": tuned.steps,
        "best step": tuned.best_step,
        "validation mAP": tuned.validation_map,
        "before": {name: report.summary() for name, report in tuned.before.items()},
        "after": {name: report.summary() for name, report in tuned.after.items()},
    }
