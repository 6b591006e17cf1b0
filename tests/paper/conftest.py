import pytest
import torch
from photo_makers import pattern_folder

from smoothap.cli import app

SIDE = 24


@pytest.fixture
def photos(tmp_path):
    """A folder of 24 things to photograph, 5 small noisy pictures of each."""
    return pattern_folder(tmp_path / "photos", 24, 5)


@pytest.fixture
def analyse(photos, tmp_path):
    """Run `smoothap paper` as typed, on the photos with a tiny network; the folder it wrote to."""

    def run(*words, with_data=True):
        given = ["--data", f"folder:{photos}", "--model", "test_resnet", "--weights", "none", "--size", SIDE]
        more = [*given, "--device", "cpu"] if with_data else []
        command = ["paper", *words, *more, "--out", tmp_path / "out"]
        app([str(word) for word in command], result_action="return_value", exit_on_error=False)
        return tmp_path / "out"

    return run


@pytest.fixture
def batch():
    """Embeddings (24, 6) in float64 of length 1, classes of 1 to 6 that are hard to tell apart, and labels."""
    random = torch.Generator().manual_seed(3)
    labels = torch.tensor([0] * 6 + [1] * 5 + [2] * 4 + [3] * 4 + [4] * 3 + [5] + [6])
    middles = torch.randn(7, 6, generator=random, dtype=torch.float64)
    embeddings = middles[labels] + 0.8 * torch.randn(24, 6, generator=random, dtype=torch.float64)
    return torch.nn.functional.normalize(embeddings), labels
