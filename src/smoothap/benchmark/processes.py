"""Runs in processes of their own, several at a time where asked for, that leave their results in their folders."""

import json
import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from smoothap._core.files import write_atomically
from smoothap.benchmark.plan import Plan
from smoothap.benchmark.run import RunFailed, RunResult, run_alone
from smoothap.training import checkpoint
from smoothap.training.config import NETWORK


class Task(NamedTuple):
    """A run: the folder that keeps its result, its name on the screen, and what to call."""

    folder: Path
    title: str
    work: Callable[..., RunResult]
    arguments: tuple[Any, ...] = ()
    alone: bool = False  # done while no other is, with all cores


class TaskRunner:
    """Does tasks, and remembers what is done by what is in their folders; what failed is not tried twice."""

    def __init__(self, plan: Plan) -> None:
        self._jobs = plan.jobs
        self._threads = max(1, (os.cpu_count() or 1) // plan.jobs) if plan.jobs > 1 else None
        self._processes = multiprocessing.get_context("forkserver")
        # Imported once, before the runs: the seconds of a method contain no imports. An optimiser brings torch._dynamo,
        # which takes longer than a short training.
        networks = [] if plan.model == NETWORK else ["smoothap.models.timm_networks"]
        self._processes.set_forkserver_preload([run_alone.__module__, "numba", "torch._dynamo", *networks])
        self._failures: dict[Path, RunFailed] = {}

    def finish(self, tasks: Sequence[Task]) -> list[RunResult | RunFailed]:
        """The result of every task, or why it failed, in their order."""
        with ThreadPoolExecutor(self._jobs) as pool:
            waiting = [pool.submit(self._finish, task) for task in tasks]
            try:
                return [each.result() for each in waiting]
            except BaseException:
                pool.shutdown(cancel_futures=True)  # when those that run have saved their checkpoints
                raise

    def _finish(self, task: Task) -> RunResult | RunFailed:
        if task.folder in self._failures:
            return self._failures[task.folder]
        file = task.folder / "result.json"
        if not file.is_file():
            began = time.monotonic()
            try:
                result = self._in_a_process(task)
            except RunFailed as failed:
                self._failures[task.folder] = failed
                print(f"{task.title}: failed, {failed}", flush=True)
                return failed
            write_atomically(file, json.dumps(asdict(result)) + "\n")
            checkpoint.remove(task.folder)
            print(f"{task.title}: {_in_short(result)} ({time.monotonic() - began:.0f} s)", flush=True)
        return RunResult(**json.loads(file.read_text(encoding="utf-8")))

    def _in_a_process(self, task: Task) -> RunResult:
        """The result of the work; an interruption waits until the process has saved its checkpoint."""
        threads = None if task.alone else self._threads
        try:
            with ProcessPoolExecutor(1, self._processes) as process:
                return process.submit(run_alone, task.work, threads, *task.arguments).result()
        except BrokenProcessPool:
            raise RunFailed("its process was killed, perhaps for want of memory") from None


def _in_short(result: RunResult) -> str:
    for report in result.test.values():
        return f"mAP {100 * report['mean_average_precision']:.1f}"
    return f"validation mAP {100 * result.validation_map:.1f}"
