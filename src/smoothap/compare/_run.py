"""One run of a comparison, in a process of its own: train a method with one seed, and test it.

A process of its own makes the peak memory honest and keeps a method that fails away from the others.
"""

import multiprocessing
import os
import resource
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, count, islice
from pathlib import Path
from typing import Any

import torch

from smoothap.compare._image_cache import with_cached_images
from smoothap.compare.plan import Plan
from smoothap.data.benchmark import Benchmark
from smoothap.data.samplers import BalancedBatches, Batches, Draw
from smoothap.experiments.before_after import measure_untrained
from smoothap.experiments.fine_tuning import reports_on, train_and_test
from smoothap.methods import Parts, Setup, open_methods
from smoothap.models.folder import read_model
from smoothap.numerics.devices import peak_bytes
from smoothap.training import checkpoint
from smoothap.training.log import read_rows
from smoothap.training.settings import Settings


@dataclass(frozen=True)
class TrainingRun:
    """One training of a method, by its name; without `test` it stops after validation."""

    folder: Path
    method: str
    settings: Settings
    epoch_steps: int  # between two validations
    minutes: float | None = None
    start: Path | None = None  # the model folder to start from, of the first of two stages
    test: bool = True


@dataclass(frozen=True)
class RunResult:
    """What a run leaves in `result.json`; of the untrained network there is its test alone, of a search none."""

    method: str
    seed: int = 0
    learning_rate: float = 0.0
    steps: int = 0
    best_step: int = 0
    validation_map: float = 0.0
    last_validation_map: float = 0.0
    seconds: float = 0.0
    curve: Sequence[tuple[int, float]] = ()  # steps, and mAP on the validation classes after them
    peak_megabytes: float = 0.0
    test: dict[str, dict[str, Any]] = field(default_factory=dict)  # the summary of a report for each test protocol


class RunFailed(Exception):  # noqa: N818
    """A run could not be finished; the message says why."""


class ShortEpochs:
    """The batches of a sampler, one after the other, in epochs of `steps`: a short training is validated often."""

    def __init__(self, batches: Batches, steps: int) -> None:
        self._batches, self._steps = batches, steps

    def __len__(self) -> int:
        return self._steps

    def draws(self, epoch: int, first_step: int = 0) -> Iterator[list[Draw]]:
        """Every batch of the epoch from `first_step` on."""
        whole, within = divmod(epoch * self._steps + first_step, len(self._batches))
        rest = chain(
            self._batches.draws(whole, within),
            chain.from_iterable(self._batches.draws(later) for later in count(whole + 1)),
        )
        return islice(rest, self._steps - first_step)


def run_alone(work: Callable[..., RunResult], *arguments: Any) -> RunResult:
    """The result of the work, or `RunFailed` with the reason; this is the body of the process."""
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    try:
        return work(*arguments)
    except Exception as error:
        reason = str(error).strip() or type(error).__name__
        known = isinstance(error, ValueError | OSError)
        raise RunFailed(reason if known else f"{type(error).__name__}: {reason}") from error


def prepare(run: TrainingRun, plan: Plan) -> tuple[Benchmark, Setup, Parts]:
    """The images, the network, the batches and the parts of the method; of one seed, only the parts differ."""
    seed = run.settings.seed
    model = plan.open_network(plan.dimension, seed)
    if run.start is not None:
        model.load_state_dict(read_model(run.start)[0])
    benchmark = with_cached_images(plan.open_benchmark(), model.transform, plan.out / "images")
    images, _ = benchmark.train_and_validation(seed)
    balanced = BalancedBatches(images.labels, run.settings.batch_size, run.settings.per_class, seed=seed)
    setup = Setup(images, model, run.settings, ShortEpochs(balanced, run.epoch_steps))
    torch.manual_seed(seed)
    (method,) = open_methods(run.method)
    return benchmark, setup, method.build(setup)


def run_training(run: TrainingRun, plan: Plan) -> RunResult:
    """Train, or go on where an earlier process was cut off, and test the best model on unseen classes."""
    benchmark, setup, parts = prepare(run, plan)
    _, validation = benchmark.train_and_validation(run.settings.seed)
    tuned = train_and_test(
        setup.model, parts.loss, setup.images, validation, replace(run.settings, **parts.changes), run.folder,
        tests=[benchmark] if run.test else [], resume=True, minutes=run.minutes, batches=parts.batches or setup.batches,
        callbacks=parts.callbacks, device=plan.device, workers=plan.workers,
    )  # fmt: skip
    curve = [(row["step"], row["validation_map"]) for row in read_rows(run.folder) if "validation_map" in row]
    return RunResult(
        method=run.method,
        seed=run.settings.seed,
        learning_rate=run.settings.learning_rate,
        steps=tuned.steps,
        best_step=tuned.best_step,
        validation_map=tuned.validation_map,
        last_validation_map=curve[-1][1],
        seconds=checkpoint.seconds_spent(run.folder),
        curve=curve,
        peak_megabytes=_peak_megabytes(torch.device(plan.device)),
        test={name: report.summary() for name, report in tuned.after.items()},
    )


def evaluate_untrained(folder: Path, plan: Plan) -> RunResult:
    """The test results of the network before any training."""
    model = plan.open_network(None, 0)
    benchmark = with_cached_images(plan.open_benchmark(), model.transform, plan.out / "images")
    reports, _ = measure_untrained(
        lambda network: reports_on([benchmark], network.to(plan.device), folder, workers=plan.workers),
        lambda: model,
        lambda: plan.open_network(plan.dimension, 0),
    )
    return RunResult("untrained", test={name: report.summary() for name, report in reports.items()})


def _end_with_the_parent() -> None:
    """End this process when the comparison is killed, before a later one writes into the same folders."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _peak_megabytes(device: torch.device) -> float:
    """The most that this process held at a time: of the device's own memory where it has one, else of the main one."""
    unit = 1 if sys.platform == "darwin" else 1024
    return (peak_bytes(device) or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit) / 1e6
