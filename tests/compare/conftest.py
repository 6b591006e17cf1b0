from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import smoothap

SIDE = 24


@pytest.fixture
def photos(tmp_path) -> Path:
    """A folder for each of 24 classes: a coarse random pattern, and noisy copies of it."""
    random = np.random.default_rng(0)
    for label in range(24):
        coarse = random.integers(0, 256, (4, 4, 3)).repeat(SIDE // 4, 0).repeat(SIDE // 4, 1)
        folder = tmp_path / "photos" / f"thing {label}"
        folder.mkdir(parents=True)
        for number in range(6):
            noisy = np.clip(coarse + random.normal(0, 60, coarse.shape), 0, 255).astype(np.uint8)
            Image.fromarray(noisy).save(folder / f"{number}.png")
    return tmp_path / "photos"


@pytest.fixture
def words(photos, tmp_path, monkeypatch):
    """The words of a tiny comparison."""
    monkeypatch.setenv("PYTHONPATH", str(Path(smoothap.__file__).parent.parent))  # its processes test this source too

    def make(**options: object) -> list[str]:
        chosen = {
            "data": f"folder:{photos}", "out": tmp_path / "out", "model": "test_resnet", "weights": "none",
            "size": SIDE, "dimension": 32, "batch-size": 16, "steps": 4, "validations": 2, "device": "cpu",
            "seeds": 1, **{name.replace("_", "-"): value for name, value in options.items()},
        }  # fmt: skip
        if "search-steps" not in chosen:
            return ["compare", "--no-search", *(f"--{name}={value}" for name, value in chosen.items())]
        return ["compare", *(f"--{name}={value}" for name, value in chosen.items())]

    return make
