"""What commands print: tables before and after, and names from files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smoothap.report.text_table import text_table

if TYPE_CHECKING:
    from smoothap.metrics import Report


def comparison(before: Report, after: Report) -> str:
    """The metrics before and after training and how far apart they are, in per cent."""
    old, new = _percentages(before), _percentages(after)
    rows = {
        "before": {name: f"{value:.1f}" for name, value in old.items()},
        "after": {name: f"{value:.1f}" for name, value in new.items()},
        "gained": {name: f"{value - old[name]:+.1f}" for name, value in new.items()},
    }
    return text_table([{"": name, **row} for name, row in rows.items()], text=[""])


def _percentages(report: Report) -> dict[str, float]:
    metrics = {"mAP": report.mean_average_precision, **{f"Recall@{k}": value for k, value in report.recall.items()}}
    return {name: 100 * value for name, value in metrics.items()}


def printable(text: str) -> str:
    """Text from a file name for a terminal: what would move the cursor or turn the line around is spelled out."""
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)
