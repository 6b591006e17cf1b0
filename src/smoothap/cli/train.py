"""`smoothap train`."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from smoothap import experiments
from smoothap.cli.options import (
    Device,
    TestClasses,
    TestFraction,
    Weights,
    Workers,
    check_folder,
    check_network_options,
    chosen_device,
)
from smoothap.experiments.data_sets import DATA
from smoothap.training.settings import PAPER, QUICK, Settings  # plain numbers: brings no torch

if TYPE_CHECKING:
    from smoothap.data.benchmark import Benchmark
    from smoothap.training.recipe import Recipe

_MODEL, _SIZE, _DIMENSION, _SEED = "tf_efficientnet_lite0", 112, 512, 0  # without a recipe


def _shown(default: object) -> Parameter:
    """The default of an option that a recipe may set, as the help tells it."""
    return Parameter(show_default=lambda _: f"{default}, or the recipe's")


def _setting(name: str) -> Parameter:
    """An option whose default stands in the settings, as the help tells it."""
    quick, paper = (getattr(each, name) for each in (QUICK, PAPER))
    told = f"{quick}" if quick == paper else f"{quick}, paper: {paper}"
    shown = "" if quick is None and paper is None else f"{told}, or the recipe's"
    return Parameter(show_default=(lambda _: shown) if shown else None, group="Settings of the training")


def train(
    recipe: Path | None = None,
    /,
    *,
    data: str,
    out: Path,
    model: Annotated[str | None, Parameter(show_default=lambda _: _MODEL)] = None,
    weights: Weights = None,
    size: Annotated[int | None, _shown(_SIZE)] = None,
    dimension: Annotated[int | None, Parameter(show_default=lambda _: _DIMENSION)] = None,
    crops: Literal["paper", "released", "whole"] | None = None,
    least_area: Annotated[float | None, _shown("0.08")] = None,
    flip: Annotated[bool | None, _shown("--flip")] = None,
    settings: Annotated[Literal["quick", "paper"] | None, Parameter(show_default=lambda _: "quick")] = None,
    epochs: Annotated[int | None, _setting("epochs")] = None,
    steps: Annotated[int | None, _setting("steps")] = None,
    minutes: Annotated[float | None, Parameter(group="Settings of the training")] = None,
    batch_size: Annotated[int | None, _setting("batch_size")] = None,
    per_class: Annotated[int | None, _setting("per_class")] = None,
    tau: Annotated[float | None, _setting("tau")] = None,
    learning_rate: Annotated[float | None, _setting("learning_rate")] = None,
    embedding_factor: Annotated[float | None, _setting("embedding_factor")] = None,
    weight_decay: Annotated[float | None, _setting("weight_decay")] = None,
    warm_up: Annotated[int | None, _setting("warm_up")] = None,
    clip: Annotated[float | None, _setting("clip")] = None,
    piece_size: Annotated[int | None, _setting("piece_size")] = None,
    queue: Annotated[int | None, _setting("queue")] = None,
    precision: Annotated[Literal["auto", "float32", "bfloat16", "float16"] | None, _setting("precision")] = None,
    checkpoint_every: Annotated[int | None, _setting("checkpoint_every")] = None,
    seed: Annotated[int | None, _shown(_SEED)] = None,
    resume: Annotated[bool, Parameter(negative=())] = False,
    device: Device = None,
    workers: Workers = 0,
    tensorboard: Annotated[bool, Parameter(negative=())] = False,
    test_on: Annotated[list[str] | None, Parameter(negative=())] = None,
    test_fraction: TestFraction = None,
    test_classes: TestClasses = None,
) -> None:
    """Fine-tune a network with Smooth-AP, and compare it before and after on classes it never saw.

    Parameters
    ----------
    recipe
        A Python file that ends in recipe = Recipe(...), such as recipes/sop_384.py: one experiment of the paper, with
        its data, network and settings. The file is run as a program, so read a stranger's first.
    data
        NAME or NAME:PATH, such as emoji, sop:PATH or folder:PATH; with a recipe the PATH alone.
    out
        The folder for the model, the checkpoint and the figures.
    model
        A network by its timm name, with its published weights; or the folder of a trained model. Not with a recipe.
    size
        The side of the images in pixels.
    dimension
        The length of the embedding vectors. Not with a recipe.
    crops
        The paper's random crops, those of the authors' released code, or none; by default what the model takes.
    least_area
        The smallest share of an image that a crop of the released kind takes; more keeps small images whole.
    flip
        Mirror half of the images; not for things whose mirror image is another thing, such as arrows or letters.
    settings
        Where unset options come from: quick (minutes, a small set) or paper. With a recipe, from there.
    epochs
        How often to go through the training images.
    steps
        Stop after so many steps.
    minutes
        Stop after so many minutes.
    batch_size
        Images in a batch, over all processes.
    per_class
        Images of each class in a batch.
    tau
        The temperature of the sigmoid.
    learning_rate
        The learning rate of the backbone.
    embedding_factor
        The learning rate of the embedding layer, as a multiple of the backbone's.
    weight_decay
        The weight decay.
    warm_up
        Steps over which the learning rate rises from 0.
    clip
        The greatest length of the gradient; longer ones are shortened to it.
    piece_size
        Images held at a time: batches larger than the memory, in two passes with the same gradient.
    queue
        Embeddings of past batches to rank among.
    precision
        Of the network: auto is 16 bits on CUDA and 32 elsewhere.
    checkpoint_every
        Steps between two checkpoints; there is one after every epoch too.
    seed
        Chooses the batches, the views, the classes to validate and the new weights.
    resume
        Go on from the checkpoint in the folder, if there is one.
    tensorboard
        Write the figures for TensorBoard too.
    test_on
        A further set to test on, NAME or NAME:PATH, such as ijbc:PATH; may be repeated.
    """
    given = {
        "epochs": epochs, "steps": steps, "batch_size": batch_size, "per_class": per_class, "tau": tau,
        "learning_rate": learning_rate, "embedding_factor": embedding_factor, "weight_decay": weight_decay,
        "warm_up": warm_up, "clip": clip, "piece_size": piece_size, "queue": queue, "precision": precision,
        "checkpoint_every": checkpoint_every, "seed": seed,
    }  # fmt: skip
    given = {name: value for name, value in given.items() if value is not None}
    changes = {"name": crops, "size": size, "least_area": least_area, "flip": flip}
    from smoothap.cli.fine_tuning import fine_tune
    from smoothap.losses import SmoothAP
    from smoothap.models import Embedder
    from smoothap.training.recipe import Recipe

    check_folder(out)
    place = chosen_device(device)
    if recipe is None:
        check_network_options(model or _MODEL, weights=weights)
        side, length = _SIZE if size is None else size, _DIMENSION if dimension is None else dimension
        first = _SEED if seed is None else seed

        def opened(_: Path) -> Benchmark:
            return experiments.open_data(data, test_fraction=test_fraction, test_classes=test_classes)

        def network(_: bool | Path, dimension: int | None = None) -> Embedder:
            return experiments.open_model(model or _MODEL, dimension=dimension, size=side, weights=weights, seed=first)

        def loss(settings: Settings) -> SmoothAP:
            return SmoothAP(settings.tau)

        chosen = replace(PAPER if settings == "paper" else QUICK, **given)
        cooked = Recipe(opened, partial(network, dimension=length), loss, chosen, before=network)
    else:
        name, colon, path = data.partition(":")
        if colon and name in DATA and DATA[name].path and not Path(data).exists():
            raise ValueError(f"{recipe} says itself which set it is for: give the path alone, --data {path}.")
        options = {
            "--model": model, "--dimension": dimension, "--settings": settings, "--test-fraction": test_fraction,
            "--test-classes": test_classes,
        }  # fmt: skip
        refused = [name for name, value in options.items() if value is not None]
        cooked = _with_options(recipe, refused, given)
        if cooked.weights and weights is None:
            raise ValueError(
                f"{recipe} starts from published weights that must be fetched by hand: {cooked.weights}. Give the file "
                "as --weights FILE (--weights none: random ones, to try the recipe out)"
            )
    fine_tune(
        cooked,
        data,
        out,
        weights=True if weights is None else False if weights == "none" else Path(weights),
        changes={name: value for name, value in changes.items() if value is not None},
        choose_batch=recipe is None and batch_size is None,
        further=test_on or (),
        split={"--test-fraction": test_fraction, "--test-classes": test_classes},
        resume=resume,
        minutes=minutes,
        device=place,
        workers=workers,
        tensorboard=tensorboard,
    )


def _with_options(file: Path, refused: list[str], given: dict[str, Any]) -> Recipe:
    """The recipe of a file with what the command line sets in the place of its own settings."""
    from smoothap.training.recipe import load_recipe

    recipe = load_recipe(file)
    clash = [f"--{name.replace('_', '-')}" for name in sorted(recipe.varies() & set(given))]
    if refused or clash:
        raise ValueError(
            f"{(refused or clash)[0]} {'is for trainings without' if refused else 'is what varies in'} a recipe: "
            f"copy {file} and change it there"
        )
    several = {name: replace(each, **given) for name, each in recipe.trainings().items()}
    return replace(recipe, settings=several[""] if list(several) == [""] else several)
