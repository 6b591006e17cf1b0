"""A comparison from start to end: a search of the learning rate, then every method with every seed, resumed for free.

Every run has its own folder and its own process. What is finished is not done again; what was cut off goes on from its
checkpoint; a run that failed is tried again the next time.
"""

import json
import math
import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from smoothap.compare._run import RunFailed, RunResult, TrainingRun, evaluate_untrained, run_alone, run_training
from smoothap.compare.plan import Plan
from smoothap.data.samplers import BalancedBatches
from smoothap.experiments import NETWORK
from smoothap.files import write_atomically
from smoothap.methods import Method, open_methods
from smoothap.training import checkpoint
from smoothap.training.loop import MODEL

_SEARCH_SEED = 1000  # a seed that no row of the table uses


@dataclass
class Outcome:
    """A row of the table: the results of the seeds that were finished, or the reason why there are none."""

    method: Method
    rate: float
    results: list[RunResult] = field(default_factory=list)
    failure: str = ""


def compare(plan: Plan) -> tuple[RunResult, list[Outcome]]:
    """The result of the untrained network, and an outcome for each method, in their order."""
    outcomes = [Outcome(method, plan.learning_rate) for method in open_methods(plan.methods)]
    settings = plan.settings
    images, _ = plan.open_benchmark().train_and_validation(0)
    BalancedBatches(images.labels, settings.batch_size, settings.per_class)  # raises if the classes are too few
    plan.check_folder()
    runner = _Runner(plan)
    try:
        untrained = runner.untrained()
    except RunFailed as failed:
        raise ValueError(f"The untrained network could not be tested: {failed}") from failed
    for outcome in outcomes:
        try:
            outcome.rate = runner.rate(outcome.method)
        except RunFailed as failed:
            outcome.failure = str(failed)
    for seed in range(plan.seeds):  # seeds outermost: if it is stopped early, all methods have as many seeds
        for outcome in outcomes:
            if outcome.failure:
                continue
            try:
                outcome.results.append(runner.result(outcome.method, seed))
            except RunFailed as failed:
                outcome.failure = str(failed)
    return untrained, outcomes


class _Runner:
    """Does runs in processes of their own, and remembers what is done by what lies in their folders."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._processes = multiprocessing.get_context("forkserver")
        # Imported once, before the runs: the seconds of a method contain no imports.
        networks = [] if plan.model == NETWORK else ["smoothap.models.timm_networks"]
        self._processes.set_forkserver_preload([run_alone.__module__, "numba", *networks])
        self._failures: dict[Path, RunFailed] = {}

    def untrained(self) -> RunResult:
        """The result of the network as it is before any training."""
        folder = self._plan.out / "untrained"
        return self._finish(folder, "untrained", evaluate_untrained, folder, self._plan)

    def rate(self, method: Method) -> float:
        """The learning rate of the grid with the best mAP on validation classes at the end of a short run."""
        if not self._plan.rates:
            return self._plan.learning_rate
        validation_map: dict[float, float] = {}
        failures: list[RunFailed] = []
        for rate in self._plan.rates:
            try:
                validation_map[rate] = self._searched(method, rate).last_validation_map
            except RunFailed as failed:
                failures.append(failed)
        if not validation_map:
            raise failures[0]
        return max(validation_map, key=lambda rate: (validation_map[rate], -rate))

    def result(self, method: Method, seed: int) -> RunResult:
        """The result of a method with a seed; the first of two stages is trained once and serves all that follow."""
        plan, start, seconds_before = self._plan, None, 0.0
        if method.start is not None:
            seconds_before = self.result(method.start, seed).seconds
            start = plan.out / "runs" / method.start.name / f"seed-{seed}" / MODEL
        folder = plan.out / "runs" / method.name / f"seed-{seed}"
        settings = replace(plan.settings, learning_rate=self.rate(method), seed=seed)
        epoch_steps = math.ceil(plan.steps / plan.validations)
        run = TrainingRun(folder, method.name, settings, epoch_steps, plan.minutes, start)
        result = self._finish(folder, f"{method.title}, seed {seed}", run_training, run, plan)
        return replace(result, seconds=seconds_before + result.seconds)

    def _searched(self, method: Method, rate: float) -> RunResult:
        plan, start, minutes = self._plan, None, None
        if method.start is not None:
            start = self._search_folder(method.start, self.rate(method.start)) / MODEL
        if plan.minutes is not None:  # a short run gets as short a time
            minutes = plan.minutes * plan.search_steps / plan.steps
        folder = self._search_folder(method, rate)
        settings = replace(plan.settings, learning_rate=rate, seed=_SEARCH_SEED, steps=plan.search_steps)
        run = TrainingRun(folder, method.name, settings, plan.search_steps, minutes, start, test=False)
        return self._finish(folder, f"{method.title}, search, learning rate {rate:.2g}", run_training, run, plan)

    def _search_folder(self, method: Method, rate: float) -> Path:
        return self._plan.out / "search" / method.name / f"rate-{rate:.2g}"

    def _finish(self, folder: Path, title: str, work: Callable[..., RunResult], *arguments: Any) -> RunResult:
        """The result of the work in its folder, done now if it was not before; what failed is not tried twice."""
        if folder in self._failures:
            raise self._failures[folder]
        file = folder / "result.json"
        if not file.is_file():
            began = time.monotonic()
            try:
                result = self._in_a_process(work, *arguments)
            except RunFailed as failed:
                self._failures[folder] = failed
                print(f"{title}: failed, {failed}", flush=True)
                raise
            write_atomically(file, json.dumps(asdict(result), indent=1) + "\n")
            checkpoint.remove(folder)
            print(f"{title}: {_in_short(result)} ({time.monotonic() - began:.0f} s)", flush=True)
        return RunResult(**json.loads(file.read_text(encoding="utf-8")))

    def _in_a_process(self, work: Callable[..., RunResult], *arguments: Any) -> RunResult:
        """The result of the work; an interruption waits until the process has saved its checkpoint."""
        try:
            with ProcessPoolExecutor(1, self._processes) as process:
                return process.submit(run_alone, work, *arguments).result()
        except BrokenProcessPool:
            raise RunFailed("its process was killed, perhaps for want of memory") from None


def _in_short(result: RunResult) -> str:
    for report in result.test.values():
        return f"mAP {100 * report['mean_average_precision']:.1f}"
    return f"validation mAP {100 * result.last_validation_map:.1f}"
