"""What every analysis starts from, and what it gives: a table, figures, numbers, and whether ours agrees."""

import json
from dataclasses import dataclass, field
from operator import methodcaller
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from smoothap._core.files import write_atomically
from smoothap._core.numbers import Count, Seed, check_numbers
from smoothap.data.image_set import ImageSet
from smoothap.data.names import open_data
from smoothap.data.samplers import BalancedBatches
from smoothap.models import Embedder, open_model
from smoothap.plots.drawing import save_figure
from smoothap.training.config import NETWORK

OUT = Path("runs/paper")  # the folder for figures, numbers and trainings


@dataclass(frozen=True, kw_only=True)
class Start:
    """The images, the network, the seed and the device that an analysis starts from."""

    data: str = ""  # NAME or NAME:PATH; none where an analysis can do without
    model: str = NETWORK
    weights: str | None = None
    size: Count | None = 64
    seed: Seed = 0
    device: str | None = None

    def __post_init__(self) -> None:
        check_numbers(self)

    def network(self, dimension: int | None = None) -> Embedder:
        """The network, with a new embedding layer where a dimension is given."""
        return open_model(self.model, dimension=dimension, size=self.size, weights=self.weights, seed=self.seed)

    def images(self, number: int) -> ImageSet:
        """One balanced batch of a set's training images; of its test images where it has no others."""
        benchmark = open_data(self.data)
        tests = iter(benchmark.tests.values())
        images = benchmark.train_and_validation(self.seed)[0] if benchmark.train else next(tests)
        return images.rows(BalancedBatches(images.labels, number, seed=self.seed).rows(0)[0])

    def embedded(self, number: int) -> tuple[Tensor, Tensor]:
        """Embeddings (n, d) of length 1 and labels (n,) of a balanced batch."""
        images = self.images(number)
        return self.network().to(self.device).embed(images), torch.from_numpy(images.labels)


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
