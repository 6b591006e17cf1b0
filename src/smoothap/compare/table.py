"""The table of a comparison, like the paper's: mean and spread over the seeds, cost, and the paper's own figures."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from smoothap.compare.runner import Outcome
from smoothap.methods import Method, PaperResult

_LEFT_OUT = ("VehicleID medium", "VehicleID large")  # in the short form of the paper's figures


@dataclass(frozen=True)
class Figure:
    """The mean over seeds and the standard deviation between them, NaN with one seed; in per cent, seconds or MB."""

    mean: float
    spread: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Figure":
        spread = float(np.std(values, ddof=1)) if len(values) > 1 else math.nan
        return cls(float(np.mean(values)), spread)

    def __str__(self) -> str:
        return f"{self.mean:.1f}" if math.isnan(self.spread) else f"{self.mean:.1f} ± {self.spread:.1f}"


@dataclass(frozen=True)
class Row:
    """One method in the table of one test protocol; `figures` is empty where it failed."""

    title: str
    figures: dict[str, Figure]  # mAP, Recall@K
    seconds: Figure | None = None
    megabytes: Figure | None = None
    rate: float | None = None
    steps: str = ""
    seeds: int = 0
    paper: str = ""
    failure: str = ""

    def cells(self, names: Sequence[str]) -> list[str]:
        """The figures of these names and what they cost, in words."""
        return [
            *(str(self.figures[name]) for name in names),
            "" if self.seconds is None else f"{self.seconds.mean:.0f}",
            "" if self.megabytes is None else f"{self.megabytes.mean:,.0f}",
            self.steps,
            "" if self.rate is None else f"{self.rate:.1e}",
        ]


def tables(untrained: dict[str, Any], outcomes: Sequence[Outcome]) -> dict[str, list[Row]]:
    """The rows of each test protocol, the untrained network first."""
    found: dict[str, list[Row]] = {}
    for protocol, report in untrained["test"].items():
        first = Row("Untrained", {name: Figure(value, math.nan) for name, value in _percentages(report).items()})
        found[protocol] = [first, *(_row(protocol, outcome) for outcome in outcomes)]
    return found


def as_markdown(rows: Sequence[Row]) -> str:
    """The table in Markdown, which is legible as plain text too."""
    names = list(rows[0].figures)
    cells = [["Method", *names, "Seconds", "Peak MB", "Steps", "Rate", "In the paper"]]
    for row in rows:
        if row.figures:
            cells.append([row.title, *row.cells(names), row.paper])
        else:
            reason = f"failed: {row.failure}"
            cells.append([row.title, reason, *[""] * (len(names) + 3), row.paper])
    told_once = [row.failure for row in rows if row.failure and row.figures]
    lines = _aligned(cells)
    return "\n".join(lines + [f"\nNot all seeds were finished: {reason}" for reason in told_once])


def paper_figures(method: Method) -> str:
    """The paper's own figures for a method, in short: the first one of each data set, at the largest batch."""
    best: dict[str, PaperResult] = {}
    for each in method.paper:
        best[each.data_set] = each
    return ", ".join(f"{each.data_set} {_first(each)}" for name, each in best.items() if name not in _LEFT_OUT)


def _first(result: PaperResult) -> str:
    name, value = next(iter(result.metrics.items()))
    return f"{name.replace('Recall@', 'R@')} {value:.1f}"


def _row(protocol: str, outcome: Outcome) -> Row:
    method, results = outcome.method, outcome.results
    paper = paper_figures(method)
    if not results:
        return Row(method.title, {}, paper=paper, failure=outcome.failure)
    of_seeds = [_percentages(result["test"][protocol]) for result in results]
    steps = "+".join(str(results[0]["steps"]) for _ in range(1 if method.start is None else 2))
    return Row(
        method.title,
        {name: Figure.of([each[name] for each in of_seeds]) for name in of_seeds[0]},
        Figure.of([result["seconds"] for result in results]),
        Figure.of([result["peak_megabytes"] for result in results]),
        outcome.rate,
        steps,
        len(results),
        paper,
        outcome.failure,
    )


def _percentages(report: dict[str, Any]) -> dict[str, float]:
    recall = {f"Recall@{k}": 100 * value for k, value in report["recall"].items()}
    return {"mAP": 100 * report["mean_average_precision"], **recall}


def _aligned(cells: list[list[str]]) -> list[str]:
    """Columns of equal width; a reason for a failure may stick out."""
    columns = range(len(cells[0]))
    widths = [max(len(row[place]) for row in cells if place != 1 or "failed" not in row[1]) for place in columns]
    lines = []
    for number, row in enumerate(cells):
        padded = [
            text.ljust(width) if place in (0, len(widths) - 1) or text.startswith("failed") else text.rjust(width)
            for place, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append(f"| {' | '.join(padded)} |")
        if number == 0:
            marks = ["-" * width if place in (0, len(widths) - 1) else "-" * (width - 1) + ":"
                     for place, width in enumerate(widths)]  # fmt: skip
            lines.append(f"| {' | '.join(marks)} |")
    return lines
