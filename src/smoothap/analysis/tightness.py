"""Figure 4 and Eq. 8: how far smoothed AP is from AP while one epoch is trained, for several temperatures."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from smoothap.analysis.analysis import Analysis
from smoothap.data.image_set import ImageSet
from smoothap.losses import SmoothAP
from smoothap.models import Embedder
from smoothap.report.tightness_figure import tightness_figure
from smoothap.training.log import read_rows
from smoothap.training.loop import train
from smoothap.training.settings import Settings

TEMPERATURES = (0.1, 0.01, 0.001)


def tightness(
    new_model: Callable[[], Embedder],
    images: ImageSet,
    validation: ImageSet,
    settings: Settings,
    folder: Path,
    *,
    temperatures: Sequence[float] = TEMPERATURES,
    data: str = "",
    device: str | None = None,
    command: str = "smoothap analyse tightness",
) -> Analysis:
    """AP_e of every step, one training for each temperature: the same first weights, the same views and batches.

    `settings.steps` cuts the epoch. The trainings stay in `folder`; one that was cut off goes on.
    """
    curves: dict[float, list[dict[str, float]]] = {}
    for tau in temperatures:
        own = replace(settings, tau=tau, epochs=1, diagnose_every=1)
        place = folder / f"tau-{tau:g}"
        result = train(new_model(), SmoothAP(tau), images, validation, own, place, resume=True, device=device)
        if not result.finished:
            raise KeyboardInterrupt
        steps = [row for row in read_rows(place) if "approximation_error" in row]
        curves[tau] = [{name: row[name] for name in ("step", "approximation_error", "loss")} for row in steps]
    rows = [{"tau": tau, **_summary(curve)} for tau, curve in curves.items()]
    return Analysis(
        name="tightness",
        title="The AP approximation error over one epoch of training",
        numbers={
            "data": data, "images": len(images), "settings": settings.to_dict(),
            "curves": {f"{tau:g}": curve for tau, curve in curves.items()},
        },
        figures={"": tightness_figure(curves)},
        table=rows,
        paper=(
            "Figure 4 (a figure without numbers): over one training epoch of Online Products, a lower tau leads to a "
            "tighter approximation, shown by the low AP_e = |AP_pred - AP|."
        ),
        agreement=_agreement(curves, rows, data),
        command=command,
    )  # fmt: skip


def _summary(curve: list[dict[str, float]]) -> dict[str, Any]:
    errors = np.array([row["approximation_error"] for row in curve])
    return {
        "steps": len(errors),
        "AP_e, first step": float(errors[0]),
        "AP_e, mean": float(errors.mean()),
        "AP_e, last step": float(errors[-1]),
        "AP_e, largest": float(errors.max()),
    }


def _agreement(curves: dict[float, list[dict[str, float]]], rows: list[dict[str, Any]], data: str) -> str:
    ordered = sorted(rows, key=lambda row: -row["tau"])
    means = [row["AP_e, mean"] for row in ordered]
    falls = all(one > other for one, other in pairwise(means))
    figures = ", ".join(f"{row['AP_e, mean']:.4f} at tau {row['tau']:g}" for row in ordered)
    by_step = zip(*(curves[row["tau"]] for row in ordered), strict=False)
    tighter = sum(
        all(one["approximation_error"] > other["approximation_error"] for one, other in pairwise(step))
        for step in by_step
    )
    verdict = "Agrees" if falls else "Does not agree"
    return (
        f"{verdict}: the mean AP_e over {ordered[0]['steps']} steps on {data or 'the set'} is {figures}; the lower tau "
        f"is the tighter one at {tighter} of the {ordered[0]['steps']} steps."
    )
