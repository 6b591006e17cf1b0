"""`smoothap train`."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from functools import partial
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from smoothap.cli import _options as options
from smoothap.plots.text import text_table
from smoothap.training.config import (  # plain numbers: brings no torch
    DIMENSION,
    FEATURE_VIEWS,
    FROZEN,
    NETWORK,
    PAPER,
    QUICK,
    SIZE,
    TrainingConfig,
)

if TYPE_CHECKING:
    from smoothap.benchmark.methods import Method
    from smoothap.metrics import Report
    from smoothap.training import FineTuned


def _default(name: str) -> str:
    """The default of a number of the training, as the help tells it."""
    quick, paper = (getattr(preset, name) for preset in (QUICK, PAPER))
    return "" if quick is None or quick is False else f"{quick}" if quick == paper else f"{quick}, paper: {paper}"


ConfigOptions: Any = options.changes_of(
    TrainingConfig, "Training", _default, first=("epochs", "steps", "batch_size", "learning_rate")
)
_NO_CHANGES = ConfigOptions()
# Options that do something only beside the value of another.
_PART_OF = {"milestones": ("schedule", "steps"), "gamma": ("schedule", "steps"), "momentum": ("optimiser", "sgd")}
Network = Parameter(group="Network and views")
Test = Parameter(group="Tests")
Machine = Parameter(group="This machine")


@options.command()
def train(
    recipe: Path | None = None,
    /,
    *,
    data: str,
    out: Path,
    model: Annotated[str | None, Parameter(show_default=lambda _: NETWORK)] = None,
    size: Annotated[int | None, Parameter(show_default=lambda _: f"{SIZE}, or the recipe's")] = None,
    frozen: bool = False,
    config: ConfigOptions = _NO_CHANGES,
    loss: str | None = None,
    resume: bool = False,
    dry_run: bool = False,
    preset: Annotated[Literal["quick", "paper"] | None, Parameter(group="Training")] = None,
    loss_option: Annotated[tuple[str, ...], Parameter(group="Training")] = (),
    weights: Annotated[str | None, Network] = None,
    dimension: Annotated[int | None, Network, Parameter(show_default=lambda _: DIMENSION)] = None,
    hidden: Annotated[int | None, Network] = None,
    feature_views: Annotated[int | None, Network, Parameter(show_default=lambda _: FEATURE_VIEWS)] = None,
    crops: Annotated[Literal["paper", "released", "whole"] | None, Network] = None,
    min_crop_area: Annotated[float | None, Network, Parameter(show_default=lambda _: "0.08")] = None,
    flip: Annotated[bool | None, Network, Parameter(show_default=lambda _: "--flip")] = None,
    test_on: Annotated[tuple[str, ...], Test] = (),
    split: Annotated[options.Split, Test] = options.AS_IT_IS,
    minutes: Annotated[float | None, Machine] = None,
    device: Annotated[str | None, Machine] = None,
    workers: Annotated[int | None, Machine] = None,
    tensorboard: Annotated[bool, Machine] = False,
) -> None:
    """Fine-tune a network with Smooth-AP or another loss, and compare it before and after on classes it never saw.

    Parameters
    ----------
    recipe
        An experiment of the paper, with its data, network and numbers: recipe:NAME for one of those that smoothap
        recipes lists, such as recipe:sop-384, or a Python file that ends in recipe = Recipe(...). The file is run as a
        program, so read a stranger's first.
    data
        NAME or NAME:PATH, such as emoji, sop:PATH or folder:PATH; with a recipe the PATH alone.
    out
        The folder for the model, the checkpoint and the metrics.
    model
        A network by its timm name, with its published weights; or the folder of a trained model. Not with a recipe.
    size
        The side of the images in pixels.
    frozen
        Train the embedding layer alone, on features of the backbone that are computed once: minutes for the first
        training, seconds for every further one. Not with a recipe.
    loss
        A method of smoothap compare by its name, such as triplet, instead of Smooth-AP or of the recipe's loss.
        With a recipe that compares losses: that training alone.
    resume
        Go on from the checkpoint in the folder, if there is one.
    dry_run
        Go through the whole training in minutes, with few steps and tests on a few hundred images, in a temporary
        folder; then say what the training will take here, and what is missing. Takes partial copies too.
    preset
        Where unset numbers come from: quick (minutes, a small set) or paper. With a recipe, from there. With --frozen
        they are made for it: 300 steps of 256 images at a rate of 5e-4.
    loss_option
        KEY=VALUE, an option of that method, such as margin=0.1; may be repeated.
    dimension
        The length of the embedding vectors. Not with a recipe.
    hidden
        Add a network with that many hidden dimensions to the new embedding layer. Not with a recipe.
    feature_views
        With --frozen: how many random views of each training image have features, besides the test view.
    crops
        The paper's random crops, those of the authors' released code, or none; by default what the model takes.
    min_crop_area
        The smallest share of an image that a crop of the released kind takes; more keeps small images whole.
    test_on
        A further set to test on, NAME or NAME:PATH, such as ijbc:PATH; may be repeated.
    minutes
        Stop after that many minutes.
    tensorboard
        Write the metrics for TensorBoard too.
    """
    changes = options.given_in(config)
    views = {"name": crops, "size": size, "min_crop_area": min_crop_area, "flip": flip}
    views = {name: value for name, value in views.items() if value is not None}
    options.check_folder(out)
    if dry_run and resume:
        raise ValueError("--dry-run begins again each time, in a temporary folder: leave --resume out.")
    if dry_run and frozen:
        raise ValueError("--dry-run is for trainings of the whole network: a --frozen one takes minutes as it is.")
    if loss_option and loss is None:
        raise ValueError("--loss-option belongs to a loss: name it with --loss NAME")
    for name in changes.keys() & {"tau", "include_query"} if loss is not None else ():
        raise ValueError(
            f"--{name.replace('_', '-')} is of the usual loss, Smooth-AP: give what {loss} takes by --loss-option"
        )
    from smoothap._core.devices import chosen_device
    from smoothap._core.distributed import joined_processes
    from smoothap.data.names import open_data
    from smoothap.training import Interrupted, RunOptions, fine_tune, open_recipe, run_dry, run_recipe
    from smoothap.training.recipe_files import recipe_file

    method = (
        None
        if loss is None
        else _method(loss, options.key_values(loss_option, "--loss-option", "KEY=VALUE, such as margin=0.1"))
    )
    place = chosen_device(device)
    run = RunOptions(resume, minutes, str(place), options.chosen_workers(workers, place), tensorboard)
    finished: dict[str, FineTuned] = {}
    by_hand = ""  # weights that must be fetched and are not given
    if recipe is None:
        options.check_network_options(model or NETWORK, weights=weights, dimension=dimension, hidden=hidden)
        if feature_views is not None and not frozen:
            raise ValueError("--feature-views is for --frozen: give both, or neither.")
        chosen = PAPER if preset == "paper" else FROZEN if frozen else QUICK
        training = partial(
            fine_tune, model=model or NETWORK, weights=weights, size=size, hidden=hidden or 0, transform=views,
            frozen=frozen, dimension=DIMENSION if dimension is None else dimension,
            feature_views=FEATURE_VIEWS if feature_views is None else feature_views,
            config=replace(chosen, **changes), **({} if method is None else {"loss": method}),
        )  # fmt: skip
        for name, (other, value) in _PART_OF.items():
            if name in changes and getattr(training.keywords["config"], other) != value:
                raise ValueError(f"--{name} is for --{other} {value}: give both, or leave --{name} out.")
        opening, parts = partial(open_data, data, **vars(split)), {"": training}
        random_parts = {"": partial(training, weights="none")}
        trainings = (("", training(data, out, test_on=test_on, options=run, **vars(split))) for _ in parts)
    else:
        recipe = recipe_file(recipe)
        own = {
            "model": model, "dimension": dimension, "hidden": hidden, "frozen": frozen or None,
            "feature_views": feature_views, "preset": preset, **vars(split),
        }  # fmt: skip
        for name in (name for name, value in own.items() if value is not None):
            raise ValueError(
                f"--{name.replace('_', '-')} is for trainings without a recipe: copy {recipe} and change it there"
            )
        start = True if weights is None else False if weights == "none" else Path(weights)
        named = None if loss is None or method is None else (loss, method)
        opened = open_recipe(recipe, data, weights=False if dry_run else start, changes=changes, loss=named)
        by_hand = opened.weights if start is True else ""
        opening = partial(opened.data, Path(data).expanduser())
        random_parts = opened.trainings(False, views)
        parts = random_parts if by_hand else opened.trainings(start, views)
        trainings = run_recipe(opened, data, out, weights=start, transform=views, test_on=test_on, options=run)
    with joined_processes() as processes:
        shown = processes.rank == 0
        try:
            if dry_run:
                try:
                    found = run_dry(parts, opening, out, test_on=test_on, options=run)
                except ConnectionError as error:  # published weights, which random ones stand for
                    found = run_dry(random_parts, opening, out, test_on=test_on, options=run)
                    found.missing.append(str(error))
                found.missing += [f"The weights to start from, as --weights FILE: {by_hand}"] if by_hand else []
                if shown:
                    print(f"\n{found}")
                if found.missing and processes.number == 1:
                    sys.exit(1)
                return
            for name, tuned in trainings:
                finished[name] = tuned
                if shown:
                    _print_training(tuned, name or loss or "")
        except Interrupted as interrupted:
            if shown:
                again = "To go on, repeat the command with --resume."
                print(f"{interrupted} {f'{out} is as it was.' if dry_run else again}")
            sys.exit(130)
        if len(finished) > 1 and shown:
            _print_all(finished)
    # torchrun takes every exit code but 0 for a crash, and would start the training again.
    if processes.number == 1 and not all(tuned.improved for tuned in finished.values()):
        sys.exit(options.NOT_IMPROVED)


def _method(name: str, given: dict[str, str]) -> Method:
    """The method of --loss with its options; its packages are an extra, which other trainings can do without."""
    from smoothap.benchmark.methods import METHODS, open_methods

    if name not in METHODS:
        open_methods(name)  # says what was meant
        raise ValueError(f"--loss takes one method: {', '.join(METHODS)}, not {name!r}")
    return METHODS[name].with_options(**given)


def _print_all(finished: dict[str, FineTuned]) -> None:
    """The metrics of each set for all trainings, and where it is the paper's, each below its own row there."""
    from smoothap.paper.paper_rows import beside_the_paper

    for test in next(iter(finished.values())).after:
        head, rows = f"{test}, in %", []
        for name, tuned in finished.items():
            report = tuned.after[test]
            metrics = {"mAP": report.mean_average_precision} | {f"Recall@{k}": r for k, r in report.recall.items()}
            rows.append({head: name} | {title: f"{100 * value:.1f}" for title, value in metrics.items()})
        print(f"\n{text_table(rows, text=[head])}")
    data = next(iter(finished.values())).data
    if beside := beside_the_paper(data, {name: tuned.after for name, tuned in finished.items()}, _published):
        print(f"\n{beside}")


def _published(set_name: str, training: str) -> dict[str, list[str]]:
    """The paper's own rows for a training, by its name or that of its loss; those of Smooth-AP where it has none."""
    from smoothap.paper.paper_rows import PAPER_TABLES, own_rows, printed

    table = PAPER_TABLES[set_name]
    if training in ("", "smooth-ap", *table.trainings):
        return own_rows(set_name, training)
    from smoothap.benchmark.methods import METHODS, TWO_STAGES

    if table.start:  # on faces a loss follows that of the network it starts from
        name, results = f"+{training}", TWO_STAGES.get(f"{table.start}+{training}", ())
    else:
        name, results = training, METHODS[training].paper if training in METHODS else ()
    return printed(set_name, name, {result.data_set: result.metrics for result in results})


def _print_training(tuned: FineTuned, loss: str) -> None:
    if isnan(tuned.validation_map):
        print(f"\nThe model is that of the last step, {tuned.steps}: no classes were held out to choose another.")
    else:
        print(f"\nThe best on the validation classes is step {tuned.best_step} of {tuned.steps}.")
    if tuned.verdict:
        print(tuned.verdict)
    for name, after in tuned.after.items():
        table = comparison(tuned.before[name], after, "a lower learning rate")
        print(f"\nOn unseen classes ({name}):\n{table}")
    from smoothap.paper.paper_rows import beside_the_paper

    if beside := beside_the_paper(tuned.data, {"": tuned.after}, lambda set_name, _: _published(set_name, loss)):
        print(f"\n{beside}")
    model = tuned.folder / "model"
    print(f"\nThe model is in {model}, the course of the training in {tuned.folder / 'metrics.jsonl'}.")
    next_ones = [f"smoothap evaluate --model {model} --data {tuned.data}"] if tuned.after else []
    if tuned.improved:
        next_ones += _from_album(tuned) or [f"smoothap export {model}"]
    if next_ones:
        print("Next: " + "\n      ".join(next_ones))


def _from_album(tuned: FineTuned) -> list[str]:
    """What to do with a model that an album's collections trained: an album beside it, and both on one page."""
    kind, _, album = shlex.split(tuned.data)[0].partition(":")
    if kind != "album":
        return []
    from smoothap.album import Album

    beside = Path(album).with_name(f"{Path(album).name}-{tuned.folder.name}")
    photos, old, new, model = (
        shlex.quote(str(place)) for place in (Album.open(album).root, album, beside, tuned.folder / "model")
    )
    return [f"smoothap index {photos} --model {model} --out {new}", f"smoothap serve {old} {new}"]


def comparison(before: Report, after: Report, remedy: str) -> str:
    """The metrics before and after training and how far apart they are, in per cent; a remedy where they fell.

    ± is half of a 95% interval over classes; that of what is gained is over pairs of the same query.
    """
    metrics = after.main_metrics()
    rows = {}
    for side, report in (("before", before), ("after", after)):
        intervals = report.intervals([*metrics.values()])
        rows[side] = {title: str(intervals[metric]) for title, metric in metrics.items()}
    gains = {title: after.compare(before, metric) for title, metric in metrics.items()}
    rows["gained"] = {title: f"{100 * gain.value:+.1f} ± {100 * gain.margin:.1f}" for title, gain in gains.items()}
    table = text_table([{"": name, **row} for name, row in rows.items()], text=[""])
    lines = [table, after.about_copies()]
    if after.mean_average_precision < before.mean_average_precision:
        lines.append(f"On these classes the network ranked better before the training: try {remedy}.")
    return "\n".join(line for line in lines if line)
