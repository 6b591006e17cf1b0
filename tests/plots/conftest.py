from collections.abc import Sequence

import numpy as np
import pytest
from PIL import Image

from smoothap.data.image_set import ImageSet


@pytest.fixture
def toy_set():
    """Pictures of one colour each, with classes of the given names and sizes."""

    def make(class_names: Sequence[str] = tuple("abcdefgh"), size: int = 4, **options) -> ImageSet:
        labels = np.repeat(np.arange(len(class_names)), size)
        colours = np.random.default_rng(0).integers(0, 256, (len(labels), 3))
        return ImageSet(
            name="toys <test>",
            names=[f"{class_names[label]}/{row}.png" for row, label in enumerate(labels)],
            labels=labels,
            class_names=list(class_names),
            read=lambda row, _=None: Image.new("RGB", (24, 16), tuple(int(value) for value in colours[row])),
            **options,
        )

    return make


@pytest.fixture
def vectors():
    """Embeddings (n, 8) whose classes lie as far apart as asked, not of length 1."""

    def make(labels: np.ndarray, apart: float, seed: int = 0) -> np.ndarray:
        generator = np.random.default_rng(seed)
        centres = generator.normal(size=(labels.max() + 1, 8))
        return (apart * centres[labels] + generator.normal(size=(len(labels), 8))).astype(np.float32)

    return make
