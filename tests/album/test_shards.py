"""Photos that other processes and machines embed: shards are inserted whole and once, whoever is killed."""

import errno
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from photo_makers import photo_bytes, photo_folder

from smoothap._core.files import DiskFullError
from smoothap.album import Album, shards
from smoothap.album.ingest import embed_shard, index_photos
from smoothap.album.joining import join_albums
from smoothap.album.shards import KNOWN, SHARDS, Share, waiting_shards
from smoothap.album.store import Store
from smoothap.album.update import labels_by_folder
from smoothap.models import Embedder


@pytest.fixture
def odd_photos(photos):
    """Twelve photos, one more that cannot be read, and a name that is not UTF-8."""
    (photos / "broken.jpg").write_bytes(b"no image")
    (photos / os.fsdecode(b"\xff.png")).write_bytes(photo_bytes(50))
    return photos


@pytest.fixture
def embedded(monkeypatch):
    """How many photos the network was given, call by call."""
    numbers, forward = [], Embedder.forward
    monkeypatch.setattr(Embedder, "forward", lambda self, views: numbers.append(len(views)) or forward(self, views))
    return numbers


def embed_all(photos, out, model, of=3):
    return [embed_shard(photos, out, f"{number}/{of}", model=str(model), progress=False) for number in range(1, of + 1)]


def indexed(photos, out, model=None, **options):
    return index_photos(photos, out, model=None if model is None else str(model), progress=False, **options)


def content_of(album):
    """What an album holds, whatever the ids: by path the label, hash, size and thumbnail."""
    return {
        photo.path: (photo.label, photo.sha256, photo.modified, photo.width, album.thumbnail(photo.id))
        for photo in album.photos
    }


def assert_alike(album, other, *, labels=True):
    """Both hold the same; the last bits of a vector depend on how many were embedded at once."""
    album.verify()
    first = 0 if labels else 1
    assert {path: values[first:] for path, values in content_of(album).items()} == {
        path: values[first:] for path, values in content_of(other).items()
    }
    rows = {path: row for row, path in enumerate(album.photos.paths())}
    mine = album.vectors[[rows[path] for path in other.photos.paths()]]
    assert np.allclose(mine, np.asarray(other.vectors), atol=1e-5)


def whole(tmp_path, photos, model, **options):
    album = Album.create(tmp_path / "whole", model, photos)
    album.update(progress=False, **options)
    return album


def test_every_photo_falls_to_one_share():
    paths = [f"folder{i % 7}/{i}.jpg" for i in range(1000)] + [os.fsdecode(b"\xff\xfe.png")]
    counts = [sum(Share(number, 8).holds(path) for path in paths) for number in range(1, 9)]
    assert sum(counts) == 1001
    assert min(counts) > 80
    assert Share.parse("3/64") == Share(3, 64)
    for text in ("0/4", "5/4", "3", "3/", "a/b", "-1/4", "1/0", "1/4/2", "²/4"):
        with pytest.raises(ValueError, match=r"NUMBER/OF, such as 3/64|there is no shard"):
            Share.parse(text)


def test_shards_are_inserted_once_and_are_the_album_of_one_run(odd_photos, tmp_path, model, embedded):
    out = tmp_path / "album"
    counts = embed_all(odd_photos, out, model)
    assert (sum(given for given, _ in counts), sum(read for _, read in counts)) == (14, 13)
    assert not (out / "album.db").exists()  # workers make no album
    assert len(waiting_shards(out)) == 3
    assert sum(embedded) == 13
    report = indexed(odd_photos, out, model, labels="folders").report
    assert (len(report.added), list(report.unreadable), report.seen) == (13, ["broken.jpg"], 14)
    assert sum(embedded) == 13  # nothing was embedded again
    assert waiting_shards(out) == []
    assert_alike(Album.open(out), whole(tmp_path, odd_photos, model, labels=labels_by_folder))
    assert indexed(odd_photos, out).report.unchanged == 13


def test_workers_embed_only_what_the_album_lacks(odd_photos, tmp_path, model, embedded):
    out = tmp_path / "album"
    embed_all(odd_photos, out, model)
    before = {photo.path: photo.id for photo in indexed(odd_photos, out, model).album.photos}
    embedded.clear()
    assert embed_all(odd_photos, out, model) == [(0, 0)] * 3
    assert embedded == []
    changed, gone, touched = sorted(before)[1:4]
    (odd_photos / changed).write_bytes(photo_bytes(900))
    (odd_photos / gone).unlink()
    os.utime(odd_photos / touched, (1, 1))  # another time, the same content
    counts = embed_all(odd_photos, out, model)
    assert (sum(given for given, _ in counts), sum(embedded)) == (2, 1)
    done = indexed(odd_photos, out)
    assert (done.report.changed, done.report.removed, sum(embedded)) == ([changed], [gone], 1)
    del before[gone]
    assert {photo.path: photo.id for photo in done.album.photos} == before
    assert done.album.photo(before[touched]).modified == 1
    assert_alike(done.album, whole(tmp_path, odd_photos, model))


def test_a_shard_that_was_left_twice_or_is_out_of_date_changes_nothing(photos, tmp_path, model):
    out = tmp_path / "album"
    embed_all(photos, out, model, of=1)
    (shard,) = waiting_shards(out)
    content = shard.read_bytes()
    (shard.with_name("again.parquet")).write_bytes(content)
    assert len(indexed(photos, out, model).album) == 12
    (photos / "class0" / "000.png").write_bytes(photo_bytes(901))
    newer = content_of(indexed(photos, out).album)
    (out / SHARDS / "late.parquet").write_bytes(content)  # with the photo as it was
    done = indexed(photos, out)
    assert content_of(done.album) == newer
    assert len(done.album) == 12
    done.album.verify()


EMBED = """
import sys
from smoothap.album import prepare, shards
from smoothap.album.ingest import embed_shard
shards._PHOTOS_A_FILE, prepare.BATCH = 5, 5
embed_shard(sys.argv[1], sys.argv[2], "1/1", model=sys.argv[3], progress=False)
"""
INDEX = """
import sys
from smoothap.album import index_photos, shards, update
shards.PHOTOS_A_SHARD, update.COMMIT_ROWS = 10, 10
index_photos(sys.argv[1], sys.argv[2], model=sys.argv[3], processes=2, progress=False)
"""


@pytest.mark.alone
@pytest.mark.parametrize(
    "code", [pytest.param(EMBED, marks=pytest.mark.slow), INDEX], ids=["a worker", "the one who inserts"]
)
def test_whoever_is_killed_nothing_is_lost_or_there_twice(tmp_path, model, code):
    photos, out = photo_folder(tmp_path / "photos", 60), tmp_path / "album"
    source = os.pathsep.join([str(Path(__file__).parents[2] / "src"), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-c", code, str(photos), str(out), str(model)]
    environment = {**os.environ, "PYTHONPATH": source}
    victim = subprocess.Popen(command, env=environment)

    def begun():
        if code is EMBED:
            return len(waiting_shards(out)) >= 2
        return (out / "album.db").exists() and len(Album.open(out)) > 0

    while not begun():
        assert victim.poll() is None
        time.sleep(0.01)
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    left = sum(len(pq.read_table(file)) for file in waiting_shards(out))
    there = len(Album.open(out)) if (out / "album.db").exists() else 0
    assert 0 < left + there <= 60 + 20
    deadline = time.monotonic() + 150
    while users_of(out) and time.monotonic() < deadline:  # its processes end with it
        time.sleep(0.05)
    assert users_of(out) == []
    subprocess.run(command, env=environment, check=True)
    done = indexed(photos, out, model)
    assert len(done.album) == 60
    assert waiting_shards(out) == []
    assert_alike(done.album, whole(tmp_path, photos, model))


def users_of(album):
    """Processes that hold a file of an album open and run, or may run again.

    One in "disk sleep" waits in the kernel, which no signal ends: it is gone as soon as the disk has answered.
    """
    found = set()
    for opened in Path("/proc").glob("[0-9]*/fd/*"):
        process = opened.parents[1]
        try:
            if process.name != str(os.getpid()) and str(opened.readlink()).startswith(str(album)):
                state = re.search(r"^State:\t(.*)$", (process / "status").read_text(), re.MULTILINE)[1]
                if not state.startswith("D"):
                    found.add((process.name, state))
        except OSError:
            continue
    return sorted(found)


@pytest.mark.alone
def test_processes_make_the_album_of_one_run(odd_photos, tmp_path, model, monkeypatch):
    monkeypatch.setattr(shards, "PHOTOS_A_SHARD", 5)
    done = indexed(odd_photos, tmp_path / "album", model, processes=2, labels="folders")
    assert (len(done.report.added), list(done.report.unreadable)) == (13, ["broken.jpg"])
    assert_alike(done.album, whole(tmp_path, odd_photos, model, labels=labels_by_folder))
    assert not (tmp_path / "album" / SHARDS).exists()
    with pytest.raises(ValueError, match="at least 1, not 0"):
        indexed(odd_photos, tmp_path / "album", processes=0)


def die(named):
    os._exit(len(named))


def test_a_process_that_dies_is_a_sentence(photos, tmp_path, model, monkeypatch):
    monkeypatch.setattr(shards, "_compute", die)
    with pytest.raises(RuntimeError, match=r"A process that embedded photos ended.* run this again"):
        indexed(photos, tmp_path / "album", model, processes=2)


def changed(table, row, **values):
    rows = table.to_pylist()
    rows[row] |= values
    return pa.Table.from_pylist(rows, schema=table.schema)


def about(**values):
    def change(table):
        said = json.loads(table.schema.metadata[b"smoothap"]) | values
        return table.replace_schema_metadata({"smoothap": json.dumps(said)})

    return change


FAR = np.full(8, 5, "<f4").tobytes()
SENTENCE = r"is no shard of an album|outside of the photo folder|of length 1|made by another model"
HOSTILE = {
    "no parquet": lambda table: b"no table",
    "empty": lambda table: b"",
    "other columns": lambda table: table.drop_columns(["camera"]),
    "no metadata": lambda table: table.replace_schema_metadata({}),
    "deep metadata": lambda table: table.replace_schema_metadata({"smoothap": "[" * 100_000}),
    "a list": lambda table: table.replace_schema_metadata({"smoothap": "[]"}),
    "refusals": about(refusals=[1]),
    "reasons": about(refusals={"a": 5}),
    "same": about(same=[["a", "b"]]),
    "same, no numbers": about(same=[["class0/000.png", "x", 5]]),
    "no model": about(model={}),
    "another model": about(model={"sha256": "0", "architecture": "x", "dimension": 8, "transform": {}}),
    "a short vector": lambda table: changed(table, 1, vector=b"123"),
    "a vector of another width": lambda table: changed(table, 1, vector=FAR[:16]),
    "a long vector": lambda table: changed(table, 1, vector=FAR),
    "not a number": lambda table: changed(table, 1, vector=np.full(8, np.nan, "<f4").tobytes()),
    "a photo twice": lambda table: changed(table, 1, path=table["path"][0].as_py()),
    "a time that is none": lambda table: changed(table, 1, taken=2**62),
    **{f"no {name}": lambda table, name=name: changed(table, 1, **{name: None}) for name in (
        "path", "bytes", "modified", "sha256", "width", "height", "vector",
    )},
    **{f"path {path!r}": lambda table, path=path: changed(table, 1, path=path) for path in (
        b"../x", b"/etc/passwd", b"", b"a\0b",
    )},
}  # fmt: skip


@pytest.mark.guarantee(17)
@pytest.mark.parametrize("what", HOSTILE)
def test_a_shard_that_nobody_wrote_is_refused_and_the_album_stays(photos, tmp_path, model, what):
    out = tmp_path / "album"
    before = content_of(indexed(photos, out, model).album)
    embed_all(photos, tmp_path / "other", model, of=1)
    (shard,) = waiting_shards(tmp_path / "other")
    made = HOSTILE[what](pq.read_table(shard))
    (out / SHARDS).mkdir()
    if isinstance(made, bytes):
        (out / SHARDS / "x.parquet").write_bytes(made)
    else:
        pq.write_table(made, out / SHARDS / "x.parquet")
    with pytest.raises(ValueError, match=SENTENCE) as refused:
        indexed(photos, out)
    assert "x.parquet" in str(refused.value)
    album = Album.open(out)
    album.verify()
    assert content_of(album) == before
    (out / SHARDS / "x.parquet").unlink()
    assert indexed(photos, out).report.unchanged == 12


@pytest.mark.guarantee(12)
def test_a_flipped_byte_in_a_shard_is_refused_or_changes_nothing(photos, tmp_path, model):
    out = tmp_path / "album"
    embed_all(photos, out, model, of=1)
    (shard,) = waiting_shards(out)
    album = Album.create(tmp_path / "album", model, photos)
    content, random = shard.read_bytes(), np.random.default_rng(0)
    wanted = shards.read_shard(shard, album.model, 8)
    refused = 0
    for place in random.integers(len(content), size=150):
        flipped = bytearray(content)
        flipped[place] ^= 1 << random.integers(8)
        shard.write_bytes(flipped)
        try:
            found = shards.read_shard(shard, album.model, 8)
        except ValueError:
            refused += 1
            continue
        assert (found.records, found.thumbnails, found.refusals) == (wanted.records, wanted.thumbnails, wanted.refusals)
        assert np.array_equal(np.stack(found.vectors), np.stack(wanted.vectors))
    assert refused > 100


def test_a_damaged_list_of_what_the_album_has_is_named(photos, tmp_path, model):
    out = tmp_path / "album"
    embed_all(photos, out, model)
    indexed(photos, out, model)
    (out / SHARDS / KNOWN).write_bytes(b"no table")
    with pytest.raises(ValueError, match=rf"{KNOWN} .*delete it"):
        embed_all(photos, out, model)


def test_photos_of_a_table_and_their_columns_go_with_shards_and_processes(photos, tmp_path, model, no_processes):
    rows = [f"photos/class{number % 3}/{number:03}.png,thing {number % 2},{number * 10}" for number in range(9)]
    table = tmp_path / "table.csv"
    table.write_text("path,label,price\n" + "\n".join(rows) + "\n", encoding="utf-8")
    embed_all(table, tmp_path / "shards", model, of=2)
    for name, processes in (("shards", 1), ("processes", 2)):
        album = indexed(table, tmp_path / name, model, processes=processes).album
        assert {photo.path: (photo.label, photo.columns) for photo in album.photos} == {
            f"photos/class{number % 3}/{number:03}.png": (f"thing {number % 2}", {"price": f"{number * 10}"})
            for number in range(9)
        }


def test_joined_albums_answer_as_one(tmp_path, model):
    root = tmp_path / "all"
    photo_folder(root / "one", 9)
    photo_folder(root / "two", 5)
    (root / "two" / "other.png").write_bytes(photo_bytes(77))
    (root / "two" / "broken.png").write_bytes(b"no image")
    for name in ("one", "two"):
        Album.create(tmp_path / name, model, root / name).update(labels=labels_by_folder, progress=False)
    (root / "two" / "class0" / "000.png").write_bytes(photo_bytes(500))
    Album.open(tmp_path / "two").update(labels=labels_by_folder, progress=False)
    joined = join_albums([tmp_path / "one", tmp_path / "two"], tmp_path / "joined")
    assert (joined.photos, joined.twice) == (15, 0)
    album, all_at_once = Album.open(tmp_path / "joined"), whole(tmp_path, root, model)
    assert_alike(album, all_at_once, labels=False)
    query = root / "two" / "other.png"
    found, wanted = ([(hit.path, hit.score) for hit in one.search(query, 5)] for one in (album, all_at_once))
    assert [path for path, _ in found] == [path for path, _ in wanted]
    assert album.update(progress=False).unchanged == 15


def test_a_photo_of_two_albums_is_joined_once(photos, tmp_path, model):
    for name in ("one", "two"):
        Album.create(tmp_path / name, model, photos).update(progress=False)
    (photos / "new.png").write_bytes(photo_bytes(60))
    Album.open(tmp_path / "two").update(progress=False)
    joined = join_albums([tmp_path / "one", tmp_path / "two"], tmp_path / "joined")
    assert (joined.photos, joined.twice) == (13, 12)
    assert_alike(Album.open(tmp_path / "joined"), Album.open(tmp_path / "two"))
    (photos / "new.png").write_bytes(photo_bytes(61))
    Album.create(tmp_path / "three", model, photos).update(progress=False)
    with pytest.raises(ValueError, match=r"'new.png' is in two of the albums, with different contents"):
        join_albums([tmp_path / "two", tmp_path / "three"], tmp_path / "none")
    assert not (tmp_path / "none" / "album.db").exists()


def test_a_joining_that_is_stopped_leaves_no_album_and_is_done_again(photos, tmp_path, model, monkeypatch):
    for name in ("one", "two"):
        Album.create(tmp_path / name, model, photos).update(progress=False)
    out, add, stops = tmp_path / "joined", Store.add, [OSError(errno.ENOSPC, "No space left"), KeyboardInterrupt()]

    def stopped(store, *arguments):
        add(store, *arguments)
        assert not (out / "album.db").exists()  # whoever looks now, or after a kill, finds no half of an album
        raise stops[0]

    while stops:
        monkeypatch.setattr(Store, "add", stopped)
        with pytest.raises((DiskFullError, KeyboardInterrupt), match=r"no album was made: make room|^$"):
            join_albums([tmp_path / "one", tmp_path / "two"], out)
        assert {file.name for file in out.iterdir()} == {".lock"}
        del stops[0]
    monkeypatch.setattr(Store, "add", add)
    (out / ".joining.partial").mkdir()  # of one that was killed
    (out / ".joining.partial" / "album.db").write_bytes(b"half")
    assert join_albums([tmp_path / "one", tmp_path / "two"], out).photos == 12
    Album.open(out).verify()
    assert not (out / ".joining.partial").exists()


def test_albums_that_cannot_be_joined_are_refused(album, photos, tmp_path, model, other_model):
    Album.create(tmp_path / "other", other_model, photos).update(progress=False)
    Album.create(tmp_path / "half", model, photos, dtype="float16").update(progress=False)
    Album.from_arrays(np.eye(8), path=tmp_path / "arrays")
    here = tmp_path / "album"
    for albums, sentence in (
        ([here], "at least two"),
        ([here, tmp_path / "other"], "different models"),
        ([here, tmp_path / "half"], "float32, the other in float16"),
        ([here, tmp_path / "arrays"], "different models"),
        ([here, tmp_path / "nowhere"], "no album"),
    ):
        with pytest.raises((ValueError, FileNotFoundError), match=sentence):
            join_albums(albums, tmp_path / "joined")
    with pytest.raises(ValueError, match="already"):
        join_albums([here, tmp_path / "album"], here)
    assert len(album) == 12
