"""`smoothap analyse`: the paper's analyses on the user's own images and model, one command each."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cyclopts import App

if TYPE_CHECKING:
    from smoothap.analysis.analysis import Analysis

app = App(name="analyse")
OUT = Path("runs/analyses")


def show(analysis: Analysis, out: Path) -> None:
    """Write an analysis, then print its table, what it says beside the paper, and its files."""
    from smoothap.cli.printing import table

    paths = analysis.save(out)
    if analysis.table:
        print(table(analysis.table))
    print(f"\nPaper: {analysis.paper}\nOurs:  {analysis.agreement}\n")
    for path in paths:
        print(path)
