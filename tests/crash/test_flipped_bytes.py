"""A changed byte in what we wrote is found when it is read, with a sentence."""

import random

import numpy as np
import pytest
import torch
from guarantees import short_or_long
from photo_makers import photo_bytes, photo_folder, tiny_model
from smoothap.album.parts import PartUpdate, Share

from smoothap.album import Album
from smoothap.album.projection import Learnt, Projection
from smoothap.album.update import labels_by_folder
from smoothap.album.walk import walk
from smoothap.losses import SmoothAP
from smoothap.models.folder import read_model, write_model
from smoothap.training import checkpoint
from smoothap.training.checkpoint import State

pytestmark = pytest.mark.guarantee(12)


def state():
    model = torch.nn.Linear(20, 5)
    optimiser = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 20)).sum().backward()
    optimiser.step()
    return State(model, SmoothAP(), optimiser, torch.amp.GradScaler("cpu", enabled=False), None, step=1)


def flip_and_read(file, read, count, seed):
    """Flip a bit at random places, one at a time; every one must be refused with the file's name."""
    content, chance = file.read_bytes(), random.Random(seed)
    for _ in range(count):
        place, bit = chance.randrange(len(content)), 1 << chance.randrange(8)
        flipped = bytearray(content)
        flipped[place] ^= bit
        file.write_bytes(flipped)
        with pytest.raises(ValueError, match=r"damaged|checksum differs|is of format") as refused:
            read()
        assert file.name in str(refused.value) or file.suffix == ".pack"  # there the photo is named
    file.write_bytes(content)
    read()


@pytest.mark.parametrize("name", ["model.safetensors", "model.json"])
def test_a_flipped_model_is_refused(tmp_path, name, measured):
    described = {"architecture": "x", "dimension": None, "transform": {"mean": [0.485, 1e-05], "flip": True}}
    write_model(tmp_path, {"w": torch.randn(40), "b": torch.randn(3)}, described)
    count = short_or_long(15, 200)
    flip_and_read(tmp_path / name, lambda: read_model(tmp_path), count, 0)
    measured(f"{count} of {count} flips in {name} refused")


@pytest.mark.parametrize("name", ["checkpoint-1.safetensors", "checkpoint.json"])
def test_a_flipped_checkpoint_is_refused(tmp_path, name, measured):
    checkpoint.write(tmp_path, state(), {"a": 1})
    count = short_or_long(15, 200)
    flip_and_read(tmp_path / name, lambda: checkpoint.read(tmp_path, state(), {"a": 1}), count, 1)
    measured(f"{count} of {count} flips in {name} refused")


@pytest.fixture
def album(tmp_path, monkeypatch):
    """An album of every kind of file, and calibrated."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    album = Album.create(tmp_path / "album", tiny_model(tmp_path / "model"), photo_folder(tmp_path / "photos", 6))
    album.update(labels=labels_by_folder, progress=False)
    album.calibrate(album.vectors, album.photos.labels(), "itself")
    projection = Projection(np.eye(5, 8, dtype=np.float32), np.full(5, 0.1, np.float32))
    album.learn(projection, Learnt(5, 5, 20, (0.2, 0.1, 0.3)), album.calibration)
    photos = tmp_path / "photos"
    for number in range(6):
        (photos / f"new{number}.png").write_bytes(photo_bytes(100 + number))
    for number in (1, 2):
        PartUpdate(album.folder, album.embedder, photos, Share(number, 2), walk(photos), progress=False).run()
    return tmp_path / "album"


@pytest.mark.parametrize(
    "kind",
    [
        "vectors-*.npy",
        "photos-*.parquet",
        "album.json",
        "parts/*/*.json",
        "thumbnails-*.pack",
        "learnt-*.npy",
        "projection-*.npy",
    ],
)
def test_a_flipped_album_is_refused(album, kind, measured):
    count = short_or_long(12, 150)
    # thumbnails are looked at when they are shown, and all of them by `verify`
    read = (lambda: Album.open(album).verify()) if kind.endswith("pack") else (lambda: Album.open(album))
    flip_and_read(next(album.glob(kind)), read, count, 2)
    measured(f"{count} of {count} flips in {kind} refused")
