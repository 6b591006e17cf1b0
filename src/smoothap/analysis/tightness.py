"""Figure 4 and Eq. 8: how far smoothed AP is from AP while one epoch is trained, for several temperatures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, pairwise
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from smoothap import experiments
from smoothap.analysis.analysis import Analysis, column, columns
from smoothap.analysis.command_line import command_line
from smoothap.losses import SmoothAP
from smoothap.report.drawing import LEGEND, LINE_STYLES, panel_figure, style_axes
from smoothap.report.palette import LIGHT
from smoothap.training.log import read_rows
from smoothap.training.loop import train
from smoothap.training.settings import QUICK

Curve = Sequence[Mapping[str, float]]  # step, approximation_error and loss of each step


@dataclass(frozen=True)
class Row:
    """AP_e over the steps of the training at one temperature."""

    tau: float = column("tau")
    steps: int = column("steps")
    first: float = column("AP_e, first step")
    mean: float = column("AP_e, mean")
    last: float = column("AP_e, last step")
    largest: float = column("AP_e, largest")


def tightness(
    *,
    data: str,
    model: str,
    weights: str | None = None,
    size: int = 64,
    batch_size: int = 128,
    tau: Sequence[float] = (0.1, 0.01, 0.001),
    steps: int | None = None,
    seed: int = 0,
    device: str | None = None,
    folder: Path,
) -> Analysis:
    """AP_e of every step, one training for each temperature: the same first weights, the same views and batches.

    `steps` cuts the epoch. The trainings stay in `folder`; one that was cut off goes on.
    """
    images, validation = experiments.open_data(data).train_and_validation(seed)
    settings = replace(QUICK, batch_size=batch_size, epochs=1, steps=steps, seed=seed, embedding_start="random")
    parts = (Path(model).name, data, size, batch_size, steps or "epoch", seed)
    trainings = folder / "-".join(map(str, parts)).replace("/", "_").replace(":", "_")
    curves: dict[float, Curve] = {}
    for temperature in tau:
        network = experiments.open_model(model, dimension=512, size=size, weights=weights, seed=seed)
        place = trainings / f"tau-{temperature:g}"
        result = train(
            network, SmoothAP(temperature), images, validation, replace(settings, tau=temperature, diagnose_every=1),
            place, resume=True, device=device,
        )  # fmt: skip
        if not result.finished:
            raise KeyboardInterrupt
        diagnosed = [row for row in read_rows(place) if "approximation_error" in row]
        curves[temperature] = [
            {name: row[name] for name in ("step", "approximation_error", "loss")} for row in diagnosed
        ]
    rows = []
    for temperature, curve in curves.items():
        errors = np.array([step["approximation_error"] for step in curve])
        rows.append(Row(temperature, len(errors), *map(float, (errors[0], errors.mean(), errors[-1], errors.max()))))
    return Analysis(
        name="tightness",
        title="The AP approximation error over one epoch of training",
        numbers={
            "data": data, "images": len(images), "settings": settings.to_dict(),
            "curves": {f"{temperature:g}": curve for temperature, curve in curves.items()},
        },
        figures={"": _figure(curves)},
        table=[columns(row) for row in rows],
        paper=(
            "Figure 4 (a figure without numbers): over one training epoch of Online Products, a lower tau leads to a "
            "tighter approximation, shown by the low AP_e = |AP_pred - AP|."
        ),
        agreement=_agreement(curves, rows, data),
        command=command_line(
            "tightness", data=data, model=model, weights=weights, size=size, batch_size=batch_size, tau=tuple(tau),
            steps=steps, seed=seed,
        ),
    )  # fmt: skip


def _agreement(curves: Mapping[float, Curve], rows: Sequence[Row], data: str) -> str:
    ordered = sorted(rows, key=lambda row: -row.tau)
    falls = all(one.mean > other.mean for one, other in pairwise(ordered))
    means = ", ".join(f"{row.mean:.4f} at tau {row.tau:g}" for row in ordered)
    by_step = zip(*(curves[row.tau] for row in ordered), strict=False)
    tighter = sum(
        all(one["approximation_error"] > other["approximation_error"] for one, other in pairwise(step))
        for step in by_step
    )
    return (
        f"{'Agrees' if falls else 'Does not agree'}: the mean AP_e over {ordered[0].steps} steps on {data} is {means}; "
        f"the lower tau is the tighter one at {tighter} of the {ordered[0].steps} steps."
    )


def _figure(curves: Mapping[float, Curve]) -> Figure:
    """AP_e against the step, as the paper's Figure 4 and by powers of ten, where the small ones can be told apart."""
    figure = panel_figure(10, 3.9)
    for place, scale in enumerate(("linear", "log")):
        axes = figure.add_subplot(1, 2, place + 1, xlabel="training step", yscale=scale)
        for (tau, curve), (colour, _, dash) in zip(curves.items(), cycle(LINE_STYLES), strict=False):
            axes.plot(
                [row["step"] for row in curve], [row["approximation_error"] for row in curve], dash,
                color=LIGHT[colour], linewidth=2.2, label=f"τ = {tau:g}",
            )  # fmt: skip
        if scale == "linear":
            axes.set_ylim(bottom=0)
            axes.legend(fontsize=11, **LEGEND)
            axes.set_ylabel("AP approximation error, AP$_e$")
        else:
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        style_axes(axes, "Error of the approximation" if place == 0 else "The same by powers of ten")
    return figure
