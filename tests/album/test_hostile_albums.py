"""Albums made by someone who means harm, with checksums that are right."""

import io
import pickle
import shutil
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from smoothap.album._checksums import checksum
from smoothap.album.description import Segment, read_description, write_description

from smoothap.album import Album
from smoothap.album.photos import SCHEMA, new_record, table_of


class Payload:
    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return open, (str(self.mark), "w")


@pytest.fixture
def folder(tmp_path):
    Album.from_arrays(np.eye(3), path=tmp_path / "album")
    return tmp_path / "album"


def sign(folder, **changes):
    """Put the files' checksums into the description, as their maker would."""
    description = read_description(folder)
    segment = Segment(1, 3, checksum(folder / "vectors-000001.npy"), checksum(folder / "photos-000001.parquet"))
    write_description(folder, replace(description, segments=(segment,), **changes))


def pickled_array(mark):
    stream = io.BytesIO()
    np.save(stream, np.array([Payload(mark)] * 3, dtype=object), allow_pickle=True)
    return stream.getvalue()


@pytest.mark.guarantee(14)
@pytest.mark.parametrize("make", [pickled_array, lambda mark: pickle.dumps(Payload(mark))])
@pytest.mark.parametrize("name", ["vectors-000001.npy", "photos-000001.parquet"])
def test_no_pickle_is_run(folder, tmp_path, make, name):
    mark = tmp_path / "mark"
    (folder / name).write_bytes(make(mark))
    sign(folder)
    with pytest.raises(ValueError, match=r"not opened|no table"):
        Album.open(folder)
    assert not mark.exists()


@pytest.mark.guarantee(14)
def test_a_pickle_as_description_is_not_run(folder, tmp_path):
    (folder / "album.json").write_bytes(pickle.dumps(Payload(tmp_path / "mark")))
    with pytest.raises(ValueError, match="damaged"):
        Album.open(folder)
    assert not (tmp_path / "mark").exists()


@pytest.mark.guarantee(17)
@pytest.mark.parametrize("path", [b"/etc/passwd", b"../x", b"a/../../x", b"..", b"a\n/../../b", b"x\0y", b""])
def test_paths_out_of_the_folder_are_refused(folder, path):
    rows = [{**new_record(number, f"{number}.jpg")} for number in range(3)]
    rows[1]["path"] = path
    pq.write_table(table_of(rows), folder / "photos-000001.parquet")
    sign(folder)
    with pytest.raises(ValueError, match="outside of the photo folder"):
        Album.open(folder)


@pytest.mark.parametrize(
    "array", [np.eye(3), np.eye(4, dtype=np.float32), np.asfortranarray(np.arange(9, dtype=np.float32).reshape(3, 3))]
)
def test_vectors_of_another_form_are_refused(folder, array):
    np.save(folder / "vectors-000001.npy", array)
    sign(folder)
    with pytest.raises(ValueError, match="should hold float32"):
        Album.open(folder)


def test_a_table_of_another_form_is_refused(folder):
    pq.write_table(pa.table({"id": ["a", "b", "c"]}), folder / "photos-000001.parquet")
    sign(folder)
    with pytest.raises(ValueError, match=r"no table of photos|should hold"):
        Album.open(folder)


def test_a_table_with_holes_is_refused(folder):
    rows = [new_record(number, f"{number}.jpg") for number in range(3)]
    rows[0]["id"] = None
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), folder / "photos-000001.parquet")
    sign(folder)
    with pytest.raises(ValueError, match="damaged"):
        Album.open(folder)


def test_ids_beyond_the_count_are_refused(folder):
    sign(folder, next_id=1)
    with pytest.raises(ValueError, match="damaged"):
        Album.open(folder)


@pytest.mark.parametrize(
    "text", ["{}", "[]", "null", '{"checksum": 1}', '{"format": 1, "checksum": ""}', "[" * 100_000, "\udcff", "1e999"]
)
def test_a_description_of_another_form_is_refused(folder, text):
    (folder / "album.json").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ValueError, match=r"damaged|format"):
        Album.open(folder)


@pytest.mark.guarantee(14)
def test_an_index_is_not_read_from_the_album_nor_from_an_open_folder(folder, tmp_path, monkeypatch):
    pytest.importorskip("faiss")
    from smoothap.album import _faiss_cache

    cache = tmp_path / "cache" / "smoothap" / "indices"
    assert Album.open(folder, engine="hnsw").search(0, 1)
    index = next(cache.glob("*.faiss"))
    reads = []
    read_index = _faiss_cache.faiss().read_index
    monkeypatch.setattr(_faiss_cache.faiss(), "read_index", lambda path: reads.append(path) or read_index(path))
    Album.open(folder, engine="hnsw").search(0, 1)
    assert len(reads) == 1
    shutil.copy(index, folder)
    shutil.copy(index.with_suffix(".sha256"), folder)
    cache.chmod(0o777)  # anyone could have put it there
    Album.open(folder, engine="hnsw").search(0, 1)
    assert len(reads) == 1
    cache.chmod(0o700)
    damaged = bytearray(index.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    index.write_bytes(damaged)
    assert Album.open(folder, engine="hnsw").search(0, 1)
    assert len(reads) == 1
