"""The commands under torchrun: training over two processes, one of them killed, and reports equal to the last digit."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import psutil
import pytest
from photo_makers import pattern_folder

from smoothap.cli._options import NOT_IMPROVED
from smoothap.training.log import read_rows

pytestmark = pytest.mark.alone

SIDE = 24
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": "src"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return pattern_folder(tmp_path_factory.mktemp("patterns"), 20, 7)


def train_command(folder, out, *more):
    return [
        *("train", "--data", f"folder:{folder}", "--out", str(out), "--model", "test_resnet", "--weights", "none"),
        *("--size", str(SIDE), "--dimension", "16", "--batch-size", "16", "--device", "cpu", *more),
    ]


def torchrun(*options):
    return [sys.executable, "-m", "torch.distributed.run", "--standalone", *options, "-m", "smoothap"]


def run(command):
    ended = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert ended.returncode in (0, NOT_IMPROVED), ended.stderr  # a few steps need not teach it anything
    return ended.stdout


def losses(out):
    return [row["loss"] for row in read_rows(out) if "loss" in row]


@pytest.mark.slow
def test_two_processes_train_as_one_and_report_to_the_last_digit(folder, tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    run([sys.executable, "-m", "smoothap", *train_command(folder, one, "--steps", "6")])
    told = run([*torchrun("--nproc-per-node", "2"), *train_command(folder, two, "--steps", "6")])
    assert told.count("The model is in") == 1
    np.testing.assert_allclose(losses(two), losses(one), atol=2e-3)

    evaluate = ["evaluate", "--model", str(one / "model"), "--data", f"folder:{folder}", "--device", "cpu", "--out"]
    run([sys.executable, "-m", "smoothap", *evaluate, str(tmp_path / "one.json")])
    run([*torchrun("--nproc-per-node", "2"), *evaluate, str(tmp_path / "two.json")])
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()


@pytest.mark.slow
def test_two_processes_compute_features_together_and_train_on_them_as_one(folder, tmp_path, monkeypatch):
    stored = []
    for out, command in (("one", [sys.executable, "-m", "smoothap"]), ("two", torchrun("--nproc-per-node", "2"))):
        monkeypatch.setitem(ENVIRONMENT, "XDG_CACHE_HOME", str(tmp_path / f"cache of {out}"))
        told = run([*command, *train_command(folder, tmp_path / out, "--steps", "6", "--frozen")])
        assert told.count("The features take") == 1
        files = sorted((tmp_path / f"cache of {out}" / "smoothap" / "features").glob("*.npy"))
        stored.append({file.name: file.read_bytes() for file in files})
    assert stored[0] == stored[1]
    assert len(stored[0]) == 2
    np.testing.assert_allclose(losses(tmp_path / "two"), losses(tmp_path / "one"), atol=2e-3)


@pytest.mark.slow
def test_a_killed_worker_comes_back_and_training_goes_on(folder, tmp_path):
    out, log = tmp_path / "out", tmp_path / "log.txt"
    command = [
        *torchrun("--nproc-per-node", "2", "--max-restarts", "2"),
        *train_command(folder, out, "--epochs", "60"),
    ]
    with log.open("w") as file:
        agent = subprocess.Popen(
            [*command, "--resume", "--checkpoint-every", "10"], env=ENVIRONMENT, stdout=file, stderr=file
        )
        try:
            wait_until(lambda: len(losses(out)) > 30, agent)
            victims = psutil.Process(agent.pid).children()
            step_before = json.loads((out / "checkpoint.json").read_text())["step"]
            victims[-1].send_signal(signal.SIGKILL)
            assert agent.wait(300) == 0, log.read_text()
        finally:
            agent.kill()
    described = json.loads((out / "checkpoint.json").read_text())
    steps = [row["step"] for row in read_rows(out) if "loss" in row]
    assert steps == list(range(1, described["step"] + 1))
    assert step_before < described["step"]
    assert "The model is in" in log.read_text()


LATE = """
import os, time
from smoothap._core.distributed import joined_processes

again, rank = int(os.environ["TORCHELASTIC_RESTART_COUNT"]), int(os.environ["RANK"])
if again and rank == 1:
    time.sleep(3)  # so that the other looks for this one while only the address of its dead forerunner is there
with joined_processes() as processes:
    assert processes.any(rank == 1)
    if not again and rank == 1:
        os._exit(1)
    if not again:
        time.sleep(60)
"""


@pytest.mark.slow
def test_after_a_restart_nobody_waits_for_a_process_that_is_dead(tmp_path):
    script = tmp_path / "late.py"
    script.write_text(LATE, encoding="utf-8")
    command = [*torchrun("--nproc-per-node", "2", "--max-restarts", "1")[:-2], str(script)]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stderr[-2000:]


def wait_until(condition, process):
    while not condition():
        assert process.poll() is None, "the training ended before it could be killed"
        time.sleep(0.05)
