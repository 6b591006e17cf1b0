"""Whenever the power goes while an album is written, it is the old one or the new one, and the next run finishes."""

import errno
import os
import random
import shutil

import numpy as np
import pytest
from guarantees import LONG, short_or_long
from photo_makers import photo_bytes, photo_folder, tiny_model
from torn_disk import PowerCut, TornDisk

from smoothap.album import Album, Learnt, Projection, index_photos, prepare, update
from smoothap.album.ingest import embed_shard
from smoothap.album.shards import waiting_shards
from smoothap.album.update import labels_by_folder
from smoothap.models import Embedder

pytestmark = pytest.mark.guarantee(10)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A model, and an album of 6 photos that is copied for every run."""
    folder = tmp_path_factory.mktemp("made")
    model = tiny_model(folder / "model")
    photos = photo_folder(folder / "photos", 6)
    Album.create(folder / "album", model, photos).update(labels=labels_by_folder, progress=False)
    return folder, Embedder.load(model)


def opened(folder, model):
    return Album.open(folder / "album", model=model, root=folder / "photos")


def bring_up_to_date(folder, model):
    for number in range(5):
        (folder / "photos" / f"new{number}.png").write_bytes(photo_bytes(100 + number))
    (folder / "photos" / "class1" / "001.png").write_bytes(photo_bytes(150))
    (folder / "photos" / "class0" / "000.png").unlink(missing_ok=True)
    opened(folder, model).update(labels=labels_by_folder, progress=False)


def add(folder, model):
    file = folder / "photos" / "added.png"
    file.write_bytes(photo_bytes(200))
    opened(folder, model).add([file], progress=False)


def remove(folder, model):
    """Three of six, so that the files of vectors are written again."""
    there = set(opened(folder, model).photos.ids.tolist())
    opened(folder, model).remove({1, 2, 4} & there)


def calibrate(folder, model):
    album = opened(folder, model)
    album.calibrate(album.vectors, album.photos.labels(), "itself")


def learn(folder, model):
    projection = Projection(np.eye(5, 8, dtype=np.float32), np.full(5, 0.1, np.float32))
    opened(folder, model).learn(projection, Learnt(5, 5, 20, (0.2, 0.1, 0.3)), None)


def unlearn(folder, model):
    if (album := opened(folder, model)).learnt is None:
        learn(folder, model)
        album = opened(folder, model)
    album.unlearn()


def learn_and_grow(folder, model):
    learn(folder, model)
    bring_up_to_date(folder, model)


def collect(folder, model):
    collections = opened(folder, model).collections
    collections.mark("dog", right=[1, 2], wrong=[3])
    collections.undo()
    collections.add("dog", [1])


def insert_shards(folder, model):
    for number in range(4):
        (folder / "photos" / f"shard{number}.png").write_bytes(photo_bytes(300 + number))
    for number in (1, 2):
        embed_shard(folder / "photos", folder / "album", f"{number}/2", model=str(folder / "model"), progress=False)
    index_photos(folder / "photos", folder / "album", labels="folders", progress=False)
    assert waiting_shards(folder / "album") == []
    assert len(opened(folder, model)) == 10


CHANGES = {
    change.__name__: change
    for change in (bring_up_to_date, add, remove, calibrate, learn, unlearn, learn_and_grow, collect, insert_shards)
}
SHORT = ("bring_up_to_date", "remove", "learn", "collect", "insert_shards")  # the others write the same files
GONE = {"class0/000.png", "class0/003.png", "class1/001.png", "class2/002.png"}  # by a change


@pytest.fixture(autouse=True)
def many_small_commits(monkeypatch, tmp_path):
    monkeypatch.setattr(prepare, "BATCH", 2)
    monkeypatch.setattr(update, "COMMIT_ROWS", 2)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def check(folder, model):
    """The album opens, every byte is right, and every photo in it is one that was there: its paths."""
    album = opened(folder, model)
    album.verify()
    paths = album.photos.paths()
    assert len(set(paths)) == len(paths) == len(album.vectors)
    assert np.array_equal(album.vectors, album.projected(album.model_vectors()[1]))
    return set(paths)


@pytest.mark.parametrize("kind", CHANGES if LONG else SHORT)
def test_whenever_the_power_goes_the_album_is_whole(kind, made, tmp_path, monkeypatch, measured):
    source, model = made
    runs, seen = 0, set()
    folder = shutil.copytree(source, tmp_path / "done")
    CHANGES[kind](folder, model)
    done = check(folder, model)
    step = 1 if kind in ("remove", "add") else short_or_long(5, 1)
    for seed in range(short_or_long(1, 8)):
        for cut in range(1 + seed % step, 200, step):
            folder = tmp_path / f"{seed}-{cut}"
            shutil.copytree(source, folder)
            before = check(folder, model)
            disk = TornDisk(folder / "album", cut, random.Random(1000 * seed + cut))
            with monkeypatch.context() as patched:
                disk.install(patched)
                try:
                    CHANGES[kind](folder, model)
                    finished = True
                except PowerCut:
                    finished = False
            if finished:
                break
            disk.tear()
            after = check(folder, model)
            assert after >= before - GONE
            seen.add(frozenset(after))
            CHANGES[kind](folder, model)  # the next run finishes what this one began
            assert check(folder, model) == done
            assert not list((folder / "album").rglob(".*.partial"))
            shutil.rmtree(folder)
            runs += 1
        else:
            pytest.fail("a change has no end")
        shutil.rmtree(folder)
    assert runs >= 1
    if kind in ("bring_up_to_date", "add", "remove", "insert_shards"):
        assert len(seen) >= 2  # the old album and the new one were both met
    measured(f"{runs} power cuts while an album does {kind}")


@pytest.mark.parametrize("kind", ["bring_up_to_date", "remove", "learn"])
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EROFS])
def test_a_full_disk_leaves_an_album_that_opens(kind, error, made, tmp_path, monkeypatch):
    source, model = made
    folder = shutil.copytree(source, tmp_path / "copy")
    before = check(folder, model)
    fsync, calls = os.fsync, []

    def full(descriptor):
        calls.append(descriptor)
        if len(calls) == 2:
            raise OSError(error, os.strerror(error))
        fsync(descriptor)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        full_disk = r"[Dd]isk .*is full.* (run this|try) again\."
        sentence = full_disk if error == errno.ENOSPC else os.strerror(error)
        with pytest.raises(OSError, match=sentence):
            CHANGES[kind](folder, model)
    assert check(folder, model) >= before - GONE
    CHANGES[kind](folder, model)
    check(folder, model)
    assert not list((folder / "album").glob(".*.partial"))
