"""A dry run: a few steps of a training, tests on few images, and what the whole training will take on this machine."""

import io
import math
import shutil
import statistics
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch

from smoothap._core.devices import chosen_device, count_memory, peak_memory
from smoothap._core.distributed import Processes, joined_processes
from smoothap.data.benchmark import Benchmark
from smoothap.data.datasets.counts import partial_copies_taken
from smoothap.data.image_set import ImageSet
from smoothap.data.names import open_data
from smoothap.training.config import HERE, RunOptions, TrainingConfig
from smoothap.training.finetune import BatchesOf, FineTuned, largest_batch
from smoothap.training.log import read_rows

_STEPS, _STEPS_ON_CPU, _STEPS_OF_A_WORKER = 20, 4, 4  # workers have batches ready, which say nothing of their speed
_FORWARD = 3.0  # times as many images pass the network a second without a gradient as with one
_IMAGES = 200  # about as many are in each test
_FEW_CLASSES = 1e-9  # the share of the classes to validate on: as few as there may be


@dataclass
class DryRun:
    """What trainings will take here, and what is missing for them, in whole sentences."""

    lines: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        missing = [f"  {number}. {line}" for number, line in enumerate(dict.fromkeys(self.missing), 1)]
        told = ["The dry run went through. A whole training on this machine takes, by a few steps of it:", *self.lines]
        return "\n".join([*told, "Missing:", *missing] if missing else [*told, "Nothing is missing."])


def run_dry(
    trainings: Mapping[str, partial[FineTuned]],  # `fine_tune` with a network, a config and all else, by name
    data: Callable[[], Benchmark],
    out: Path | str,
    *,
    test_on: Sequence[str] = (),
    options: RunOptions = HERE,
) -> DryRun:
    """Run a few steps of each training in a temporary folder below `out`, with its batches from all of its images.

    Validation takes a few classes, tests a few hundred images. A partial copy of the data is taken as it is, with
    batches as large as its classes allow; the time is that of a whole copy.
    """
    found, device, folder, hours = DryRun(), chosen_device(options.device), Path(out) / ".dry-run", 0.0
    with partial_copies_taken() as lacking:
        sets = [data()]
        for test in test_on:
            try:
                sets.append(open_data(test))
            except (ValueError, OSError) as error:
                found.missing.append(f"--test-on {test}: {error}")
    found.missing += lacking.sentences
    tested = [images for one in sets for images in one.sets if images is not one.train]
    tested_images = sum(lacking.whole.get(images.name, len(images)) for images in tested)
    few, *further = (_with_few_tests(one, found.missing) for one in sets)
    everything = few.training_images()
    scale = lacking.whole.get(everything.name, 0) / len(everything) or 1.0
    is_partial = everything.name in lacking.whole
    few_steps = (_STEPS_ON_CPU if device.type == "cpu" else _STEPS) + _STEPS_OF_A_WORKER * options.workers
    for name, training in trainings.items():
        config: TrainingConfig = training.keywords["config"]
        fraction = min(config.validation_fraction, _FEW_CLASSES)
        batches: BatchesOf | None = training.keywords.get("batches")
        count_memory(device)
        with joined_processes() as processes, _temporary(folder, processes):
            fitting = _fitting(config, few, batches, processes) if is_partial else config
            short = replace(fitting, steps=min(few_steps, config.steps or few_steps), validation_fraction=fraction)
            try:
                with redirect_stdout(io.StringIO()):  # a training on few images says what is not so of the whole
                    quick = replace(options, resume=False, minutes=None)
                    training(few, folder, config=short, fit_batch=True, test_on=further, options=quick)
            except torch.OutOfMemoryError as error:
                raise ValueError(
                    f"The memory of {device} does not hold a batch of this training: --micro-batch-size 96 computes "
                    "the same gradient in parts, --batch-size another one"
                ) from error
            images, validated = everything, 0
            if config.validation_fraction:
                images, validation = sets[0].train_and_validation(config.seed, config.validation_fraction)
                validated = len(validation)
            tried_size = min(short.batch_size, largest_batch(everything, config))
            batch_size = config.batch_size if is_partial else min(config.batch_size, largest_batch(images, config))
            whole = _as_a_whole_copy(images, scale)
            drawn = None if batches is None else batches(whole, replace(config, batch_size=batch_size), processes)
            per_epoch = max(1, round(scale * len(images) / batch_size)) if drawn is None else len(drawn)
            steps = config.total_steps(per_epoch)
            rates = [row["images_per_second"] for row in read_rows(folder) if "loss" in row]
            rate = statistics.median(rates[len(rates) // 2 :])
            validations = 2 + math.ceil(steps / per_epoch)  # also before the training, with and without the new layer
            embedded = validations * scale * validated + 2 * tested_images
            needed = (steps * batch_size / rate + embedded / (_FORWARD * rate)) / 3600
            files = [file for file in folder.rglob("*") if file.is_file()]
            files += folder.glob("checkpoint-*")  # twice, as the new one is there before the old one goes
            disk = sum(file.stat().st_size for file in files)
            for file in folder.glob("unreadable-*"):
                first = file.read_text(encoding="utf-8").splitlines()[1]
                found.missing.append(f"Some images cannot be read, such as {first}")
        hours += needed
        minutes = f" ({math.ceil(60 * needed)} minutes)" if needed < 2 else ""
        found.lines += [f"  {name}:"] if name else []
        found.lines += [
            f"  images a second     {rate:,.1f}",
            f"  to train on         {steps * batch_size:,} images, {steps:,} batches of {batch_size}",
            f"  hours               {needed:,.1f}{minutes}, with validation and tests",
            f"  memory              {peak_memory(device) / 1e9:.1f} GB at most",
            f"  disk                {disk / 1e9:.2f} GB",
        ]
        if tried_size < config.batch_size:
            found.lines.append(f"  There are classes for batches of {tried_size} here, not of {config.batch_size}.")
        if disk > (free := shutil.disk_usage(out).free):
            found.missing.append(f"Room on the disk: {free / 1e9:.1f} GB are free, and {disk / 1e9:.1f} GB are needed")
    found.lines += [f"  all of them         {hours:,.1f} hours"] if len(trainings) > 1 else []
    return found


@contextmanager
def _temporary(folder: Path, processes: Processes) -> Generator[None]:
    """A folder that all processes share, without what a dry run that was killed left, and that is gone afterwards."""
    if processes.rank == 0:
        shutil.rmtree(folder, ignore_errors=True)
    processes.wait()
    try:
        yield
        processes.wait()
    finally:
        if processes.rank == 0:
            shutil.rmtree(folder, ignore_errors=True)


def _fitting(config: TrainingConfig, few: Benchmark, batches: BatchesOf | None, processes: Processes) -> TrainingConfig:
    """The config with smaller batches where a partial copy has too few classes, or groups of them, for its own."""
    images = few.training_images()
    if config.validation_fraction:
        images, _ = few.train_and_validation(config.seed, _FEW_CLASSES)
    unit = 2 * config.samples_per_class * processes.number
    size = min(config.batch_size, largest_batch(images, config))
    while batches is not None and size > unit:
        try:
            batches(images, replace(config, batch_size=size), processes)
            break
        except ValueError:
            size = max(unit, size // 2 // unit * unit)
    return replace(config, batch_size=size)


def _as_a_whole_copy(images: ImageSet, scale: float) -> ImageSet:
    """A partial copy with as many images as a whole one: its own, again and again, as further classes."""
    times = round(scale)
    if times < 2:
        return images
    whole = images.rows(np.tile(np.arange(len(images)), times))
    labels = whole.labels + np.repeat(np.arange(times), len(images)) * images.classes
    return replace(
        whole, labels=labels, class_names=[str(label) for label in range(times * images.classes)], marks=None
    )


def _with_few_tests(whole: Benchmark, missing: list[str]) -> Benchmark:
    """A benchmark with all of its training images, and few to test on."""
    few: dict[str, ImageSet] = {}
    for images in (images for images in whole.sets if images is not whole.train):
        if len(rows := few_rows(images)):
            few[images.name] = images.rows(rows)
        else:
            missing.append(f"{images.name} has no two classes of two images and more: nothing can be tested on it.")
    return replace(whole, tests=few, averages={})


def few_rows(images: ImageSet) -> np.ndarray:
    """Rows of some hundred images, whole classes from all over the set; none where it has no two that can be found."""
    sizes, queries, gallery = (
        np.bincount(images.labels if mask is None else images.labels[mask], minlength=images.classes)
        for mask in (None, images.is_query, images.is_gallery)
    )
    classes = np.flatnonzero((sizes > 1) & (queries > 0) & (gallery > 0))
    if len(classes) < 2:
        return np.empty(0, np.int64)
    wanted = min(len(classes), max(2, _IMAGES // int(sizes[classes].mean())))
    chosen = classes[np.linspace(0, len(classes) - 1, wanted).astype(int)]
    return np.flatnonzero(np.isin(images.labels, chosen))
