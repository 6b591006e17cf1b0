"""`smoothap compare`."""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import shlex
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smoothap import experiments
from smoothap.cli.names import open_methods
from smoothap.cli.options import (
    Data,
    Device,
    Size,
    TestClasses,
    TestFraction,
    Weights,
    Workers,
    check_folder,
    chosen_device,
)

if TYPE_CHECKING:
    from smoothap.compare.runner import Outcome, Plan
    from smoothap.compare.table import Row

_FACTORS = (0.3, 1.0, 3.0)  # of the learning rate, tried for every method alike


def compare(
    *,
    data: Data,
    methods: str = "all",
    seeds: int = 3,
    steps: int = 60,
    minutes: float | None = None,
    out: Path = Path("runs/compare"),
    model: str = "tf_efficientnet_lite0",
    weights: Weights = None,
    size: Size = 64,
    dimension: int = 512,
    batch_size: int = 64,
    per_class: int = 4,
    learning_rate: float = 5e-4,
    search: bool = True,
    search_steps: int | None = None,
    validations: int = 4,
    flip: bool = True,
    device: Device = None,
    workers: Workers = 0,
    test_fraction: TestFraction = None,
    test_classes: TestClasses = None,
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
    batch_size
        Images in a batch.
    per_class
        Images of each class in a batch.
    learning_rate
        The learning rate of all methods, or the middle of the three that are searched.
    search
        Try three learning rates for each method on validation classes, in short runs with a seed of their own.
    search_steps
        Steps of these short runs; by default half of the steps.
    validations
        How often to look at the validation classes during a training; the best look is kept.
    flip
        Mirror half of the images; not for things whose mirror image is another thing, such as arrows or letters.
    """
    for name, value in {"seeds": seeds, "steps": steps, "validations": validations}.items():
        if value < 1:
            raise ValueError(f"{name} must be at least 1, not {value}.")
    check_folder(out)
    if importlib.util.find_spec("pytorch_metric_learning") is None:
        raise ValueError("The comparison needs pytorch_metric_learning: pip install 'smoothap[compare]'")
    from dataclasses import replace

    from smoothap.compare.run import Conditions
    from smoothap.compare.runner import Interrupted, Plan
    from smoothap.compare.runner import compare as compare_methods
    from smoothap.compare.table import tables
    from smoothap.training.settings import QUICK

    settings = replace(
        QUICK, steps=steps, batch_size=batch_size, per_class=per_class, learning_rate=learning_rate,
        warm_up=min(QUICK.warm_up, steps),
    )  # fmt: skip
    searched = (search_steps or max(1, steps // 2)) if search else 0
    plan = Plan(
        methods=open_methods(methods),
        seeds=seeds,
        settings=settings,
        conditions=Conditions(
            benchmark=partial(experiments.open_data, data, test_fraction=test_fraction, test_classes=test_classes),
            network=partial(experiments.open_model, model, size=size, weights=weights),
            dimension=dimension,
            flip=flip,
            images=out / "images",
            minutes=minutes,
            device=chosen_device(device),
            workers=workers,
        ),
        out=out,
        described={
            "data": data, "steps": steps, "minutes": minutes, "model": model, "weights": weights, "size": size,
            "dimension": dimension, "batch_size": batch_size, "per_class": per_class, "learning_rate": learning_rate,
            "search_steps": searched, "validations": validations, "flip": flip, "test_fraction": test_fraction,
            "test_classes": None if test_classes is None else str(test_classes),
        },
        validations=validations,
        rates=tuple(learning_rate * factor for factor in _FACTORS) if search else (),
        search_steps=searched,
    )  # fmt: skip
    try:
        untrained, outcomes = compare_methods(plan)
    except Interrupted:
        print("Interrupted. To go on, repeat the command.")
        sys.exit(130)
    _tell(plan, data, tables(untrained, outcomes), outcomes)


def _tell(plan: Plan, data: str, found: dict[str, list[Row]], outcomes: list[Outcome]) -> None:
    """Print the table, and write it as Markdown, as a page and as JSON."""
    from dataclasses import asdict

    from smoothap.compare.page import write_page
    from smoothap.compare.table import as_markdown
    from smoothap.files import write_atomically

    command = shlex.join(["smoothap", *sys.argv[1:]])
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    rates = ", ".join(f"{rate:.1e}" for rate in plan.rates)
    searched = (
        f"The learning rate of each was picked out of {rates} by the validation mAP after {plan.search_steps} steps."
        if rates
        else f"All at learning rate {plan.settings.learning_rate:.1e}."
    )
    introduction = (
        f"{data}: each method from the same weights, with the same batches of {plan.settings.batch_size}, "
        f"{plan.settings.steps} steps, {plan.seeds} seed{'s' if plan.seeds > 1 else ''}; tested is the "
        f"best of {plan.validations + 1} looks at the validation classes, the first of them before training. "
        f"{searched} Machine: {machine}."
    )
    text = "\n\n".join(f"{name}\n\n{as_markdown(rows)}" if len(found) > 1 else as_markdown(rows)
                       for name, rows in found.items())  # fmt: skip
    results: dict[str, Any] = {
        "command": command,
        "machine": machine,
        "settings": plan.described,
        "tables": {name: [asdict(row) for row in rows] for name, rows in found.items()},
        "runs": [result for outcome in outcomes for result in outcome.results],
        "failures": {outcome.method.name: outcome.failure for outcome in outcomes if outcome.failure},
    }
    write_atomically(plan.out / "table.md", f"{introduction}\n\n    {command}\n\n{text}\n")
    write_atomically(plan.out / "results.json", json.dumps(_plain(results), indent=1) + "\n")
    page = write_page(
        plan.out / "page.html", title=f"Methods compared on {data}", introduction=introduction, tables=found,
        outcomes=outcomes, command=command,
    )  # fmt: skip
    print(f"\n{introduction}\n\n{text}\n\nTable   {plan.out / 'table.md'}\nPage    {page}")
    print(f"Figures {plan.out / 'results.json'}")
    print("Next    repeat the command with more --seeds: only what is missing is trained")


def _plain(value: Any) -> Any:
    """The value with None in the place of what JSON has no number for."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and value != value else value
