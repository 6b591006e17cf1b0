"""Small photos and a small model, for tests of albums."""

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
