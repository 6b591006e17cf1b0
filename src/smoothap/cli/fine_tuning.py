"""What `smoothap train` does once its arguments are read: train, test before and after, tell, save."""

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from smoothap import experiments
from smoothap.cli.printing import comparison
from smoothap.data.benchmark import Benchmark
from smoothap.distributed import Processes, joined_processes
from smoothap.experiments.data_sets import DATA
from smoothap.metrics import Report
from smoothap.models import Embedder
from smoothap.training.evaluation import NoFeatures, evaluate_benchmark
from smoothap.training.loop import MODEL, train
from smoothap.training.recipe import Recipe, Weights
from smoothap.training.settings import Settings


def fine_tune(
    recipe: Recipe,
    data: str,
    out: Path,
    *,
    weights: Weights,
    changes: dict[str, Any],
    choose_batch: bool,
    further: Sequence[str],
    split: Mapping[str, object],
    workers: int,
    **how: Any,
) -> None:
    """Run every training of the recipe; `changes` are fields of the transform, `further` are more sets to test on.

    `split` has the options that chose the test classes, by their names.

    `how` goes to the loop of training as it is: resume, minutes, device, tensorboard.
    """
    trainings = recipe.trainings()
    benchmark = recipe.data(Path(data).expanduser())
    spec = data if data.partition(":")[0] in DATA else f"{benchmark.name}:{data}"  # recipes take the path alone
    spec += "".join(f" {name} {shlex.quote(str(value))}" for name, value in split.items() if value is not None)
    others = [experiments.open_data(each) for each in further]
    with joined_processes() as processes:
        told: dict[str, dict[str, Report]] = {}
        for name, settings in trainings.items():
            if name and processes.rank == 0:
                print(f"\n{name}: training {len(told) + 1} of {len(trainings)}")
            told[name] = _one(
                recipe, settings, benchmark, others, spec, out / name, weights=weights, changes=changes,
                choose_batch=choose_batch, processes=processes, workers=workers, **how,
            )  # fmt: skip
        if len(told) > 1 and processes.rank == 0:
            _tell_all(told)


def _one(
    recipe: Recipe,
    settings: Settings,
    benchmark: Benchmark,
    others: list[Benchmark],
    spec: str,
    out: Path,
    *,
    weights: Weights,
    changes: dict[str, Any],
    choose_batch: bool,
    processes: Processes,
    workers: int,
    **how: Any,
) -> dict[str, Report]:
    """One training, and its figures on every test set by name."""
    training, validation = benchmark.train_and_validation(settings.seed)
    if choose_batch:  # no larger than a small set of classes allows
        settings = replace(settings, batch_size=min(settings.batch_size, training.classes * settings.per_class))
    torch.manual_seed(settings.seed)
    embedder = recipe.model(weights)
    embedder.transform = replace(embedder.transform, **changes)
    if processes.rank == 0:
        for warning in [*benchmark.warnings, *(each for other in others for each in other.warnings)]:
            print(f"Warning: {warning}")
        print(
            f"{len(training):,} images of {training.classes:,} classes to train on, {validation.classes:,} classes "
            f"to pick the best epoch, {sum(each.classes for each in benchmark.tests.values()):,} to test on."
        )
    batches = None if recipe.batches is None else recipe.batches(training, settings, processes)
    result = train(
        embedder, recipe.loss(settings), training, validation, settings, out, batches=batches, workers=workers, **how
    )
    if not result.finished:
        if processes.rank == 0:
            print(f"Interrupted after step {result.steps}. To go on, repeat the command with --resume.")
        sys.exit(130)
    figures_of = partial(_figures, [benchmark, *others], embedder, out / "unreadable-test.csv", workers)
    torch.manual_seed(settings.seed)
    try:
        before = figures_of((recipe.before or recipe.model)(weights))
    except NoFeatures as nothing:
        before = figures_of(recipe.model(weights))
        if processes.rank == 0:
            print(f"{nothing} Until then, before is the network with its new layer, as the training began.")
    after = figures_of(embedder)
    if processes.rank == 0:
        figures = {
            "steps": result.steps,
            "best step": result.best_step,
            "validation mAP": result.best,
            "before": {name: report.summary() for name, report in before.items()},
            "after": {name: report.summary() for name, report in after.items()},
        }
        embedder.save(out / MODEL, data_set=spec, figures=figures)
        untrained = "" if result.best_step else ", the network before training"
        print(f"\nThe best on the validation classes is step {result.best_step} of {result.steps}{untrained}.")
        for name in after:
            own = name in benchmark.tests or name in benchmark.averages
            print(f"\nOn the unseen classes of {benchmark.name} ({name}):" if own else f"\nOn {name}:")
            print(comparison(before[name], after[name]))
        print(
            f"\nThe model is in {out / MODEL}, the course of the training in {out / 'metrics.jsonl'}.\n"
            f"Next: smoothap evaluate --model {out / MODEL} --data {spec}\n"
            f"      smoothap export {out / MODEL}"
        )
    return after


def _figures(
    benchmarks: list[Benchmark], trained: Embedder, unreadable: Path, workers: int, model: Embedder
) -> dict[str, Report]:
    """The test figures of a model under the transform and on the device of the trained one.

    Those of the first set go by the names of its protocols, those of further sets have the set's name before.
    """
    model.transform = trained.transform
    model.to(next(trained.parameters()).device)
    reports: dict[str, Report] = {}
    for number, benchmark in enumerate(benchmarks):
        listed = unreadable if number == 0 else unreadable.with_stem(f"{unreadable.stem}-{benchmark.name}")
        for name, report in evaluate_benchmark(model, benchmark, unreadable=listed, workers=workers).items():
            reports[name if number == 0 else f"{benchmark.name} {name}"] = report
    return reports


def _tell_all(told: dict[str, dict[str, Report]]) -> None:
    """One row a training: mAP on every test set, in percent."""
    tests = list(next(iter(told.values())))
    wide = max(len(name) for name in told) + 2
    print("\nmAP in %" + " " * (wide - 8) + "".join(f"{test:>{len(test) + 4}}" for test in tests))
    for name, reports in told.items():
        figures = (f"{100 * reports[test].mean_average_precision:>{len(test) + 4}.1f}" for test in tests)
        print(f"{name:<{wide}}" + "".join(figures))
