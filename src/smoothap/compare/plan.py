"""What to compare and how, and the promise that a folder holds one comparison."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from smoothap import experiments
from smoothap.data.benchmark import Benchmark
from smoothap.files import write_atomically
from smoothap.models import Embedder
from smoothap.training.settings import QUICK, Settings

_RATE_FACTORS = (0.3, 1.0, 3.0)  # of the learning rate, tried for every method alike


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The options of `smoothap compare`; `methods` and the four below it may change when a comparison is resumed."""

    data: str
    steps: int
    minutes: float | None = None  # of one training
    model: str
    weights: str | None = None
    size: int
    dimension: int
    batch_size: int
    per_class: int = 4
    learning_rate: float
    search_steps: int = 0  # of the short runs that choose the learning rate; 0: no search
    validations: int  # of a training, besides that before its first step
    flip: bool = True
    test_fraction: float | None = None
    test_classes: Path | None = None
    methods: str
    seeds: int
    out: Path
    device: str
    workers: int = 0

    def __post_init__(self) -> None:
        for name in ("seeds", "steps", "validations"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}.")

    @property
    def settings(self) -> Settings:
        """How all methods are trained, but for the learning rate that is found for each."""
        return replace(
            QUICK, steps=self.steps, batch_size=self.batch_size, per_class=self.per_class,
            learning_rate=self.learning_rate, warm_up=min(QUICK.warm_up, self.steps), embedding_start="random",
            embedding_factor=1.0,
        )  # fmt: skip

    @property
    def rates(self) -> tuple[float, ...]:
        """The learning rates that are tried for each method; none without a search."""
        return tuple(self.learning_rate * factor for factor in _RATE_FACTORS) if self.search_steps else ()

    def open_benchmark(self) -> Benchmark:
        """The data set."""
        benchmark = experiments.open_data(self.data, test_fraction=self.test_fraction, test_classes=self.test_classes)
        return benchmark.with_tests()

    def open_network(self, dimension: int | None, seed: int) -> Embedder:
        """The network that all methods start from with this seed; without a dimension, the features of its backbone."""
        model = experiments.open_model(self.model, dimension=dimension, size=self.size, weights=self.weights, seed=seed)
        model.transform = replace(model.transform, flip=self.flip)
        return model

    def described(self) -> dict[str, Any]:
        """The options that must not change when a comparison is resumed, as JSON gives them back."""
        fixed = {
            name: value for name, value in vars(self).items()
            if name not in ("methods", "seeds", "out", "device", "workers")
        }  # fmt: skip
        return json.loads(json.dumps(fixed, default=str))

    def check_folder(self) -> None:
        """Refuse a folder that holds a comparison with other options; leave a note of these in a new one."""
        file, described = self.out / "compare.json", self.described()
        if not file.is_file():
            write_atomically(file, json.dumps(described, indent=1) + "\n")
            return
        before = json.loads(file.read_text(encoding="utf-8"))
        changes = [
            f"{name} was {before.get(name)} and is {described.get(name)}"
            for name in {**before, **described}
            if before.get(name) != described.get(name)
        ]
        if changes:
            raise ValueError(
                f"{self.out} holds a comparison with other settings ({', '.join(changes)}): repeat its command, or "
                "choose another --out"
            )
