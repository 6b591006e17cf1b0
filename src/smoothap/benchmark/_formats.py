"""The table of a comparison as text: Markdown, LaTeX for a paper, CSV with every number."""

import csv
import io
from collections.abc import Sequence
from math import isnan

from smoothap.benchmark._table import TableRow, shown_metrics
from smoothap.plots.text import cell, text_table

_LATEX = str.maketrans({
    "±": r"$\pm$", "−": "$-$", "–": "--", "&": r"\&", "%": r"\%", "_": r"\_", "#": r"\#", "*": "$^*$", "$": r"\$",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}",
})  # fmt: skip


def as_markdown(rows: Sequence[TableRow]) -> str:
    """The table in Markdown, which is legible as plain text too; the reasons of failures stand in its last column."""
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
