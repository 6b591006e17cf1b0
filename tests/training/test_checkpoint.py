"""A training that is cut off at any moment goes on as if nothing had happened."""

import json
import os
import random
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from guarantees import LONG, short_or_long
from PIL import Image
from torch import nn

from smoothap._core.threads import one_thread
from smoothap.cli import app
from smoothap.cli._options import NOT_IMPROVED
from smoothap.losses import SmoothAP
from smoothap.models.folder import read_model
from smoothap.training.log import read_rows


class PowerCut(BaseException):
    """Not an Exception: nothing in the loop may tidy up after it."""


def cut_off(loss, step):
    """The loss, with a power cut in its `step`-th call."""
    calls, forward = [], loss.forward

    def counted(*arguments, **further):
        calls.append(1)
        if len(calls) == step:
            raise PowerCut
        return forward(*arguments, **further)

    loss.forward = counted
    return loss


class LearnedTemperature(nn.Module):
    """A loss with a parameter of its own."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(16))
        self.loss = SmoothAP()

    def forward(self, embeddings, labels, **further):
        return self.loss(embeddings * self.scale, labels, **further)


@pytest.mark.parametrize("lost", ["model", "checkpoint-*.safetensors"])
def test_a_half_copied_training_is_refused_before_it_goes_on(run, tmp_path, lost):
    with pytest.raises(PowerCut):
        run("cut", loss=cut_off(SmoothAP(), 4))
    (gone,) = (tmp_path / "cut").glob(lost)
    gone.rename(tmp_path / "gone")
    with pytest.raises((ValueError, FileNotFoundError), match=r"No model in .*cut|has checkpoint.json but not chec"):
        run("cut", resume=True, loss=cut_off(SmoothAP(), 1))


def weights(folder):
    return {name: value.numpy().tobytes() for name, value in read_model(folder / "model")[0].items()}


def checkpoint_bytes(folder):
    described = json.loads((folder / "checkpoint.json").read_text())
    return (folder / described["tensors"]).read_bytes()


@pytest.mark.parametrize("changes", [
    {"checkpoint_every": 1},
    {"checkpoint_every": 2, "memory_size": 40},
    {"checkpoint_every": 2, "micro_batch_size": 7, "optimiser": "adamw", "schedule": "cosine"},
    {"checkpoint_every": 2, "optimiser": "sgd"},
], ids=str)  # fmt: skip
def test_cut_off_at_any_step_it_ends_with_the_same_bits(run, tmp_path, changes):
    result, _ = run("whole", **changes)
    steps = (1, 4, result.steps) if changes == {"checkpoint_every": 1} else (4,)
    for number, step in enumerate(steps):
        folder = f"cut {number}"
        with pytest.raises(PowerCut):
            run(folder, loss=cut_off(SmoothAP(), step), resume=True, **changes)
        again, _ = run(folder, resume=True, **changes)
        assert again == result
        assert checkpoint_bytes(tmp_path / folder) == checkpoint_bytes(tmp_path / "whole")
        assert weights(tmp_path / folder) == weights(tmp_path / "whole")


def with_dropout(model):
    model.embedding.register_forward_pre_hook(lambda layer, inputs: nn.functional.dropout(inputs[0], 0.3))
    return model


def test_dropout_draws_the_same_numbers_after_a_cut(run, small_model, tmp_path):
    run("whole", model=with_dropout(small_model()))
    with pytest.raises(PowerCut):
        run("cut", model=with_dropout(small_model()), loss=cut_off(SmoothAP(), 4))
    torch.manual_seed(1)
    run("cut", model=with_dropout(small_model(seed=1)), resume=True)
    assert checkpoint_bytes(tmp_path / "cut") == checkpoint_bytes(tmp_path / "whole")


def test_parameters_of_the_loss_are_kept_too(run, tmp_path):
    run("whole", loss=LearnedTemperature())
    with pytest.raises(PowerCut):
        run("cut", loss=cut_off(LearnedTemperature(), 4))
    run("cut", loss=LearnedTemperature(), resume=True)
    assert checkpoint_bytes(tmp_path / "cut") == checkpoint_bytes(tmp_path / "whole")


def test_rows_beyond_the_checkpoint_are_written_once(run, tmp_path):
    with pytest.raises(PowerCut):
        run(loss=cut_off(SmoothAP(), 6), checkpoint_every=4, epochs=4)
    with (tmp_path / "run" / "metrics.jsonl").open("a") as file:
        file.write('{"epoch": 2, "st')  # the crash came in the middle of a line
    result, _ = run(resume=True, checkpoint_every=4, epochs=4)
    steps = [row["step"] for row in read_rows(tmp_path / "run") if "loss" in row]
    assert steps == list(range(1, result.steps + 1))


def test_other_settings_are_not_mixed_into_a_training(run):
    run(steps=1)
    with pytest.raises(ValueError, match=r"other settings \(learning_rate was 0.001 and is 0.1\)"):
        run(resume=True, steps=1, learning_rate=0.1)


@pytest.fixture
def threads():
    """Set the number of threads for a while."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


class CountedThreads(SmoothAP):
    """Smooth-AP that notes how many threads there are at each step."""

    def __init__(self):
        super().__init__()
        self.threads = []

    def forward(self, *arguments, **further):
        self.threads.append(torch.get_num_threads())
        return super().forward(*arguments, **further)


@pytest.mark.guarantee(9)
def test_a_resumed_training_has_the_threads_it_began_with(run, threads, capsys):
    threads(1)
    with pytest.raises(PowerCut):
        run("cut", loss=cut_off(SmoothAP(), 3))
    threads(2)
    loss = CountedThreads()
    run("cut", loss=loss, resume=True)
    assert set(loss.threads) == {1}
    assert torch.get_num_threads() == 2
    assert "began with 1 threads and goes on with as many, not with 2" in capsys.readouterr().out


def renamed(images, column):
    return replace(images, **{column: [f"other {name}" for name in getattr(images, column)]})


@pytest.mark.guarantee(9)
@pytest.mark.parametrize("column", ["names", "class_names"])
def test_other_files_or_classes_are_not_mixed_into_a_training(run, pattern_set, column):
    run(steps=1)
    with pytest.raises(ValueError, match=r"trained on other images or classes .* same --data, --test-classes and"):
        run(resume=True, steps=1, images=renamed(pattern_set(), column))


@pytest.mark.guarantee(9)
def test_other_pictures_under_the_same_names_are_not_mixed_into_a_training(run, pattern_set):
    run(steps=1)
    with pytest.raises(ValueError, match="trained on other images or classes"):
        run(resume=True, steps=1, images=pattern_set(seed=2))


def test_another_decoder_may_go_on_with_a_training(run, pattern_set):
    run(steps=2)
    images = pattern_set()

    def read(row, shorter_side=None):
        pixels = np.asarray(images.read(row)).copy()
        pixels[::2, ::3] ^= 1  # grey levels that another version of a library rounds the other way
        return Image.fromarray(pixels)

    assert run(resume=True, steps=2, images=replace(images, read=read))[0].finished


@pytest.mark.guarantee(9)
def test_a_second_training_in_the_folder_is_refused_and_the_first_goes_on(run, tmp_path):
    class Second(SmoothAP):
        def forward(self, *arguments, **further):
            for resume in (False, True):
                with (
                    ThreadPoolExecutor(1) as thread,
                    pytest.raises(ValueError, match=r"Another process is training in .*run: wait until it is done"),
                ):
                    thread.submit(run, resume=resume, steps=2).result()
            return super().forward(*arguments, **further)

    result, _ = run(loss=Second(), steps=2)
    assert result.finished
    assert len(read_rows(tmp_path / "run")) == 4  # two validations, two steps
    assert run(resume=True, steps=2)[0].finished


def test_what_a_kill_left_half_written_is_swept_away(run, tmp_path):
    for name in ("run/.checkpoint.json.0a1b2c3d.partial", "run/model/.model.safetensors.next.0a1b2c3d.partial"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"half")
    run(steps=1)
    assert not list(tmp_path.rglob("*.partial"))


@pytest.mark.guarantee(8)
def test_twice_and_with_any_number_of_workers_the_weights_are_bit_equal(run, tmp_path, measured):
    steps = short_or_long(8, 200)
    run("first", steps=steps)
    torch.manual_seed(4)
    run("workers", steps=steps, workers=2)
    run("other", steps=steps, seed=4)
    assert checkpoint_bytes(tmp_path / "workers") == checkpoint_bytes(tmp_path / "first")
    assert checkpoint_bytes(tmp_path / "other") != checkpoint_bytes(tmp_path / "first")
    measured(f"bit-equal after {steps} steps with 0 and with 2 workers")


@pytest.mark.guarantee(14)
def test_nothing_in_a_checkpoint_is_pickled(run, tmp_path):
    run(steps=1, memory_size=10)
    names = sorted(file.name for file in (tmp_path / "run").iterdir())
    assert names == [".lock", "checkpoint-1.safetensors", "checkpoint.json", "metrics.jsonl", "model"]


@pytest.mark.guarantee(9)
@pytest.mark.skipif(not LONG, reason="crash/test_training_soak.py has kills in the short run")
def test_killed_again_and_again_the_weights_are_bit_equal(pattern_folder, tmp_path, measured):
    kills = 50

    def command(out: Path) -> list[str]:
        return [
            *(sys.executable, "-m", "smoothap", "train", "--data", f"folder:{pattern_folder}", "--out", str(out)),
            *("--model", "test_resnet", "--weights", "none", "--size", "24", "--dimension", "16", "--resume"),
            *("--batch-size", "24", "--epochs", str(8 + 5 * kills), "--checkpoint-every", "7", "--device", "cpu"),
        ]

    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": "src"}
    resumed = {**environment, "OMP_NUM_THREADS": "2"}  # the checkpoint knows better
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    with one_thread(), suppress(SystemExit):  # which need not teach it anything
        app(command(whole)[3:], result_action="return_value", exit_on_error=False)
    chance, killed_at = random.Random(0), []
    for _ in range(kills):
        threads = resumed if (cut / "checkpoint.json").is_file() else environment
        process = subprocess.Popen(command(cut), env=threads, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        seen, further = len(read_rows(cut)), chance.randint(8, 14)
        while process.poll() is None and len(read_rows(cut)) < seen + further:
            time.sleep(0.002)
        time.sleep(chance.random() * 0.05)
        process.kill()
        assert process.wait() == -9, "it was over before it could be killed"
        killed_at.append(len(read_rows(cut)))
    finished = subprocess.run(command(cut), env=resumed, capture_output=True, text=True)
    assert finished.returncode in (0, NOT_IMPROVED), finished.stderr
    assert "began with 1 threads" in finished.stdout
    assert re.search(r"after +\d", finished.stdout)
    assert weights(cut) == weights(whole)
    assert checkpoint_bytes(cut) == checkpoint_bytes(whole)
    measured(f"{kills} kills at {len(set(killed_at))} different steps, bit-equal at the end")
