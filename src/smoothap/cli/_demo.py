"""The demo: train on half of the emoji for a few minutes, and show what that does to finding the other half."""

import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from smoothap.album import Album
from smoothap.data.datasets.emoji import drawings_folder, emoji
from smoothap.data.image_set import ImageSet
from smoothap.models import Embedder, open_model
from smoothap.plots.rankings import BeforeAfter
from smoothap.plots.report import write_report
from smoothap.training.before_after import embed_before_and_after, measure_untrained
from smoothap.training.config import DEMO, NETWORK, RunOptions
from smoothap.training.finetune import FineTuned, smooth_ap, train_and_test, validation_map
from smoothap.training.log import read_rows
from smoothap.training.loop import MODEL, alone_in

_STEPS_A_MINUTE = 48  # what two cores manage, validation included; the number of steps decides the result, not a clock
_CROPS = {"name": "released", "min_crop_area": 0.5, "flip": False}  # emoji of many sizes; arrows point one way
_DIMENSION = 512
_TEST_SCALE = 1.2  # a random crop shows an emoji larger than its test view does; a larger view makes up for that


@dataclass(frozen=True, eq=False)
class Demo:
    """What the demo made: the report page, the model, and an album of the test emoji before and after training."""

    tuned: FineTuned
    compared: BeforeAfter
    page: Path
    model: Path
    albums: tuple[Path, ...]  # before, after


def run_demo(out: Path, *, minutes: float = 5, size: int = 80, seed: int = 0) -> Demo:
    """Train, test before and after, and write the report and two albums; a training found in `out` is resumed."""
    with alone_in(out):
        return _run(out, minutes, size, seed)


def _run(out: Path, minutes: float, size: int, seed: int) -> Demo:
    benchmark = emoji()
    training, validation = benchmark.train_and_validation(seed)
    test, test_size = replace(benchmark.tests["test"], recall_at=(1, 10, 100)), tested_at(size)
    print(
        f"Emoji of seven vendors: {training.classes} to train on at {size} x {size} pixels, {validation.classes} to "
        f"pick the best epoch, {test.classes} to test on at {test_size} x {test_size}."
    )
    settings = replace(DEMO, steps=round(minutes * _STEPS_A_MINUTE), seed=seed)
    model = _network(size, seed, _DIMENSION)
    start = time.monotonic()
    to_beat = validation_map(_network(size, seed), validation, out)
    tuned = train_and_test(
        model, smooth_ap, training, validation, settings, out, RunOptions(resume=True), to_beat=to_beat
    )
    print(
        f"{tuned.steps} steps in {(time.monotonic() - start) / 60:.1f} minutes; the best on the validation emoji is "
        f"step {tuned.best_step}. Testing before and after ..."
    )
    model.transform = replace(model.transform, size=test_size)

    def measure(before: Embedder) -> tuple[Embedder, BeforeAfter]:
        before.to(model.device)
        return before, embed_before_and_after(before, model, test, unreadable=out / "unreadable-test.csv")

    (untrained, compared), sentence = measure_untrained(
        measure, lambda: _network(test_size, seed), lambda: _network(test_size, seed, _DIMENSION)
    )
    if sentence:
        print(sentence)
    tuned = replace(tuned, before={"test": compared.before_report}, after={"test": compared.after_report})
    model.save(out / MODEL, data_set="emoji", metrics=tuned.metrics())
    page = write_report(
        out / "report.html",
        compared,
        title="Emoji before and after training with Smooth-AP",
        curve=read_rows(out),
        note=tuned.verdict,
        command=f"smoothap demo --minutes {minutes:g} --size {size} --seed {seed}",
        seed=seed,
    )
    held_out = embed_before_and_after(untrained, model, validation, unreadable=out / "unreadable-validation.csv")
    albums = tuple(
        _write_album(out / name, opener, compared.images, vectors, validation_vectors, held_out.images)
        for name, opener, vectors, validation_vectors in (
            ("before", f"{NETWORK}@{test_size}", compared.before, held_out.before),
            ("after", out / MODEL, compared.after, held_out.after),
        )
    )
    return Demo(tuned, compared, page, out / MODEL, albums)


def tested_at(size: int) -> int:
    """The side of the test views of a network that was trained at `size`: a multiple of 16, as networks halve it."""
    return max(size, 16 * round(_TEST_SCALE * size / 16))


def _network(size: int, seed: int, dimension: int | None = None) -> Embedder:
    model = open_model(NETWORK, dimension=dimension, size=size, seed=seed)
    model.transform = replace(model.transform, **_CROPS)
    return model


def _write_album(
    path: Path,
    model: Path | str,
    test: ImageSet,
    vectors: np.ndarray,
    validation_vectors: np.ndarray,
    validation: ImageSet,
) -> Path:
    """The test emoji as an album that the page opens, its scores calibrated on the validation emoji."""
    if (path / "album.json").exists():  # of an earlier run
        shutil.rmtree(path)
    metadata = [
        {"path": f"{name}.png", "label": str(test.class_names[label])}
        for name, label in zip(test.names, test.labels, strict=True)
    ]
    album = Album.from_arrays(vectors, metadata, path, root=drawings_folder(), model=model)
    album.calibrate(validation_vectors, validation.labels, "the validation emoji")
    return path
