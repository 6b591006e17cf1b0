"""Lists, tables and json that others wrote: damaged in any way they give a result or a sentence, never another error.

`hypothesis` draws the damage; what it found at first is below as cases of their own.
"""

import json
import shutil
import sqlite3
from contextlib import closing, suppress

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tiny_sets
import torch
from damaged_files import changed_json, damaged_json, damaged_text
from guarantees import short_or_long
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from photo_makers import tiny_model

from smoothap.album import Album
from smoothap.album.postings import row_crc
from smoothap.data.datasets.faces import ijbc, vggface2
from smoothap.data.datasets.own import table
from smoothap.data.datasets.published import inaturalist, inaturalist_json, sop, vehicle_id
from smoothap.data.reading import UnreadableImage
from smoothap.losses import SmoothAP
from smoothap.models import Embedder
from smoothap.models import folder as folder_module
from smoothap.models.folder import read_description
from smoothap.training import checkpoint
from smoothap.training.checkpoint import State

pytestmark = pytest.mark.guarantee(12)

fuzzed = settings(
    max_examples=short_or_long(20, 400),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.data_too_large, HealthCheck.too_slow],
)


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


def write_json_inaturalist(root):
    tiny_sets.write_inaturalist(root)
    for part, name in (("train", "train2018"), ("test", "val2018")):
        listing = root / f"Inaturalist_{part}_set1.txt"
        images = [{"id": row, "file_name": path} for row, path in enumerate(listing.read_text().split())]
        (root / f"{name}.json").write_text(json.dumps({"images": images, "annotations": []}))
        listing.unlink()
    return root


def write_table(root):
    rows = [(f"{label}/{number}.jpg", f"class {label}") for label in range(4) for number in range(3)]
    for path, _ in rows:
        tiny_sets.picture(root / path, int(path[0]), int(path[2]))
    lines = [f"{path},{label},group,{int(number < 3)},1" for number, (path, label) in enumerate(rows)]
    (root / "images.csv").write_text("path,label,group,is_query,is_gallery\n" + "\n".join(lines) + "\n")
    plain = [f"{path},{label}" for path, label in rows]
    (root / "plain.csv").write_text("path,label\n" + "\n".join(plain) + "\n")
    (root / "classes.txt").write_text("class 1\nclass 3\n")
    return root


@pytest.fixture(scope="module", autouse=True)
def _tiny_copies_are_whole():
    with pytest.MonkeyPatch.context() as patch:
        tiny_sets.expect_little(patch)
        yield


# name -> how the set is written, how it is opened, and its files that a stranger may have written
SETS = {
    "sop": (
        tiny_sets.write_sop,
        sop,
        ["Ebay_train.txt", "Ebay_test.txt"],
    ),
    "vehicle-id": (
        tiny_sets.write_vehicle_id,
        vehicle_id,
        ["train_test_split/train_list.txt", "train_test_split/test_list_800.txt"],
    ),
    "inaturalist": (
        tiny_sets.write_inaturalist,
        inaturalist,
        ["Inaturalist_train_set1.txt", "Inaturalist_test_set1.txt"],
    ),
    "inaturalist json": (
        write_json_inaturalist,
        inaturalist_json,
        ["train2018.json", "val2018.json"],
    ),
    "vggface2": (
        tiny_sets.write_vggface2,
        vggface2,
        ["train_list.txt", "bb_landmark/loose_bb_train.csv", "identity_meta.csv"],
    ),
    "vggface2 aligned": (
        tiny_sets.write_vggface2,
        lambda root: vggface2(root, aligned=True),
        ["bb_landmark/loose_landmark_test.csv"],
    ),
    "ijbc": (tiny_sets.write_ijbc, ijbc, ["protocols/ijbc_metadata.csv"]),
    "ijbc aligned": (
        tiny_sets.write_ijbc_aligned,
        lambda root: ijbc(root, aligned=True),
        ["meta/ijbc_face_tid_mid.txt", "meta/ijbc_name_5pts_score.txt", "meta/ijbc_1N_gallery_G1.csv"],
    ),
    "table": (write_table, lambda root: table(root / "images.csv"), ["images.csv"]),
    "table of classes": (
        write_table,
        lambda root: table(root / "plain.csv", test_classes=root / "classes.txt"),
        ["plain.csv", "classes.txt"],
    ),
}
PEOPLE = 'Class_ID, Name, Sample_Num, Flag, Gender\nn000002, "A, Name", 315, 0, f,\nn000900, "Ö", 3, 1, m,\n'


@pytest.fixture(scope="module", params=SETS)
def written(request, tmp_path_factory):
    """A set on disk, how to open it, and its text files."""
    write, load, files = SETS[request.param]
    root = write(tmp_path_factory.mktemp("set"))
    if "identity_meta.csv" in files:
        (root / "identity_meta.csv").write_text(PEOPLE, encoding="utf-8")
    return root, load, {file: (root / file).read_bytes() for file in files}


def tried(call):
    """What it gives, or what it says; an error of another kind than these is a crash and ends the test."""
    try:
        return call(), None
    except (ValueError, FileNotFoundError) as error:
        return None, str(error)


def open_and_read(load, root):
    """Open the set and read a few images; what is said instead names the file or the set."""
    benchmark, said = tried(lambda: load(root))
    if benchmark is None:
        assert any(name in said for name in (str(root), "ijbc test", "table", "of the split"))
        return
    for images in [benchmark.train, *benchmark.tests.values()]:
        if images is None:
            continue
        assert len(images) > 0
        assert len(images.labels) == len(images.names)
        assert images.labels.max() < images.classes
        for row in {0, len(images) - 1}:
            with suppress(UnreadableImage):
                assert images.read(row).mode == "RGB"


def test_the_whole_set_opens(written):
    root, load, _ = written
    benchmark = load(root)
    assert all(len(images) for images in benchmark.tests.values())
    for images in benchmark.tests.values():
        images.read(0)


@fuzzed
@given(data=st.data())
def test_a_damaged_list_gives_a_set_or_a_sentence(written, data):
    root, load, files = written
    name = data.draw(st.sampled_from(sorted(files)))
    damage = damaged_json(files[name]) if name.endswith("json") else damaged_text(files[name])
    (root / name).write_bytes(data.draw(damage))
    try:
        open_and_read(load, root)
    finally:
        (root / name).write_bytes(files[name])


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory):
    return tiny_model(tmp_path_factory.mktemp("models") / "model")


@fuzzed
@given(data=st.data(), signed=st.booleans())
def test_a_damaged_model_json_gives_the_model_or_a_sentence(model_folder, tmp_path, data, signed):
    folder = tmp_path / "model"
    shutil.copytree(model_folder, folder, dirs_exist_ok=True)
    if signed:  # with the checksum that anybody can compute: whatever it says is looked at
        changed = data.draw(changed_json(read_description(model_folder)).filter(lambda each: isinstance(each, dict)))
        folder_module._SEALED.write(folder / "model.json", changed)
    else:
        (folder / "model.json").write_bytes(data.draw(damaged_json((model_folder / "model.json").read_bytes())))
    model, said = tried(lambda: Embedder.load(folder))
    assert str(folder) in said if model is None else model.dimension == 8


def state():
    model = torch.nn.Linear(4, 2)
    optimiser = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 4)).sum().backward()
    optimiser.step()
    return State(model, SmoothAP(), optimiser, torch.amp.GradScaler("cpu", enabled=False), None, step=1)


@fuzzed
@given(data=st.data(), signed=st.booleans())
def test_a_damaged_checkpoint_gives_a_state_or_a_sentence(tmp_path, data, signed):
    checkpoint.write(tmp_path, state(), {"a": 1})
    file = tmp_path / "checkpoint.json"
    whole = file.read_bytes()
    if signed:
        described = checkpoint._SEALED.read(file)
        changed = data.draw(changed_json(described).filter(lambda each: isinstance(each, dict)))
        checkpoint._SEALED.write(file, changed)
    else:
        file.write_bytes(data.draw(damaged_json(whole)))
    for read in (lambda: checkpoint.read(tmp_path, state(), {"a": 1}), lambda: checkpoint.seconds_spent(tmp_path)):
        _, said = tried(read)
        assert said is None or str(tmp_path) in said


@fuzzed
@given(data=st.data(), signed=st.booleans())
def test_damaged_settings_give_an_album_or_a_sentence(model_folder, tmp_path, data, signed):
    folder = tmp_path / "album"
    if not folder.exists():
        album = Album.from_arrays(np.eye(6, 8), path=folder, model=model_folder)
        album.calibrate(np.repeat(np.eye(3, 8), 2, axis=0) + 0.1, np.repeat(np.arange(3), 2), "test")
        (tmp_path / "whole.db").write_bytes((folder / "album.db").read_bytes())
    shutil.copy(tmp_path / "whole.db", folder / "album.db")
    with closing(sqlite3.connect(folder / "album.db")) as connection, connection:
        values = {name: json.loads(text) for name, text in connection.execute("SELECT name, value FROM setting")}
        if signed:  # with the checksum that anybody can compute
            changed = data.draw(changed_json(values).filter(lambda each: isinstance(each, dict)))
            rows = [(name, json.dumps(value)) for name, value in changed.items()]
        else:
            name = data.draw(st.sampled_from(sorted(values)))
            text = data.draw(damaged_json(json.dumps(values[name]).encode())).decode(errors="replace")
            rows = [(other, json.dumps(value) if other != name else text) for other, value in values.items()]
        connection.execute("DELETE FROM setting")
        for row in rows:
            text = tuple(part.encode(errors="replace").decode() for part in row)
            connection.execute("INSERT INTO setting VALUES (?, ?, ?)", (*text, row_crc(text) if signed else 5))

    def use():
        album = Album.open(folder)
        assert len(album.search(0, 3)) == 3
        assert album.model is None or str(album.model)
        return album.calibration is None or album.search(0, recall=0.9)

    _, said = tried(use)
    assert said is None or str(folder) in said or "album" in said.lower()


@fuzzed
@given(data=st.data())
def test_a_damaged_list_of_unreadable_photos_is_a_list_or_none(tmp_path, data):
    from smoothap.album.walk import read_refusals

    whole = b'path,reason,bytes,modified_ns\na.jpg,empty,0,17\n"b,\n.jpg",cut,5,18\n'
    (tmp_path / "unreadable.csv").write_bytes(data.draw(damaged_text(whole)))
    for path, refusal in read_refusals(tmp_path).items():
        assert isinstance(path, str)
        assert isinstance(refusal.reason, str)
        assert refusal.bytes is None or isinstance(refusal.bytes, int)


@pytest.mark.parametrize(
    ("kind", "file", "content"),
    [
        ("inaturalist json", "train2018.json", b"[" * 100_000),
        ("inaturalist json", "train2018.json", b"9" * 5_000),
        ("inaturalist json", "train2018.json", b'{"images": [{"id": 1}]}'),
        ("inaturalist json", "train2018.json", b'{"images": 3}'),
        ("sop", "Ebay_train.txt", b"image_id class_id super_class_id path\n"),
        ("table", "images.csv", b"path,label\n" + b"a" * 300 + b",b\n"),
        ("table", "images.csv", b"path,label\na\0b,b\n"),
        ("table", "images.csv", b"\x80\r\n"),
        ("table of classes", "classes.txt", b"\x80"),
        ("vggface2", "identity_meta.csv", b"\xff\n"),
        ("vggface2", "bb_landmark/loose_bb_train.csv", b'NAME_ID,X,Y,W,H\n"n000000/0000_01",a,1,1,1\n'),
        ("ijbc aligned", "meta/ijbc_face_tid_mid.txt", b"\r"),
        ("ijbc aligned", "meta/ijbc_name_5pts_score.txt", b"1.jpg 1 2 3 4 5 6 7 8 9 ten 0.9\n"),
    ],
)
def test_what_was_found_is_refused_by_the_name_of_the_file(kind, file, content, tmp_path):
    write, load, _ = SETS[kind]
    write(tmp_path)
    (tmp_path / file).write_bytes(content)
    with pytest.raises(ValueError, match=str(tmp_path)):
        load(tmp_path)


@pytest.mark.parametrize("cell", ["nan", "inf", "-inf", "1e38"])
def test_a_face_that_lies_nowhere_is_an_unreadable_image(cell, tmp_path):
    tiny_sets.write_vggface2(tmp_path)
    for name in ("loose_bb_train", "loose_landmark_train"):
        file = tmp_path / "bb_landmark" / f"{name}.csv"
        header, first, *rest = file.read_text().splitlines()
        cells = first.split(",")
        file.write_text("\n".join([header, ",".join([cells[0], cell, *cells[2:]]), *rest]) + "\n")
    for aligned in (False, True):
        images = vggface2(tmp_path, aligned=aligned).train
        with pytest.raises(UnreadableImage, match="said to"):
            images.read(0)
        images.read(1)


def test_a_table_of_other_things_than_text_is_refused(tmp_path):
    write_table(tmp_path)
    things = pa.array([{"a": 1}, {"a": 2}])
    pq.write_table(pa.table({"path": things, "label": things}), tmp_path / "images.parquet")
    with pytest.raises(ValueError, match="cannot be read as a table"):
        table(tmp_path / "images.parquet")
    (tmp_path / "images.parquet").write_bytes(b"PAR1" + bytes(40) + b"PAR1")
    with pytest.raises(ValueError, match="cannot be read as a table"):
        table(tmp_path / "images.parquet")


def test_a_checkpoint_that_took_longer_than_a_number_holds_is_refused(tmp_path):
    checkpoint.write(tmp_path, state(), {})
    described = checkpoint._SEALED.read(tmp_path / "checkpoint.json")
    checkpoint._SEALED.write(tmp_path / "checkpoint.json", {**described, "seconds": 10**400})
    with pytest.raises(ValueError, match="is damaged"):
        checkpoint.seconds_spent(tmp_path)
