"""What every analysis gives: a table, figures, numbers, what the paper reports, and whether ours agrees."""

import json
from dataclasses import dataclass, field
from operator import methodcaller
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from smoothap._core.files import write_atomically
from smoothap.data.image_set import ImageSet
from smoothap.data.names import open_data
from smoothap.data.samplers import BalancedBatches
from smoothap.models import open_model
from smoothap.plots.drawing import save_figure

OUT = Path("runs/paper")  # the folder for figures, numbers and trainings


@dataclass(frozen=True)
class Analysis:
    """One analysis; `agreement` is an honest sentence, made from the numbers, on whether ours agrees with the paper."""

    name: str  # the stem of its files, and its anchor on a page
    title: str
    table: list[dict[str, Any]]  # rows of plain values by column
    figures: dict[str, Figure]  # by stem suffix, "" for the main one
    paper: str  # what the paper reports
    agreement: str
    numbers: dict[str, Any] = field(default_factory=dict)  # everything else, fit for json

    def save(self, out: Path, command: str = "") -> list[Path]:
        """Write each figure as PNG and SVG and everything else as NAME.json; the paths, figures first."""
        paths = []
        for suffix, figure in self.figures.items():
            stem = f"{self.name}-{suffix}" if suffix else self.name
            paths += [save_figure(figure, out / f"{stem}{kind}") for kind in (".png", ".svg")]
        content = {
            "name": self.name, "title": self.title, "command": command, "paper": self.paper,
            "agreement": self.agreement, "table": self.table, "numbers": self.numbers,
        }  # fmt: skip
        text = json.dumps(content, default=methodcaller("tolist"))  # of arrays
        plain = json.loads(text, parse_constant=lambda _: None)  # JSON knows neither NaN nor infinity
        text = json.dumps(plain, indent=1, ensure_ascii=False, allow_nan=False)
        return [*paths, write_atomically(out / f"{self.name}.json", text + "\n")]


def balanced_images(data: str, number: int, seed: int) -> ImageSet:
    """One balanced batch of a set's training images; of its test images where it has no others."""
    benchmark = open_data(data)
    images = benchmark.train_and_validation(seed)[0] if benchmark.train else next(iter(benchmark.tests.values()))
    return images.rows(BalancedBatches(images.labels, number, seed=seed).rows(0)[0])


def embedded_batch(
    data: str, model: str, *, weights: str | None, size: int | None, batch_size: int, seed: int, device: str | None
) -> tuple[Tensor, Tensor]:
    """Embeddings (b, d) of length 1 and labels (b,) of a balanced batch."""
    images = balanced_images(data, batch_size, seed)
    embedder = open_model(model, size=size, weights=weights, seed=seed).to(device)
    return embedder.embed(images), torch.from_numpy(images.labels)
