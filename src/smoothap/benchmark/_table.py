"""The table of a comparison: means with intervals, differences to Smooth-AP in pairs, groups, cost, chosen values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from smoothap.benchmark._intervals import ClassSums, Estimate, Spread, difference, estimate, groups, spread
from smoothap.benchmark._run import RunResult
from smoothap.benchmark._search import RATE
from smoothap.benchmark.runner import Comparison, Outcome

OURS = "smooth-ap"  # the method that all others are compared with
MAIN = "mAP"  # the metric that groups and chosen values go by
_SHOWN = ("mAP", "mAP@R", "Recall@1")


@dataclass(frozen=True)
class TableRow:
    """One method under one test protocol, in per cent, seconds and MB; `metrics` is empty where it failed."""

    name: str
    title: str
    metrics: dict[str, Estimate]
    differences: dict[str, Estimate] = field(default_factory=dict)  # to Smooth-AP
    group: str = ""
    spread: Spread | None = None  # of mAP
    seconds: float | None = None
    megabytes: float | None = None
    steps: str = ""
    runs: int = 0
    trials: int = 0
    chosen: str = ""
    failure: str = ""

    def cells(self, names: Sequence[str]) -> dict[str, object]:
        """What the table shows of a method beside its title, by column; None where there is nothing."""
        apart = self.differences.get(MAIN)
        return {
            MAIN: plus_minus(self.metrics.get(MAIN)),
            "to Smooth-AP": plus_minus(apart, sign="+"),
            "Group": self.group or None,
            **{name: plus_minus(self.metrics.get(name)) for name in names if name != MAIN},
            "Seconds": None if self.seconds is None else float(f"{self.seconds:.3g}"),
            "Peak MB": None if self.megabytes is None else round(self.megabytes),
            "Steps": self.steps or None,
            "Chosen": self.chosen or None,
        }


def plus_minus(value: Estimate | None, sign: str = "") -> str | None:
    """A mean ± half of its 95% interval, with as many digits as that half has a use for."""
    if value is None:
        return None
    reach = (value.high - value.low) / 2
    digits = 2 if reach < 0.995 else 1
    text = f"{value.value:{sign}.{digits}f}".replace("-", "−")
    return f"{text} ± {reach:.{digits}f}"


def shown_metrics(rows: Sequence[TableRow]) -> list[str]:
    """The metrics that have a column: mAP, mAP@R and the first Recall@K."""
    known = list(rows[0].metrics)
    recall = next((name for name in known if name.startswith("Recall@")), "")
    return [name for name in known if name in (*_SHOWN, recall)]


def tables(comparison: Comparison) -> dict[str, list[TableRow]]:
    """The rows of each test protocol, the untrained network first."""
    return {protocol: _rows(protocol, comparison) for protocol in comparison.untrained[0].test}


def _rows(protocol: str, comparison: Comparison) -> list[TableRow]:
    names = [name for name in comparison.untrained[0].by_class[protocol] if name not in ("names", "queries")]
    untrained = TableRow(
        "untrained", "Untrained", {name: _percent(_runs(comparison.untrained, protocol, name)) for name in names}
    )
    finished = [outcome for outcome in comparison.rows if outcome.results]
    letters = _letters([_runs(outcome.results, protocol, MAIN) for outcome in finished])
    ours = next((outcome.results for outcome in finished if outcome.method.name == OURS), [])
    of_method = {outcome.method.name: outcome for outcome in (*comparison.rows, *comparison.first_stages)}
    rows = [untrained]
    for outcome in comparison.rows:
        method, results = outcome.method, outcome.results
        if not results:
            rows.append(TableRow(method.name, method.title, {}, failure=outcome.failure))
            continue
        differences = {}
        for name in names if results is not ours else ():
            found = difference(_runs(results, protocol, name), _runs(ours, protocol, name))
            if found is not None:
                differences[name] = _in_percent(found)
        rows.append(
            TableRow(
                method.name,
                method.title,
                {name: _percent(_runs(results, protocol, name)) for name in names},
                differences,
                letters[finished.index(outcome)],
                spread(_runs(results, protocol, MAIN, 100)),
                float(np.mean([result.seconds for result in results])),
                float(np.mean([result.peak_megabytes for result in results])),
                "+".join(str(results[0].steps) for _ in method.stages),
                len(results),
                sum(len(chosen.trials) for chosen in outcome.chosen.values()),
                " / ".join(_chosen(outcome, split, of_method) for split in sorted(outcome.chosen)),
                outcome.failure,
            )
        )
    return rows


def _runs(results: Sequence[RunResult], protocol: str, metric: str, factor: float = 1.0) -> list[ClassSums]:
    found = []
    for result in results:
        columns: dict[str, Any] = result.by_class[protocol]
        names, sums, queries = (np.asarray(columns[name]) for name in ("names", metric, "queries"))
        found.append(ClassSums(result.split, result.seed, names.astype(str), factor * sums, queries))
    return found


def _percent(runs: Sequence[ClassSums]) -> Estimate:
    return _in_percent(estimate(runs))


def _in_percent(value: Estimate) -> Estimate:
    return Estimate(100 * value.value, 100 * value.low, 100 * value.high, 100 * value.error, value.freedom)


def _letters(of_methods: Sequence[Sequence[ClassSums]]) -> list[str]:
    """The group of each method by all pairs of them."""
    chances = np.ones((len(of_methods), len(of_methods)))
    for one, runs in enumerate(of_methods):
        for two, others in enumerate(of_methods[:one]):
            apart = difference(runs, others)
            if apart is not None:
                chances[one, two] = chances[two, one] = apart.chance
    return groups([estimate(runs).value for runs in of_methods], chances)


def _chosen(outcome: Outcome, split: int, of_method: Mapping[str, Outcome]) -> str:
    """The chosen values of all stages in a split, a star at those that lie at an edge of what was tried."""
    stages = []
    for stage in outcome.method.stages:
        chosen = of_method[stage.name].chosen[split]
        titles = {name: "rate" if name == RATE else name.strip("_").replace("_", " ") for name in chosen.values}
        words = (f"{titles[name]} {value:g}{'*' * (name in chosen.edges)}" for name, value in chosen.values.items())
        stages.append(", ".join(words))
    return " + ".join(stages)
