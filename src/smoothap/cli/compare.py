"""`smoothap compare`."""

from __future__ import annotations

import shlex
import sys
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from smoothap.benchmark.plan import FROZEN, WHOLE, Plan, read_plan
from smoothap.cli import _options as options

_HERE = ("out", "jobs")  # what changes no result
_ADDED = ("methods", "seeds", "splits")  # what may be given beside --repeat
_MAIN = ("data", "out", "methods", "frozen", "trials", "seeds", "splits", "steps", "jobs")


def _default(name: str) -> str:
    """The default of an option, as the help tells it."""
    if name in WHOLE:
        return f"{WHOLE[name]}, frozen: {FROZEN[name]}"
    default = next(each.default for each in fields(Plan) if each.name == name)
    return "" if default in (None, False, MISSING) else str(default)


PlanOptions: Any = options.changes_of(
    Plan, "How it is trained", _default, first=_MAIN, without=("chosen", "device", "workers")
)
_NOTHING_GIVEN = PlanOptions()


@options.command()
def compare(
    *,
    plan: PlanOptions = _NOTHING_GIVEN,
    repeat: Path | None = None,
    device: str | None = None,
    workers: int | None = None,
) -> None:
    """Tune each method alike, train it from the same weights with the same batches, and test them all.

    The table has 95% intervals over seeds, splits and test classes. Repeat the command to go on where it stopped; more
    methods, seeds, splits and rounds can be added.

    Parameters
    ----------
    repeat
        The compare.json of an earlier comparison, to make it again, or its results.json, to take its chosen values too.
    """
    given = options.given_in(plan)
    if "data" not in given and repeat is None:
        raise ValueError("Say what to compare on: --data emoji, or --repeat with a file of an earlier comparison.")
    if repeat is not None:
        if further := sorted(given.keys() - {*_HERE, *_ADDED}):
            raise ValueError(f"--repeat says it all: leave --{further[0].replace('_', '-')} out, or --repeat.")
        given = {**read_plan(repeat), **given}
    from smoothap._core.devices import chosen_device
    from smoothap.benchmark import compare as compare_methods
    from smoothap.benchmark.output import write_output

    place = chosen_device(device)
    usual: dict[str, Any] = FROZEN if given.get("frozen") else WHOLE
    whole = Plan(**(usual | given), device=str(place), workers=options.chosen_workers(workers, place))
    options.check_folder(out := whole.out)
    if "batch_size" not in given:
        whole = whole.fitted()
    try:
        comparison = compare_methods(whole)
    except KeyboardInterrupt:
        print("Interrupted. To go on, repeat the command.")
        sys.exit(130)
    text = write_output(whole, comparison, shlex.join(["smoothap", *sys.argv[1:]]))
    print(f"\n{text}\n\nTable   {out / 'table.md'}, table.tex and table.csv")
    print(f"Page    {out / 'page.html'}\nResults {out / 'results.json'}")
    print("Next    repeat the command with more --seeds or --splits: only what is missing is trained")
