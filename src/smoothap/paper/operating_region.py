"""Supplement C: how much of the difference matrix is where the sigmoid has a slope, against the batch size."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, PercentFormatter
from torch import Tensor

from smoothap.data.names import open_data
from smoothap.data.samplers import BalancedBatches
from smoothap.functional.diagnostics import NEGLIGIBLE_GRADIENT, operating_width
from smoothap.paper.analysis import OUT, Analysis, Start
from smoothap.paper.tightness import MeasuredSmoothAP
from smoothap.plots.drawing import LEGEND, LINE_STYLES, PLAIN, doubling_axis, draw_lines, panel_figure, style_axes
from smoothap.plots.palette import LIGHT
from smoothap.training.config import QUICK, RunOptions
from smoothap.training.finetune import train_and_test
from smoothap.training.loop import alone_in

_MICRO_BATCH = 256  # images held at a time
_SCORES_AT_ONCE = 1 << 20
_FULL, _OTHERS, _NEAR, _BUSY = _SHARES = (
    "P, full matrix", "P, i != j", "negatives near a positive", "positives with one",
)  # fmt: skip


def region_of(embeddings: Tensor, labels: Tensor, width: float) -> tuple[float, float, float, float]:
    """What a batch has in the operating region |D| < width, counted in sorted scores: m^2 log m, never m^3.

    embeddings (m, d) of length 1, labels (m,) -> the share of the full difference matrix, as the paper counts it; the
    share of the pairs i != j of items other than the query; how many negatives a positive has near it; and the share of
    the positives that have at least one.
    """
    embeddings, labels = embeddings.detach().cpu(), labels.cpu()
    m = len(embeddings)
    scores = embeddings @ embeddings.T
    rows_at_once = max(1, _SCORES_AT_ONCE // m)
    full = others = near = busy = positives = 0
    for start in range(0, m, rows_at_once):
        queries = torch.arange(start, min(start + rows_at_once, m))
        block = scores[queries]
        full += int(_near(block.sort(1).values, block, width).sum())
        is_query = torch.arange(m)[None, :] == queries[:, None]
        without = block.masked_fill(is_query, float("inf")).sort(1).values
        count = _near(without, block, width).masked_fill_(is_query, 0)
        others += int(count.sum()) - (m - 1) * len(queries)  # less i = j, which is always near
        same = labels[queries, None] == labels[None, :]
        negatives = block.masked_fill(same, float("inf")).sort(1).values
        of_positives = _near(negatives, block, width)[same & ~is_query]
        near += int(of_positives.sum())
        busy += int((of_positives > 0).sum())
        positives += len(of_positives)
    return full / m**3, others / max(1, m * (m - 1) * (m - 2)), near / max(1, positives), busy / max(1, positives)


def operating_region(
    start: Start = Start(data="emoji"),
    *,
    batch_sizes: Sequence[int] = (64, 128, 256, 512, 1024),
    samples_per_class: int = 4,
    tau: float = 0.01,
    steps: int | None = None,
    out: Path = OUT,
) -> Analysis:
    """Supplement C: the share of the differences of scores that the sigmoid gives a gradient, by batch size.

    As in the paper, an epoch is trained for each batch size, with all else equal, from the same first weights, and the
    share is the mean over its batches. The trainings stay in the folder; one that was cut off goes on.

    Parameters
    ----------
    batch_sizes
        Those for which the training images have too few classes are left out.
    steps
        Stop after that many steps instead of an epoch.
    """
    images, validation = open_data(start.data).train_and_validation(start.seed)
    fitting = [size for size in batch_sizes if size <= images.classes * samples_per_class]
    if len(fitting) < len(batch_sizes):
        print(f"{images.classes:,} training classes are too few for batches of {max(batch_sizes):,}: left out.")
    parts = (
        Path(start.model).name,
        start.data,
        start.size,
        samples_per_class,
        f"{tau:g}",
        steps or "epoch",
        start.seed,
    )
    trainings = out / "operating-region" / "-".join(map(str, parts)).replace("/", "_").replace(":", "_")
    settings = replace(
        QUICK, epochs=1, steps=steps, samples_per_class=samples_per_class, tau=tau, seed=start.seed, head_init="random",
        micro_batch_size=_MICRO_BATCH,
    )  # fmt: skip
    width, rows, curves = operating_width(tau), [], {}
    for batch_size in sorted(fitting) or batch_sizes[:1]:  # none fits: the sampler says why
        config, place = replace(settings, batch_size=batch_size), trainings / f"batch-{batch_size}"
        per_epoch = len(BalancedBatches(images.labels, batch_size, samples_per_class, seed=start.seed))
        loss = MeasuredSmoothAP(tau, config.total_steps(per_epoch), len(_SHARES), partial(region_of, width=width))
        with alone_in(place):
            options = RunOptions(resume=True, device=start.device)
            train_and_test(start.network(512), loss, images, validation, config, place, options)
        measured = loss.measured.cpu().numpy()
        means = measured.mean(0).tolist()
        rows.append({"B": batch_size, "batches": len(measured), **dict(zip(_SHARES, means, strict=True))})
        curves[str(batch_size)] = measured[:, 0].tolist()
    return Analysis(
        name="operating-region",
        title="The share of the difference matrix in the sigmoid's operating region",
        figures={"": _share_figure(rows, tau), "slope": _slope_figure(tau, width)},
        table=rows,
        paper=(
            "Supplement C: P, the share of the m x m difference matrix with |dG/dD| > 0.005, increases with the batch "
            "size, averaged over one epoch of training on Online Products (a figure without numbers); section 6.4: the "
            "region is a margin of roughly 0.1 at tau 0.01."
        ),
        agreement=_agreement(rows, width, tau),
        numbers={
            "data": start.data, "tau": tau, "gradient": NEGLIGIBLE_GRADIENT, "width": width,
            "images": len(images), "classes": images.classes, "settings": settings.to_dict(),
            "derivative": "of G(D; tau) with respect to D", "curves of P": curves,
        },
    )  # fmt: skip


def _near(ascending: Tensor, scores: Tensor, width: float) -> Tensor:
    """How many of each row's sorted values are within `width` of each of its scores: (b, m), (b, n) -> (b, n)."""
    return torch.searchsorted(ascending, scores + width) - torch.searchsorted(ascending, scores - width, right=True)


def _agreement(rows: Sequence[Mapping[str, Any]], width: float, tau: float) -> str:
    first, last = rows[0], rows[-1]
    rises = all(one[_FULL] < other[_FULL] for one, other in pairwise(rows))
    verdict = "Does not agree" if not rises else "Agrees" if last[_FULL] > 1.1 * first[_FULL] else "Agrees, but weakly"
    return (
        f"{verdict}: over an epoch of training the mean share P {'rises' if rises else 'does not rise'} with every "
        f"step of the batch size ({100 * first[_FULL]:.1f}% at {first['B']:,}, {100 * last[_FULL]:.1f}% at "
        f"{last['B']:,}); the number of negatives in the region of a positive goes from {first[_NEAR]:,.1f} to "
        f"{last[_NEAR]:,.1f}, and the share of positives with at least one from {100 * first[_BUSY]:.0f}% to "
        f"{100 * last[_BUSY]:.0f}%. The larger the batch, the fewer steps an epoch has ({first['batches']:,} and "
        f"{last['batches']:,}), and the less the network has learnt by its middle. The region is {width:.3f} wide on "
        f"each side at tau {tau:g}."
    )


def _share_figure(rows: Sequence[Mapping[str, Any]], tau: float) -> Figure:
    """P, the negatives near a positive, and the positives that have one, against the batch size."""
    figure = panel_figure(11.5, 3.9)
    panels = (
        (_FULL, f"P: share of all differences\nin the region, τ = {tau:g}"),
        (_NEAR, "Negatives in the region\nof a positive, on average"),
        (_BUSY, "Positives with at least\none negative in the region"),
    )
    at = [row["B"] for row in rows]
    for place, (name, title) in enumerate(panels):
        axes = figure.add_subplot(1, 3, place + 1, xlabel="batch size")
        shown = {"full matrix": _FULL, "without i = j and the query": _OTHERS} if name == _FULL else {"": name}
        curves = {label: (at, [row[share] for row in rows]) for label, share in shown.items()}
        draw_lines(axes, curves, styles=LINE_STYLES)
        doubling_axis(axes, at, rotation=35)
        if name == _NEAR:
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter(PLAIN)
            axes.yaxis.set_minor_formatter(NullFormatter())
        else:
            axes.set_ylim(0, 1.18 * max(row[share] for row in rows for share in shown.values()))
            axes.yaxis.set_major_formatter(PercentFormatter(1))
        style_axes(axes, title)
        if name == _FULL:
            axes.legend(fontsize=9.5, loc="best", **LEGEND)
    return figure


def _slope_figure(tau: float, width: float) -> Figure:
    """dG/dD with the operating region marked, as it is and by powers of ten, where its edge can be seen."""
    figure = panel_figure(9, 3.7)
    reach = 2 * width if width else 10 * tau
    differences = np.linspace(-reach, reach, 801)
    values = 1 / (1 + np.exp(-differences / tau))
    slopes = np.maximum(values * (1 - values) / tau, 1e-12)
    for place, scale in enumerate(("linear", "log")):
        axes = figure.add_subplot(1, 2, place + 1, xlabel="difference of two scores, D", ylabel="dG(D; τ)/dD")
        axes.axvspan(-width, width, color=LIGHT["green"], alpha=0.15, linewidth=0)
        axes.plot(differences, slopes, color=LIGHT["blue"], linewidth=2.4)
        axes.set_xlim(-reach, reach)
        axes.set_yscale(scale)
        if scale == "log":
            axes.axhline(NEGLIGIBLE_GRADIENT, color=LIGHT["red"], linewidth=1.6, linestyle="--")
            label = f"{NEGLIGIBLE_GRADIENT:g}"
            axes.text(-0.97 * reach, 1.4 * NEGLIGIBLE_GRADIENT, label, color=LIGHT["red"], fontsize=10.5)
            axes.set_ylim(1e-3 * NEGLIGIBLE_GRADIENT, 4 * slopes.max())
        else:
            axes.set_ylim(0, 1.12 * slopes.max())
            axes.text(
                1.08 * width, 0.8 * slopes.max(), f"operating\nregion:\n±{width:.3f}", color=LIGHT["green"],
                fontsize=10.5, fontweight="bold", va="center",
            )  # fmt: skip
        style_axes(axes, f"Slope of the sigmoid, τ = {tau:g}" if place == 0 else "The same by powers of ten")
    return figure
