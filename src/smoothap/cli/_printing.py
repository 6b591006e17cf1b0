"""What commands print of a training: the metrics before and after."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smoothap.report.text_table import text_table

if TYPE_CHECKING:
    from smoothap.metrics import Report


def comparison(before: Report, after: Report, remedy: str) -> str:
    """The metrics before and after training and how far apart they are, in per cent; a remedy where they fell."""
    old, new = before.main_metrics(), after.main_metrics()
    rows = {
        "before": {name: f"{100 * value:.1f}" for name, value in old.items()},
        "after": {name: f"{100 * value:.1f}" for name, value in new.items()},
        "gained": {name: f"{100 * (value - old[name]):+.1f}" for name, value in new.items()},
    }
    table = text_table([{"": name, **row} for name, row in rows.items()], text=[""])
    lines = [table, after.about_copies()]
    if after.mean_average_precision < before.mean_average_precision:
        lines.append(f"On these classes the network ranked better before the training: try {remedy}.")
    return "\n".join(line for line in lines if line)
