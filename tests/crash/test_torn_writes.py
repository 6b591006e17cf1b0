"""A save is the old one or the new one, whenever the power goes: on a disk that tears what was not synced."""

import errno
import os
import random
from pathlib import Path

import pytest
import torch
from guarantees import short_or_long
from torn_disk import PowerCut, TornDisk

from smoothap._core.files import write_atomically
from smoothap.losses import SmoothAP
from smoothap.models import Embedder
from smoothap.models.folder import read_model, write_model
from smoothap.training import checkpoint
from smoothap.training.checkpoint import State

pytestmark = pytest.mark.guarantee(10)

OLD, NEW = (torch.full((300,), value) for value in (1.0, 2.0))


def state_of(value):
    model = torch.nn.Linear(20, 5)
    torch.nn.init.constant_(model.weight, value)
    optimiser = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 20)).sum().backward()
    optimiser.step()
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    return State(model, SmoothAP(), optimiser, scaler, None, step=int(value))


def save_text(folder, value):
    write_atomically(folder / "file", str(value) * 500)


def load_text(folder):
    return {"1" * 500: 1, "2" * 500: 2}[(folder / "file").read_text()]


def save_model(folder, value):
    write_model(folder, {"w": (OLD, NEW)[value - 1]}, {"architecture": "x", "dimension": None, "transform": {}})


def load_model(folder):
    return int(read_model(folder)[0]["w"][0])


def save_checkpoint(folder, value):
    checkpoint.write(folder, state_of(value), {})


def load_checkpoint(folder):
    state = state_of(7)
    checkpoint.read(folder, state, {})
    assert state.step in (1, 2)
    return state.step


SAVES = {
    "file": (save_text, load_text),
    "model": (save_model, load_model),
    "checkpoint": (save_checkpoint, load_checkpoint),
}


def cut_and_tear(folder, save, cut, seed, monkeypatch):
    """Save 1, then 2 with the power cut at an event; returns whether the power was cut at all."""
    save(folder, 1)
    disk = TornDisk(folder, cut, random.Random(seed))
    with monkeypatch.context() as patched:
        disk.install(patched)
        try:
            save(folder, 2)
            return False
        except PowerCut:
            pass
    disk.tear()
    return True


@pytest.mark.parametrize("kind", SAVES)
def test_whenever_the_power_goes_the_save_is_old_or_new(kind, tmp_path, monkeypatch, measured):
    save, load = SAVES[kind]
    runs, found = 0, set()
    for seed in range(short_or_long(4, 70)):
        for cut in range(1, 40):
            folder = tmp_path / f"{seed}-{cut}"
            folder.mkdir()
            if not cut_and_tear(folder, save, cut, seed, monkeypatch):
                assert load(folder) == 2
                break
            found.add(load(folder))
            save(folder, 2)  # and the next save works
            assert load(folder) == 2
            runs += 1
        else:
            pytest.fail("a save has no end")
    assert found == {1, 2}
    measured(f"{runs} power cuts while saving a {kind}")


def test_the_torn_disk_bites(tmp_path, monkeypatch):
    """A save that does not sync is broken by it, and so is one that renames before it syncs."""

    def careless(folder, value):
        (folder / "new").write_bytes(str(value).encode() * 500)
        (folder / "new").replace(folder / "file")
        os.fsync(os.open(folder, os.O_RDONLY))

    broken = 0
    for seed in range(20):
        folder = tmp_path / str(seed)
        folder.mkdir()
        cut_and_tear(folder, careless, 2, seed, monkeypatch)
        broken += (folder / "file").read_bytes() not in (b"1" * 500, b"2" * 500)
    assert broken > 5


@pytest.mark.parametrize("kind", SAVES)
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES])
def test_a_full_disk_or_a_read_only_folder_leaves_the_old_save(kind, error, tmp_path, monkeypatch):
    save, load = SAVES[kind]
    save(tmp_path, 1)
    for call in range(1, 4):
        with monkeypatch.context() as patched:
            patched.setattr(Path, "write_bytes", failing_at(call, error))
            try:
                save(tmp_path, 2)
            except OSError:
                expected = 1
            else:
                expected = 2
        assert load(tmp_path) == expected
        if expected == 2:
            break
    assert call > 1
    save(tmp_path, 1)
    assert load(tmp_path) == 1
    assert not list(tmp_path.glob(".*.partial"))


def failing_at(call, error):
    """Path.write_bytes, but its `call`-th call finds the disk full or the folder read-only."""
    calls, write_bytes = [], Path.write_bytes

    def failing(path, content):
        calls.append(path)
        if len(calls) == call:
            raise OSError(error, os.strerror(error), str(path))
        return write_bytes(path, content)

    return failing


def test_a_whole_model_survives_too(tmp_path, monkeypatch):
    torch.manual_seed(0)
    models = [Embedder("test_resnet", dimension, size=24, pretrained=False) for dimension in (8, 12)]

    def save(folder, value):
        models[value - 1].save(folder / "model")

    for cut in range(1, 12):
        folder = tmp_path / str(cut)
        folder.mkdir()
        cut_and_tear(folder, save, cut, cut, monkeypatch)
        assert Embedder.load(folder / "model").dimension in (8, 12)
