"""Supplement E: what the AP losses cost, alone and behind a backbone, in time and in memory."""

import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter
from torch import Tensor

from smoothap._core.devices import chosen_device, count_memory, peak_bytes
from smoothap._core.progress import Progress
from smoothap.data.dataset import ImageDataset, evaluation_batches
from smoothap.models import Embedder
from smoothap.paper import measured_losses
from smoothap.paper.analysis import OUT, Analysis, Start
from smoothap.paper.measured_losses import AUTHORS, BLACKBOX, FASTAP, OURS
from smoothap.plots.drawing import LEGEND, LINE_STYLES, doubling_axis, panel_figure, style_axes
from smoothap.plots.palette import LIGHT

# For one query, M items, L bins; the paper gives M^2 for Smooth-AP.
COMPLEXITY = {BLACKBOX: "M log M", FASTAP: "M L", AUTHORS: "M^2", OURS: "M |P|"}
# The supplement's table at M = 112, |P| = 4, ResNet-50, on the authors' GPU: milliseconds of the backbone and the loss.
PAPER_BACKBONE = 705.0
PAPER_LOSS = {BLACKBOX: 3.7, FASTAP: 4.2, AUTHORS: 6.6}
_LARGEST_CUBE = 512  # the authors' tensors are M^3: 0.5 GB each at 512
_PIECE = 16  # images that go through the backbone at a time


def milliseconds(
    candidates: Mapping[str, Callable[[], object]], rounds: int, device: torch.device
) -> dict[str, list[float]]:
    """Milliseconds of each call; the candidates take turns, so that what else the machine does hits all alike."""
    for candidate in candidates.values():
        candidate()
    spent: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(rounds):
        for name, candidate in candidates.items():
            _wait(device)
            start = time.perf_counter()
            candidate()
            _wait(device)
            spent[name].append(1000 * (time.perf_counter() - start))
    return spent


def peak_megabytes(name: str, batch: int, device: torch.device) -> float | None:
    """Megabytes by which one forward and backward raises the peak; None where the system does not say."""
    if device.type != "cpu":
        embeddings, labels = measured_losses.balanced(batch, device)
        loss = measured_losses.loss_of(name).to(device)
        count_memory(device)
        before = peak_bytes(device)
        measured_losses.forward_and_backward(loss, embeddings, labels)
        return (peak_bytes(device) - before) / 2**20 if before else None
    if not Path("/proc/self/clear_refs").exists():
        return None
    # A fresh process: in this one the peak of an earlier loss would hide that of the next.
    call = [sys.executable, "-m", "smoothap.paper.measured_losses", name, str(batch)]
    done = subprocess.run(call, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def backbone_milliseconds(model: Embedder, pixels: Tensor, rounds: int, device: torch.device) -> float:
    """Forward and backward of an image, measured on a piece (p, 3, size, size) of bytes.

    The statistics are frozen, so an image costs the same in a batch of any size.
    """
    pixels = pixels.to(device)
    upstream = torch.randn(len(pixels), model.dimension, device=device)
    model.to(device).train()

    def piece() -> None:
        model.zero_grad()
        model(pixels).backward(upstream)

    with Progress(f"{model.architecture} at {model.transform.size} pixels", rounds, "pieces") as line:
        piece()
        spent = []
        for _ in range(rounds):
            spent += milliseconds({"piece": piece}, 1, device)["piece"]
            line.advance()
    return median(spent) / len(pixels)


def cost(
    start: Start = Start(model="resnet50", weights="none", size=224),
    *,
    batch_sizes: Sequence[int] = (112, 224, 384, 1024, 4096),
    rounds: int = 9,
    backbone_rounds: int = 3,
    out: Path = OUT,
) -> Analysis:
    """Supplement E: time and memory of four AP losses, alone and behind a backbone.

    Parameters
    ----------
    data
        NAME or NAME:PATH: images for the backbone; the time is the same with none, random ones.
    weights
        A file for the backbone; the time is the same with none, random ones.
    batch_sizes
        The supplement's is 112.
    rounds
        How often each loss is measured.
    backbone_rounds
        How often 16 images go through the backbone.
    """
    for batch in batch_sizes:
        if batch % measured_losses.PER_CLASS or batch < 2 * measured_losses.PER_CLASS:
            raise ValueError(
                f"A batch of {batch} cannot hold {measured_losses.PER_CLASS} images of each of two classes or more: "
                "give --batch-sizes that 4 divides, such as 112 224."
            )
    if rounds < 1 or backbone_rounds < 1:
        raise ValueError(f"Nothing is measured in {min(rounds, backbone_rounds)} rounds: give at least 1.")
    on, network = chosen_device(start.device), start.network(512)
    if start.data:
        dataset = ImageDataset(start.images(_PIECE), network.transform, report=out / "unreadable.csv")
        pixels = next(iter(evaluation_batches(dataset, _PIECE))).images
    else:
        side = network.transform.size
        pixels = torch.randint(0, 256, (_PIECE, 3, side, side), dtype=torch.uint8)
    per_image = backbone_milliseconds(network, pixels, backbone_rounds, on)
    rows: list[dict[str, Any]] = []
    with Progress("Measuring losses", len(batch_sizes) * len(COMPLEXITY), "cells") as line:
        for batch in batch_sizes:
            embeddings, labels = measured_losses.balanced(batch, on)
            names = [name for name in COMPLEXITY if name != AUTHORS or batch <= _LARGEST_CUBE]
            candidates = {
                name: partial(
                    measured_losses.forward_and_backward, measured_losses.loss_of(name).to(on), embeddings, labels
                )
                for name in names
            }
            spent = milliseconds(candidates, rounds if batch < 1000 else max(3, rounds // 3), on)
            for name in names:
                took, backbone = median(spent[name]), per_image * batch
                rows.append(
                    {
                        "B": batch, "loss": name, "complexity": COMPLEXITY[name], "loss ms": took,
                        "backbone ms": backbone, "both ms": took + backbone, "loss share": took / (took + backbone),
                        "peak MB": peak_megabytes(name, batch, on),
                        "paper loss ms": PAPER_LOSS.get(name) if batch == batch_sizes[0] == 112 else None,
                    }
                )  # fmt: skip
                line.advance()
    return Analysis(
        name="cost",
        title="What the AP losses cost",
        paper=(
            "Supplement E, M = 112, |P| = 4, ResNet-50 (705.0 ms forward and backward on the authors' GPU): "
            "Blackbox AP 3.7 ms, FastAP 4.2 ms, Smooth-AP 6.6 ms, a very small overhead on the backbone."
        ),
        figures={"": _figure(rows)},
        table=rows,
        agreement=_agreement(rows),
        numbers={
            "device": str(on), "threads": torch.get_num_threads(), "torch": torch.__version__,
            "dimension": measured_losses.DIMENSION, "samples_per_class": measured_losses.PER_CLASS,
            "backbone": network.architecture, "size": network.transform.size, "backbone_ms_of_an_image": per_image,
            "paper_backbone_ms": PAPER_BACKBONE,
            "how": (
                "loss: median of forward and backward of float32 embeddings, the losses taking turns; backbone: "
                f"forward and backward of {len(pixels)} {start.data or 'random'} images, scaled "
                "to the batch; peak: growth of a fresh process"
            ),
        },
    )  # fmt: skip


def _agreement(rows: Sequence[Mapping[str, Any]]) -> str:
    first = {row["loss"]: row for row in rows if row["B"] == rows[0]["B"]}
    ours = first[OURS]
    others = ", ".join(f"{name} {row['loss ms']:.1f} ms" for name, row in first.items() if name != OURS)
    slowest, fastest = (of(first, key=lambda name: first[name]["loss ms"]) for of in (max, min))
    slowest = "Smooth-AP as the authors wrote it" if slowest == AUTHORS else slowest
    return (
        f"{'Agrees' if ours['loss share'] < 0.01 else 'Does not agree'} that the loss is a small overhead: at M = "
        f"{ours['B']} ours takes {ours['loss ms']:.1f} ms, {100 * ours['loss share']:.2g}% of an iteration with a "
        f"backbone of {ours['backbone ms']:,.0f} ms ({others}); as on the paper's GPU, {slowest} is the slowest, but "
        f"here {fastest} is the fastest."
    )


def _figure(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """Milliseconds and megabytes by powers of ten; the backbone's time and the paper's numbers beside ours."""
    figure = panel_figure(11, 4.4)
    backbone = {row["B"]: row["backbone ms"] for row in rows}
    panels = ["Forward and backward of the loss, ms"]
    panels += ["Growth of the peak memory, MB"] if any(row["peak MB"] is not None for row in rows) else []
    blue, green, red, soft = LINE_STYLES
    for place, title in enumerate(panels):
        axes = figure.add_subplot(1, len(panels), place + 1, xlabel="batch size", yscale="log")
        for loss, (colour, marker, dash) in zip(COMPLEXITY, (blue, red, soft, green), strict=True):
            of_loss = [row for row in rows if row["loss"] == loss]
            if not of_loss:
                continue
            values = [row["loss ms"] if place == 0 else row["peak MB"] or 0 for row in of_loss]
            axes.plot(
                [row["B"] for row in of_loss], [max(value, 0.1) for value in values], dash, marker=marker,
                color=LIGHT[colour], linewidth=2.2, markersize=6, label=loss,
            )  # fmt: skip
            reported = [row for row in of_loss if row["paper loss ms"] is not None and place == 0]
            axes.plot(
                [row["B"] for row in reported], [row["paper loss ms"] for row in reported], marker, mfc="none", mew=1.8,
                markersize=10, color=LIGHT[colour],
            )  # fmt: skip
        if place == 0:
            axes.plot(list(backbone), list(backbone.values()), "-", color=LIGHT["ink"], linewidth=1.4, label="backbone")
            if any(row["paper loss ms"] for row in rows):
                axes.plot([], [], "o", mfc="none", mew=1.8, markersize=9, color=LIGHT["soft"], label="the paper's, GPU")
        doubling_axis(axes, list(backbone))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
        axes.grid(True, color=LIGHT["line"], linewidth=0.8)
        style_axes(axes, title)
        if place == 0:
            figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=10, **LEGEND)
    return figure


def _wait(device: torch.device) -> None:
    """Let a device that works on its own come to the end of what it was given."""
    if device.type != "cpu":
        torch.accelerator.synchronize(device)
