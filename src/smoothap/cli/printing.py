"""Figures as the commands print them: percentages in columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

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


def printable(text: str) -> str:
    """Text from a file name for a terminal: what would move the cursor or turn the line around is spelled out."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
