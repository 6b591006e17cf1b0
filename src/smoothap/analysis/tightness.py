"""Figure 4 and Eq. 8: how far smoothed AP is from AP while one epoch is trained, for several temperatures."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import cycle, pairwise
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from smoothap import experiments
from smoothap.analysis.analysis import Analysis, column, columns
from smoothap.analysis.command_line import command_line
from smoothap.experiments.fine_tuning import train_and_test
from smoothap.losses import SmoothAP
from smoothap.report.drawing import LEGEND, LINE_STYLES, panel_figure, style_axes
from smoothap.report.palette import LIGHT
from smoothap.training.log import read_rows
from smoothap.training.settings import QUICK


@dataclass(frozen=True)
class StepError:
    """AP_e at one step of a training."""

    step: int
    approximation_error: float
    loss: float


@dataclass(frozen=True)
class TemperatureErrors:
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
    command = command_line("tightness", **locals())
    images, validation = experiments.open_data(data).train_and_validation(seed)
    settings = replace(QUICK, batch_size=batch_size, epochs=1, steps=steps, seed=seed, embedding_start="random")
    parts = (Path(model).name, data, size, batch_size, steps or "epoch", seed)
    trainings = folder / "-".join(map(str, parts)).replace("/", "_").replace(":", "_")
    errors: dict[float, list[StepError]] = {}
    for temperature in tau:
        network = experiments.open_model(model, dimension=512, size=size, weights=weights, seed=seed)
        place = trainings / f"tau-{temperature:g}"
        train_and_test(
            network, SmoothAP(temperature), images, validation, replace(settings, tau=temperature, diagnose_every=1),
            place, resume=True, device=device,
        )  # fmt: skip
        errors[temperature] = [
            StepError(row["step"], row["approximation_error"], row["loss"])
            for row in read_rows(place)
            if "approximation_error" in row
        ]
    rows = []
    for temperature, steps_of in errors.items():
        values = [step.approximation_error for step in steps_of]
        mean = float(np.mean(values))
        rows.append(TemperatureErrors(temperature, len(values), values[0], mean, values[-1], max(values)))
    return Analysis(
        name="tightness",
        title="The AP approximation error over one epoch of training",
        numbers={
            "data": data, "images": len(images), "settings": settings.to_dict(),
            "curves": {f"{temperature:g}": list(map(asdict, steps_of)) for temperature, steps_of in errors.items()},
        },
        figures={"": _figure(errors)},
        table=[columns(row) for row in rows],
        paper=(
            "Figure 4 (a figure without numbers): over one training epoch of Online Products, a lower tau leads to a "
            "tighter approximation, shown by the low AP_e = |AP_pred - AP|."
        ),
        agreement=_agreement(errors, rows, data),
        command=command,
    )  # fmt: skip


def _agreement(errors: Mapping[float, Sequence[StepError]], rows: Sequence[TemperatureErrors], data: str) -> str:
    ordered = sorted(rows, key=lambda row: -row.tau)
    falls = all(one.mean > other.mean for one, other in pairwise(ordered))
    means = ", ".join(f"{row.mean:.4f} at tau {row.tau:g}" for row in ordered)
    by_step = zip(*(errors[row.tau] for row in ordered), strict=False)
    tighter = sum(
        all(one.approximation_error > other.approximation_error for one, other in pairwise(step)) for step in by_step
    )
    return (
        f"{'Agrees' if falls else 'Does not agree'}: the mean AP_e over {ordered[0].steps} steps on {data} is {means}; "
        f"the lower tau is the tighter one at {tighter} of the {ordered[0].steps} steps."
    )


def _figure(errors: Mapping[float, Sequence[StepError]]) -> Figure:
    """AP_e against the step, as the paper's Figure 4 and by powers of ten, where the small ones can be told apart."""
    figure = panel_figure(10, 3.9)
    for place, scale in enumerate(("linear", "log")):
        axes = figure.add_subplot(1, 2, place + 1, xlabel="training step", yscale=scale)
        for (tau, steps), (colour, _, dash) in zip(errors.items(), cycle(LINE_STYLES), strict=False):
            axes.plot(
                [step.step for step in steps], [step.approximation_error for step in steps], dash,
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
