"""What the analyses on the command line share: options, and how one is made, written and printed."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from smoothap.cli._options import check_folder
from smoothap.plots.text_table import text_table

if TYPE_CHECKING:
    from smoothap.paper.analysis import Analysis

OUT = Path("runs/analyses")
Network = Annotated[
    str, Parameter(help="A network by its timm name, with its published weights; or the folder of a trained model.")
]
TestData = Annotated[
    str, Parameter(help="NAME or NAME:PATH, such as emoji or folder:PATH: its test classes are ranked.")
]
TrainedModel = Annotated[str, Parameter(help="The folder of a trained model.")]
Before = Annotated[
    str | None,
    Parameter(
        help="The model to compare it with, a folder or a timm name; by default the same network before it was trained."
    ),
]


def make(name: str, given: dict[str, Any]) -> None:
    """Make the analysis of this name with the options that its command was given; write it and print what it says."""
    options = dict(given)
    check_folder(out := options.pop("out"))
    from smoothap._core.devices import chosen_device

    analysis = getattr(import_module(f"smoothap.paper.{name}"), name)
    options["device"] = str(chosen_device(options["device"]))
    show(analysis(**options), out)


def show(analysis: Analysis, out: Path) -> None:
    """Write an analysis, and print its table, what it says beside the paper, and its files."""
    paths = analysis.save(out)
    if rows := analysis.described()["table"]:
        print(text_table(rows))
    print(f"\nPaper: {analysis.paper}\nOurs:  {analysis.agreement}\n")
    print(*paths, "Next: smoothap analyse all   (every analysis on one page)", sep="\n")
