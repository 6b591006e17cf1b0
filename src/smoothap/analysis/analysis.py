"""What every analysis gives: numbers, figures, what the paper says, and whether ours agrees."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from smoothap.files import write_atomically
from smoothap.report.curves import save_figure


@dataclass(frozen=True)
class Analysis:
    """One analysis: its numbers, its figures, and how to say what it shows."""

    name: str  # "indicator": file stem and anchor
    title: str  # of the figure and the section
    numbers: dict[str, Any]  # plain values, fit for json
    figures: dict[str, Figure]  # by stem suffix, "" for the only one
    table: list[dict[str, Any]] | None  # rows of plain values where there is a table
    paper: str  # what the paper reports
    agreement: str  # one honest sentence, made from the numbers, on whether ours agrees
    command: str  # the command that made it

    def save(self, folder: Path) -> list[Path]:
        """Write each figure as PNG and SVG and everything else as NAME.json; the paths, figures first."""
        paths = []
        for suffix, figure in self.figures.items():
            stem = f"{self.name}-{suffix}" if suffix else self.name
            paths += [save_figure(figure, folder / f"{stem}{kind}") for kind in (".png", ".svg")]
        described = {
            "name": self.name,
            "title": self.title,
            "command": self.command,
            "paper": self.paper,
            "agreement": self.agreement,
            "table": self.table,
            "numbers": self.numbers,
        }
        text = json.dumps(_plain(described), indent=1, ensure_ascii=False, allow_nan=False)
        return [*paths, write_atomically(folder / f"{self.name}.json", text + "\n")]


def _plain(value: Any) -> Any:
    """Values that json knows: arrays as lists, a number that is not one as null."""
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
