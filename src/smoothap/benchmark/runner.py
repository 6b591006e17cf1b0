"""A comparison from start to end: a search for every method, then all of them with every seed, resumed for free.

Every run has its own folder and its own process. What is finished is not done again; what was cut off goes on from its
checkpoint; a run that failed is tried again the next time. A folder is named by the values of its run, so that what a
longer search decides otherwise is trained again beside it.
"""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path

import numpy as np

from smoothap.benchmark.methods import Method, open_methods, with_controls
from smoothap.benchmark.plan import Plan
from smoothap.benchmark.processes import Task, TaskRunner
from smoothap.benchmark.run import RunFailed, RunResult, TrainingRun, evaluate_untrained, run_training
from smoothap.benchmark.search import RATE, Chosen, Search, Trial, Values
from smoothap.data.samplers import BalancedBatches
from smoothap.training.loop import MODEL


@dataclass
class Outcome:
    """A row of the table: what was chosen in each split, the results that were finished, or why there are none."""

    method: Method
    chosen: dict[int, Chosen] = field(default_factory=dict)
    results: list[RunResult] = field(default_factory=list)
    failure: str = ""


@dataclass(frozen=True)
class Comparison:
    """The untrained network in each split, the rows of the table, and the methods that only a later stage needs."""

    untrained: list[RunResult]
    rows: list[Outcome]
    first_stages: list[Outcome]


def compare(plan: Plan) -> Comparison:
    """All methods of the plan with all their seeds in all splits."""
    rows = [Outcome(method) for method in with_controls(open_methods(plan.methods))]
    named = {outcome.method.name for outcome in rows}
    stages = {stage.name: stage for outcome in rows for stage in outcome.method.stages}
    first_stages = [Outcome(stage) for name, stage in stages.items() if name not in named]
    everything = sorted([*first_stages, *rows], key=lambda outcome: len(outcome.method.stages))
    _check_data(plan)
    plan.check_folder()
    print(_budget(plan, len(everything)), flush=True)
    runner = _Runner(plan, everything)
    untrained = runner.untrained()
    for split in range(plan.splits):
        runner.search(split)
    for number in range(plan.seeds):  # seeds outermost: if it is stopped early, all methods have as many of them
        for split in range(plan.splits):
            runner.train(split, number)
    return Comparison(untrained, rows, first_stages)


def _budget(plan: Plan, methods: int) -> str:
    """How many trainings the comparison has, as far as is known before the search."""
    fewest = most = plan.seeds
    if plan.trials and plan.chosen is None:
        fewest, most = (plan.seeds + rounds * plan.trials * plan.folds for rounds in (1, plan.rounds))
    each = plan.splits * methods
    atmost = f" to {each * most:,}" if most > fewest else ""
    return (
        f"{methods} methods, {each * fewest:,}{atmost} trainings of {plan.steps} steps; what was done before is kept."
    )


def _check_data(plan: Plan) -> None:
    """Tell before anything runs that classes are too few, or that there are no other splits of them."""
    tested, config = set(), plan.config
    for split in range(plan.splits):
        for images in plan.training_classes(split):
            BalancedBatches(images.labels, config.batch_size, config.samples_per_class)
        benchmark = plan.open_benchmark(split)
        tested.add(frozenset(map(str, next(iter(benchmark.tests.values())).class_names)))
    if len(tested) < plan.splits:
        raise ValueError(f"{plan.data} comes with its split: leave --splits {plan.splits} out.")


class _Runner:
    """Does the runs of a comparison in the order in which they need each other; `outcomes` has first stages first."""

    def __init__(self, plan: Plan, outcomes: Sequence[Outcome]) -> None:
        self._plan, self._outcomes = plan, outcomes
        self._tasks = TaskRunner(plan)
        self._chosen: dict[tuple[int, str], Chosen] = {}  # by split and method
        self._seconds: dict[tuple[int, int, str], float] = {}  # of all stages, by split, seed and method

    def untrained(self) -> list[RunResult]:
        """The result of the network as it is before any training, in each split."""
        results = []
        for split in range(self._plan.splits):
            folder = self._plan.out / "untrained" / f"split-{split}"
            title = _title("untrained", self._plan, split)
            task = Task(folder, title, evaluate_untrained, (folder, self._plan, split), alone=True)
            (result,) = self._tasks.finish([task])
            if isinstance(result, RunFailed):
                raise ValueError(f"The untrained network could not be tested: {result}") from result
            results.append(result)
        return results

    def search(self, split: int) -> None:
        """Find the values of every method in a split.

        All methods of as many stages get the same number of trials; where the best of one is at an edge, all get
        another round. Later stages are searched when those before them are settled, because they start from them.
        """
        for _, level in groupby(self._outcomes, key=lambda outcome: len(outcome.method.stages)):
            outcomes = [outcome for outcome in level if self._has_start(outcome) and not self._is_known(outcome, split)]
            searches = [self._new_search(outcome.method, split) for outcome in outcomes]
            reasons = self._search_level(split, searches)
            for outcome, search in zip(outcomes, searches, strict=True):
                if (chosen := search.chosen()) is None:
                    outcome.failure = reasons[outcome.method.name]
                else:
                    outcome.chosen[split] = self._chosen[split, outcome.method.name] = chosen
                    self._remove_models(split, search)

    def _new_search(self, method: Method, split: int) -> Search:
        plan = self._plan
        return Search(method, plan.learning_rate, rate_only=plan.rate_only, seed=plan.search_seed(split))

    def _has_start(self, outcome: Outcome) -> bool:
        """Whether a method can be trained: neither it failed before nor the one it starts from."""
        start = outcome.method.start
        if start is not None and not outcome.failure:
            (before,) = (each for each in self._outcomes if each.method.name == start.name)
            outcome.failure = before.failure and f"{start.title}, which it starts from, failed: {before.failure}"
        return not outcome.failure

    def _remove_models(self, split: int, search: Search) -> None:
        """Delete the models of all trials but the best, which a later stage may start from."""
        for trial in search.trials:
            if trial is not search.best:
                for run in self._trial_runs(split, search.method, trial.values):
                    shutil.rmtree(run.folder / MODEL, ignore_errors=True)

    def _is_known(self, outcome: Outcome, split: int) -> bool:
        """Whether nothing is to be searched: values of an earlier search are given, or the published ones taken."""
        plan, name = self._plan, outcome.method.name
        if plan.chosen is not None and name in plan.chosen:
            if split >= len(plan.chosen[name]):
                raise ValueError(f"The settings have values of {name} for {len(plan.chosen[name])} splits alone.")
            known = plan.chosen[name][split]
            chosen = Chosen(known["values"], known["edges"])
        elif plan.trials == 0:
            chosen = Chosen({RATE: plan.learning_rate, **outcome.method.fixed})
        else:
            return False
        outcome.chosen[split] = self._chosen[split, name] = chosen
        return True

    def _search_level(self, split: int, searches: list[Search]) -> dict[str, str]:
        """All rounds of the searches; why trials failed, by the name of the method."""
        reasons: dict[str, str] = {}
        for number in range(self._plan.rounds if searches else 0):
            if number and not any(search.edges() for search in searches):
                break
            if number:
                print(_moved(searches), flush=True)
                for search in searches:
                    search.go_on()
            drawn = [(search, values) for search in searches for values in search.draw(self._plan.trials)]
            runs = [self._trial_runs(split, search.method, values) for search, values in drawn]
            results = iter(self._tasks.finish([self._task(run) for of_trial in runs for run in of_trial]))
            for (search, values), of_trial in zip(drawn, runs, strict=True):
                of_folds = [next(results) for _ in of_trial]
                search.trials.append(_judged(values, of_folds))
                for failed in of_folds:
                    if isinstance(failed, RunFailed):
                        reasons[search.method.name] = str(failed)
        return reasons

    def _trial_runs(self, split: int, method: Method, values: Values) -> list[TrainingRun]:
        """A whole training for each fold of validation classes."""
        plan, runs = self._plan, []
        for fold in range(plan.folds):
            folder = self._folder("search", split, method, values) / f"fold-{fold}"
            start = None
            if method.start is not None:
                of_start = self._chosen[split, method.start.name].values
                start = self._folder("search", split, method.start, of_start) / f"fold-{fold}" / MODEL
            seed, held_out = plan.search_seed(split) + fold, fold if plan.folds > 1 else None
            runs.append(TrainingRun(folder, method, values, split, seed, held_out, start, test=False))
        return runs

    def train(self, split: int, number: int) -> None:
        """Train and test every method with one seed in one split, first stages first."""
        for _, level in groupby(self._outcomes, key=lambda outcome: len(outcome.method.stages)):
            outcomes = [outcome for outcome in level if self._has_start(outcome)]
            runs = [self._final_run(split, number, outcome.method) for outcome in outcomes]
            for outcome, result in zip(outcomes, self._tasks.finish([self._task(run) for run in runs]), strict=True):
                if isinstance(result, RunFailed):
                    outcome.failure = str(result)
                    continue
                start = outcome.method.start
                before = 0.0 if start is None else self._seconds[split, number, start.name]
                self._seconds[split, number, outcome.method.name] = before + result.seconds
                outcome.results.append(replace(result, seconds=before + result.seconds))

    def _final_run(self, split: int, number: int, method: Method) -> TrainingRun:
        values, start = self._chosen[split, method.name].values, None
        if method.start is not None:
            start = self._final_run(split, number, method.start).folder / MODEL
        folder = self._folder("runs", split, method, values) / f"seed-{number}"
        return TrainingRun(folder, method, values, split, self._plan.seed(split, number), start=start)

    def _task(self, run: TrainingRun) -> Task:
        what = f"seed {run.folder.name.removeprefix('seed-')}" if run.test else f"trial with {written(run.values)}"
        return Task(
            run.folder, _title(f"{run.method.title}, {what}", self._plan, run.split), run_training, (run, self._plan)
        )

    def _folder(self, kind: str, split: int, method: Method, values: Values) -> Path:
        """The folder of a method with these values, behind those of the stages before it."""
        before = [self._chosen[split, stage.name].values for stage in method.stages[:-1]]
        name = "+".join(",".join(f"{key}={value:g}" for key, value in each.items()) for each in [*before, values])
        return self._plan.out / kind / f"split-{split}" / method.name.replace(":", " ") / name


def written(values: Values) -> str:
    """Values in words, such as "learning rate 0.0012, tau 0.01"."""
    return ", ".join(f"{name.strip('_').replace('_', ' ')} {value:g}" for name, value in values.items())


def _judged(values: Values, of_folds: Sequence[RunResult | RunFailed]) -> Trial:
    """A trial by the mean over its folds of the best validation mAP; none where a fold failed."""
    results = [result for result in of_folds if not isinstance(result, RunFailed)]
    if len(results) < len(of_folds):
        return Trial(values, float("nan"))
    means = np.mean([(result.validation_map, result.last_validation_map) for result in results], axis=0)
    return Trial(values, *means.tolist())


def _moved(searches: Sequence[Search]) -> str:
    found = {search.method.title: search.edges() for search in searches if search.edges()}
    names = "; ".join(
        f"{title}: {', '.join(f'{end} {name}' for name, end in edges.items())}" for title, edges in found.items()
    )
    return f"The best trial is at an edge, so that the range is moved and every method gets as many more ({names})."


def _title(what: str, plan: Plan, split: int) -> str:
    return f"{what}, split {split}" if plan.splits > 1 else what
