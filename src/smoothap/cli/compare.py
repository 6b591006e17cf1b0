"""`smoothap compare`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from smoothap.cli import _options as options


def compare(
    *,
    data: options.Data,
    methods: str = "all",
    seeds: int = 3,
    steps: int = 60,
    minutes: float | None = None,
    out: Path = Path("runs/compare"),
    model: str = "tf_efficientnet_lite0",
    weights: options.Weights = None,
    size: options.Size = 64,
    dimension: int = 512,
    batch_size: options.BatchSize = 64,
    per_class: options.PerClass = 4,
    learning_rate: float = 5e-4,
    search: bool = True,
    search_steps: int | None = None,
    validations: int = 4,
    flip: options.Flip = True,
    device: options.Device = None,
    workers: options.Workers = None,
    test_fraction: options.TestFraction = None,
    test_classes: options.TestClasses = None,
) -> None:
    """Train each method from the same weights, with the same batches and as many steps, and test them all.

    Repeat the command to go on where it stopped; more seeds and methods can be added.

    Parameters
    ----------
    methods
        Names with commas, or all; NAME+NAME trains with the first, then fine-tunes with the second.
    seeds
        How often to train each method; a seed chooses the batches, the validation classes and the new weights.
    steps
        Training steps of each method; of each stage where there are two.
    minutes
        Stop each training after so many minutes, should it not be done.
    out
        The folder for all runs, the table, the page and results.json.
    model
        A network by its timm name, with its published weights; or the folder of a trained model.
    dimension
        The length of the embedding vectors.
    learning_rate
        The learning rate of all methods, or the middle of the three that are searched.
    search
        Try three learning rates for each method on validation classes, in short runs with a seed of their own.
    search_steps
        Steps of these short runs; by default half of the steps.
    validations
        How often to look at the validation classes during a training; the best look is kept.
    """
    given = dict(locals())
    options.check_folder(out)
    from smoothap.compare import Plan
    from smoothap.compare import compare as compare_methods
    from smoothap.compare.output import write_output
    from smoothap.numerics.devices import chosen_device

    given["search_steps"] = (search_steps or max(1, steps // 2)) if given.pop("search") else 0
    place = chosen_device(device)
    given |= {"device": str(place), "workers": options.chosen_workers(workers, place)}
    plan = Plan(**given)
    try:
        untrained, outcomes = compare_methods(plan)
    except KeyboardInterrupt:
        print("Interrupted. To go on, repeat the command.")
        sys.exit(130)
    text = write_output(plan, untrained, outcomes, shlex.join(["smoothap", *sys.argv[1:]]))
    print(f"\n{text}\n\nTable   {out / 'table.md'}\nPage    {out / 'page.html'}\nResults {out / 'results.json'}")
    print("Next    repeat the command with more --seeds: only what is missing is trained")
