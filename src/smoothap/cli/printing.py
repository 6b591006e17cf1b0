"""Figures as the commands print them: percentages in columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from smoothap.metrics import Report


def comparison(before: Report, after: Report) -> str:
    """Two rows of figures, before and after training, and how far apart they are."""
    rows = {"before": _figures(before), "after": _figures(after)}
    rows["gained"] = {name: value - rows["before"][name] for name, value in rows["after"].items()}
    heading = "".join(f"{name:>12}" for name in rows["after"])
    lines = [f"{'':<8}{heading}"]
    for name, figures in rows.items():
        sign = "+" if name == "gained" else ""
        lines.append(f"{name:<8}" + "".join(f"{100 * value:>{sign}12.1f}" for value in figures.values()))
    return "\n".join(lines)


def _figures(report: Report) -> dict[str, float]:
    return {"mAP": report.mean_average_precision, **{f"Recall@{k}": value for k, value in report.recall.items()}}


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows of plain values in columns: numbers to the right, to four figures; a dash where there is none."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = [[_cell(row.get(name)) for name in names] for row in rows]
    widths = [max(len(name), *(len(line[place]) for line in cells)) for place, name in enumerate(names)]
    right = [all(not isinstance(row.get(name), str) for row in rows) for name in names]
    lines = [
        "  ".join(
            f"{cell:{'>' if flush else '<'}{width}}" for cell, width, flush in zip(line, widths, right, strict=True)
        )
        for line in [names, *cells]
    ]
    return "\n".join(line.rstrip() for line in lines)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def printable(text: str) -> str:
    """Text from a file name for a terminal: what would move the cursor or turn the line around is spelled out."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
