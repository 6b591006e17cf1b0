"""`smoothap paper`: the paper's analyses on the user's own images and model, one command each.

A command has the options of its analysis; its table, figures and numbers go to --out. It is made when it is asked for,
since its options are those of a function that brings torch.
"""

from __future__ import annotations

import inspect
import shlex
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cyclopts import App, Parameter

from smoothap.cli._options import check_folder, chosen_workers, command

if TYPE_CHECKING:
    from smoothap.paper.analysis import Analysis

_TRAINED = "--data emoji --model runs/demo/model"
_COMMANDS = {  # what the help says before an analysis is imported, and the options of an example
    "indicator": ("Figure 2: what may stand for the indicator, and the slopes of each.", "--data emoji"),
    "triplet-example": ("Section 4: six violating terms under a triplet loss and Smooth-AP.", "--data emoji"),
    "tightness": ("Figure 4: the error of the AP approximation in training.", "--data emoji --tau 0.1 0.01"),
    "operating-region": (
        "Supplement C: the share of differences that has a gradient.",
        "--data emoji --batch-sizes 64 256",
    ),
    "ablation": ("Table 5: temperature, images of a class, batch size.", "--data glyphs --size 48 --seeds 3"),
    "cost": ("Supplement E: time and memory of four AP losses.", "--batch-sizes 112 224"),
    "queries": ("Figures 1, 3, S1 to S6: ranked images before and after training.", f"{_TRAINED} --layout rows"),
    "classes": ("Which classes gained and lost, and which take each other's ranks.", _TRAINED),
    "all": ("All of them at a small size, on one page.", _TRAINED),
}
app = App(
    name="paper",
    help="The paper's analyses on your model and images, with figures.",
    help_epilogue="Examples:\n\n    smoothap paper triplet-example\n    smoothap paper tightness --data emoji",
    default_parameter=Parameter(consume_multiple=True),
)
for _name, (_help, _) in _COMMANDS.items():
    app.command(f"smoothap.cli.paper:{_name.replace('-', '_')}", name=_name, help=_help)


def __getattr__(name: str) -> App:
    title = name.replace("_", "-")
    if title not in _COMMANDS:
        raise AttributeError(f"module 'smoothap.cli.paper' has no attribute {name!r}")
    module = import_module(f"smoothap.paper.{name}")
    run = _command(module.all_analyses, _show_all) if name == "all" else _command(getattr(module, name), _show)
    more = (run.__doc__ or "").partition("\n\n")[2]
    example = f"Example:\n\n    smoothap paper {title} {_COMMANDS[title][1]}"
    made = App(title, help_epilogue=f"{more}\n\n{example}" if more else example)
    made.default(run)
    return made


def _command(make: Callable[..., Any], finish: Callable[[Any, Path], None]) -> Callable[..., None]:
    """A command with the options of an analysis and --out; `finish` is given what the analysis made."""
    from smoothap._core.devices import chosen_device
    from smoothap.paper.analysis import OUT
    from smoothap.training.before_after import compare_with_untrained

    own, compared = inspect.signature(make).parameters, inspect.signature(compare_with_untrained).parameters
    of_two_models = "compared" in own
    taken = {*own, *(compared if of_two_models else ())}

    def analysis(*, device: str | None = None, workers: int | None = None, out: Path = OUT, **options: Any) -> None:
        check_folder(out)
        place = chosen_device(device)
        given: dict[str, Any] = options | {"device": str(place), "out": out, "folder": out}
        given |= {"workers": chosen_workers(workers, place)} if "workers" in taken else {}
        if of_two_models:
            given["compared"] = compare_with_untrained(**{name: given[name] for name in compared if name in given})
        if "start" in own:
            start = own["start"].default
            begun = {name: given[name] for name in vars(start) if name in given and name not in own}
            given["start"] = replace(start, **begun)
        finish(make(**{name: given[name] for name in own if name in given}), out)

    analysis.__doc__ = make.__doc__
    library = (make, compare_with_untrained) if of_two_models else (make,)
    return command(*library, without=("compared", "folder", *({"workers"} - taken)))(analysis)


def _show(analysis: Analysis, out: Path) -> None:
    """Write an analysis, and print its table, what it says beside the paper, and its files."""
    from smoothap.plots.text import text_table

    paths = analysis.save(out, shlex.join(["smoothap", *sys.argv[1:]]))
    if analysis.table:
        print(text_table(analysis.table))
    print(f"\nPaper: {analysis.paper}\nOurs:  {analysis.agreement}\n")
    print(*paths, "Next: smoothap paper all   (every analysis on one page)", sep="\n")


def _show_all(sections: Any, out: Path) -> None:
    from smoothap.paper.all import write_analyses_page

    again = shlex.join(["smoothap", *sys.argv[1:]])
    page = write_analyses_page(out / "analyses.html", sections, title="Analyses of Smooth-AP", command=again)
    failed = [section["name"] for section in sections if section["failure"]]
    print(f"\n{len(sections) - len(failed)} analyses made" + (f", not made: {', '.join(failed)}" if failed else ""))
    print(page.resolve())
