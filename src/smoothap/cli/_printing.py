"""What commands print of a training: the metrics before and after."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smoothap.plots.text import text_table

if TYPE_CHECKING:
    from smoothap.metrics import Report


def comparison(before: Report, after: Report, remedy: str) -> str:
    """The metrics before and after training and how far apart they are, in per cent; a remedy where they fell.

    ± is half of a 95% interval over classes; that of what is gained is over pairs of the same query.
    """
    figures = after.main_figures()
    rows = {}
    for side, report in (("before", before), ("after", after)):
        intervals = report.intervals([*figures.values()])
        rows[side] = {title: str(intervals[figure]) for title, figure in figures.items()}
    gains = {title: after.compare(before, figure) for title, figure in figures.items()}
    rows["gained"] = {title: f"{100 * gain.value:+.1f} ± {100 * gain.margin:.1f}" for title, gain in gains.items()}
    table = text_table([{"": name, **row} for name, row in rows.items()], text=[""])
    lines = [table, after.about_copies()]
    if after.mean_average_precision < before.mean_average_precision:
        lines.append(f"On these classes the network ranked better before the training: try {remedy}.")
    return "\n".join(line for line in lines if line)
