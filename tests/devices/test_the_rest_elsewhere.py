"""What else a GPU user touches: evaluation, embedding, training and its checkpoints, the methods, export and search."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from guarantees import LONG
from photo_makers import pattern_folder, photo_folder, tiny_model
from second_device import MISSING, NAME, package

import smoothap
from smoothap import SmoothAP, evaluate
from smoothap._core.devices import chosen_device
from smoothap.album import Album
from smoothap.album.ingest import index_photos
from smoothap.benchmark.methods import METHODS
from smoothap.cli import app
from smoothap.data.names import open_data
from smoothap.models import Embedder
from smoothap.models.export import export_onnx
from smoothap.training.config import RunOptions, TrainingConfig
from smoothap.training.frozen import freeze
from smoothap.training.loop import train
from smoothap.training.precision import loss_scaler, network_precision, score_noise

SIDE = 24


@pytest.fixture
def benchmark(tmp_path):
    return open_data(f"folder:{pattern_folder(tmp_path / 'photos', 24, 6)}")


def small_model():
    torch.manual_seed(0)
    return Embedder("test_resnet", 16, size=SIDE, pretrained=False)


def settings(**changes):
    given = {"batch_size": 16, "steps": 3, "learning_rate": 1e-3, "checkpoint_every": 1, "precision": "float32"}
    return TrainingConfig(**{**given, **changes})


def trained(benchmark, folder, place, loss=None, resume=False, model=None, **changes):
    images, validation = benchmark.train_and_validation(0)
    return train(
        model or small_model(), loss or SmoothAP(), images, validation, settings(**changes), folder,
        RunOptions(device=str(place), resume=resume),
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


def test_a_frozen_training_elsewhere_is_the_one_here(second_to_train_on, benchmark, tmp_path, monkeypatch):
    results = []
    for place in ("cpu", second_to_train_on.place):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / f"cache of {place}"))
        frozen = freeze(benchmark, small_model().to(place), views=1)
        head = frozen.head(16, hidden=8)
        results.append(trained(frozen.benchmark, tmp_path / str(place), place, model=head, memory_size=16).best)
        assert head.device == torch.device(place)
        assert Embedder.load(tmp_path / str(place) / "model").embedding.hidden.out_features == 8
    assert results[0] == pytest.approx(results[1], abs=1e-6)


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
    "changes",
    [{"memory_size": 40, "diagnose_every": 1}, {"micro_batch_size": 5, "optimiser": "adam", "clip": 1.0}],
)
def test_a_training_elsewhere_is_the_training_here(second_to_train_on, benchmark, tmp_path, changes):
    here = trained(benchmark, tmp_path / "here", "cpu", **changes)
    there = trained(benchmark, tmp_path / "there", second_to_train_on.place, **changes)
    assert there.steps == here.steps == 3
    assert losses_of(tmp_path / "there") == pytest.approx(losses_of(tmp_path / "here"), abs=2e-3)
    assert next(Embedder.load(tmp_path / "there" / "model").parameters()).device.type == "cpu"


@pytest.mark.parametrize("method", METHODS if LONG else ("divide-and-conquer", "mic"))
def test_every_method_trains_elsewhere(second, benchmark, tmp_path, method):
    assert trained(benchmark, tmp_path / "run", second.place, METHODS[method]).steps >= 3


@pytest.mark.parametrize("way", ["to the CPU", "from the CPU"])
def test_a_checkpoint_is_resumed_on_the_other_device(second, benchmark, tmp_path, way):
    changes = {"memory_size": 40}
    first, then = (second.place, "cpu") if way == "to the CPU" else ("cpu", second.place)
    trained(benchmark, tmp_path / "whole", "cpu", steps=4, **changes)
    with pytest.raises(Exception, match="enough"):
        trained(benchmark, tmp_path / "run", first, StopsAfter(2), steps=4, **changes)
    result = trained(benchmark, tmp_path / "run", then, SmoothAP(), steps=4, resume=True, **changes)
    assert result.steps == 4
    assert losses_of(tmp_path / "run") == pytest.approx(losses_of(tmp_path / "whole"), abs=2e-3)


def test_a_step_waits_for_the_loss_that_is_logged_and_for_no_more(second, benchmark, tmp_path):
    counted = []

    class Counted(SmoothAP):
        def forward(self, *given, **named):
            counted.append(second.waits.copy())
            value = super().forward(*given, **named)
            second.waits.clear()  # those of the loss itself have a test of their own
            return value

    trained(benchmark, tmp_path / "run", second.place, Counted(), steps=5, batch_size=8, checkpoint_every=100)
    assert [waits.total() for waits in counted[2:]] == [1] * 3, counted  # between two losses: the value of the first


def test_auto_is_16_bits_where_the_loss_bears_them(second):
    place, settings = second.place, TrainingConfig()
    assert network_precision(settings, SmoothAP(0.01), place) == torch.float16
    assert network_precision(settings, SmoothAP(0.005), place) == torch.float16
    assert network_precision(settings, SmoothAP(0.004), place) == torch.float32
    assert network_precision(settings, torch.nn.Identity(), place) == torch.float32  # it does not say what it bears
    assert network_precision(settings, SmoothAP(), torch.device("cpu")) == torch.float32
    assert network_precision(TrainingConfig(precision="bfloat16"), SmoothAP(), place) == torch.bfloat16


def test_noise_that_blurs_the_loss_is_said_before_the_first_step(second, benchmark, tmp_path):
    with pytest.warns(UserWarning, match=r"off by 0.*and the loss bears 0\.0000"):
        trained(benchmark, tmp_path / "run", second.place, SmoothAP(1e-5), precision="bfloat16")


def test_the_noise_of_score_differences_is_measured():
    rows = torch.nn.functional.normalize(torch.randn(200, 64, generator=torch.Generator().manual_seed(0)))
    noise = 1e-3 * torch.randn(200, 64, generator=torch.Generator().manual_seed(1))
    scores, noisy = (
        rows @ rows.T,
        torch.nn.functional.normalize(rows + noise) @ torch.nn.functional.normalize(rows + noise).T,
    )
    errors = [
        float((noisy - scores)[q, i] - (noisy - scores)[q, j])
        for q in range(50)
        for i in range(60, 100)
        for j in range(100, 140)
    ]
    assert score_noise(rows, rows + noise) == pytest.approx(np.std(errors), rel=0.1)
    assert score_noise(rows, rows) == 0


def test_16_bits_elsewhere(second_to_train_on, benchmark, tmp_path):
    result = trained(benchmark, tmp_path / "run", second_to_train_on.place, precision="float16")
    assert result.steps == 3


def test_the_factor_on_a_float16_loss_is_taken_back_and_an_infinite_gradient_is_no_step(any_second):
    weight = torch.nn.Parameter(torch.ones(3).to(any_second.place))
    optimiser = torch.optim.SGD([weight], lr=1.0)
    scaler = loss_scaler(torch.float16, any_second.place)
    for slope in (2.0, float("inf")):
        optimiser.zero_grad()
        scaler.scale((weight * slope).sum()).backward()
        scaler.unscale_(optimiser)
        scaler.step(optimiser)
        scaler.update()
        assert weight.tolist() == [-1.0] * 3
    assert scaler.get_scale() == 2**15  # half of what it began with


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


def test_an_album_is_made_and_searched_by_a_model_elsewhere(second, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    photos, model = photo_folder(tmp_path / "photos", 6), tiny_model(tmp_path / "model")
    for name, place in (("here", "cpu"), ("there", second.place)):
        index_photos(photos, tmp_path / name, model=str(model), device=str(place), progress=False)
    here, there = (
        Album.open(tmp_path / name, device=str(place)) for name, place in (("here", "cpu"), ("there", second.place))
    )
    query = next(photos.rglob("*.png"))
    there.use_model(Embedder.load(model).to(second.place))  # whose weights are compared with those of the album
    hits, others = here.search(query, k=6), there.search(query, k=6)
    assert [hit.id for hit in hits] == [hit.id for hit in others]


@pytest.mark.slow
def test_the_compare_command_trains_and_tests_in_processes_elsewhere(tmp_path):
    if MISSING:
        pytest.skip(MISSING)
    photos = pattern_folder(tmp_path / "photos", 24, 6)
    words = f"compare --data folder:{photos} --out {tmp_path / 'out'} --model test_resnet --weights none --size {SIDE}"
    more = f"--dimension 16 --batch-size 16 --steps 2 --validations 1 --seeds 1 --trials 0 --device {NAME}"
    paths = (package(tmp_path / "device"), Path(__file__).parents[1], Path(smoothap.__file__).parents[1])
    run = subprocess.run(
        [sys.executable, "-m", "smoothap", *words.split(), *more.split(), "--methods", "smooth-ap,mic"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}, capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert not results["failures"]
    assert [result["steps"] for result in results["runs"]] == [2, 2]
    assert all(0 < result["peak_megabytes"] < 100 for result in results["runs"])  # the device's: a process holds more


@pytest.mark.slow
def test_the_doctor_names_the_device_and_checks_it(second, capsys):
    app(["doctor", "--check", "--device", NAME, "--json"], result_action="return_value", exit_on_error=False)
    findings = json.loads(capsys.readouterr().out)
    assert [device["name"] for device in findings["devices"]] == ["cpu", f"{NAME}:0"]
    assert all(check["right"] for check in findings["checks"])


def test_the_accelerator_is_the_default_of_every_call(second, benchmark, tmp_path):
    second.begin()
    images, validation = benchmark.train_and_validation(0)
    model = small_model()
    train(model, SmoothAP(), images, validation, settings(), tmp_path / "run")
    assert next(model.parameters()).device.type == second.place.type
    assert chosen_device() == second.place or chosen_device().type == second.place.type
    assert chosen_device("cpu").type == "cpu"
