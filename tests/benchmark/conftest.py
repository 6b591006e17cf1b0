from pathlib import Path
from threading import Lock

import pytest
from photo_makers import pattern_folder

import smoothap
from smoothap.benchmark import Plan

SIDE = 24


@pytest.fixture
def photos(tmp_path) -> Path:
    """A folder for each of 24 classes: a coarse random pattern, and noisy copies of it."""
    return pattern_folder(tmp_path / "photos", 24, 6)


@pytest.fixture
def plan(photos, tmp_path) -> Plan:
    """A tiny comparison without a search."""
    return Plan(
        trials=0,
        data=f"folder:{photos}", out=tmp_path / "out", model="test_resnet", weights="none", size=SIDE, dimension=32,
        batch_size=16, learning_rate=5e-4, steps=4, validations=2, methods="all", seeds=1, device="cpu",
    )  # fmt: skip


@pytest.fixture
def in_this_process(monkeypatch):
    """Trainings one by one, without processes of their own, which take longer to start than to train."""
    one_at_a_time = Lock()  # random numbers are of the whole process

    def finish(_, task):
        with one_at_a_time:
            return task.work(*task.arguments)

    monkeypatch.setattr("smoothap.benchmark.processes.TaskRunner._in_a_process", finish)


@pytest.fixture
def words(photos, tmp_path, monkeypatch):
    """The words of a tiny comparison."""
    monkeypatch.setenv("PYTHONPATH", str(Path(smoothap.__file__).parent.parent))  # its processes test this source too

    def make(**options: object) -> list[str]:
        chosen = {
            "data": f"folder:{photos}", "out": tmp_path / "out", "model": "test_resnet", "weights": "none",
            "size": SIDE, "dimension": 32, "batch-size": 16, "steps": 4, "validations": 2, "device": "cpu",
            "seeds": 1, "trials": 0, **{name.replace("_", "-"): value for name, value in options.items()},
        }  # fmt: skip
        return ["compare", *(f"--{name}={value}" for name, value in chosen.items())]

    return make
