from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from smoothap.data.image_set import ImageSet
from smoothap.losses import SmoothAP
from smoothap.models import Embedder
from smoothap.training.config import RunOptions, TrainingConfig
from smoothap.training.loop import alone_in, train

SIDE = 24


def patterns(classes: int, samples_per_class: int, seed: int = 0) -> np.ndarray:
    """Images (classes * samples_per_class, SIDE, SIDE, 3): each class a coarse random pattern, each image a noisy
    copy."""
    random = np.random.default_rng(seed)
    coarse = random.integers(0, 256, (classes, 4, 4, 3)).repeat(SIDE // 4, 1).repeat(SIDE // 4, 2)
    noise = random.normal(0, 60, (classes, samples_per_class, SIDE, SIDE, 3))
    return np.clip(coarse[:, None] + noise, 0, 255).astype(np.uint8).reshape(-1, SIDE, SIDE, 3)


@pytest.fixture
def pattern_set() -> Callable[..., ImageSet]:
    def make(classes: int = 12, samples_per_class: int = 5, seed: int = 0, **columns) -> ImageSet:
        pixels = patterns(classes, samples_per_class, seed)
        return ImageSet(
            name="patterns",
            names=[f"{row}.png" for row in range(len(pixels))],
            labels=np.repeat(np.arange(classes), samples_per_class),
            class_names=[str(label) for label in range(classes)],
            read=lambda row, _=None: Image.fromarray(pixels[row]),
            recall_at=(1, 2),
            **columns,
        )

    return make


@pytest.fixture
def pattern_folder(tmp_path) -> Path:
    """The same as files: a folder for each of 24 classes."""
    pixels = patterns(24, 5).reshape(24, 5, SIDE, SIDE, 3)
    for label in range(24):
        folder = tmp_path / "patterns" / f"class {label}"
        folder.mkdir(parents=True)
        for number in range(5):
            Image.fromarray(pixels[label, number]).save(folder / f"{number}.png")
    return tmp_path / "patterns"


@pytest.fixture
def small_model() -> Callable[..., Embedder]:
    def make(dimension: int = 16, seed: int = 0, **options) -> Embedder:
        torch.manual_seed(seed)
        return Embedder("test_resnet", dimension, size=SIDE, pretrained=False, **options)

    return make


@pytest.fixture
def small_settings() -> Callable[..., TrainingConfig]:
    def make(**changes) -> TrainingConfig:
        return TrainingConfig(**{
            "batch_size": 24, "epochs": 3, "learning_rate": 1e-3, "milestones": (2,), "checkpoint_every": 1, **changes,
        })  # fmt: skip

    return make


@pytest.fixture
def run(pattern_set, small_model, small_settings, tmp_path):
    """Train the small model on small patterns; returns (result, model)."""

    def train_it(folder="run", loss=None, model=None, images=None, *, to_beat=-1.0, **changes):
        model = model or small_model()
        given = {name: changes.pop(name) for name in ("resume", "minutes", "workers") if name in changes}
        settings, options = small_settings(**changes), RunOptions(device="cpu", **given)
        with alone_in(tmp_path / folder):
            result = train(
                model, loss or SmoothAP(settings.tau), images or pattern_set(), pattern_set(6, seed=1), settings,
                tmp_path / folder, options, to_beat=to_beat,
            )  # fmt: skip
        return result, model

    return train_it
