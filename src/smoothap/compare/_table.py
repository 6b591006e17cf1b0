"""The table of a comparison, like the paper's: mean and spread over the seeds, cost, and the paper's own numbers."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from smoothap.compare._run import RunResult
from smoothap.compare.runner import Outcome
from smoothap.methods import Method
from smoothap.report.text_table import text_table

_LEFT_OUT = ("VehicleID medium", "VehicleID large")  # in the short form of the paper's numbers


@dataclass(frozen=True)
class Statistic:
    """The mean over seeds and the standard deviation between them, NaN with one seed; in per cent, seconds or MB."""

    mean: float
    spread: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Statistic":
        spread = float(np.std(values, ddof=1)) if len(values) > 1 else math.nan
        return cls(float(np.mean(values)), spread)

    def __str__(self) -> str:
        return f"{self.mean:.1f}" if math.isnan(self.spread) else f"{self.mean:.1f} ± {self.spread:.1f}"


@dataclass(frozen=True)
class TableRow:
    """One method in the table of one test protocol; `metrics` is empty where it failed."""

    title: str
    metrics: dict[str, Statistic]  # mAP, Recall@K
    seconds: Statistic | None = None
    megabytes: Statistic | None = None
    rate: float | None = None
    steps: str = ""
    seeds: int = 0
    paper: str = ""
    failure: str = ""

    def cells(self, names: Sequence[str]) -> dict[str, object]:
        """The metrics of these names and what they cost, by their column; None where there is none."""
        return {
            **{name: self.metrics.get(name) for name in names},
            "Seconds": None if self.seconds is None else round(self.seconds.mean),
            "Peak MB": None if self.megabytes is None else round(self.megabytes.mean),
            "Steps": self.steps or None,
            "Rate": None if self.rate is None else f"{self.rate:.1e}",
        }


def tables(untrained: RunResult, outcomes: Sequence[Outcome]) -> dict[str, list[TableRow]]:
    """The rows of each test protocol, the untrained network first."""
    rows: dict[str, list[TableRow]] = {}
    for protocol, report in untrained.test.items():
        first = TableRow(
            "Untrained", {name: Statistic(value, math.nan) for name, value in _percentages(report).items()}
        )
        rows[protocol] = [first, *(_row(protocol, outcome) for outcome in outcomes)]
    return rows


def as_markdown(rows: Sequence[TableRow]) -> str:
    """The table in Markdown, which is legible as plain text too; the reasons of failures stand in its last column."""
    names = list(rows[0].metrics)
    lines = [{"Method": row.title, **row.cells(names), "In the paper": row.paper} for row in rows]
    for row, line in zip(rows, lines, strict=True):
        if row.failure:
            outcome = "not all seeds were finished" if row.metrics else "failed"
            line["Failures"] = f"{outcome}: {row.failure}"
    return text_table(lines, text=("Method", "In the paper", "Failures"), markdown=True)


def paper_numbers(method: Method) -> str:
    """The paper's own numbers for a method, in short: the first one of each data set, at the largest batch."""
    largest = {reported.data_set: next(iter(reported.metrics.items())) for reported in method.paper}
    return ", ".join(
        f"{data_set} {name.replace('Recall@', 'R@')} {value:.1f}"
        for data_set, (name, value) in largest.items()
        if data_set not in _LEFT_OUT
    )


def _row(protocol: str, outcome: Outcome) -> TableRow:
    method, results = outcome.method, outcome.results
    paper = paper_numbers(method)
    if not results:
        return TableRow(method.title, {}, paper=paper, failure=outcome.failure)
    of_seeds = [_percentages(result.test[protocol]) for result in results]
    steps = "+".join(str(results[0].steps) for _ in range(1 if method.start is None else 2))
    return TableRow(
        method.title,
        {name: Statistic.of([values[name] for values in of_seeds]) for name in of_seeds[0]},
        Statistic.of([result.seconds for result in results]),
        Statistic.of([result.peak_megabytes for result in results]),
        outcome.rate,
        steps,
        len(results),
        paper,
        outcome.failure,
    )


def _percentages(report: dict[str, Any]) -> dict[str, float]:
    recall = {f"Recall@{k}": 100 * value for k, value in report["recall"].items()}
    return {"mAP": 100 * report["mean_average_precision"], **recall}
