"""`smoothap demo`."""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from smoothap import experiments
from smoothap.cli.options import Size, check_folder
from smoothap.cli.printing import comparison

if TYPE_CHECKING:
    from smoothap.data.image_set import ImageSet
    from smoothap.training.evaluation import Embedded

_STEPS_A_MINUTE = 28  # what two cores manage, validation included; the number of steps decides the figures, not a clock
_CROPS = {"name": "released", "least_area": 0.5, "flip": False}  # emoji of many sizes; arrows point one way
_RECALL_AT = (1, 10, 100)


def demo(
    *,
    out: Path = Path("runs/demo"),
    minutes: float = 5,
    size: Size = 64,
    seed: int = 0,
    serve: bool = False,
) -> None:
    """Train on half of the emoji for a few minutes and show what that does to finding the other half.

    Parameters
    ----------
    out
        The folder for the model, the figures and the report. A training found there is gone on with.
    minutes
        About how long to train on two cores, at 64 pixels.
    seed
        Chooses everything that is left to chance: the same seed gives the same figures.
    serve
        At the end, open the page that compares searches before and after, and stay until Ctrl-C.
    """
    if not minutes > 0:
        raise ValueError(f"minutes must be positive, such as 5, not {minutes}.")
    check_folder(out)
    from dataclasses import replace

    import torch

    from smoothap.data.dataset import ImageDataset
    from smoothap.losses import SmoothAP
    from smoothap.report.page import write_report
    from smoothap.training.evaluation import NoFeatures, embed_set, evaluate_embedded
    from smoothap.training.log import read_rows
    from smoothap.training.loop import MODEL, train
    from smoothap.training.settings import DEMO

    torch.use_deterministic_algorithms(True, warn_only=True)
    benchmark = experiments.open_data("emoji")
    training, validation = benchmark.train_and_validation(seed)
    test = benchmark.tests["test"]
    print(
        f"Emoji of seven vendors, {size} x {size} pixels: {training.classes} emoji to train on, "
        f"{validation.classes} to pick the best epoch, {test.classes} to test on."
    )
    settings = replace(DEMO, steps=round(minutes * _STEPS_A_MINUTE), seed=seed)
    model = experiments.open_model("tf_efficientnet_lite0", dimension=512, size=size, seed=seed)
    model.transform = replace(model.transform, **_CROPS)
    start = time.monotonic()
    result = train(model, SmoothAP(settings.tau), training, validation, settings, out, resume=True)
    if not result.finished:
        print(f"Interrupted after step {result.steps}. To go on, repeat the command.")
        sys.exit(130)
    print(
        f"{result.steps} steps in {(time.monotonic() - start) / 60:.1f} minutes; the best on the validation emoji is "
        f"step {result.best_step}. Testing before and after ..."
    )
    device = next(model.parameters()).device
    views = ImageDataset(test, model.transform, report=out / "unreadable-test.csv", in_memory=True)
    after = embed_set(model, views)
    try:
        untrained = experiments.open_model("tf_efficientnet_lite0", size=size).to(device)
        before = embed_set(untrained, views)
    except NoFeatures as nothing:
        print(f"{nothing} Until then, before is the network with its new layer, as the training began.")
        untrained = experiments.open_model("tf_efficientnet_lite0", dimension=512, size=size, seed=seed).to(device)
        before = embed_set(untrained, views)
    reports = [evaluate_embedded(each, test, _RECALL_AT) for each in (before, after)]
    model.save(
        out / MODEL,
        data_set="emoji",
        figures={name: each.summary() for name, each in zip(("before", "after"), reports, strict=True)},
    )
    page = write_report(
        out / "report.html",
        title="Emoji before and after training with Smooth-AP",
        test_set=test,
        before=before.vectors,
        after=after.vectors,
        before_report=reports[0],
        after_report=reports[1],
        curve=read_rows(out),
        command=f"smoothap demo --minutes {minutes:g} --size {size} --seed {seed}",
        seed=seed,
    )
    held_out = ImageDataset(validation, model.transform, report=out / "unreadable-validation.csv", in_memory=True)
    albums = {
        name: _write_album(out / name, each, vectors, test, embed_set(network, held_out), validation)
        for name, each, network, vectors in (
            ("before", f"tf_efficientnet_lite0@{size}", untrained, before),
            ("after", out / MODEL, model, after),
        )
    }
    print(
        f"\nOn {test.classes} emoji that were not in the training:\n{comparison(*reports)}\n\n"
        f"Report  {page.resolve()}\n"
        f"Model   {(out / MODEL).resolve()}\n"
        f"Next    smoothap serve {albums['before']} {albums['after']}   (search before and after, side by side)\n"
        "        smoothap train --data folder:PATH --out runs/mine   (your own images, a folder for each class)\n"
        f"        smoothap evaluate --model {out / MODEL} --data glyphs   (something it has never seen)"
    )
    if serve:
        from smoothap.cli.serve import serve as open_page

        open_page(albums["before"], albums["after"], port=0, open_page=True)


def _write_album(
    path: Path, model: Path | str, embedded: Embedded, test: ImageSet, held_out: Embedded, validation: ImageSet
) -> Path:
    """The test emoji as an album that the page opens, its scores calibrated on the validation emoji."""
    from smoothap.data.emoji import package_folder
    from smoothap.search import Album

    if (path / "album.json").exists():  # of an earlier run
        shutil.rmtree(path)
    metadata = [
        {"path": f"{test.names[row]}.png", "label": str(test.class_names[test.labels[row]])} for row in embedded.rows
    ]
    album = Album.from_arrays(embedded.vectors, metadata, path, root=package_folder(), model=model)
    album.calibrate(held_out.vectors, validation.labels[held_out.rows], "the validation emoji")
    return path
