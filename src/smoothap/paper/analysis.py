"""What every analysis gives: numbers, figures, what the paper says, and whether ours agrees."""

import json
from dataclasses import dataclass, field, fields
from operator import methodcaller
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from smoothap._core.files import write_atomically
from smoothap.plots.drawing import save_figure


@dataclass(frozen=True)
class Analysis:
    """One analysis: its numbers, its figures, and how to say what it shows."""

    name: str  # "indicator": file stem and anchor
    title: str  # of the figure and the section
    numbers: dict[str, Any]  # plain values, fit for json
    figures: dict[str, Figure]  # by stem suffix, "" for the only one
    table: list[dict[str, Any]]  # rows of plain values
    paper: str  # what the paper reports
    agreement: str  # one honest sentence, made from the numbers, on whether ours agrees
    command: str  # the command that made it

    def described(self) -> dict[str, Any]:
        """Everything but the figures, in values that json knows: what NAME.json holds."""
        names = ("name", "title", "command", "paper", "agreement", "table", "numbers")
        text = json.dumps({name: getattr(self, name) for name in names}, default=methodcaller("tolist"))  # of arrays
        return json.loads(text, parse_constant=lambda _: None)  # JSON knows neither NaN nor infinity

    def save(self, folder: Path) -> list[Path]:
        """Write each figure as PNG and SVG and everything else as NAME.json; the paths, figures first."""
        paths = []
        for suffix, figure in self.figures.items():
            stem = f"{self.name}-{suffix}" if suffix else self.name
            paths += [save_figure(figure, folder / f"{stem}{kind}") for kind in (".png", ".svg")]
        text = json.dumps(self.described(), indent=1, ensure_ascii=False, allow_nan=False)
        return [*paths, write_atomically(folder / f"{self.name}.json", text + "\n")]


def column(name: str) -> Any:
    """A dataclass field whose value stands in the column of this name in an analysis' table."""
    return field(metadata={"column": name})


def columns(row: Any) -> dict[str, Any]:
    """A row of a table, a dataclass of such fields, as a dict by column; a nested row adds its columns to it."""
    cells: dict[str, Any] = {}
    for cell in fields(row):
        value = getattr(row, cell.name)
        if "column" in cell.metadata:
            cells[cell.metadata["column"]] = value
        elif value is not None:
            cells |= columns(value)
    return cells
