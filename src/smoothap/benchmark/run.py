"""One run of a comparison, in a process of its own: train a method with some values and one seed, and test it.

A process of its own makes the peak memory honest and keeps a method that fails away from the others.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, count, islice
from pathlib import Path
from typing import Any

import torch

from smoothap._core.devices import peak_memory
from smoothap._core.files import write_atomically
from smoothap._core.workers import end_with_the_parent
from smoothap.benchmark.methods import Method
from smoothap.benchmark.plan import Plan
from smoothap.benchmark.search import RATE, Values
from smoothap.benchmark.statistics import sums_by_class
from smoothap.data.benchmark import Benchmark
from smoothap.data.dataset import ImageDataset
from smoothap.data.decoded import decoded_once
from smoothap.data.image_set import ImageSet
from smoothap.data.samplers import BalancedBatches, Batches, Draw
from smoothap.models import Embedder
from smoothap.models.folder import read_model
from smoothap.training import checkpoint
from smoothap.training.before_after import measure_untrained
from smoothap.training.config import RunOptions, TrainingConfig
from smoothap.training.finetune import reports_on, train_and_test
from smoothap.training.frozen import freeze
from smoothap.training.head_init import start_as_projection
from smoothap.training.log import read_rows
from smoothap.training.loop import alone_in
from smoothap.training.loss import TrainingSetup


@dataclass(frozen=True)
class TrainingRun:
    """One training of a method with some values; without `test` it stops after validation."""

    folder: Path
    method: Method
    values: Values
    split: int
    seed: int
    fold: int | None = None  # that is validated on; None: validation classes by the seed
    start: Path | None = None  # the model folder to start from, of the stage before
    test: bool = True

    def config(self, plan: Plan) -> TrainingConfig:
        """That of the plan with this run's learning rate and seed; a later stage goes on with the layer that it has."""
        start = plan.config.head_init if self.start is None else "random"
        return replace(plan.config, learning_rate=self.values[RATE], seed=self.seed, head_init=start)

    def loss(self) -> Method:
        """The method with this run's values of its options."""
        return self.method.with_values({name: value for name, value in self.values.items() if name != RATE})


@dataclass(frozen=True)
class RunResult:
    """What a run leaves in `result.json`; of the untrained network there is its test alone, of a trial none."""

    method: str
    split: int = 0
    seed: int = 0
    values: Mapping[str, float] = field(default_factory=dict)
    steps: int = 0
    best_step: int = 0
    validation_map: float = 0.0
    last_validation_map: float = 0.0
    seconds: float = 0.0
    curve: Sequence[tuple[int, float, float]] = ()  # steps, seconds, and mAP on the validation classes after them
    peak_megabytes: float = 0.0
    test: dict[str, dict[str, Any]] = field(default_factory=dict)  # the summary of a report for each test protocol
    by_class: dict[str, dict[str, list[Any]]] = field(default_factory=dict)  # of each protocol: `sums_by_class`


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


def run_alone(work: Callable[..., RunResult], threads: int | None, *arguments: Any) -> RunResult:
    """The result of the work, or `RunFailed` with the reason; this is the body of the process."""
    end_with_the_parent()
    if threads is not None:
        torch.set_num_threads(threads)
    try:
        return work(*arguments)
    except Exception as error:
        reason = str(error).strip() or type(error).__name__
        known = isinstance(error, ValueError | OSError)
        raise RunFailed(reason if known else f"{type(error).__name__}: {reason}") from error


def opened(plan: Plan, split: int, seed: int, dimension: int | None) -> tuple[Benchmark, Embedder]:
    """The images and the network of a run; with a frozen backbone, its features and the layer behind it."""
    benchmark, model = plan.open_benchmark(split), plan.open_network(dimension, seed)
    if plan.frozen:
        frozen = freeze(benchmark, model.to(plan.device), workers=plan.workers)
        return frozen.benchmark, frozen.head(dimension, seed=seed, saves_backbone=False)
    files = (plan.out / "images" / f"split-{split}-{number}" for number in count())
    return benchmark.with_images(lambda images: decoded_once(images, model.transform, next(files))), model


def prepare(run: TrainingRun, plan: Plan) -> tuple[Benchmark, ImageSet, TrainingSetup]:
    """The images, those to validate on, and what all methods are trained with that have the same seed."""
    config = run.config(plan)
    benchmark, model = opened(plan, run.split, run.seed, plan.dimension)
    if run.start is not None:
        model.load_state_dict(read_model(run.start)[0])
    if run.fold is None:
        images, validation = benchmark.train_and_validation(run.seed)
    else:
        images, validation = benchmark.training_fold(run.fold, plan.folds, plan.search_seed(run.split))
    images = plan.learned_from(images, run.seed)
    if run.start is None and plan.frozen:
        held_out = "" if run.fold is None else f"-fold-{run.fold}"
        _start(model, images, config, plan.out / "starts" / f"seed-{run.seed}{held_out}.pt")
    balanced = BalancedBatches(images.labels, config.batch_size, config.samples_per_class, seed=run.seed)
    return benchmark, validation, TrainingSetup(images, model, config, ShortEpochs(balanced, plan.epoch_steps))


def _start(model: Embedder, images: ImageSet, config: TrainingConfig, file: Path) -> None:
    """Let the embedding layer start as those of all methods with this seed do; the first of them computes it."""
    layer = model.embedding
    assert layer is not None
    if not file.is_file():
        start_as_projection(
            model, ImageDataset(images, model.transform, report=file.with_suffix(".csv")), config.head_init
        )
        write_atomically(file, lambda path: torch.save(layer.state_dict(), path))
    layer.load_state_dict(torch.load(file, weights_only=True))
    model.embedding_is_new, model.head_init = False, config.head_init


def run_training(run: TrainingRun, plan: Plan) -> RunResult:
    """Train, or go on where an earlier process was cut off, and test the best model on unseen classes."""
    benchmark, validation, setup = prepare(run, plan)
    options = RunOptions(resume=True, minutes=plan.minutes, device=plan.device, workers=plan.workers)
    with alone_in(run.folder):
        tuned = train_and_test(
            setup.model, run.loss(), setup.images, validation, setup.config, run.folder, options,
            tests=[benchmark] if run.test else [], batches=setup.batches,
        )  # fmt: skip
    if tuned.steps < plan.steps:
        raise ValueError(f"--minutes stopped it after {tuned.steps} of {plan.steps} steps, too early to judge it")
    curve = _curve(run.folder, plan.batch_size)
    return RunResult(
        method=run.method.name,
        split=run.split,
        seed=run.seed,
        values=run.values,
        steps=tuned.steps,
        best_step=tuned.best_step,
        validation_map=tuned.validation_map,
        last_validation_map=curve[-1][2],
        seconds=checkpoint.seconds_spent(run.folder),
        curve=curve,
        peak_megabytes=peak_memory(torch.device(plan.device)) / 1e6,
        test={name: report.summary() for name, report in tuned.after.items()},
        by_class=sums_by_class(benchmark, tuned.after),
    )


def evaluate_untrained(folder: Path, plan: Plan, split: int) -> RunResult:
    """The test results of the network before any training; whatever all runs of a split read is made here."""

    seed = plan.seed(split, 0)
    benchmark, backbone = opened(plan, split, seed, None)
    reports, _ = measure_untrained(
        lambda network: reports_on([benchmark], network.to(plan.device), folder, workers=plan.workers),
        lambda: backbone,
        lambda: opened(plan, split, seed, plan.dimension)[1],
    )
    summaries = {name: report.summary() for name, report in reports.items()}
    return RunResult("untrained", split, seed, test=summaries, by_class=sums_by_class(benchmark, reports))


def _curve(folder: Path, batch_size: int) -> list[tuple[int, float, float]]:
    """The looks at the validation classes, with the steps and the seconds of training before each."""
    curve, seconds = [], 0.0
    for row in read_rows(folder):
        if "validation_map" in row:
            curve.append((row["step"], round(seconds, 3), row["validation_map"]))
        elif row.get("images_per_second"):
            seconds += batch_size / row["images_per_second"]
    return curve
