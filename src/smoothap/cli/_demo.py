"""The demo: train on half of the emoji for a few minutes, and show what that does to finding the other half."""

import shutil
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from smoothap.album import Album
from smoothap.cli.train import comparison
from smoothap.data.datasets.emoji import drawings_folder, emoji
from smoothap.data.image_set import ImageSet
from smoothap.models import Embedder, open_model
from smoothap.plots.rankings import BeforeAfter
from smoothap.plots.report import write_report
from smoothap.training.before_after import embed_before_and_after, measure_untrained
from smoothap.training.config import DEMO, NETWORK, RunOptions
from smoothap.training.finetune import smooth_ap, train_and_test, validation_map
from smoothap.training.log import read_rows
from smoothap.training.loop import MODEL

_STEPS_A_MINUTE = 48  # what two cores manage, validation included; the number of steps decides the result, not a clock
_CROPS = {"name": "released", "min_crop_area": 0.5, "flip": False}  # emoji of many sizes; arrows point one way
_DIMENSION = 512
_TEST_SCALE = 1.2  # a random crop shows an emoji larger than its test view does; a larger view makes up for that


def run_demo(out: Path, minutes: float, size: int, seed: int) -> bool:
    """Train, test before and after, write the report and two albums, and print it all; whether the network improved."""
    benchmark = emoji()
    training, validation = benchmark.train_and_validation(seed)
    test = replace(benchmark.tests["test"], recall_at=(1, 10, 100))
    test_size = max(size, 16 * round(_TEST_SCALE * size / 16))  # a multiple of 16, as networks halve it
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
        out / "report.html", compared, title="Emoji before and after training with Smooth-AP", curve=read_rows(out),
        note=tuned.verdict, command=f"smoothap demo --minutes {minutes:g} --size {size} --seed {seed}", seed=seed,
    )  # fmt: skip
    held_out = embed_before_and_after(untrained, model, validation, unreadable=out / "unreadable-validation.csv")
    for name, opener, vectors, held_out_vectors in (
        ("before", f"{NETWORK}@{test_size}", compared.before, held_out.before),
        ("after", out / MODEL, compared.after, held_out.after),
    ):
        album = _write_album(out / name, opener, compared.images, vectors)
        album.calibrate(held_out_vectors, held_out.images.labels, "the validation emoji")
    if tuned.verdict:
        print(f"\n{tuned.verdict}")
    print(
        f"\nOn {compared.images.classes} emoji that were not in the training:\n"
        f"{comparison(compared.before_report, compared.after_report, 'more minutes')}\n\n"
        f"Report  {page.resolve()}\n"
        f"Model   {(out / MODEL).resolve()}\n"
        f"Next    smoothap serve {out / 'before'} {out / 'after'}   (search before and after, side by side)\n"
        "        smoothap train --data folder:PATH --out runs/mine   (your own images, a folder for each class)\n"
        f"        smoothap evaluate --model {out / MODEL} --data glyphs   (something it has never seen)"
    )
    return tuned.improved


def _network(size: int, seed: int, dimension: int | None = None) -> Embedder:
    model = open_model(NETWORK, dimension=dimension, size=size, seed=seed)
    model.transform = replace(model.transform, **_CROPS)
    return model


def _write_album(path: Path, model: Path | str, test: ImageSet, vectors: np.ndarray) -> Album:
    """The test emoji as an album that the page opens."""
    if (path / "album.db").exists():  # of an earlier run
        shutil.rmtree(path)
    metadata = [
        {"path": f"{name}.png", "label": str(test.class_names[label])}
        for name, label in zip(test.names, test.labels, strict=True)
    ]
    return Album.from_arrays(vectors, metadata, path, root=drawings_folder(), model=model)
