"""A changed byte is refused when the file is opened, refused when what it touches is read, or changes no answer."""

import random
import shutil

import numpy as np
import pytest
import torch
from guarantees import short_or_long
from photo_makers import photo_folder, tiny_model

from smoothap.album import Album, Filter, Learnt, Projection
from smoothap.album.photos import Photo
from smoothap.album.update import labels_by_folder
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


def flips(file, count, seed):
    """The file with a bit flipped at random places, one at a time, and then as it was."""
    content, chance = file.read_bytes(), random.Random(seed)
    written = [place for place, byte in enumerate(content) if byte]  # a database is full of zeros that mean nothing
    for number in range(count):
        place = chance.choice(written) if number % 4 else chance.randrange(len(content))
        bit = 1 << chance.randrange(8)
        flipped = bytearray(content)
        flipped[place] ^= bit
        file.write_bytes(flipped)
        yield place
    file.write_bytes(content)


def flip_and_read(file, read, count, seed):
    """Every flipped bit must be refused with the file's name."""
    for _ in flips(file, count, seed):
        with pytest.raises(ValueError, match=r"damaged|checksum differs|is of format") as refused:
            read()
        assert file.name in str(refused.value)
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


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """An album of every kind of file, calibrated, with dead slots, removed photos and collections."""
    folder = tmp_path_factory.mktemp("made")
    album = Album.create(folder / "album", tiny_model(folder / "model"), photo_folder(folder / "photos", 14))
    album.update(
        labels=labels_by_folder, columns=lambda path: {"parity": str(int(path[-7:-4]) % 2), "empty": ""}, progress=False
    )
    album.remove([3])
    album.calibrate(album.vectors, album.photos.labels(), "itself")
    projection = Projection(np.eye(5, 8, dtype=np.float32), np.full(5, 0.1, np.float32))
    album.learn(projection, Learnt(5, 5, 20, (0.2, 0.1, 0.3)), album.calibration)
    album.collections.mark("dog", right=[1, 5, 7], wrong=[2])
    album.collections.mark("cat", right=[8], wrong=[9])
    album.collections.rename("cat", "Katze")
    album.collections.tell_apart([(album.photo(4), album.photo(6))])
    return folder


def answers(folder):
    """Everything that a user can ask; what is asked for and refused is "refused"."""
    found = {}

    def ask(name, question):
        try:
            found[name] = question()
        except (ValueError, OSError):
            found[name] = "refused"

    album = Album.open(folder / "album", root=folder / "photos")
    photos, collections = album.photos, album.collections
    ids = photos.ids.tolist()
    found["ids"] = ids
    found["settings"] = (
        album.model,
        repr(album.calibration),
        album.learnt,
        album.codec,
        len(album),
        album.model_source,
    )
    for identity in ids:
        ask(f"photo {identity}", lambda identity=identity: album.photo(identity))
        ask(f"search {identity}", lambda identity=identity: list(album.search(identity, everything=True)))
        ask(f"thumbnail {identity}", lambda identity=identity: album.thumbnail(identity))
    for name in ("label", "camera", "day", "folder", "column:parity", "column:empty"):
        ask(f"counts {name}", lambda name=name: photos.counts(name))
    wheres = [
        *(Filter(columns=((name, value),)) for name in ("label", "parity", "empty") for value in ("", "0", "class1")),
        *(Filter(folder=f"class{number}") for number in range(3)),
        Filter(collection="dog"), Filter(collection="Katze"), Filter(in_no_collection=True),
    ]  # fmt: skip
    for where in wheres:
        ask(repr(where), lambda where=where: album.passing(where).tolist())
    ask("labels", lambda: photos.labels().tolist())
    ask("values", lambda: photos.values_of("parity").tolist())
    ask("paths", photos.paths)
    ask("contents", photos.contents)
    for path in photos.paths():
        ask(f"id of {path}", lambda path=path: photos.id_of(path))
    ask("original", lambda: album.model_vectors()[1][:].tobytes())
    ask("collections", lambda: {
        name: (one.right, one.wrong, one.away, one.key) for name, one in collections.all().items()
    })  # fmt: skip
    ask("counts", collections.counts)
    ask("steps", collections.steps)
    ask("distinct", collections.distinct)
    return found


FILES = [
    "album.db", "vectors-photo-1", "items-photo-1", "learnt-photo-1-1", "projection-1", "thumbnails-1",
    "collections/collections.db",
]  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_a_flipped_album_is_refused_or_answers_as_before(made, tmp_path, monkeypatch, name, measured):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    source = shutil.copytree(made, tmp_path / "source")
    wanted = answers(source)
    assert "refused" not in wanted.values()
    assert all(isinstance(wanted[f"photo {identity}"], Photo) for identity in wanted["ids"])
    count = short_or_long(24, 400)
    opening, reading, unchanged = 0, 0, 0
    for place in flips(source / "album" / name, count, 2):
        copy = shutil.copytree(source, tmp_path / "copy")
        sound = is_sound(copy)
        try:
            found = answers(copy)
        except (ValueError, OSError):
            opening += 1
            found = None
        assert not sound or name.endswith(".db"), f"byte {place} of {name}: verify does not find it"
        if found is not None:
            wrong = [one for one in wanted if found.get(one) not in (wanted[one], "refused")]
            assert not wrong, f"byte {place} of {name} changed {wrong[0]}: {wanted[wrong[0]]} -> {found.get(wrong[0])}"
            refused = [one for one in wanted if found[one] == "refused"]
            assert not (refused and sound), f"byte {place} of {name}: verify does not find what refuses {refused[0]}"
            reading += bool(refused)
            unchanged += not refused
        shutil.rmtree(copy)
    assert answers(source) == wanted
    measured(f"{name}: of {count} flips {opening} refused at opening, {reading} when read, {unchanged} without effect")


def is_sound(folder):
    """Whether `verify` finds nothing."""
    try:
        Album.open(folder / "album").verify()
    except (ValueError, OSError):
        return False
    return True
