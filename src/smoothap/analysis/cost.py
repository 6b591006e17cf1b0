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
from torch import Tensor

from smoothap.analysis.analysis import Analysis
from smoothap.analysis.measured_losses import (
    AUTHORS,
    BLACKBOX,
    DIMENSION,
    FASTAP,
    OURS,
    PER_CLASS,
    balanced,
    forward_and_backward,
    loss_of,
)
from smoothap.models import Embedder
from smoothap.progress import Progress
from smoothap.report.cost_figure import cost_figure

BATCH_SIZES = (112, 224, 384, 1024, 4096)
# For one query, M items, L bins; the paper gives M^2 for Smooth-AP.
COMPLEXITY = {BLACKBOX: "M log M", FASTAP: "M L", AUTHORS: "M^2", OURS: "M |P|"}
# The supplement's table at M = 112, |P| = 4, ResNet-50, on the authors' GPU: milliseconds of the backbone and the loss.
PAPER_BACKBONE = 705.0
PAPER_LOSS = {BLACKBOX: 3.7, FASTAP: 4.2, AUTHORS: 6.6}
_LARGEST_CUBE = 512  # the authors' tensors are M^3: 0.5 GB each at 512
PIECE = 16  # images that go through the backbone at a time


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
    if device.type == "cuda":
        embeddings, labels = balanced(batch, device)
        loss = loss_of(name).to(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        forward_and_backward(loss, embeddings, labels)
        return (torch.cuda.max_memory_allocated(device) - before) / 2**20
    if not Path("/proc/self/clear_refs").exists():
        return None
    # A fresh process: in this one the peak of an earlier loss would hide that of the next.
    call = [sys.executable, "-m", "smoothap.analysis.measured_losses", name, str(batch)]
    done = subprocess.run(call, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def backbone_milliseconds(
    model: Embedder, images: int, rounds: int, device: torch.device, pixels: Tensor | None = None
) -> float:
    """Forward and backward of `images` images, a piece at a time: the statistics are frozen, so that changes nothing.

    pixels: a piece (p, 3, size, size) of bytes; by default 16 random images.
    """
    size = model.transform.size
    if pixels is None:
        pixels = torch.randint(0, 256, (PIECE, 3, size, size), dtype=torch.uint8)
    pixels = pixels.to(device)
    upstream = torch.randn(len(pixels), model.dimension, device=device)
    model.to(device).train()

    def piece() -> None:
        model.zero_grad()
        model(pixels).backward(upstream)

    with Progress(f"{model.architecture} at {size} pixels", rounds, "pieces") as line:
        piece()
        spent = []
        for _ in range(rounds):
            spent += milliseconds({"piece": piece}, 1, device)["piece"]
            line.advance()
    return median(spent) * images / len(pixels)


def cost(
    model: Embedder,
    *,
    batch_sizes: Sequence[int] = BATCH_SIZES,
    losses: Sequence[str] = (BLACKBOX, FASTAP, AUTHORS, OURS),
    rounds: int = 9,
    backbone_rounds: int = 3,
    memory: bool = True,
    pixels: Tensor | None = None,
    data: str = "",
    device: str | None = None,
    command: str = "smoothap analyse cost",
) -> Analysis:
    """Time and peak memory of every loss at every batch size; the first batch size is the supplement's.

    pixels: bytes (p, 3, size, size) of images for the backbone, by default random ones; data: where they are from.
    """
    on = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    per_image = backbone_milliseconds(model, 1, backbone_rounds, on, pixels)
    rows: list[dict[str, Any]] = []
    with Progress("Measuring losses", len(batch_sizes) * len(losses), "cells") as line:
        for batch in batch_sizes:
            embeddings, labels = balanced(batch, on)
            names = [name for name in losses if name != AUTHORS or batch <= _LARGEST_CUBE]
            candidates = {
                name: partial(forward_and_backward, loss_of(name).to(on), embeddings, labels) for name in names
            }
            spent = milliseconds(candidates, rounds if batch < 1000 else max(3, rounds // 3), on)
            for name in names:
                took = median(spent[name])
                together = took + per_image * batch
                rows.append(
                    {
                        "B": batch, "loss": name, "complexity": COMPLEXITY[name], "loss ms": took,
                        "backbone ms": per_image * batch, "both ms": together, "loss share": took / together,
                        "peak MB": peak_megabytes(name, batch, on) if memory else None,
                        "paper loss ms": PAPER_LOSS.get(name) if batch == batch_sizes[0] == 112 else None,
                    }
                )  # fmt: skip
                line.advance()
    return Analysis(
        name="cost",
        title="What the AP losses cost",
        numbers={
            "device": str(on), "threads": torch.get_num_threads(), "torch": torch.__version__, "dimension": DIMENSION,
            "per_class": PER_CLASS, "backbone": model.architecture, "size": model.transform.size,
            "backbone_ms_of_an_image": per_image, "paper_backbone_ms": PAPER_BACKBONE,
            "how": (
                "loss: median of forward and backward of float32 embeddings, the losses taking turns; backbone: "
                f"forward and backward of {PIECE if pixels is None else len(pixels)} {data or 'random'} images, scaled "
                "to the batch; peak: growth of a fresh process"
            ),
        },
        figures={"": cost_figure(rows)},
        table=rows,
        paper=(
            "Supplement E, M = 112, |P| = 4, ResNet-50 (705.0 ms forward and backward on the authors' GPU): "
            "Blackbox AP 3.7 ms, FastAP 4.2 ms, Smooth-AP 6.6 ms, a very small overhead on the backbone."
        ),
        agreement=_agreement(rows),
        command=command,
    )  # fmt: skip


def _agreement(rows: list[dict[str, Any]]) -> str:
    first = {row["loss"]: row for row in rows if row["B"] == rows[0]["B"]}
    ours = first[OURS]
    small = ours["loss share"] < 0.01
    others = ", ".join(f"{name} {row['loss ms']:.1f} ms" for name, row in first.items() if name != OURS)
    slowest = max(first.values(), key=lambda row: row["loss ms"])["loss"]
    fastest = min(first.values(), key=lambda row: row["loss ms"])["loss"]
    return (
        f"{'Agrees' if small else 'Does not agree'} that the loss is a small overhead: at M = {ours['B']} ours takes "
        f"{ours['loss ms']:.1f} ms, {100 * ours['loss share']:.2g}% of an iteration with a backbone of "
        f"{ours['backbone ms']:,.0f} ms ({others}); as on the paper's GPU, " + (
            "Smooth-AP as the authors wrote it is the slowest" if slowest == AUTHORS else f"{slowest} is the slowest"
        ) + f", but here {fastest} is the fastest."
    )  # fmt: skip


def _wait(device: torch.device) -> None:
    """Let a device that works on its own come to the end of what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
