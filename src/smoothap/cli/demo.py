"""`smoothap demo`."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from smoothap.cli.names import open_data, open_model
from smoothap.cli.printing import comparison

_STEPS_A_MINUTE = 22  # what two cores manage, validation included; the number of steps decides the figures, not a clock
_RECALL_AT = (1, 10, 100)


def demo(
    *,
    out: Path = Path("runs/demo"),
    minutes: float = 5,
    size: int = 64,
    seed: int = 0,
) -> None:
    """Train on half of the emoji for a few minutes and show what that does to finding the other half.

    Parameters
    ----------
    out
        The folder for the model, the figures and the report. A training found there is gone on with.
    minutes
        About how long to train on two cores, at 64 pixels.
    size
        The side of the images in pixels.
    seed
        Chooses everything that is left to chance: the same seed gives the same figures.
    """
    if not minutes > 0:
        raise ValueError(f"minutes must be positive, such as 5, not {minutes}.")
    from dataclasses import replace

    import torch

    from smoothap.data.dataset import ImageDataset
    from smoothap.losses import SmoothAP
    from smoothap.report.page import write_report
    from smoothap.training.log import read_rows
    from smoothap.training.loop import MODEL, train
    from smoothap.training.settings import DEMO
    from smoothap.training.testing import embed_set, figures_of

    torch.use_deterministic_algorithms(True, warn_only=True)
    benchmark = open_data("emoji")
    training, validation = benchmark.train_and_validation(seed)
    test = benchmark.tests["test"]
    print(
        f"Emoji of seven vendors, {size} x {size} pixels: {training.classes} emoji to train on, "
        f"{validation.classes} to pick the best epoch, {test.classes} to test on."
    )
    settings = replace(DEMO, steps=round(minutes * _STEPS_A_MINUTE), seed=seed)
    model = open_model("tf_efficientnet_lite0", dimension=512, size=size, seed=seed)
    start = time.monotonic()
    result = train(model, SmoothAP(settings.tau), training, validation, settings, out, resume=True)
    if not result.finished:
        print(f"Interrupted after step {result.steps}. To go on, repeat the command.")
        sys.exit(130)
    print(
        f"{result.steps} steps in {(time.monotonic() - start) / 60:.1f} minutes; the best on the validation emoji is "
        f"step {result.best_step}. Testing before and after ..."
    )
    untrained = open_model("tf_efficientnet_lite0", size=size).to(next(model.parameters()).device)
    views = ImageDataset(test, model.transform, report=out / "unreadable-test.csv", in_memory=True)
    before, after = (embed_set(each, views) for each in (untrained, model))
    reports = [figures_of(each, test, _RECALL_AT) for each in (before, after)]
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
    print(
        f"\nOn {test.classes} emoji that were not in the training:\n{comparison(*reports)}\n\n"
        f"Report  {page.resolve()}\n"
        f"Model   {(out / MODEL).resolve()}\n"
        "Next    smoothap train --data folder:PATH --out runs/mine   (your own images, a folder for each class)\n"
        f"        smoothap evaluate --model {out / MODEL} --data glyphs   (something it has never seen)"
    )
