"""What else a GPU user touches: evaluation, embedding, training and its checkpoints, the methods, export and search."""

import json

import numpy as np
import pytest
import torch
from photo_makers import pattern_folder, photo_folder

from smoothap import SmoothAP, evaluate
from smoothap.data.samplers import BalancedBatches
from smoothap.experiments import open_data, open_methods
from smoothap.methods import Setup
from smoothap.models import Embedder
from smoothap.models.export import export_onnx
from smoothap.training.loop import train
from smoothap.training.settings import Settings

SIDE = 24


@pytest.fixture
def benchmark(tmp_path):
    return open_data(f"folder:{pattern_folder(tmp_path / 'photos', 24, 6)}")


def small_model():
    torch.manual_seed(0)
    return Embedder("test_resnet", 16, size=SIDE, pretrained=False)


def settings(**changes):
    given = {"batch_size": 16, "steps": 3, "learning_rate": 1e-3, "checkpoint_every": 1}
    return Settings(**{**given, **changes})


def trained(benchmark, folder, place, loss=None, resume=False, batches=None, callbacks=None, model=None, **changes):
    images, validation = benchmark.train_and_validation(0)
    return train(
        model or small_model(), loss or SmoothAP(), images, validation, settings(**changes), folder,
        device=place, resume=resume, batches=batches, callbacks=callbacks,
    )  # fmt: skip


class StopsAfter(SmoothAP):
    """A loss that ends its training after a few steps."""

    def __init__(self, steps):
        super().__init__()
        self.steps = steps

    def forward(self, *given, **named):
        self.steps -= 1
        if self.steps < 0:
            raise KeyError("enough")
        return super().forward(*given, **named)


def losses_of(folder):
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [row["loss"] for row in rows if "loss" in row]


@pytest.mark.parametrize("gallery", [False, True])
def test_evaluation_gives_the_same_bits_elsewhere(any_second, gallery):
    random = torch.Generator().manual_seed(0)
    rows, labels = torch.randn(240, 12, generator=random), torch.arange(240) % 40
    rows[120:] = rows[:120]  # ties
    items = (rows[:90], labels[:90]) if gallery else (None, None)
    moved = [None if value is None else value.to(any_second.place) for value in (rows, labels, *items)]
    here, there = evaluate(rows, labels, *items), evaluate(*moved)
    assert here.summary() == there.summary()
    np.testing.assert_array_equal(here.average_precision, there.average_precision)


@pytest.mark.parametrize(
    "changes", [{}, {"queue": 40}, {"piece_size": 5}, {"optimiser": "adam"}, {"clip": 1.0}, {"diagnose_every": 1}]
)
def test_a_training_elsewhere_is_the_training_here(any_second, benchmark, tmp_path, changes):
    here = trained(benchmark, tmp_path / "here", "cpu", **changes)
    there = trained(benchmark, tmp_path / "there", any_second.place, **changes)
    assert there.steps == here.steps == 3
    assert losses_of(tmp_path / "there") == pytest.approx(losses_of(tmp_path / "here"), abs=2e-3)
    assert next(Embedder.load(tmp_path / "there" / "model").parameters()).device.type == "cpu"


@pytest.mark.parametrize("method", [method.name for method in open_methods("all")])
def test_every_method_trains_elsewhere(second, benchmark, tmp_path, method):
    images, _ = benchmark.train_and_validation(0)
    model = small_model()
    batches = BalancedBatches(images.labels, 16, 4, seed=0)
    (chosen,) = open_methods(method)
    parts = chosen.build(Setup(images, model, settings(), batches))
    result = trained(
        benchmark, tmp_path / "run", second.place, parts.loss, model=model, batches=parts.batches or batches,
        callbacks=parts.callbacks, **parts.changes,
    )  # fmt: skip
    assert result.steps >= 3


@pytest.mark.parametrize("way", ["to the CPU", "from the CPU"])
@pytest.mark.parametrize("changes", [{}, {"queue": 40}])
def test_a_checkpoint_is_resumed_on_the_other_device(second, benchmark, tmp_path, way, changes):
    first, then = (second.place, "cpu") if way == "to the CPU" else ("cpu", second.place)
    trained(benchmark, tmp_path / "whole", "cpu", steps=4, **changes)
    with pytest.raises(Exception, match="enough"):
        trained(benchmark, tmp_path / "run", first, StopsAfter(2), steps=4, **changes)
    result = trained(benchmark, tmp_path / "run", then, SmoothAP(), steps=4, resume=True, **changes)
    assert result.steps == 4
    assert losses_of(tmp_path / "run") == pytest.approx(losses_of(tmp_path / "whole"), abs=2e-3)


def test_16_bits_elsewhere(second, benchmark, tmp_path):
    result = trained(benchmark, tmp_path / "run", second.place, precision="float16")
    assert result.steps == 3


def test_a_model_elsewhere_embeds_exports_and_searches(second, tmp_path):
    model = small_model().eval()
    photos = photo_folder(tmp_path / "photos", 4)
    files = sorted(photos.rglob("*.png"))
    here = model.embed(files, progress=False)
    there = model.to(second.place).embed(files, progress=False)
    assert there.device.type == "cpu"
    assert torch.allclose(here, there, atol=1e-5)
    export_onnx(model, tmp_path / "model.onnx")
    assert next(model.parameters()).device.type == second.place.type


def test_the_accelerator_is_the_default_of_every_call(second, benchmark, tmp_path):
    second.begin()
    images, validation = benchmark.train_and_validation(0)
    model = small_model()
    train(model, SmoothAP(), images, validation, settings(), tmp_path / "run")
    assert next(model.parameters()).device.type == second.place.type
