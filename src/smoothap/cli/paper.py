"""`smoothap paper`: the paper's analyses on the user's own images and model, one command each.

A command has the options of its analysis; its table, figures and numbers go to --out.
"""

import inspect
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cyclopts import App, Parameter

from smoothap._core.devices import chosen_device
from smoothap.cli._options import check_folder, chosen_workers, command
from smoothap.paper.ablation import ablation
from smoothap.paper.all import all_analyses, write_analyses_page
from smoothap.paper.analysis import OUT, Analysis
from smoothap.paper.classes import classes
from smoothap.paper.cost import cost
from smoothap.paper.indicator import indicator
from smoothap.paper.operating_region import operating_region
from smoothap.paper.queries import queries
from smoothap.paper.tightness import tightness
from smoothap.paper.triplet_example import triplet_example
from smoothap.plots.text import text_table
from smoothap.training.before_after import compare_with_untrained

app = App(
    name="paper",
    help="The paper's analyses on your model and images, with figures.",
    help_epilogue="Examples:\n\n    smoothap paper triplet-example\n    smoothap paper tightness --data emoji",
    default_parameter=Parameter(consume_multiple=True),
)


def _command(make: Callable[..., Any], finish: Callable[[Any, Path], None]) -> Callable[..., None]:
    """A command with the options of an analysis and --out; `finish` is given what the analysis made."""
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
        finish(make(**{name: given[name] for name in own if name in given}), out)

    analysis.__doc__ = make.__doc__
    library = (make, compare_with_untrained) if of_two_models else (make,)
    return command(*library, without=("show", "compared", "folder", *({"workers"} - taken)))(analysis)


def _show(analysis: Analysis, out: Path) -> None:
    """Write an analysis, and print its table, what it says beside the paper, and its files."""
    paths = analysis.save(out, shlex.join(["smoothap", *sys.argv[1:]]))
    if analysis.table:
        print(text_table(analysis.table))
    print(f"\nPaper: {analysis.paper}\nOurs:  {analysis.agreement}\n")
    print(*paths, "Next: smoothap paper all   (every analysis on one page)", sep="\n")


def _show_all(sections: Any, out: Path) -> None:
    command = shlex.join(["smoothap", *sys.argv[1:]])
    page = write_analyses_page(out / "analyses.html", sections, title="Analyses of Smooth-AP", command=command)
    failed = [section.name for section in sections if section.failure]
    print(f"\n{len(sections) - len(failed)} analyses made" + (f", not made: {', '.join(failed)}" if failed else ""))
    print(page.resolve())


_TRAINED = "--data emoji --model runs/demo/model"
_EXAMPLES: dict[Callable[..., Analysis], str] = {
    indicator: "indicator --data emoji",
    triplet_example: "triplet-example --data emoji",
    tightness: "tightness --data emoji --tau 0.1 0.01",
    operating_region: f"operating-region {_TRAINED}",
    ablation: "ablation --data glyphs --size 48 --seeds 3",
    cost: "cost --batch-sizes 112 224",
    queries: f"queries {_TRAINED} --layout rows",
    classes: f"classes {_TRAINED}",
}
for _make, _example in _EXAMPLES.items():
    _words = f"Example:\n\n    smoothap paper {_example}"
    app.command(_command(_make, _show), name=_example.partition(" ")[0], help_epilogue=_words)
app.command(
    _command(all_analyses, _show_all), name="all", help_epilogue=f"Example:\n\n    smoothap paper all {_TRAINED}"
)
