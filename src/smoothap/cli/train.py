"""`smoothap train`."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from smoothap.cli.names import open_data, open_model
from smoothap.cli.printing import comparison

if TYPE_CHECKING:
    from smoothap.data.benchmark import Benchmark
    from smoothap.metrics import Report
    from smoothap.models import Embedder
    from smoothap.training.settings import Settings

_FEWEST_VALIDATION_CLASSES = 2  # with one class every ranking is perfect


def train(
    *,
    data: str,
    out: Path,
    model: str = "tf_efficientnet_lite0",
    weights: str | None = None,
    size: int = 112,
    dimension: int = 512,
    crops: Literal["paper", "released", "whole"] | None = None,
    flip: bool = True,
    settings: Literal["quick", "paper"] = "quick",
    epochs: int | None = None,
    steps: int | None = None,
    minutes: float | None = None,
    batch_size: int | None = None,
    per_class: int | None = None,
    tau: float | None = None,
    learning_rate: float | None = None,
    embedding_factor: float | None = None,
    weight_decay: float | None = None,
    warm_up: int | None = None,
    clip: float | None = None,
    piece_size: int | None = None,
    queue: int | None = None,
    precision: Literal["auto", "float32", "bfloat16", "float16"] | None = None,
    checkpoint_every: int | None = None,
    seed: int = 0,
    resume: Annotated[bool, Parameter(negative=())] = False,
    device: str | None = None,
    workers: int = 0,
    tensorboard: Annotated[bool, Parameter(negative=())] = False,
    test_fraction: float | None = None,
    test_classes: Path | None = None,
) -> None:
    """Fine-tune a network with Smooth-AP, and compare it before and after on classes it never saw.

    Parameters
    ----------
    data
        NAME or NAME:PATH, such as emoji, sop:PATH or folder:PATH.
    out
        The folder for the model, the checkpoint and the figures.
    model
        A network by its timm name, with its published weights; or the folder of a trained model.
    weights
        A .safetensors or .pth file for the network in the place of the published weights, or none for random ones.
    size
        The side of the images in pixels.
    dimension
        The length of the embedding vectors.
    crops
        The paper's random crops, those of the authors' released code, or none; by default what the model takes.
    flip
        Mirror half of the images; not for things whose mirror image is another thing, such as arrows or letters.
    settings
        Where unset options come from: quick (minutes, a small set) or paper.
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
        The learning rate of the embedding layer, as a multiple of it.
    weight_decay
        The weight decay.
    warm_up
        Steps over which the learning rate rises from 0.
    clip
        The greatest length of the gradient.
    piece_size
        Images held at a time: batches larger than the memory, in two passes.
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
    device
        Such as cpu or cuda; by default cuda where there is one.
    workers
        Processes that read images.
    tensorboard
        Write the figures for TensorBoard too.
    test_fraction
        The share of the classes to test on, for folder, csv and parquet.
    test_classes
        A file that names the classes to test on, one a line, for folder, csv and parquet.
    """
    from smoothap.training.settings import PAPER, QUICK

    given = {
        "epochs": epochs, "steps": steps, "batch_size": batch_size, "per_class": per_class, "tau": tau,
        "learning_rate": learning_rate, "embedding_factor": embedding_factor, "weight_decay": weight_decay,
        "warm_up": warm_up, "clip": clip, "piece_size": piece_size, "queue": queue, "precision": precision,
        "checkpoint_every": checkpoint_every, "seed": seed,
    }  # fmt: skip
    chosen = replace(
        PAPER if settings == "paper" else QUICK, **{name: value for name, value in given.items() if value is not None}
    )
    benchmark = open_data(data, test_fraction=test_fraction, test_classes=test_classes, seed=seed)
    benchmark, chosen = _fitted(benchmark, chosen, batch_size is None)

    from smoothap.distributed import joined_processes
    from smoothap.losses import SmoothAP
    from smoothap.training.loop import MODEL, train

    with joined_processes() as processes:
        network = partial(open_model, model, size=size, weights=weights, seed=seed)
        embedder = network(dimension=dimension)
        embedder.transform = replace(embedder.transform, name=crops or embedder.transform.name, flip=flip)
        training, validation = benchmark.train_and_validation(seed)
        if processes.rank == 0:
            for warning in benchmark.warnings:
                print(f"Warning: {warning}")
            print(
                f"{len(training):,} images of {training.classes:,} classes to train on, {validation.classes:,} classes "
                f"to pick the best epoch, {sum(each.classes for each in benchmark.tests.values()):,} to test on."
            )
        result = train(
            embedder, SmoothAP(chosen.tau), training, validation, chosen, out,
            resume=resume, minutes=minutes, device=device, workers=workers, tensorboard=tensorboard,
        )  # fmt: skip
        if not result.finished:
            if processes.rank == 0:
                print(f"Interrupted after step {result.steps}. To go on, repeat the command with --resume.")
            sys.exit(130)
        figures_of = partial(_figures, benchmark, embedder, out / "unreadable-test.csv", workers)
        try:
            before = figures_of(network())
        except ValueError:  # in very small images a backbone's own features can be all zeros, which has no ranking
            before = figures_of(network(dimension=dimension))
        after = figures_of(embedder)
        if processes.rank == 0:
            figures = {
                "steps": result.steps,
                "best step": result.best_step,
                "validation mAP": result.best,
                "before": {name: report.summary() for name, report in before.items()},
                "after": {name: report.summary() for name, report in after.items()},
            }
            embedder.save(out / MODEL, data_set=data, figures=figures)
            print(f"\nThe best of {result.steps} steps on the validation classes is step {result.best_step}.")
            for name in after:
                print(f"\nOn the unseen classes of {benchmark.name} ({name}):")
                print(comparison(before[name], after[name]))
            print(
                f"\nThe model is in {out / MODEL}, the course of the training in {out / 'metrics.jsonl'}.\n"
                f"Next: smoothap evaluate --model {out / MODEL} --data {data}\n"
                f"      smoothap export {out / MODEL}"
            )


def _figures(
    benchmark: Benchmark, trained: Embedder, unreadable: Path, workers: int, model: Embedder
) -> dict[str, Report]:
    """The test figures of a model under the transform and on the device of the trained one."""
    from smoothap.training.testing import benchmark_figures

    model.transform = trained.transform
    model.to(next(trained.parameters()).device)
    return benchmark_figures(model, benchmark, unreadable=unreadable, workers=workers)


def _fitted(benchmark: Benchmark, settings: Settings, choose_batch: bool) -> tuple[Benchmark, Settings]:
    """Enough classes to validate on, and a batch no larger than a small set of classes allows."""
    if benchmark.train is None:
        return benchmark, settings
    classes = benchmark.train.classes
    fraction = max(benchmark.validation_fraction, _FEWEST_VALIDATION_CLASSES / classes)
    left = classes - round(fraction * classes)
    if left < 2:
        raise ValueError(
            f"{benchmark.name} has {classes} classes to train on, too few to learn from and to hold some out of: "
            "training wants at least 4"
        )
    if choose_batch:
        settings = replace(settings, batch_size=min(settings.batch_size, left * settings.per_class))
    return replace(benchmark, validation_fraction=fraction), settings
