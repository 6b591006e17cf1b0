"""One training, from the first step to the best model, and every way it can be stopped."""

import errno
import json
import os
import signal

import numpy as np
import pytest
import torch
from torch import nn

from smoothap._core import files
from smoothap._core.progress import followed
from smoothap.data.samplers import BalancedBatches
from smoothap.losses import SmoothAP
from smoothap.models import Embedder
from smoothap.training import checkpoint
from smoothap.training.config import RunOptions, TrainingConfig
from smoothap.training.log import read_rows
from smoothap.training.loop import TrainingStopped, train


class Sabotaged(nn.Module):
    """Smooth-AP until `step`; then what `fault` makes of its value."""

    def __init__(self, step, fault):
        super().__init__()
        self.steps, self.step, self.fault, self.loss = 0, step, fault, SmoothAP()

    def forward(self, embeddings, labels, **further):
        self.steps += 1
        value = self.loss(embeddings, labels, **further)
        return self.fault(value) if self.steps == self.step else value


def test_training_finds_classes_it_never_saw(run, tmp_path):
    result, _ = run(epochs=12, milestones=())
    rows = read_rows(tmp_path / "run")
    validation = [row["validation_map"] for row in rows if "validation_map" in row]
    assert len(validation) == 13
    assert result.finished
    assert result.best == max(validation) > validation[0] + 0.05


def test_the_best_epoch_is_the_model_that_stays(run, tmp_path, pattern_set):
    result, model = run(epochs=4)
    saved = Embedder.load(tmp_path / "run" / "model")
    assert all(torch.equal(value, saved.state_dict()[name]) for name, value in model.state_dict().items())
    described = json.loads((tmp_path / "run" / "model" / "model.json").read_text())
    assert described["metrics"]["validation"]["mean_average_precision"] == result.best


def test_the_rate_falls_by_steps_as_released(run, tmp_path):
    run(epochs=3, milestones=(1, 2), learning_rate=1e-3)
    rates = [row["learning_rate"] for row in read_rows(tmp_path / "run") if "loss" in row]
    per_epoch = len(rates) // 3
    assert rates == pytest.approx([1e-3] * per_epoch + [3e-4] * per_epoch + [9e-5] * per_epoch)


def test_what_is_counted_are_the_images_of_a_recipes_own_batches(pattern_set, small_model, small_settings, tmp_path):
    images, counted = pattern_set(), {}
    settings = small_settings(batch_size=16, steps=3)
    with followed(lambda progress: counted.update({progress.description[:5]: (progress.done, progress.total)})):
        train(
            small_model(), SmoothAP(), images, pattern_set(6, seed=1), settings, tmp_path / "run",
            RunOptions(device="cpu"), batches=BalancedBatches(images.labels, 8, 2),
        )  # fmt: skip
    assert counted["Epoch"] == (24, 24)


def test_warm_up_and_cosine():
    settings = TrainingConfig(steps=110, warm_up=10, schedule="cosine")
    factors = [settings.rate_factor(step, 20) for step in range(110)]
    assert factors[:10] == pytest.approx(np.arange(1, 11) / 10)
    assert factors[60] == pytest.approx(0.5)
    assert factors[109] < 1e-3


def test_the_defaults_are_the_paper():
    paper = TrainingConfig()
    assert (paper.learning_rate, paper.weight_decay, paper.samples_per_class, paper.tau) == (1e-5, 4e-5, 4, 0.01)
    assert (paper.optimiser, paper.warm_up, paper.clip) == ("adam", 0, None)
    assert [paper.rate_factor(10 * epoch, 10) for epoch in (199, 200, 299, 300)] == pytest.approx([1, 0.3, 0.3, 0.09])


def test_the_momentum_of_sgd_adds_to_a_step_what_is_left_of_the_one_before(run, small_model):
    options = {"optimiser": "sgd", "learning_rate": 0.05, "weight_decay": 0.0, "schedule": "steps", "milestones": ()}
    start = small_model().state_dict()["embedding.bias"]
    moved = {}
    for momentum in (0.0, 0.9):
        for steps in (1, 2):
            _, model = run(f"{momentum} {steps}", momentum=momentum, steps=steps, **options)
            moved[momentum, steps] = model.state_dict()["embedding.bias"] - start
    assert torch.equal(moved[0.0, 1], moved[0.9, 1])
    second, with_momentum = moved[0.0, 2] - moved[0.0, 1], moved[0.9, 2] - moved[0.9, 1]
    torch.testing.assert_close(with_momentum, second + 0.9 * moved[0.9, 1], atol=1e-6, rtol=1e-3)


def test_clipping_limits_the_gradient(run, monkeypatch):
    lengths = []
    take = torch.optim.Adam.step

    def measured(self, *arguments, **options):
        gradients = [p.grad.flatten() for group in self.param_groups for p in group["params"] if p.grad is not None]
        lengths.append(torch.cat(gradients).norm().item())
        return take(self, *arguments, **options)

    monkeypatch.setattr(torch.optim.Adam, "step", measured)
    run("free", steps=2)
    run("clipped", steps=2, clip=1e-3)
    assert min(lengths[:2]) > 1e-3
    assert max(lengths[2:]) < 1.01e-3


def test_a_queue_adds_past_embeddings_to_the_ranking(run):
    sizes = []

    class Watched(SmoothAP):
        def forward(self, embeddings, labels, **further):
            sizes.append(len(further["ref_emb"]) if further else len(embeddings))
            return super().forward(embeddings, labels, **further)

    run(loss=Watched(), memory_size=40, steps=4)
    assert sizes == [24, 48, 64, 64]
    sizes.clear()
    run("later", loss=Watched(), memory_size=40, memory_after=2, steps=5)
    assert sizes == [24, 24, 24, 48, 64]


@pytest.mark.guarantee(5)
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_loss_that_is_not_a_number_stops_and_the_last_checkpoint_stays(run, tmp_path, value):
    with pytest.raises(
        TrainingStopped, match=r"after step 3: the loss is (nan|inf).*last good checkpoint stays.*--resume"
    ):
        run(loss=Sabotaged(4, lambda loss: loss * value))
    assert json.loads((tmp_path / "run" / "checkpoint.json").read_text())["step"] == 3
    assert run(resume=True)[0].finished


@pytest.mark.guarantee(5)
@pytest.mark.parametrize(
    ("value", "sentence"), [(float("nan"), "NaN or infinite"), (float("inf"), "NaN or infinite"), (0.0, "all zeros")]
)
def test_a_network_that_gives_a_bad_vector_stops_the_training_with_its_row(run, small_model, value, sentence):
    model = small_model()
    forward = model.forward

    def broken(images):
        vectors = forward(images)
        if model.training:
            vectors = torch.cat([vectors[:5], vectors[5:6] * 0 + value, vectors[6:]])
        return vectors

    model.forward = broken
    with pytest.raises(TrainingStopped, match=f"after step 0: .*{sentence}.* in row 5"):
        run(model=model)


@pytest.mark.guarantee(5)
def test_weights_that_are_not_numbers_never_replace_a_checkpoint(run, tmp_path):
    class Poison(torch.autograd.Function):
        @staticmethod
        def forward(ctx, value):
            return value.clone()

        @staticmethod
        def backward(ctx, gradient):
            return gradient * float("nan")

    with pytest.raises(TrainingStopped, match=r"no longer finite after step 3.*last good checkpoint stays"):
        run(loss=Sabotaged(3, Poison.apply))
    assert json.loads((tmp_path / "run" / "checkpoint.json").read_text())["step"] == 2


def test_a_full_disk_stops_and_the_last_checkpoint_stays(run, tmp_path, monkeypatch):
    write, calls = checkpoint.write_atomically, []

    def full(path, content):
        if path.name.startswith("checkpoint"):
            calls.append(path)
        if len(calls) == 5:  # two files a checkpoint: the tensors of the third
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(path, content)

    with monkeypatch.context() as patched:
        for module in (checkpoint, files):
            patched.setattr(module, "write_atomically", full)
        with pytest.raises(TrainingStopped, match=r"after step 3: the disk is full; the last good checkpoint stays"):
            run()
    assert json.loads((tmp_path / "run" / "checkpoint.json").read_text())["step"] == 2
    assert run(resume=True)[0].finished


def test_one_image_a_class_is_too_few(run, pattern_set):
    with pytest.raises(ValueError, match=r"12 of the 12 classes of patterns have one image only.*at least 2"):
        run(images=pattern_set(samples_per_class=1))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_saves_after_the_step_and_a_later_run_goes_on(run, tmp_path, number):
    def interrupt(value):
        os.kill(os.getpid(), number)
        return value

    former = signal.getsignal(number)
    result, _ = run(loss=Sabotaged(5, interrupt), checkpoint_every=1000, epochs=4)
    assert not result.finished
    assert result.steps == 5
    assert signal.getsignal(number) is former
    assert json.loads((tmp_path / "run" / "checkpoint.json").read_text())["step"] == 5
    assert run(resume=True, checkpoint_every=1000, epochs=4)[0].finished


def test_sixteen_bits_train_where_they_are_asked_for_and_never_by_default_on_a_cpu(run):
    seen = []

    class Watched(SmoothAP):
        def forward(self, embeddings, labels, **further):
            seen.append(embeddings.dtype)
            return super().forward(embeddings, labels, **further)

    half = run("half", loss=Watched(), precision="bfloat16", steps=2)[1]
    whole = run("whole", precision="float32", steps=2)[1]
    default = run("default", steps=2)[1]
    assert set(seen) == {torch.float32}  # scores of 16 bits would be coarser than tau
    assert torch.equal(whole.embedding.weight, default.embedding.weight)
    assert not torch.equal(whole.embedding.weight, half.embedding.weight)


def test_tensorboard_gets_the_same_metrics(pattern_set, small_model, small_settings, tmp_path):
    pytest.importorskip("tensorboard")
    train(
        small_model(), SmoothAP(), pattern_set(), pattern_set(6, seed=1), small_settings(steps=2), tmp_path,
        RunOptions(tensorboard=True, device="cpu"),
    )  # fmt: skip
    assert list((tmp_path / "tensorboard").glob("events*"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"optimiser": "lion"}, "optimiser is one of adam, adamw, sgd, not 'lion'"),
        ({"memory_after": 4}, "memory_after is for past batches: give memory_size too, or leave it out"),
        ({"momentum": 1.0}, "momentum must be a number from 0 to 0.9999, not 1.0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        TrainingConfig(**change)


def test_an_epoch_that_does_not_beat_the_network_before_is_not_kept(run, tmp_path, small_model):
    result, model = run(to_beat=1.0, learning_rate=1e-2)  # no mAP is above 1
    assert (result.best_step, result.finished) == (0, True)
    start = small_model().state_dict()
    assert all(torch.equal(value, start[name]) for name, value in model.state_dict().items())
    assert result.best == read_rows(tmp_path / "run")[0]["validation_map"]
