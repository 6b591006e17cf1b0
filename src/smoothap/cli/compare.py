"""`smoothap compare`."""

from __future__ import annotations

import inspect
import os
import shlex
import sys
from pathlib import Path
from typing import Any

from smoothap.cli import _options as options

_WHOLE = {"steps": 60, "batch_size": 64, "learning_rate": 5e-4, "validations": 4, "jobs": 1}
_FROZEN = {"steps": 300, "batch_size": 256, "learning_rate": 1e-3, "validations": 6, "jobs": os.cpu_count() or 1}
_HERE = ("out", "device", "workers", "jobs")
_ADDED = ("methods", "seeds", "splits")  # what may be given beside --settings


def compare(
    *,
    data: options.Data | None = None,
    methods: str = "all",
    frozen: bool = False,
    trials: int = 8,
    rounds: int = 2,
    folds: int = 1,
    rate_only: bool = False,
    seeds: int = 5,
    splits: int = 1,
    steps: int | None = None,
    minutes: float | None = None,
    settings: Path | None = None,
    out: Path = Path("runs/compare"),
    model: str = "tf_efficientnet_lite0",
    weights: options.Weights = None,
    size: options.Size = 64,
    dimension: int = 512,
    batch_size: int | None = None,
    samples_per_class: options.PerClass = 4,
    classes: int | None = None,
    learning_rate: float | None = None,
    validations: int | None = None,
    flip: options.Flip = True,
    device: options.Device = None,
    workers: options.Workers = None,
    jobs: int | None = None,
    test_fraction: options.TestFraction = None,
    test_classes: options.TestClasses = None,
    columns: options.TableColumns = None,
) -> None:
    """Tune each method alike, train it from the same weights with the same batches, and test them all.

    The table has 95% intervals over seeds, splits and test classes. Repeat the command to go on where it stopped; more
    methods, seeds, splits and rounds can be added.

    Parameters
    ----------
    methods
        Names with commas, or all; NAME+NAME trains with the first, then fine-tunes with the second, and two-stages has
        those of the paper; NAME:KEY=VALUE is a row with a number fixed, such as smooth-ap:tau=0.1.
    frozen
        Train the embedding layer alone, on features that are computed once: 300 steps in seconds.
    trials
        Whole trainings of each method at random values, of which the best on validation classes is chosen; 0 takes
        the learning rate as it is and the published values.
    rounds
        How often at most every method gets as many trials, should the best of one lie at an edge of its range.
    folds
        Judge each trial on that many folds of the training classes, in as many trainings; for small sets.
    rate_only
        Search the learning rate alone, and leave the published values of each method.
    seeds
        How often to train each method; a seed chooses the batches, the validation classes and the new weights.
    splits
        Draws of training and test classes, each with a search and all seeds of its own; for folder, csv, parquet, emoji
        and glyphs.
    steps
        Training steps, of each stage where there are two; by default 60, with --frozen 300.
    minutes
        Stop each training after that many minutes; one that is not done by then counts as failed.
    settings
        The compare.json of an earlier comparison, to make it again, or its results.json, to take its chosen values too.
    out
        The folder for all runs, the tables, the page and results.json.
    model
        A network by its timm name, with its published weights; or the folder of a trained model.
    dimension
        The length of the embedding vectors.
    batch_size
        Images in a batch; by default 64, with --frozen 256, or as many as few training classes allow.
    classes
        Train on that many of the training classes, drawn by the seed; by default on all.
    learning_rate
        The middle of the range that is searched, from a tenth to ten times of it; by default 5e-4, with --frozen 1e-3.
    validations
        How often to look at the validation classes during a training; the best look is kept. By default 4, with
        --frozen 6.
    jobs
        Trainings at a time, which share the cores; by default one, with --frozen one for each core.
    """
    given = dict(locals())
    options.check_folder(out)
    from smoothap._core.devices import chosen_device
    from smoothap.benchmark import Plan
    from smoothap.benchmark import compare as compare_methods
    from smoothap.benchmark.output import write_output

    place = chosen_device(device)
    given |= {"device": str(place), "workers": options.chosen_workers(workers, place)}
    plan = Plan(**_chosen_options(given))
    if batch_size is None and settings is None:
        plan = plan.fitted()
    try:
        comparison = compare_methods(plan)
    except KeyboardInterrupt:
        print("Interrupted. To go on, repeat the command.")
        sys.exit(130)
    text = write_output(plan, comparison, shlex.join(["smoothap", *sys.argv[1:]]))
    print(f"\n{text}\n\nTable   {out / 'table.md'}, table.tex and table.csv")
    print(f"Page    {out / 'page.html'}\nResults {out / 'results.json'}")
    print("Next    repeat the command with more --seeds or --splits: only what is missing is trained")


def _chosen_options(given: dict[str, Any]) -> dict[str, Any]:
    """What was given, with the defaults of the regime; or that of an earlier comparison."""
    file = given.pop("settings")
    defaults = _FROZEN if given["frozen"] else _WHOLE
    if file is None:
        if given["data"] is None:
            raise ValueError(
                "Say what to compare on: --data emoji, or --settings with a file of an earlier comparison."
            )
        return {name: defaults.get(name) if value is None else value for name, value in given.items()}
    from smoothap.benchmark import read_plan

    usual = {name: parameter.default for name, parameter in inspect.signature(compare).parameters.items()}
    changed = {name for name, value in given.items() if name not in _HERE and value != usual[name]}
    if further := sorted(changed - set(_ADDED)):
        raise ValueError(f"--settings says it all: leave --{further[0].replace('_', '-')} out, or --settings.")
    earlier = read_plan(file)
    here = {name: given[name] for name in _HERE if given[name] is not None}
    jobs = (_FROZEN if earlier.get("frozen") else _WHOLE)["jobs"]
    return {"jobs": jobs, **earlier, **{name: given[name] for name in changed}, **here}
