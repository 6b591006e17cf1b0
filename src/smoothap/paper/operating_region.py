"""Supplement C: how much of the difference matrix is where the sigmoid has a slope, against the batch size."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import cycle, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, PercentFormatter
from torch import Tensor

from smoothap._core.progress import Progress
from smoothap.data.names import open_data
from smoothap.data.samplers import BalancedBatches
from smoothap.functional.diagnostics import NEGLIGIBLE_GRADIENT, operating_width
from smoothap.models.embedding import embed_sets
from smoothap.paper.analysis import OUT, Analysis, Start
from smoothap.plots.drawing import LEGEND, LINE_STYLES, PLAIN, doubling_axis, draw_lines, panel_figure, style_axes
from smoothap.plots.palette import LIGHT
from smoothap.training.config import NETWORK

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


def regions(
    name: str,
    vectors: np.ndarray,
    labels: np.ndarray,
    batch_sizes: Sequence[int],
    samples_per_class: int,
    tau: float,
    seed: int,
) -> list[dict[str, Any]]:
    """The mean over the batches of an epoch for each batch size, of vectors (n, d) of length 1 with labels (n,)."""
    width, rows = operating_width(tau), []
    for batch_size in batch_sizes:
        batches = BalancedBatches(labels, batch_size, samples_per_class, seed=seed).rows(0)
        counted = []
        with Progress(f"{name}, batches of {batch_size:,}", len(batches), "batches") as line:
            for batch in batches:
                counted.append(region_of(torch.from_numpy(vectors[batch]), torch.from_numpy(labels[batch]), width))
                line.advance()
        means = (float(np.mean(values)) for values in zip(*counted, strict=True))
        rows.append({"model": name, "B": batch_size, "batches": len(batches), **dict(zip(_SHARES, means, strict=True))})
    return rows


def operating_region(
    start: Start = Start(data="emoji"),
    *,
    model: Sequence[str] = (NETWORK,),
    batch_sizes: Sequence[int] = (64, 128, 256, 512, 1024, 2048, 4096),
    samples_per_class: int = 4,
    tau: float = 0.01,
    out: Path = OUT,
) -> Analysis:
    """Supplement C: the share of the differences of scores that the sigmoid gives a gradient, by batch size.

    The vectors are made once, so the network does not change from batch to batch as it does in training.

    Parameters
    ----------
    model
        Networks by their timm names, or folders of trained models: a line for each.
    batch_sizes
        Where the training images have too few classes for the largest, the test images join them.
    """
    benchmark, largest = open_data(start.data), max(batch_sizes)
    if benchmark.train is None:
        raise ValueError(f"{benchmark.name} has no training images: choose another set.")
    sets = [benchmark.train]
    if sets[0].classes * samples_per_class < largest:
        sets.append(next(iter(benchmark.tests.values())))
        print(f"{sets[0].classes:,} training classes are too few for batches of {largest:,}: the test images join.")
    rows: list[dict[str, Any]] = []
    labels = np.zeros(0, np.int64)
    for name in model:
        embedder = replace(start, model=name).network().to(start.device)
        vectors, labels = embed_sets(embedder, sets, unreadable=out / "unreadable.csv")
        label = "/".join(Path(name).parts[-2:]) if Path(name).is_dir() else name
        rows += regions(label, vectors, labels, batch_sizes, samples_per_class, tau, start.seed)
    width = operating_width(tau)
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
            "samples_per_class": samples_per_class, "seed": start.seed,
            "images": len(labels), "classes": len(np.unique(labels)),
            "derivative": "of G(D; tau) with respect to D",
            "embedded": "once, forward only; the batches are those of an epoch of training",
        },
    )  # fmt: skip


def _near(ascending: Tensor, scores: Tensor, width: float) -> Tensor:
    """How many of each row's sorted values are within `width` of each of its scores: (b, m), (b, n) -> (b, n)."""
    return torch.searchsorted(ascending, scores + width) - torch.searchsorted(ascending, scores - width, right=True)


def _agreement(rows: Sequence[Mapping[str, Any]], width: float, tau: float) -> str:
    of_model = [row for row in rows if row["model"] == rows[-1]["model"]]
    first, last = of_model[0], of_model[-1]
    rises = all(one[_FULL] < other[_FULL] for one, other in pairwise(of_model))
    verdict = "Does not agree" if not rises else "Agrees" if last[_FULL] > 1.1 * first[_FULL] else "Agrees, but weakly"
    return (
        f"{verdict}: with {last['model']} the share P {'rises' if rises else 'does not rise'} with every step of the "
        f"batch size ({100 * first[_FULL]:.1f}% at {first['B']:,}, {100 * last[_FULL]:.1f}% at {last['B']:,}), a mean "
        f"over pairs that a fixed network scores; what grows with it is the number of negatives in the region of a "
        f"positive, from {first[_NEAR]:,.1f} to {last[_NEAR]:,.1f}, and the share of positives with at least one, from "
        f"{100 * first[_BUSY]:.0f}% to {100 * last[_BUSY]:.0f}%. The region is {width:.3f} wide on each side at tau "
        f"{tau:g}."
    )


def _share_figure(rows: Sequence[Mapping[str, Any]], tau: float) -> Figure:
    """P, the negatives near a positive, and the positives that have one, against the batch size; a line a model."""
    figure = panel_figure(11.5, 3.9)
    panels = (
        (_FULL, f"P: share of all differences\nin the region, τ = {tau:g}"),
        (_NEAR, "Negatives in the region\nof a positive, on average"),
        (_BUSY, "Positives with at least\none negative in the region"),
    )
    of_model = {name: [row for row in rows if row["model"] == name] for name in dict.fromkeys(r["model"] for r in rows)}
    for place, (name, title) in enumerate(panels):
        axes = figure.add_subplot(1, 3, place + 1, xlabel="batch size")
        at = {model: [row["B"] for row in each] for model, each in of_model.items()}
        curves = {model: (at[model], [row[name] for row in each]) for model, each in of_model.items()}
        draw_lines(axes, curves, styles=LINE_STYLES)
        for model, (colour, _, _) in zip(of_model if name == _FULL else (), cycle(LINE_STYLES), strict=False):
            others = [row[_OTHERS] for row in of_model[model]]
            axes.plot(at[model], others, ":", color=LIGHT[colour], linewidth=1.6)
        doubling_axis(axes, sorted({row["B"] for row in rows}), rotation=35)
        if name == _NEAR:
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter(PLAIN)
            axes.yaxis.set_minor_formatter(NullFormatter())
        else:
            drawn = (name, _OTHERS) if name == _FULL else (name,)
            axes.set_ylim(0, 1.18 * max(row[share] for row in rows for share in drawn))
            axes.yaxis.set_major_formatter(PercentFormatter(1))
        style_axes(axes, title)
        if name == _FULL:
            axes.plot([], [], ":", color=LIGHT["soft"], linewidth=1.6, label="without i = j and the query")
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
