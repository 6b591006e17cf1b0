"""A changed byte in what we wrote is found when it is read, with a sentence."""

import random

import pytest
import torch
from promises import short_or_long

from smoothap.losses import SmoothAP
from smoothap.models.folder import read_model, write_model
from smoothap.training import checkpoint
from smoothap.training.checkpoint import State

pytestmark = pytest.mark.promise(12)


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
        with pytest.raises(ValueError, match=r"damaged|checksum differs") as refused:
            read()
        assert file.name in str(refused.value) or file.parent.name in str(refused.value)
    file.write_bytes(content)
    read()


def test_flipped_weights_are_refused(tmp_path, measured):
    described = {"architecture": "x", "dimension": None, "transform": {}}
    write_model(tmp_path, {"w": torch.randn(40), "b": torch.randn(3)}, described)
    count = short_or_long(40, 400)
    flip_and_read(tmp_path / "model.safetensors", lambda: read_model(tmp_path), count, 0)
    measured(f"{count} of {count} flips in weights refused")


@pytest.mark.parametrize("name", ["checkpoint-1.safetensors", "checkpoint.json"])
def test_a_flipped_checkpoint_is_refused(tmp_path, name, measured):
    checkpoint.write(tmp_path, state(), {"a": 1})
    if name.endswith("json"):  # without blanks, of which some could become others
        import json

        file = tmp_path / name
        file.write_text(json.dumps(json.loads(file.read_text()), separators=(",", ":")))
    count = short_or_long(40, 300)
    flip_and_read(tmp_path / name, lambda: checkpoint.read(tmp_path, state(), {"a": 1}), count, 1)
    measured(f"{count} of {count} flips in {name.partition('.')[2]} refused")
