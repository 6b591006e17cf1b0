"""What all analyses on the command line share: defaults, the command that repeats one, and how one is told."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smoothap.cli.printing import table

if TYPE_CHECKING:
    from smoothap.analysis.analysis import Analysis

OUT = Path("runs/analyses")
NETWORK = "tf_efficientnet_lite0"


def show(analysis: Analysis, out: Path) -> None:
    """Write an analysis, then print its table, what it says beside the paper, and its files."""
    paths = analysis.save(out)
    if analysis.table:
        print(table(analysis.table))
    print(f"\nPaper: {analysis.paper}\nOurs:  {analysis.agreement}\n")
    for path in paths:
        print(path)
    print("Next: smoothap analyse all   (every analysis on one page)")


def command_line(name: str, **options: Any) -> str:
    """The command that repeats an analysis: every option that has a value; one that was given twice stands twice."""
    words = ["smoothap", "analyse", name]
    for option, value in options.items():
        flag = "--" + option.replace("_", "-")
        if isinstance(value, bool):
            words.append(flag if value else f"--no-{flag[2:]}")
        elif value is not None:
            for each in value if isinstance(value, list) else [value]:
                words += [flag, shlex.quote(f"{each:g}" if isinstance(each, float) else str(each))]
    return " ".join(words)


def numbers_of(text: str, kind: type[Any]) -> list[Any]:
    """Numbers with commas between them."""
    try:
        return [kind(each) for each in text.split(",")]
    except ValueError:
        raise ValueError(f"{text!r} is not a list of numbers with commas between them, such as 64,128.") from None
