"""Small photos and a small model, for tests of training and of albums."""

import io
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from smoothap.models import Embedder


def tiny_model(folder: Path, seed: int = 0) -> Path:
    """A model folder with random weights; 32 px, 8 numbers."""
    torch.manual_seed(seed)
    return Embedder("test_resnet", 8, size=32, pretrained=False).save(folder)


def photo_bytes(seed: int, side: int = 40, form: str = "PNG", **options) -> bytes:
    """A photo of random colour patches."""
    patches = np.random.default_rng(seed).integers(0, 256, (4, 4, 3), dtype=np.uint8)
    stream = io.BytesIO()
    Image.fromarray(patches).resize((side, side + 8)).save(stream, form, **options)
    return stream.getvalue()


def photo_folder(root: Path, number: int, classes: int = 3) -> Path:
    """A folder of photos in folders of classes."""
    for seed in range(number):
        file = root / f"class{seed % classes}" / f"{seed:03d}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(photo_bytes(seed))
    return root


def pattern_folder(root: Path, classes: int, samples_per_class: int, side: int = 24) -> Path:
    """A folder for each class: a coarse random pattern, and noisy copies of it, which a small network tells apart."""
    random = np.random.default_rng(0)
    for label in range(classes):
        coarse = random.integers(0, 256, (4, 4, 3)).repeat(side // 4, 0).repeat(side // 4, 1)
        folder = root / f"thing {label}"
        folder.mkdir(parents=True)
        for number in range(samples_per_class):
            noisy = np.clip(coarse + random.normal(0, 60, coarse.shape), 0, 255).astype(np.uint8)
            Image.fromarray(noisy).save(folder / f"{number}.png")
    return root
