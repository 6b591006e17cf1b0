"""Figure 4 and Eq. 8: how far smoothed AP is from AP while one epoch is trained, for several temperatures.

And Section 4's claim that Smooth-AP is closer to AP than FastAP and Blackbox AP are, on the batches of one of them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from torch import Tensor, nn

from smoothap.data.names import open_data
from smoothap.data.samplers import BalancedBatches
from smoothap.functional import average_precision
from smoothap.losses import SmoothAP
from smoothap.paper.analysis import OUT, Analysis, Start
from smoothap.plots.drawing import LEGEND, LINE_STYLES, PLAIN, draw_lines, panel_figure, style_axes
from smoothap.training.config import QUICK, RunOptions
from smoothap.training.finetune import train_and_test
from smoothap.training.log import read_rows
from smoothap.training.loop import alone_in

_PAPERS_TAU = 0.01
MARGIN = 0.02  # of Blackbox AP, as its authors set it
_STYLES = [(colour, "", dash) for colour, _, dash in LINE_STYLES]  # too many steps for markers
_BASELINE_STYLES = [("green", "", "-"), ("blue", "", "--"), ("blue", "", ":"), ("red", "", "-.")]  # Smooth-AP first


def histogram_ap(scores: Tensor, relevant: Tensor, bins: int) -> Tensor:
    """AP of each query as FastAP has it: of a soft histogram of squared distances, 0 to 4, in bins of equal width.

    scores (queries, items) are cosines, -inf for what is left out; relevant (queries, items) bool -> (queries,).
    """
    left_out = scores.isneginf()
    distances = 2 - 2 * scores.masked_fill(left_out, 1)
    positive, negative = relevant & ~left_out, ~relevant & ~left_out
    centres = torch.linspace(0, 4, bins + 1, dtype=scores.dtype, device=scores.device)
    precision, found, passed = scores.new_zeros(len(scores)), scores.new_zeros(len(scores)), 0.0
    for centre in centres:
        weights = (1 - (distances - centre).abs() * bins / 4).clamp(min=0)  # an item counts in the two nearest bins
        here = (weights * positive).sum(1)
        found = found + here
        passed = passed + here + (weights * negative).sum(1)
        precision = precision + torch.where(here > 0, here * found / passed, 0)
    return precision / positive.sum(1)


def margin_ap(scores: Tensor, relevant: Tensor, margin: float = MARGIN) -> Tensor:
    """AP of each query as Blackbox AP has it: exact, but positives are put back by half a margin, negatives forward."""
    return average_precision(scores - margin * (relevant.to(scores.dtype) - 0.5), relevant)


BASELINES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "FastAP, 10 bins": partial(histogram_ap, bins=10),
    "FastAP, 20 bins": partial(histogram_ap, bins=20),
    "Blackbox AP, margin 0.02": margin_ap,
}


def baseline_errors(embeddings: Tensor, labels: Tensor) -> list[float]:
    """The mean of |AP of the baseline - AP| over the queries of a batch, for each of `BASELINES`.

    embeddings (b, d) of length 1, labels (b,); each row is a query, and all others are its retrieval set.
    """
    rows = embeddings.detach().to(torch.promote_types(embeddings.dtype, torch.float32))
    scores = (rows @ rows.T).fill_diagonal_(-torch.inf)
    relevant = (labels[:, None] == labels).fill_diagonal_(False)
    exact = average_precision(scores, relevant)
    return [float((measure(scores, relevant) - exact).abs().nanmean()) for measure in BASELINES.values()]


class MeasuredSmoothAP(nn.Module):
    """Smooth-AP that notes some numbers of every batch, (steps, numbers), which are saved with the checkpoint."""

    measured: Tensor
    step: Tensor

    def __init__(
        self, tau: float, steps: int, numbers: int, measure: Callable[[Tensor, Tensor], Sequence[float]]
    ) -> None:
        super().__init__()
        self.loss, self._measure = SmoothAP(tau), measure
        self.tolerated_noise = self.loss.tolerated_noise
        self.register_buffer("measured", torch.zeros(steps, numbers))
        self.register_buffer("step", torch.tensor(0))

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        self.measured[int(self.step)] = self.measured.new_tensor(self._measure(embeddings, labels))
        self.step += 1
        return self.loss(embeddings, labels)


def tightness(
    start: Start = Start(data="emoji"),
    *,
    batch_size: int = 128,
    tau: Sequence[float] = (0.1, 0.01, 0.001),
    steps: int | None = None,
    out: Path = OUT,
) -> Analysis:
    """Figure 4: the error of the AP approximation at every step of one epoch, for each temperature.

    Each temperature has a training of its own from the same first weights, with the same views and batches. The
    baselines are measured on the batches of the one that is nearest to the paper's 0.01. The trainings stay in the
    folder; one that was cut off goes on.

    Parameters
    ----------
    tau
        The temperatures.
    steps
        Stop after that many steps instead of an epoch.
    """
    data, seed = start.data, start.seed
    images, validation = open_data(data).train_and_validation(seed)
    settings = replace(QUICK, batch_size=batch_size, epochs=1, steps=steps, seed=seed, head_init="random")
    parts = (Path(start.model).name, data, start.size, batch_size, steps or "epoch", seed)
    trainings = out / "tightness" / "-".join(map(str, parts)).replace("/", "_").replace(":", "_")
    total = settings.total_steps(len(BalancedBatches(images.labels, batch_size, settings.samples_per_class, seed=seed)))
    curves: dict[float, list[dict[str, Any]]] = {}
    of_baselines: dict[float, np.ndarray] = {}  # (steps, baselines)
    for temperature in tau:
        place = trainings / f"tau-{temperature:g}"
        loss = MeasuredSmoothAP(temperature, total, len(BASELINES), baseline_errors)
        measured = replace(settings, tau=temperature, diagnose_every=1)
        options = RunOptions(resume=True, device=start.device)
        with alone_in(place):
            train_and_test(start.network(512), loss, images, validation, measured, place, options)
        of_baselines[temperature] = loss.measured.cpu().numpy()
        curves[temperature] = [
            {name: row[name] for name in ("step", "approximation_error", "loss")}
            for row in read_rows(place)
            if "approximation_error" in row
        ]
    errors = {tau: [step["approximation_error"] for step in curve] for tau, curve in curves.items()}
    nearest = min(errors, key=lambda temperature: abs(np.log(temperature / _PAPERS_TAU)))
    baselines = dict(zip(BASELINES, of_baselines[nearest].T.tolist(), strict=True))
    return Analysis(
        name="tightness",
        title="The AP approximation error over one epoch of training",
        figures={"": _figure(errors), "baselines": _baselines_figure(errors[nearest], nearest, baselines)},
        table=[
            *(_row("Smooth-AP", temperature, values) for temperature, values in errors.items()),
            *(_row(name, None, values) for name, values in baselines.items()),
        ],
        paper=(
            "Figure 4 (a figure without numbers): over one training epoch of Online Products, a lower tau leads to a "
            "tighter approximation, shown by the low AP_e = |AP_pred - AP|. Section 4 (without numbers): Smooth-AP "
            "provides a closer approximation to AP than FastAP and Blackbox AP."
        ),
        agreement=f"{_agreement(errors, data)} {_comparison(errors[nearest], nearest, baselines)}",
        numbers={
            "data": data, "images": len(images), "settings": settings.to_dict(),
            "curves": {f"{temperature:g}": curve for temperature, curve in curves.items()},
            "baselines": {"tau": nearest, "curves": baselines},
        },
    )  # fmt: skip


def _row(approximation: str, tau: float | None, values: Sequence[float]) -> dict[str, Any]:
    """AP_e over the steps of a training: of Smooth-AP at its temperature, or of a baseline on the same batches."""
    return {
        "AP of": approximation, "tau": tau, "steps": len(values), "AP_e, first step": values[0],
        "AP_e, mean": float(np.mean(values)), "AP_e, last step": values[-1], "AP_e, largest": max(values),
    }  # fmt: skip


def _comparison(ours: Sequence[float], tau: float, baselines: Mapping[str, Sequence[float]]) -> str:
    """Whether Smooth-AP is closer to AP than each of its baselines, on the same batches."""
    agrees = all(np.mean(ours) < np.mean(values) for values in baselines.values())
    means = ", ".join(f"{np.mean(values):.4f} ({name})" for name, values in baselines.items())
    closest = sum(own < min(theirs) for own, *theirs in zip(ours, *baselines.values(), strict=True))
    return (
        f"{'Agrees' if agrees else 'Does not agree'} on the baselines: on the batches of the training at tau {tau:g}, "
        f"the mean AP_e of Smooth-AP is {np.mean(ours):.4f}, against {means}; Smooth-AP is the closest at {closest} of "
        f"the {len(ours)} steps. Without its margin Blackbox AP has no error: it approximates the gradient, not the "
        "value."
    )


def _agreement(errors: Mapping[float, Sequence[float]], data: str) -> str:
    """Whether a lower temperature is the tighter one."""
    ordered = sorted(errors, reverse=True)
    mean = {tau: np.mean(errors[tau]) for tau in ordered}
    falls = all(mean[one] > mean[other] for one, other in pairwise(ordered))
    means = ", ".join(f"{mean[tau]:.4f} at tau {tau:g}" for tau in ordered)
    by_step = zip(*(errors[tau] for tau in ordered), strict=False)
    tighter = sum(all(one > other for one, other in pairwise(step)) for step in by_step)
    steps = len(errors[ordered[0]])
    return (
        f"{'Agrees' if falls else 'Does not agree'}: the mean AP_e over {steps} steps on {data} is {means}; "
        f"the lower tau is the tighter one at {tighter} of the {steps} steps."
    )


def _figure(errors: Mapping[float, Sequence[float]]) -> Figure:
    """AP_e against the step, as the paper's Figure 4 and by powers of ten, where the small ones can be told apart."""
    figure = panel_figure(10, 3.9)
    for place, scale in enumerate(("linear", "log")):
        axes = figure.add_subplot(1, 2, place + 1, xlabel="training step", yscale=scale)
        curves = {f"τ = {tau:g}": (range(1, len(values) + 1), values) for tau, values in errors.items()}
        draw_lines(axes, curves, styles=_STYLES)
        if scale == "linear":
            axes.set_ylim(bottom=0)
            axes.legend(fontsize=11, **LEGEND)
            axes.set_ylabel("AP approximation error, AP$_e$")
        else:
            axes.yaxis.set_major_formatter(PLAIN)
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        style_axes(axes, "Error of the approximation" if place == 0 else "The same by powers of ten")
    return figure


def _baselines_figure(ours: Sequence[float], tau: float, baselines: Mapping[str, Sequence[float]]) -> Figure:
    """AP_e of Smooth-AP and of its baselines against the step, on the same batches, by powers of ten."""
    figure = panel_figure(7.5, 4.2)
    axes = figure.add_subplot(xlabel="training step", yscale="log", ylabel="AP approximation error, AP$_e$")
    curves = {f"Smooth-AP, τ = {tau:g}": ours, **baselines}
    steps = range(1, len(ours) + 1)
    draw_lines(axes, {name: (steps, values) for name, values in curves.items()}, styles=_BASELINE_STYLES)
    axes.yaxis.set_major_formatter(PLAIN)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.legend(fontsize=10, ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1.08), **LEGEND)
    style_axes(axes, "Smooth-AP and its baselines on the same batches")
    return figure
