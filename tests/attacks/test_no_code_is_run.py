"""Data never runs code: a payload instead of every file that we or others wrote, checksums and all."""

import hashlib
import io
import os
import pickle
import shutil
import sqlite3
import zlib
from contextlib import closing, suppress

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tiny_sets
import torch
from photo_makers import photo_folder, tiny_model

from smoothap._core.files import cache_folder
from smoothap.album import Album, index_photos
from smoothap.data.datasets import glyphs
from smoothap.data.datasets.own import folder as image_folder
from smoothap.data.datasets.own import table
from smoothap.data.datasets.published import inaturalist, sop
from smoothap.data.reading import read_image
from smoothap.losses import SmoothAP
from smoothap.metrics import Report
from smoothap.models import Embedder
from smoothap.models import folder as folder_module
from smoothap.models.weights import read_state
from smoothap.training import checkpoint
from smoothap.training.checkpoint import State
from smoothap.training.log import read_rows
from smoothap.training.vector_files import open_array

pytestmark = pytest.mark.guarantee(14)


class Payload:
    """Leaves a folder behind when it is unpickled."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return os.mkdir, (str(self.mark),)


def object_array(mark):
    stream = io.BytesIO()
    np.save(stream, np.array([Payload(mark), 1, 2], dtype=object), allow_pickle=True)
    return stream.getvalue()


def object_archive(mark):
    stream = io.BytesIO()
    plain = dict.fromkeys(("names", "labels", "class_names"), np.zeros(1))
    np.savez(stream, pixels=np.array([Payload(mark)], object), **plain)
    return stream.getvalue()


def torch_archive(mark):
    stream = io.BytesIO()
    torch.save({"w": torch.zeros(2), "more": Payload(mark)}, stream)
    return stream.getvalue()


def torch_legacy(mark):
    stream = io.BytesIO()
    torch.save({"more": Payload(mark)}, stream, _use_new_zipfile_serialization=False)
    return stream.getvalue()


def python_type_in_parquet(mark):
    """A column of the kind that old versions of pyarrow unpickled when the file was opened."""
    hidden = {
        b"ARROW:extension:name": b"arrow.py_extension_type",
        b"ARROW:extension:metadata": pickle.dumps(Payload(mark)),
    }
    fields = [pa.field(name, pa.string(), metadata=hidden) for name in ("path", "label")]
    stream = io.BytesIO()
    pq.write_table(pa.table([["a.jpg"], ["b"]], schema=pa.schema(fields)), stream)
    return stream.getvalue()


PAYLOADS = {
    **{f"pickle {protocol}": lambda mark, p=protocol: pickle.dumps(Payload(mark), p) for protocol in (0, 2, 4, 5)},
    "npy": object_array,
    "npz": object_archive,
    "pth": torch_archive,
    "old pth": torch_legacy,
    "parquet": python_type_in_parquet,
}


def test_the_payloads_bite(tmp_path):
    """Each of them leaves its mark where it is opened without care."""
    careless = {
        "npy": lambda content: np.load(io.BytesIO(content), allow_pickle=True),
        "npz": lambda content: np.load(io.BytesIO(content), allow_pickle=True)["pixels"],
        "pth": lambda content: torch.load(io.BytesIO(content), weights_only=False),
        "old pth": lambda content: torch.load(io.BytesIO(content), weights_only=False),
    }
    for name, make in PAYLOADS.items():
        if name != "parquet":  # no version that we may be installed with opens these
            mark = tmp_path / name
            careless.get(name, pickle.loads)(make(mark))
            assert mark.exists(), name


def as_weights(folder, content):
    for name in ("weights.safetensors", "weights.pth", "weights.pt", "weights.bin"):
        (folder / name).write_bytes(content)
        yield lambda file=folder / name: read_state(file)


def as_model(folder, content):
    model = tiny_model(folder / "model")
    described = folder_module.read_description(model)
    (model / "model.safetensors").write_bytes(content)
    described["sha256"] = hashlib.sha256(content).hexdigest()
    folder_module._SEALED.write(model / "model.json", described)
    yield lambda: Embedder.load(model)
    (model / "model.json").write_bytes(content)
    yield lambda: Embedder.load(model)


def as_checkpoint(folder, content):
    model = torch.nn.Linear(2, 2)
    optimiser = torch.optim.Adam(model.parameters())
    state = State(model, SmoothAP(), optimiser, torch.amp.GradScaler("cpu", enabled=False), None, step=1)
    checkpoint.write(folder, state, {})
    (folder / "checkpoint-1.safetensors").write_bytes(content)
    described = checkpoint._SEALED.read(folder / "checkpoint.json")
    described["sha256"] = hashlib.sha256(content).hexdigest()
    (folder / "checkpoint.json").write_text(checkpoint._SEALED.text(described))
    yield lambda: checkpoint.read(folder, state, {})
    (folder / "checkpoint.json").write_bytes(content)
    yield lambda: checkpoint.read(folder, state, {})
    (folder / "metrics.jsonl").write_bytes(content)
    yield lambda: read_rows(folder)


def as_album(folder, content):
    photos = photo_folder(folder / "photos", 3)
    whole = folder / "whole"
    album = Album.create(whole, tiny_model(folder / "model"), photos)
    album.update(progress=False)
    album.collections.add("dog", [1])
    grown = ("vectors-photo-1", "items-photo-1", "thumbnails-1")
    others = ("album.db", "collections/collections.db", "unreadable.csv", "album.db-journal", "shards/x.parquet")
    for number, name in enumerate((*grown, *others)):
        copy = shutil.copytree(whole, folder / f"copy {number}")
        (copy / name).parent.mkdir(exist_ok=True)
        (copy / name).write_bytes(content)
        if name in grown:  # with the checksum that anybody can compute
            with closing(sqlite3.connect(copy / "album.db")) as connection, connection:
                connection.execute("DELETE FROM block WHERE file=?", (name,))
                row = (name, 0, len(content), zlib.crc32(content))
                connection.execute("INSERT INTO block VALUES (?, ?, ?, ?)", row)
        yield lambda copy=copy: Album.open(copy, root=photos).update(progress=False)
        yield lambda copy=copy: Album.open(copy, root=photos).thumbnail(0)
        yield lambda copy=copy: Album.open(copy, root=photos).collections.add("dog", [2])
        yield lambda copy=copy: index_photos(photos, copy, progress=False)


def as_cached_index(folder, content):
    pytest.importorskip("faiss")
    Album.from_arrays(np.random.default_rng(0).normal(size=(5000, 8)), path=folder / "album")
    Album.open(folder / "album", engine="pq").search(0, 1)
    indices = cache_folder() / "indices"
    next(indices.glob("*.faiss")).write_bytes(content)
    yield lambda: Album.open(folder / "album", engine="pq").search(0, 1)


def as_set(folder, content):
    yield lambda: read_image(content)
    tiny_sets.picture(folder / "folder" / "a" / "1.jpg", 0, 0)
    tiny_sets.picture(folder / "folder" / "b" / "1.jpg", 1, 0)
    yield lambda: image_folder(folder / "folder")
    for name in ("images.csv", "images.parquet"):
        (folder / name).write_bytes(content)
        yield lambda file=folder / name: table(file)
    root = tiny_sets.write_sop(folder / "sop")
    (root / "Ebay_train.txt").write_bytes(content)
    yield lambda: sop(root)
    nature = folder / "nature"
    nature.mkdir()
    for name in ("train2018.json", "val2018.json"):
        (nature / name).write_bytes(content)
    yield lambda: inaturalist(nature)


def as_vectors(folder, content):
    for name in ("vectors.npy", "labels.npy"):
        (folder / name).write_bytes(content)
        yield lambda file=folder / name: open_array(file)
    (folder / "report.json").write_bytes(content)
    yield lambda: Report.load(folder / "report.json")


PLACES = [as_weights, as_model, as_checkpoint, as_album, as_cached_index, as_set, as_vectors]


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
def test_a_payload_in_any_place_is_data_and_no_more(place, tmp_path, monkeypatch, measured):
    tried = 0
    for number, (name, make) in enumerate(PAYLOADS.items()):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / f"cache {number}"))
        folder = tmp_path / str(number)
        folder.mkdir()
        for attempt in place(folder, make(folder / "mark")):
            with suppress(ValueError, OSError):
                attempt()
            assert not (folder / "mark").exists(), f"{name} was run"
            tried += 1
    measured(f"{tried} payloads {place.__name__.replace('_', ' ')}, 0 run")


def test_the_cache_of_glyphs_is_numbers_and_text(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    small = (np.zeros((2, 40, 40), np.uint8), np.array(["a", "b"]), np.array([0, 1]), np.array(["x", "y"]))
    rendered = []
    monkeypatch.setattr(glyphs, "_render", lambda fonts: rendered.append(fonts) or small)
    glyphs.renderings()
    glyphs.renderings()
    assert len(rendered) == 1
    cached = next((tmp_path / "smoothap").glob("glyphs-*.npz"))
    whole = cached.read_bytes()
    for count, make in enumerate(PAYLOADS.values(), start=2):
        cached.write_bytes(make(tmp_path / "mark"))
        assert len(glyphs.renderings()) == 2
        assert len(rendered) == count
    assert not (tmp_path / "mark").exists()
    before = len(rendered)
    for place in range(0, len(whole), 37):  # and a damaged one is made again, whatever zip and zlib say of it
        cached.write_bytes(whole[:place] + bytes([whole[place] ^ 0x5A]) + whole[place + 1 :])
        assert len(glyphs.renderings()) == 2
    assert len(rendered) > before
