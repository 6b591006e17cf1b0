"""One run of a comparison, in a process of its own: train a method with one seed, test it, write `result.json`.

A process of its own makes the peak memory honest and keeps a method that fails away from the others.
"""

import json
import multiprocessing
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from smoothap.compare.held_images import held
from smoothap.compare.methods import Method, Parts, Problem
from smoothap.compare.short_epochs import ShortEpochs
from smoothap.data.benchmark import Benchmark
from smoothap.data.samplers import BalancedBatches
from smoothap.files import write_atomically
from smoothap.metrics import Report
from smoothap.models import Embedder
from smoothap.models.folder import read_model
from smoothap.training import checkpoint
from smoothap.training.evaluation import NoFeatures, evaluate_benchmark
from smoothap.training.log import read_rows
from smoothap.training.loop import train
from smoothap.training.settings import Settings

RESULT = "result.json"
FAILURE = "failure.json"
INTERRUPTED = 130  # exit code


@dataclass(frozen=True)
class Conditions:
    """What all runs of a comparison share."""

    benchmark: Callable[[], Benchmark]
    network: Callable[..., Embedder]  # (dimension=, seed=)
    dimension: int
    flip: bool
    images: Path  # the folder with the decoded images
    minutes: float | None = None
    device: str | None = None
    workers: int = 0

    def opened(self) -> Benchmark:
        """The benchmark with its decoded images."""
        return held(self.benchmark(), self.images)


@dataclass(frozen=True)
class Run:
    """One run; without a method it tests the untrained network, and without a test it stops after validation."""

    folder: Path
    method: Method | None
    settings: Settings
    epoch_steps: int  # between two validations
    start: Path | None = None  # the model folder to start from, of the first of two stages
    test: bool = True

    def result(self) -> dict[str, Any] | None:
        """What the run wrote when it was finished."""
        file = self.folder / RESULT
        return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None


@dataclass(frozen=True, eq=False)
class Prepared:
    """A run ready to go."""

    model: Embedder
    benchmark: Benchmark
    problem: Problem
    parts: Parts
    settings: Settings


def prepare(run: Run, conditions: Conditions, method: Method) -> Prepared:
    """The network, the batches and the parts of the method; but for these parts, the same for all of a seed."""
    seed = run.settings.seed
    benchmark = conditions.opened()
    model = _network(conditions, conditions.dimension, seed)
    if run.start is not None:
        model.load_state_dict(read_model(run.start)[0])
    images, _ = benchmark.train_and_validation(seed)
    balanced = BalancedBatches(images.labels, run.settings.batch_size, run.settings.per_class, seed=seed)
    problem = Problem(images, model, run.settings, ShortEpochs(balanced, run.epoch_steps))
    torch.manual_seed(seed)
    parts = method.build(problem)
    return Prepared(model, benchmark, problem, parts, replace(run.settings, **dict(parts.changes)))


def carry_out(run: Run, conditions: Conditions) -> None:
    """Do the run, or what is left of it, and write its result; the body of the process."""
    _end_with_the_parent()
    try:
        result = _untrained(run, conditions) if run.method is None else _trained(run, conditions, run.method)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except Exception as error:
        reason = str(error).strip() or type(error).__name__
        known = isinstance(error, ValueError | OSError)
        told = reason if known else f"{type(error).__name__}: {reason}"
        write_atomically(run.folder / FAILURE, json.dumps({"reason": told}))
        sys.exit(1)
    if result is None:
        sys.exit(INTERRUPTED)
    write_atomically(run.folder / RESULT, json.dumps(result, indent=1) + "\n")
    checkpoint.remove(run.folder)


def _trained(run: Run, conditions: Conditions, method: Method) -> dict[str, Any] | None:
    prepared = prepare(run, conditions, method)
    _, validation = prepared.benchmark.train_and_validation(run.settings.seed)
    result = train(
        prepared.model, prepared.parts.loss, prepared.problem.images, validation, prepared.settings, run.folder,
        resume=True, minutes=conditions.minutes, batches=prepared.parts.batches or prepared.problem.batches,
        callbacks=prepared.parts.callbacks, device=conditions.device, workers=conditions.workers,
    )  # fmt: skip
    if not result.finished:
        return None
    curve = [row for row in read_rows(run.folder) if "validation_map" in row]
    told = {
        "method": method.name,
        "seed": run.settings.seed,
        "learning_rate": run.settings.learning_rate,
        "steps": result.steps,
        "best_step": result.best_step,
        "validation_map": result.best,
        "last_validation_map": curve[-1]["validation_map"],
        "seconds": checkpoint.seconds_spent(run.folder),
        "curve": [[row["step"], row["validation_map"]] for row in curve],
    }
    if run.test:
        reports = _test(prepared.benchmark, prepared.model, run, conditions)
        told["test"] = {name: report.summary() for name, report in reports.items()}
    told["peak_megabytes"] = _peak_megabytes()
    return told


def _untrained(run: Run, conditions: Conditions) -> dict[str, Any]:
    """The backbone's own features; in very small images these can be zero, and then a new layer upon them."""
    benchmark = conditions.opened()
    try:
        reports = _test(benchmark, _network(conditions, None, run.settings.seed), run, conditions)
    except NoFeatures:
        reports = _test(benchmark, _network(conditions, conditions.dimension, run.settings.seed), run, conditions)
    return {"method": "untrained", "test": {name: report.summary() for name, report in reports.items()}}


def _test(benchmark: Benchmark, model: Embedder, run: Run, conditions: Conditions) -> dict[str, Report]:
    model.to(conditions.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    unreadable = run.folder / "unreadable-test.csv"
    return evaluate_benchmark(model, benchmark, unreadable=unreadable, workers=conditions.workers)


def _network(conditions: Conditions, dimension: int | None, seed: int) -> Embedder:
    model = conditions.network(dimension=dimension, seed=seed)
    model.transform = replace(model.transform, flip=conditions.flip)
    return model


def _end_with_the_parent() -> None:
    """A comparison that is killed leaves no run behind that would write into the folders of the next one."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def _peak_megabytes() -> float:
    """The most that this process held at a time: of the GPU where it used one, else of the main memory."""
    if torch.cuda.is_available() and torch.cuda.max_memory_allocated():
        return torch.cuda.max_memory_allocated() / 1e6
    status = Path("/proc/self/status")
    if status.is_file():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024 / 1e6
    import resource

    scale = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale / 1e6
