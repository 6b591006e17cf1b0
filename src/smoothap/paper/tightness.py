"""Figure 4 and Eq. 8: how far smoothed AP is from AP while one epoch is trained, for several temperatures.

And Section 4's claim that Smooth-AP is closer to AP than FastAP and Blackbox AP are, on the batches of one of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import cycle, pairwise
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from smoothap.data.names import open_data
from smoothap.data.samplers import BalancedBatches
from smoothap.models import open_model
from smoothap.paper._baseline_errors import BASELINES, MeasuredSmoothAP
from smoothap.paper.analysis import Analysis, column, columns
from smoothap.paper.command_line import command_line
from smoothap.plots.drawing import LEGEND, LINE_STYLES, panel_figure, style_axes
from smoothap.plots.palette import LIGHT
from smoothap.training.config import QUICK, RunOptions
from smoothap.training.finetune import train_and_test
from smoothap.training.log import read_rows
from smoothap.training.loop import alone_in

_PAPERS_TAU = 0.01
_CURVES = (("green", "-"), ("blue", "--"), ("blue", ":"), ("red", "-."))  # of Smooth-AP, then of `BASELINES`


@dataclass(frozen=True)
class StepError:
    """AP_e at one step of a training."""

    step: int
    approximation_error: float
    loss: float


@dataclass(frozen=True)
class ErrorsOverSteps:
    """AP_e over the steps of a training: of Smooth-AP at its temperature, or of a baseline on the same batches."""

    approximation: str = column("AP of")
    tau: float | None = column("tau")
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

    The baselines are measured on the batches of the training whose temperature is nearest to the paper's 0.01.
    `steps` cuts the epoch. The trainings stay in `folder`; one that was cut off goes on.
    """
    command = command_line("tightness", **locals())
    images, validation = open_data(data).train_and_validation(seed)
    settings = replace(QUICK, batch_size=batch_size, epochs=1, steps=steps, seed=seed, head_init="random")
    parts = (Path(model).name, data, size, batch_size, steps or "epoch", seed)
    trainings = folder / "-".join(map(str, parts)).replace("/", "_").replace(":", "_")
    total = settings.total_steps(len(BalancedBatches(images.labels, batch_size, settings.samples_per_class, seed=seed)))
    errors: dict[float, list[StepError]] = {}
    of_baselines: dict[float, np.ndarray] = {}  # (steps, baselines)
    for temperature in tau:
        network = open_model(model, dimension=512, size=size, weights=weights, seed=seed)
        place = trainings / f"tau-{temperature:g}"
        loss = MeasuredSmoothAP(temperature, total)
        measured = replace(settings, tau=temperature, diagnose_every=1)
        with alone_in(place):
            train_and_test(network, loss, images, validation, measured, place, RunOptions(resume=True, device=device))
        of_baselines[temperature] = loss.errors.cpu().numpy()
        errors[temperature] = [
            StepError(row["step"], row["approximation_error"], row["loss"])
            for row in read_rows(place)
            if "approximation_error" in row
        ]
    rows = [
        _over_steps("Smooth-AP", temperature, [step.approximation_error for step in steps_of])
        for temperature, steps_of in errors.items()
    ]
    nearest = min(errors, key=lambda temperature: abs(np.log(temperature / _PAPERS_TAU)))
    baselines = dict(zip(BASELINES, of_baselines[nearest].T.tolist(), strict=True))
    baseline_rows = [_over_steps(name, None, values) for name, values in baselines.items()]
    return Analysis(
        name="tightness",
        title="The AP approximation error over one epoch of training",
        numbers={
            "data": data, "images": len(images), "settings": settings.to_dict(),
            "curves": {f"{temperature:g}": list(map(asdict, steps_of)) for temperature, steps_of in errors.items()},
            "baselines": {"tau": nearest, "curves": baselines},
        },
        figures={"": _figure(errors), "baselines": _baselines_figure(errors[nearest], nearest, baselines)},
        table=[columns(row) for row in (*rows, *baseline_rows)],
        paper=(
            "Figure 4 (a figure without numbers): over one training epoch of Online Products, a lower tau leads to a "
            "tighter approximation, shown by the low AP_e = |AP_pred - AP|. Section 4 (without numbers): Smooth-AP "
            "provides a closer approximation to AP than FastAP and Blackbox AP."
        ),
        agreement=f"{_agreement(errors, data)} {_comparison(errors[nearest], nearest, baselines)}",
        command=command,
    )  # fmt: skip


def _over_steps(approximation: str, tau: float | None, values: Sequence[float]) -> ErrorsOverSteps:
    mean = float(np.mean(values))
    return ErrorsOverSteps(approximation, tau, len(values), values[0], mean, values[-1], max(values))


def _comparison(steps: Sequence[StepError], tau: float, baselines: Mapping[str, Sequence[float]]) -> str:
    """Whether Smooth-AP is closer to AP than each of its baselines, on the same batches."""
    own = [step.approximation_error for step in steps]
    agrees = all(np.mean(own) < np.mean(values) for values in baselines.values())
    means = ", ".join(f"{np.mean(values):.4f} ({name})" for name, values in baselines.items())
    closest = sum(ours < min(theirs) for ours, *theirs in zip(own, *baselines.values(), strict=True))
    return (
        f"{'Agrees' if agrees else 'Does not agree'} on the baselines: on the batches of the training at tau "
        f"{tau:g}, the "
        f"mean AP_e of Smooth-AP is {np.mean(own):.4f}, against {means}; Smooth-AP is the closest at {closest} of the "
        f"{len(own)} steps. Without its margin Blackbox AP has no error: it approximates the gradient, not the value."
    )


def _agreement(errors: Mapping[float, Sequence[StepError]], data: str) -> str:
    """Whether a lower temperature is the tighter one."""
    ordered = sorted(errors, reverse=True)
    mean = {tau: np.mean([step.approximation_error for step in errors[tau]]) for tau in ordered}
    falls = all(mean[one] > mean[other] for one, other in pairwise(ordered))
    means = ", ".join(f"{mean[tau]:.4f} at tau {tau:g}" for tau in ordered)
    by_step = zip(*(errors[tau] for tau in ordered), strict=False)
    tighter = sum(
        all(one.approximation_error > other.approximation_error for one, other in pairwise(step)) for step in by_step
    )
    steps = len(errors[ordered[0]])
    return (
        f"{'Agrees' if falls else 'Does not agree'}: the mean AP_e over {steps} steps on {data} is {means}; "
        f"the lower tau is the tighter one at {tighter} of the {steps} steps."
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


def _baselines_figure(steps: Sequence[StepError], tau: float, baselines: Mapping[str, Sequence[float]]) -> Figure:
    """AP_e of Smooth-AP and of its baselines against the step, on the same batches, by powers of ten."""
    figure = panel_figure(7.5, 4.2)
    axes = figure.add_subplot(xlabel="training step", yscale="log", ylabel="AP approximation error, AP$_e$")
    curves = {f"Smooth-AP, τ = {tau:g}": [step.approximation_error for step in steps], **baselines}
    for (name, values), (colour, dash) in zip(curves.items(), _CURVES, strict=True):
        axes.plot([step.step for step in steps], values, dash, color=LIGHT[colour], linewidth=2.2, label=name)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.legend(fontsize=10, ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1.08), **LEGEND)
    style_axes(axes, "Smooth-AP and its baselines on the same batches")
    return figure
