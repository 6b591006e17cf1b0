"""The table of a comparison, in numbers and as Markdown, LaTeX and CSV.

Means with intervals, differences to Smooth-AP in pairs, groups, cost, chosen values.
"""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan
from typing import Any

import numpy as np

from smoothap.benchmark.run import RunResult
from smoothap.benchmark.runner import Comparison, Outcome
from smoothap.benchmark.search import RATE
from smoothap.benchmark.statistics import ClassSums, Estimate, Spread, difference, estimate, groups, spread
from smoothap.plots.text import cell, text_table

OURS = "smooth-ap"  # the method that all others are compared with
MAIN = "mAP"  # the metric that groups and chosen values go by
_SHOWN = ("mAP", "mAP@R", "Recall@1")
_LATEX = str.maketrans({
    "±": r"$\pm$", "−": "$-$", "–": "--", "&": r"\&", "%": r"\%", "_": r"\_", "#": r"\#", "*": "$^*$", "$": r"\$",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}",
})  # fmt: skip


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
    """The chosen values of all stages in a split, a star at those that are at an edge of what was tried."""
    stages = []
    for stage in outcome.method.stages:
        chosen = of_method[stage.name].chosen[split]
        titles = {name: "rate" if name == RATE else name.strip("_").replace("_", " ") for name in chosen.values}
        words = (f"{titles[name]} {value:g}{'*' * (name in chosen.edges)}" for name, value in chosen.values.items())
        stages.append(", ".join(words))
    return " + ".join(stages)


def as_markdown(rows: Sequence[TableRow]) -> str:
    """The table in Markdown, which is legible as plain text too; its last column has the reasons of failures."""
    return text_table(_lines(rows), text=("Method", "Group", "Chosen", "Failures"), markdown=True)


def as_latex(rows: Sequence[TableRow]) -> str:
    """The table for LaTeX with the package booktabs, without what failed."""
    lines = [
        {name: value for name, value in line.items() if name != "Failures"}
        for row, line in zip(rows, _lines(rows), strict=True)
        if row.metrics
    ]
    columns = list(lines[0])
    body = [" & ".join(cell(line[name]).translate(_LATEX) for name in columns) + r" \\" for line in lines]
    left = ("Method", "Group", "Chosen")
    head = " & ".join(name.translate(_LATEX) for name in columns) + r" \\"
    sides = "".join("l" if name in left else "r" for name in columns)
    return "\n".join([
        rf"\begin{{tabular}}{{{sides}}}", r"\toprule", head, r"\midrule", *body, r"\bottomrule", r"\end{tabular}",
    ])  # fmt: skip


def as_csv(rows: Sequence[TableRow]) -> str:
    """Every number of the table, unrounded, a line for each method."""
    lines = []
    for row in rows:
        line: dict[str, object] = {"method": row.name, "title": row.title, "group": row.group}
        for kind, estimates in (("", row.metrics), (" to smooth-ap", row.differences)):
            for name, value in estimates.items():
                line |= {f"{name}{kind}": value.value, f"{name}{kind} low": value.low, f"{name}{kind} high": value.high}
        if row.spread is not None:
            line |= {f"mAP {name}": value for name, value in vars(row.spread).items() if not isnan(value)}
        line |= {
            "seconds": row.seconds, "peak MB": row.megabytes, "steps": row.steps, "runs": row.runs,
            "trials": row.trials, "chosen": row.chosen, "failure": row.failure,
        }  # fmt: skip
        lines.append(line)
    columns = list(dict.fromkeys(name for line in lines for name in line))
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return out.getvalue()


def _lines(rows: Sequence[TableRow]) -> list[dict[str, object]]:
    names = shown_metrics(rows)
    lines = [{"Method": row.title, **row.cells(names)} for row in rows]
    for row, line in zip(rows, lines, strict=True):
        if row.failure:
            outcome = "not all runs were finished" if row.metrics else "failed"
            line["Failures"] = f"{outcome}: {row.failure}"
    empty = [name for name in lines[0] if all(line.get(name) is None for line in lines)]
    return [{name: value for name, value in line.items() if name not in empty} for line in lines]
