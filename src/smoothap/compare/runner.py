"""A comparison from start to end: a search of the learning rate, then every method with every seed, resumed for free.

Every run has its own folder and its own process. What is finished is not done again; what was cut off goes on from its
checkpoint; a run that failed is tried again the next time.
"""

import json
import math
import multiprocessing
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from smoothap.compare.held_images import hold
from smoothap.compare.methods import Method
from smoothap.compare.run import FAILURE, INTERRUPTED, Conditions, Run, carry_out
from smoothap.data.samplers import BalancedBatches
from smoothap.files import write_atomically
from smoothap.training.loop import MODEL
from smoothap.training.settings import Settings

SETTINGS = "compare.json"
SEARCH_SEED = 1000  # a seed that no row of the table uses
_PRELOADED = [
    "smoothap.compare.run",
    "smoothap.compare.wrapped",
    "smoothap.losses.kernels",
    "smoothap.metrics.kernels",
]


@dataclass(frozen=True)
class Plan:
    """What to compare: `settings` are those of all methods, `rates` the learning rates that are tried for each."""

    methods: tuple[Method, ...]
    seeds: int
    settings: Settings  # with `steps`
    conditions: Conditions
    out: Path
    described: dict[str, Any]  # what must not change when a comparison is resumed
    validations: int = 4  # of a run, besides that before its first step
    rates: tuple[float, ...] = ()  # empty: no search
    search_steps: int = 30


@dataclass
class Outcome:
    """A row of the table: the results of the seeds that were finished, or the reason why there are none."""

    method: Method
    rate: float
    results: list[dict[str, Any]]
    failure: str = ""


class Interrupted(Exception):  # noqa: N818
    """The user stopped the comparison; all that was done stays."""


def compare(plan: Plan) -> tuple[dict[str, Any], list[Outcome]]:
    """The result of the untrained network, and an outcome for each method, in their order."""
    benchmark = plan.conditions.opened()
    images, _ = benchmark.train_and_validation(0)
    BalancedBatches(images.labels, plan.settings.batch_size, plan.settings.per_class)  # says so if they are too large
    _check_folder(plan)
    transform = plan.conditions.network(dimension=None, seed=0).transform
    hold(benchmark, transform, plan.conditions.images)
    runs = _Runs(plan)
    untrained = runs.finish(Run(plan.out / "untrained", None, replace(plan.settings, seed=0), 1), "untrained")
    if isinstance(untrained, str):
        raise ValueError(f"The untrained network could not be tested: {untrained}")
    outcomes = {method.name: Outcome(method, plan.settings.learning_rate, []) for method in plan.methods}
    for method in plan.methods:
        try:
            outcomes[method.name].rate = runs.rate(method)
        except _Failed as failed:
            outcomes[method.name].failure = str(failed)
    for seed in range(plan.seeds):  # one seed of all methods before the next: a table that is cut off is a fair one
        for method in plan.methods:
            outcome = outcomes[method.name]
            if outcome.failure:
                continue
            try:
                outcome.results.append(runs.result(method, seed))
            except _Failed as failed:
                outcome.failure = str(failed)
    return untrained, list(outcomes.values())


class _Failed(Exception):  # noqa: N818
    """A run of a method could not be finished; the message says why."""


class _Runs:
    """Does runs in processes of their own, and remembers what is done by what lies in their folders."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        if "forkserver" in multiprocessing.get_all_start_methods():
            self._processes = multiprocessing.get_context("forkserver")
            # its processes begin with everything imported
            self._processes.set_forkserver_preload(_PRELOADED)
        else:
            self._processes = multiprocessing.get_context("spawn")
        self._failed: dict[Path, str] = {}

    def rate(self, method: Method) -> float:
        """The learning rate of the grid with the best mAP on validation classes at the end of a short run."""
        if not self.plan.rates:
            return self.plan.settings.learning_rate
        found: dict[float, float] = {}
        reasons: list[str] = []
        for rate in self.plan.rates:
            try:
                found[rate] = float(self._searched(method, rate)["last_validation_map"])
            except _Failed as failed:
                reasons.append(str(failed))
        if not found:
            raise _Failed(reasons[0])
        return max(found, key=lambda rate: (found[rate], -rate))

    def result(self, method: Method, seed: int) -> dict[str, Any]:
        """The result of a method with a seed; the first of two stages is trained once and serves all that follow."""
        folder = self.plan.out / "runs" / method.name / f"seed-{seed}"
        start, seconds_before = None, 0.0
        if method.start is not None:
            seconds_before = float(self.result(method.start, seed)["seconds"])
            start = self.plan.out / "runs" / method.start.name / f"seed-{seed}" / MODEL
        settings = replace(self.plan.settings, learning_rate=self.rate(method), seed=seed)
        result = self._done(Run(folder, method, settings, self._epoch(settings.steps), start), f"seed {seed}")
        return {**result, "seconds": seconds_before + result["seconds"]}

    def _searched(self, method: Method, rate: float) -> dict[str, Any]:
        folder, start = self._search_folder(method, rate), None
        if method.start is not None:
            start = self._search_folder(method.start, self.rate(method.start)) / MODEL
        settings = replace(self.plan.settings, learning_rate=rate, seed=SEARCH_SEED, steps=self.plan.search_steps)
        run = Run(folder, method, settings, self.plan.search_steps, start, test=False)
        return self._done(run, f"search, learning rate {rate:.2g}")

    def _search_folder(self, method: Method, rate: float) -> Path:
        return self.plan.out / "search" / method.name / f"rate-{rate:.2g}"

    def _epoch(self, steps: int | None) -> int:
        assert steps is not None
        return math.ceil(steps / self.plan.validations)

    def _done(self, run: Run, told: str) -> dict[str, Any]:
        assert run.method is not None
        result = self.finish(run, f"{run.method.title}, {told}")
        if isinstance(result, str):
            raise _Failed(result)
        return result

    def finish(self, run: Run, told: str) -> dict[str, Any] | str:
        """The result of a run, done now if it was not before; or the reason why there is none."""
        if run.folder in self._failed:
            return self._failed[run.folder]
        if (result := run.result()) is not None:
            return result
        began = time.monotonic()
        conditions = self.plan.conditions
        if conditions.minutes is not None and not run.test:  # a short run gets as short a time
            share = self.plan.search_steps / (self.plan.settings.steps or self.plan.search_steps)
            conditions = replace(conditions, minutes=conditions.minutes * share)
        process = self._processes.Process(target=carry_out, args=(run, conditions))
        process.start()
        try:
            process.join()
        except KeyboardInterrupt:
            process.join()  # it saves its checkpoint
            raise Interrupted from None
        result = run.result()
        if result is not None:
            print(f"{told}: {_sentence(result)} ({time.monotonic() - began:.0f} s)", flush=True)
            return result
        if process.exitcode == INTERRUPTED:
            raise Interrupted
        self._failed[run.folder] = _reason(run.folder, process.exitcode)
        print(f"{told}: failed, {self._failed[run.folder]}", flush=True)
        return self._failed[run.folder]


def _sentence(result: dict[str, Any]) -> str:
    if "test" in result:
        first = next(iter(result["test"].values()))
        return f"mAP {100 * first['mean_average_precision']:.1f}"
    return f"validation mAP {100 * result['last_validation_map']:.1f}"


def _reason(folder: Path, exit_code: int | None) -> str:
    file = folder / FAILURE
    if file.is_file():
        reason = json.loads(file.read_text(encoding="utf-8"))["reason"]
        file.unlink()
        return str(reason)
    if exit_code == -9:
        return "its process was killed, perhaps for want of memory"
    return f"its process ended with code {exit_code}"


def _check_folder(plan: Plan) -> None:
    file = plan.out / SETTINGS
    if not file.is_file():
        write_atomically(file, json.dumps(plan.described, indent=1) + "\n")
        return
    before = json.loads(file.read_text(encoding="utf-8"))
    differing = [name for name in {**before, **plan.described} if before.get(name) != plan.described.get(name)]
    if differing:
        told = ", ".join(f"{name} was {before.get(name)} and is {plan.described.get(name)}" for name in differing)
        raise ValueError(
            f"{plan.out} holds a comparison with other settings ({told}): repeat its command, or choose another --out"
        )
