"""Supplement C: how much of the difference matrix lies where the sigmoid has a slope, against the batch size."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from smoothap.analysis.analysis import Analysis
from smoothap.data.samplers import BalancedBatches
from smoothap.progress import Progress
from smoothap.ranking.diagnostics import NEGLIGIBLE_GRADIENT, operating_width
from smoothap.report.operating_region_figures import operating_share_figure, sigmoid_slope_figure

BATCH_SIZES = (64, 128, 256, 512, 1024, 2048, 4096)
_SCORES_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class Region:
    """What one batch (or the mean of several) has in the operating region |D| < width."""

    full: float  # of the whole m x m matrix of every query, as the paper counts: the query and i = j are in it
    others: float  # of the pairs i != j of items other than the query
    near_negatives: float  # negatives in the region of a positive, on average
    busy_positives: float  # the share of the positives with at least one negative in the region


def region_of(embeddings: Tensor, labels: Tensor, width: float) -> Region:
    """Count the differences below `width` of every query of a batch, in sorted scores: m^2 log m, never m^3.

    embeddings (m, d) of length 1, labels (m,).
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
    return Region(
        full / m**3,
        others / max(1, m * (m - 1) * (m - 2)),
        near / max(1, positives),
        busy / max(1, positives),
    )


def operating_region(
    models: Sequence[tuple[str, np.ndarray]],
    labels: np.ndarray,
    *,
    batch_sizes: Sequence[int] = BATCH_SIZES,
    per_class: int = 4,
    tau: float = 0.01,
    gradient: float = NEGLIGIBLE_GRADIENT,
    seed: int = 0,
    data: str = "",
    command: str = "smoothap analyse operating-region",
) -> Analysis:
    """The mean over the batches of an epoch for each batch size and each model: (name, vectors (n, d) of length 1).

    labels (n,). The vectors are made once, so the network does not change from batch to batch as it does in training.
    """
    width = operating_width(tau, gradient)
    rows: list[dict[str, Any]] = []
    every = torch.from_numpy(np.ascontiguousarray(labels))
    for name, vectors in models:
        embeddings = torch.from_numpy(vectors)
        for batch_size in batch_sizes:
            batches = BalancedBatches(labels, batch_size, per_class, seed=seed).rows(0)
            regions = []
            with Progress(f"{name}, batches of {batch_size:,}", len(batches), "batches") as line:
                for batch in batches:
                    at = torch.from_numpy(batch)
                    regions.append(region_of(embeddings[at], every[at], width))
                    line.advance()
            means = {field: float(np.mean([getattr(each, field) for each in regions])) for field in _COLUMNS}
            rows.append({"model": name, "B": batch_size, "batches": len(batches), **_named(means)})
    return Analysis(
        name="operating-region",
        title="The share of the difference matrix in the sigmoid's operating region",
        numbers={
            "data": data, "tau": tau, "gradient": gradient, "width": width, "per_class": per_class, "seed": seed,
            "images": len(labels), "classes": len(np.unique(labels)), "derivative": "of G(D; tau) with respect to D",
            "embedded": "once, forward only; the batches are those of an epoch of training",
        },
        figures={"": operating_share_figure(rows, tau), "slope": sigmoid_slope_figure(tau, gradient, width)},
        table=rows,
        paper=(
            "Supplement C: P, the share of the m x m difference matrix with |dG/dD| > 0.005, increases with the batch "
            "size, averaged over one epoch of training on Online Products (a figure without numbers); section 6.4: the "
            "region is a margin of roughly 0.1 at tau 0.01."
        ),
        agreement=_agreement(rows, width, tau),
        command=command,
    )  # fmt: skip


_COLUMNS = {
    "full": "P, full matrix",
    "others": "P, i != j",
    "near_negatives": "negatives near a positive",
    "busy_positives": "positives with one",
}


def _named(means: dict[str, float]) -> dict[str, float]:
    return {_COLUMNS[field]: value for field, value in means.items()}


def _near(ascending: Tensor, scores: Tensor, width: float) -> Tensor:
    """How many of each row's sorted values lie within `width` of each of its scores: (b, m), (b, n) -> (b, n)."""
    return torch.searchsorted(ascending, scores + width) - torch.searchsorted(ascending, scores - width, right=True)


def _agreement(rows: list[dict[str, Any]], width: float, tau: float) -> str:
    name = rows[-1]["model"]
    own = [row for row in rows if row["model"] == name]
    first, last = own[0], own[-1]
    column = _COLUMNS["full"]
    rises = all(one[column] < other[column] for one, other in pairwise(own))
    strongly = last[column] > 1.1 * first[column]
    course = "rises with every step of" if rises else "does not rise with every step of"
    near = [row["negatives near a positive"] for row in (first, last)]
    verdict = "Agrees" if rises and strongly else "Agrees, but weakly" if rises else "Does not agree"
    return (
        f"{verdict}: with {name} the share P {course} the batch size ({100 * first[column]:.1f}% at {first['B']:,}, "
        f"{100 * last[column]:.1f}% at {last['B']:,}), a mean over pairs that a fixed network scores; "
        f"what grows with it is the number of negatives in the region of a positive, from {near[0]:,.1f} "
        f"to {near[1]:,.1f}, and the share of positives with at least one, from "
        f"{100 * first['positives with one']:.0f}% to {100 * last['positives with one']:.0f}%. The region is "
        f"{width:.3f} wide on each side at tau {tau:g}."
    )
