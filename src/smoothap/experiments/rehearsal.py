"""A rehearsal: the whole course of a training on few images, and what the training itself will take on this machine."""

import io
import json
import math
import shutil
import statistics
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from smoothap._core.devices import chosen_device, count_memory, peak_bytes
from smoothap._core.distributed import Processes, joined_processes
from smoothap._core.files import write_atomically
from smoothap.data.benchmark import Benchmark
from smoothap.data.dataset import ImageDataset, training_batches
from smoothap.data.image_set import ImageSet
from smoothap.data.partial_copies import Lacking, partial_copies_taken
from smoothap.data.samplers import BalancedBatches, Batches
from smoothap.experiments._few_tests import FewTests
from smoothap.experiments.data_sets import open_data
from smoothap.experiments.finetune import FineTuned, run_recipe
from smoothap.training.checkpoint import FILE as CHECKPOINT
from smoothap.training.log import FILE as METRICS
from smoothap.training.log import read_rows
from smoothap.training.loop import MODEL, alone_in
from smoothap.training.recipe import Recipe, Weights

FOLDER, _FILE = "rehearsal", "rehearsal.json"
_STEPS, _STEPS_ON_CPU = 20, 4
_FIRST = 2  # steps that are not timed: the one before the checkpoint is resumed from, and the one after
_READING_SECONDS = 60.0
_FORWARD = 3.0  # times as many images pass the network a second without a gradient as with one


@dataclass(frozen=True)
class Forecast:
    """What a training will take here, by what its rehearsal took."""

    name: str  # of the training; "" where the recipe has one alone
    steps: int
    batch_size: int
    images_per_second: float  # of the network, or of reading where that is slower
    read_per_second: float | None  # by all workers together; None where the network waits for each image anyway
    hours: float  # with validation and both tests
    device_bytes: int  # 0 where the device does not say
    process_bytes: int  # 0 where the system does not say
    disk_bytes: int


@dataclass
class Rehearsal:
    """Runs a recipe as `run_recipe` does, but few steps of it, stopped and resumed, in the folder `rehearsal` of `out`.

        list((rehearsal := Rehearsal()).run(open_recipe("recipe:sop-384", path), path, "runs/sop-384"))

    Printed, it tells what the training itself will take. Steps are those of the training, with its batches from all of
    its images; validation and tests take a few hundred images. A partial copy is taken as it is. `missing` says what
    the training itself would lack.
    """

    forecasts: dict[str, Forecast] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def run(
        self,
        recipe: Recipe,
        data: str,
        out: Path | str,
        *,
        weights: Weights = True,
        test_on: Sequence[str] = (),
        resume: bool = False,
        minutes: float | None = None,
        fewer_images: bool = False,
        **how: Any,
    ) -> Generator[tuple[str, FineTuned]]:
        """Each training of the recipe, rehearsed; the arguments are those of `run_recipe`, of a training to come."""
        folder = Path(out) / FOLDER
        device = chosen_device(how.get("device"))
        with joined_processes() as processes, alone_in(folder):
            if processes.rank == 0:
                _clear(folder)
            processes.wait()
            with partial_copies_taken() as lacking:
                whole = recipe.data(Path(data).expanduser())
                others = self._further_tests(test_on)
            self.missing += lacking.sentences
            weights = self._start(recipe, weights)
            small = FewTests.of(whole, self.missing)
            steps = _STEPS_ON_CPU if device.type == "cpu" else _STEPS
            batches = _Rehearsed(recipe, self.notes)
            short = replace(
                recipe,
                data=lambda _: small,
                settings={
                    name: replace(settings, steps=min(steps, settings.steps or steps))
                    for name, settings in recipe.trainings().items()
                },
                batches=None if recipe.batches is None else batches,
            )
            run: dict[str, Any] = {**how, "weights": weights, "fewer_images": True}
            try:
                with redirect_stdout(io.StringIO()):  # what is told is told again below
                    first = replace(short, data=lambda _: replace(small, tests={}, averages={}))
                    for _ in run_recipe(first, data, folder, minutes=1e-9, **run):
                        pass
                count_memory(device)
                tests = [FewTests.of(test, self.missing) for test in others]
                for name, tuned in run_recipe(short, data, folder, resume=True, test_on=tests, **run):
                    if processes.rank == 0:
                        measured = _Measured(tuned, folder / name, small, lacking, batches.made, device, processes)
                        settings = recipe.trainings()[name]
                        self.forecasts[name] = measured.forecast(name, settings, how.get("workers", 0))
                        self._note_batches(settings.batch_size, self.forecasts[name].batch_size)
                        self._note_epochs(bool(lacking.whole), own_batches=bool(batches.made))
                    yield name, tuned
            except torch.OutOfMemoryError as error:
                raise ValueError(
                    f"The memory of {device} does not hold a batch of this training: --micro-batch-size 96 computes "
                    f"the same "
                    "gradient in pieces, --batch-size another one"
                ) from error
            if processes.rank == 0:
                self._end(folder)

    def __str__(self) -> str:
        """What the training will take, and what is missing for it."""
        lines = ["The rehearsal went through: every part of the training, stopped and resumed once, tests and report."]
        lines += ["Of a whole training on this machine (estimates from these few steps):"]
        for forecast in self.forecasts.values():
            lines += [f"  {forecast.name}:"] if forecast.name else []
            lines += [f"  {name:<20}{value}" for name, value in _told(forecast)]
        if len(self.forecasts) > 1:
            lines.append(f"  {'all of them':<20}{sum(one.hours for one in self.forecasts.values()):,.1f} hours")
        lines += [f"Note: {note}" for note in dict.fromkeys(self.notes)]
        lines += ["Missing:", *(f"  {number}. {line}" for number, line in enumerate(self.missing, 1))]
        return "\n".join(lines if self.missing else [*lines[:-1], "Nothing is missing."])

    def _further_tests(self, test_on: Sequence[str]) -> list[Benchmark]:
        opened: list[Benchmark] = []
        for test in test_on:
            try:
                opened.append(open_data(test))
            except (ValueError, OSError) as error:
                self.missing.append(f"--test-on {test}: {error}")
        return opened

    def _start(self, recipe: Recipe, weights: Weights) -> Weights:
        """The weights to start from, or random ones where they are not there."""
        if recipe.weights and weights is True:
            self.missing.append(f"The weights to start from, as --weights FILE: {recipe.weights}")
            return False
        try:
            recipe.model(weights)
        except OSError as error:
            if weights is not True:
                raise
            self.missing.append(f"The weights to start from: {error}")
            return False
        return weights

    def _note_batches(self, wanted: int, used: int) -> None:
        if used < wanted:
            self.notes.append(
                f"the images that are there have classes for batches of {used}, not of {wanted}: memory and speed are "
                f"those of batches of {used}"
            )

    def _note_epochs(self, partial: bool, *, own_batches: bool) -> None:
        if partial and own_batches:
            self.notes.append("an epoch has as many of the recipe's batches as this partial copy gives, or more")
        elif partial:
            self.notes.append("the time is scaled from the images that are there to those of a whole copy")

    def _end(self, folder: Path) -> None:
        """Leave what was found, without the models of a few steps, which are good for nothing."""
        unreadable = sorted(folder.rglob("unreadable-*.csv"))
        if unreadable:
            self.missing.append(f"Some images cannot be read: {', '.join(map(str, unreadable))}")
        needed = sum(forecast.disk_bytes for forecast in self.forecasts.values())
        for name in self.forecasts:
            shutil.rmtree(folder / name / MODEL, ignore_errors=True)
            for file in (folder / name).glob("checkpoint*"):
                file.unlink()
        if (free := shutil.disk_usage(folder).free) < needed:
            self.missing.append(f"Room on the disk: {free / 1e9:.1f} GB are free, and {needed / 1e9:.1f} GB are needed")
        found = {"finished": True, "missing": self.missing, "notes": self.notes}
        found["trainings"] = [asdict(forecast) for forecast in self.forecasts.values()]
        write_atomically(folder / _FILE, json.dumps(found, indent=1) + "\n")


def _told(forecast: Forecast) -> Generator[tuple[str, str]]:
    reading = "" if forecast.read_per_second is None else f" (reading alone: {forecast.read_per_second:,.0f})"
    yield "images a second", f"{forecast.images_per_second:,.1f}{reading}"
    seen = forecast.steps * forecast.batch_size
    yield "to train on", f"{seen:,} images, {forecast.steps:,} batches of {forecast.batch_size}"
    whole, part = forecast.hours, f" ({60 * forecast.hours:.0f} minutes)" if forecast.hours < 1 else ""
    yield "hours", f"{whole:,.1f}{part}, with validation and tests"
    if forecast.device_bytes:
        yield "memory of the device", f"{forecast.device_bytes / 1e9:.1f} GB at most"
    elif forecast.process_bytes:
        yield "memory", f"{forecast.process_bytes / 1e9:.1f} GB at most, of this process"
    yield "disk", f"{forecast.disk_bytes / 1e9:.2f} GB"


@dataclass(frozen=True)
class _Rehearsed:
    """The batches of a recipe, or balanced ones where a partial copy does not have the groups for them."""

    recipe: Recipe
    notes: list[str]
    made: list[Batches] = field(default_factory=list)  # the newest last

    def __call__(self, images: ImageSet, *arguments: Any) -> Any:
        assert self.recipe.batches is not None
        try:
            self.made.append(self.recipe.batches(images, *arguments))
        except ValueError as error:
            self.notes.append(f"the batches of the recipe were not rehearsed, but balanced ones: {error}")
            self.made.clear()
            return None
        return self.made[-1]


@dataclass(frozen=True, eq=False)
class _Measured:
    """One rehearsed training, in `folder`."""

    tuned: FineTuned
    folder: Path
    benchmark: FewTests
    lacking: Lacking
    batches: list[Batches]
    device: torch.device
    processes: Processes

    def forecast(self, name: str, settings: Any, workers: int) -> Forecast:
        used = json.loads((self.folder / CHECKPOINT).read_text(encoding="utf-8"))["settings"]
        batch_size = used["batch_size"]
        training, validated = self.benchmark.split[-1]
        assert self.benchmark.train is not None
        there = len(self.benchmark.train)
        scale = self.lacking.whole.get(self.benchmark.train.name, there) / there
        in_an_epoch = max(1, round(scale * len(training) / batch_size))
        if self.batches:
            in_an_epoch = len(self.batches[-1])
        steps = settings.total_steps(in_an_epoch)
        rates = [row["images_per_second"] for row in read_rows(self.folder) if row["step"] > _FIRST and "loss" in row]
        rate = statistics.median(rates or [row["images_per_second"] for row in read_rows(self.folder) if "loss" in row])
        read = None
        if workers:
            made = (
                self.batches[-1]
                if self.batches
                else BalancedBatches(training.labels, batch_size, used["samples_per_class"])
            )
            read = self.processes.number * self._read_per_second(training, made, workers)
        rate, forward = (min(value, read or value) for value in (rate, _FORWARD * rate))
        validations = 2 + math.ceil(steps / in_an_epoch)  # also before the training, with and without the new layer
        tested = sum(self.lacking.whole.get(part, images) for part, images in self.benchmark.tested.items())
        embedded = validations * scale * validated + 2 * tested
        seconds = steps * batch_size / rate + embedded / forward
        return Forecast(
            name, steps, batch_size, rate, read, seconds / 3600, peak_bytes(self.device), _process_bytes(),
            self._disk_bytes(steps),
        )  # fmt: skip

    def _read_per_second(self, training: ImageSet, batches: Batches, workers: int) -> float:
        """Images a second that the workers read for this process, where nothing waits but for them.

        Each worker has a batch ready when the first one comes; these are not counted.
        """
        dataset = ImageDataset(training, self.tuned.model.transform, report=self.folder / "unreadable-reading.csv")
        images, began, end = 0, 0.0, time.monotonic() + _READING_SECONDS
        for number, batch in enumerate(training_batches(dataset, batches, epochs=sys.maxsize, workers=workers)):
            now = time.monotonic()
            images += len(batch.images)
            if number == workers:
                images, began = 0, now
            elif number >= 4 * workers or (number > workers and now > end):
                break
        return images / (time.monotonic() - began)

    def _disk_bytes(self, steps: int) -> int:
        """The files of the folder, the checkpoint twice, as the new one is there before the old one goes."""
        sizes = {file: file.stat().st_size for file in self.folder.rglob("*") if file.is_file()}
        rows = sizes.pop(self.folder / METRICS)
        checkpoint = max(size for file, size in sizes.items() if file.name.startswith("checkpoint"))
        return sum(sizes.values()) + checkpoint + rows * steps // self.tuned.steps


def _process_bytes() -> int:
    """The most memory that this process has had; 0 where the system does not say."""
    try:
        import resource
    except ModuleNotFoundError:  # Windows
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _clear(folder: Path) -> None:
    """Take away what an earlier rehearsal left, and nothing else."""
    there = [path for path in folder.iterdir() if path.name not in (".lock", _FILE)]
    if there and not (folder / _FILE).is_file():
        raise ValueError(f"{folder} holds files that no rehearsal wrote: move them, or choose another --out")
    write_atomically(folder / _FILE, json.dumps({"finished": False}) + "\n")
    for path in there:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
