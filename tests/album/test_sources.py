"""Photos that are in no folder: tar shards, Parquet files with images, and addresses by fsspec."""

import io
import os
import tarfile
import uuid

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from photo_makers import photo_bytes

from smoothap.album import Album
from smoothap.album import shards as album_shards
from smoothap.album.ingest import index_photos
from smoothap.album.shards import Share
from smoothap.album.sources import open_source
from smoothap.models import Embedder

CONTENTS = {f"{number:03}.png": photo_bytes(number) for number in range(10)}


def write_tar(file, members):
    with tarfile.open(file, "w") as archive:
        for name, content in members.items():
            header = tarfile.TarInfo(name)
            header.size = len(content)
            archive.addfile(header, io.BytesIO(content))


@pytest.fixture
def shards(tmp_path):
    """Two shards of five photos each, with the labels that WebDataset keeps beside them."""
    (tmp_path / "shards").mkdir()
    names = list(CONTENTS)
    for shard in range(2):
        members = {name: CONTENTS[name] for name in names[5 * shard : 5 * shard + 5]}
        members |= {name.replace(".png", ".cls"): b"7" for name in members}
        write_tar(tmp_path / "shards" / f"train-{shard:03}.tar", members)
    return tmp_path / "shards"


@pytest.fixture
def tables(tmp_path):
    """A Parquet file of bytes in groups of four rows, and one as Hugging Face writes them, with a row that is empty."""
    contents = list(CONTENTS.values())
    pq.write_table(pa.table({"image": contents[:6], "n": range(6)}), tmp_path / "a.parquet", row_group_size=4)
    structs = [{"bytes": content, "path": None} for content in contents[6:]] + [None]
    pq.write_table(pa.table({"image": structs}), tmp_path / "b.parquet")
    return tmp_path


def vectors_of(album):
    return {photo.sha256: album.vectors[row] for row, photo in enumerate(album.photos)}


def check_vectors(album, model):
    """Every photo is there, by its content, with the vector that the model gives its file."""
    import hashlib

    from smoothap.data.reading import read_image

    embedder, found = Embedder.load(model), vectors_of(album)
    wanted = embedder.embed([read_image(content) for content in CONTENTS.values()], progress=False).numpy()
    for content, vector in zip(CONTENTS.values(), wanted, strict=True):
        assert np.abs(found[hashlib.sha256(content).hexdigest()] - vector).max() < 1e-5
    assert len(found) == len(CONTENTS)


@pytest.mark.parametrize("pattern", ["train-*.tar", "train-{000..001}.tar"])
def test_tar_shards_are_indexed_and_taken_up_again(shards, tmp_path, model, pattern):
    address = f"{shards}/{pattern}"
    indexed = index_photos(address, tmp_path / "album", model=str(model), progress=False)
    check_vectors(Album.open(tmp_path / "album"), model)
    assert len(indexed.report.added) == 10
    assert indexed.album.photos.paths()[0].startswith("train-00")
    assert indexed.album.thumbnail(0)
    again = index_photos(address, tmp_path / "album", progress=False).report
    assert (again.unchanged, again.added, again.changed) == (10, [], [])
    with pytest.raises(ValueError, match="does not say where its photos are"):
        indexed.album.photo_path(0)


def test_a_damaged_shard_is_reported_and_loses_no_photo(shards, tmp_path, model):
    address = f"{shards}/*.tar"
    index_photos(address, tmp_path / "album", model=str(model), progress=False)
    shard = shards / "train-001.tar"
    shard.write_bytes(b"not a tar" + bytes(2000))
    report = index_photos(address, tmp_path / "album", progress=False).report
    assert list(report.unreadable) == ["train-001.tar"]
    assert "cannot be read to its end" in report.unreadable["train-001.tar"]
    assert len(Album.open(tmp_path / "album")) == 10
    assert report.removed == []


def test_a_shard_that_ends_too_early_and_names_that_lead_out(tmp_path, model):
    members = {"../../evil.png": photo_bytes(1), "/abs.png": photo_bytes(2), "./good.png": photo_bytes(3)}
    write_tar(tmp_path / "x.tar", members | {"last.png": photo_bytes(4, side=400)})
    content = (tmp_path / "x.tar").read_bytes()
    (tmp_path / "x.tar").write_bytes(content[: len(content) // 2])
    indexed = index_photos(tmp_path / "x.tar", tmp_path / "album", model=str(model), progress=False)
    assert "x.tar/good.png" in indexed.album.photos.paths()
    assert len(indexed.album) + len(indexed.report.unreadable) >= 4
    assert not any("evil" in path for path in indexed.album.photos.paths())


def test_parquet_files_with_images_are_indexed(tables, tmp_path, model):
    indexed = index_photos(f"{tables}/*.parquet", tmp_path / "album", model=str(model), progress=False)
    check_vectors(Album.open(tmp_path / "album"), model)
    assert list(indexed.report.unreadable.values()) == ["the row has no image"]
    assert indexed.report.seen == 11
    again = index_photos(f"{tables}/*.parquet", tmp_path / "album", progress=False).report
    assert (again.unchanged, len(again.unreadable)) == (10, 1)


def test_a_parquet_file_of_paths_is_not_taken_for_images(tmp_path):
    pq.write_table(pa.table({"path": ["a.jpg"]}), tmp_path / "paths.parquet")
    assert open_source(str(tmp_path / "paths.parquet")) is None
    assert open_source(str(tmp_path)) is None


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_any_address_that_fsspec_opens(kind, tmp_path, model):
    address = f"memory://{uuid.uuid4().hex}/photos" if kind == "memory" else f"file://{tmp_path}/remote"
    system, root = fsspec.core.url_to_fs(address)
    for name, content in CONTENTS.items():
        system.makedirs(f"{root}/class{int(name[:3]) % 2}", exist_ok=True)
        system.pipe_file(f"{root}/class{int(name[:3]) % 2}/{name}", content)
    system.pipe_file(f"{root}/broken.jpg", b"no image")
    system.pipe_file(f"{root}/notes.txt", b"no photo")
    indexed = index_photos(address, tmp_path / "album", model=str(model), labels="folders", progress=False)
    check_vectors(indexed.album, model)
    assert {photo.label for photo in indexed.album.photos} == {"class0", "class1"}
    assert list(indexed.report.unreadable) == ["broken.jpg"]
    assert list(indexed.report.others) == ["notes.txt"]
    system.rm(f"{root}/class0/000.png")
    system.pipe_file(f"{root}/class1/001.png", photo_bytes(99))
    report = index_photos(address, tmp_path / "album", progress=False).report
    assert (report.removed, report.changed, report.unchanged) == (["class0/000.png"], ["class1/001.png"], 8)


def test_shards_at_an_address(shards, tmp_path, model):
    place = f"memory://{uuid.uuid4().hex}"
    for shard in shards.iterdir():
        fsspec.filesystem("memory").pipe_file(f"{place}/{shard.name}", shard.read_bytes())
    indexed = index_photos(f"{place}/*.tar", tmp_path / "album", model=str(model), progress=False)
    check_vectors(indexed.album, model)


def place(path):
    """The one of 64 shares that a photo falls to."""
    (number,) = (number for number in range(1, 65) if Share(number, 64).holds(path))
    return number


def test_all_photos_of_a_tar_fall_to_one_share_and_processes_share_shards(
    shards, tmp_path, model, monkeypatch, no_processes
):
    monkeypatch.setattr(album_shards, "PHOTOS_A_SHARD", 5)
    paths = [f"train-000.tar/{number}.png" for number in range(50)]
    assert len({place(path) for path in paths}) == 1
    rows = [f"a.parquet/{group:06}/{row:06}" for group in range(9) for row in range(9)]
    assert 1 < len({place(path) for path in rows}) <= 9
    indexed = index_photos(f"{shards}/*.tar", tmp_path / "album", model=str(model), processes=2, progress=False)
    check_vectors(indexed.album, model)
    assert len(indexed.report.added) == 10


def test_places_that_are_not_there_are_named(tmp_path, model):
    for address, sentence in (
        (f"{tmp_path}/none.tar", "There is no file"),
        (f"{tmp_path}/none-*.tar", "No file is named by"),
        ("memory://nothing-here/photos", "There is nothing at"),
        ("nosuchkind://bucket/photos", "cannot be opened"),
        (str(tmp_path / "nowhere"), "There is no folder"),
    ):
        with pytest.raises((ValueError, FileNotFoundError), match=sentence):
            index_photos(address, tmp_path / "album", model=str(model))
    assert not os.path.lexists(tmp_path / "album")
