from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from smoothap.data.datasets.counts import PAPER, Counts


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    """No test reads or writes the cache of the user who runs it."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder


@pytest.fixture
def write_images():
    """Write small pictures at these paths below a folder, each of its own colour."""

    def write(root: Path, paths: list[str], size: tuple[int, int] = (8, 6)) -> None:
        for number, path in enumerate(paths):
            target = root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            colour = tuple(int(value) for value in np.random.default_rng(number).integers(0, 256, 3))
            kind = "PNG" if target.suffix.lower() == ".png" else "JPEG"
            Image.new("RGB", size, colour).save(target, kind)

    return write


@pytest.fixture
def paper_has(monkeypatch):
    """Take these numbers for those of the paper: paper_has({"sop train": (3, 2)})."""

    def patch(counts: dict[str, tuple[int, int]]) -> None:
        for part, pair in counts.items():
            monkeypatch.setitem(PAPER, part, Counts(*pair))

    return patch
