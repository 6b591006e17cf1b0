"""Whenever the power goes while an album is written, it is the old one or the new one, and the next run finishes."""

import errno
import os
import random
import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from guarantees import short_or_long
from photo_makers import photo_bytes, photo_folder, tiny_model
from smoothap.album.parts import PARTS, PartUpdate, Share, settle_album
from torn_disk import PowerCut, TornDisk

from smoothap.album import Album, update
from smoothap.album.projection import Learnt, Projection
from smoothap.album.walk import walk
from smoothap.models import Embedder

pytestmark = pytest.mark.guarantee(10)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A model, and an album of 6 photos that is copied for every run."""
    folder = tmp_path_factory.mktemp("made")
    model = tiny_model(folder / "model")
    photos = photo_folder(folder / "photos", 6)
    Album.create(folder / "album", model, photos).update(labels=update.labels_by_folder, progress=False)
    return folder, Embedder.load(model)


def opened(folder, model):
    return Album.open(folder / "album", model=model, root=folder / "photos")


def update(folder, model):
    for number in range(5):
        (folder / "photos" / f"new{number}.png").write_bytes(photo_bytes(100 + number))
    next(iter(sorted((folder / "photos").glob("class0/*.png")))).unlink(missing_ok=True)
    opened(folder, model).update(labels=update.labels_by_folder, progress=False)


def add(folder, model):
    file = folder / "photos" / "added.png"
    file.write_bytes(photo_bytes(200))
    opened(folder, model).add([file], progress=False)


def remove(folder, model):
    opened(folder, model).remove([opened(folder, model).photos[2].id])


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


def part(folder, model, *, apart=True):
    for number in range(4):
        (folder / "photos" / f"part{number}.png").write_bytes(photo_bytes(300 + number))
    next(iter(sorted((folder / "photos").glob("class0/*.png")))).unlink(missing_ok=True)
    album, photos = folder / "album", folder / "photos"
    for number in (1, 2):
        PartUpdate(
            album, lambda: model, photos, Share(number, 2), walk(photos), update.labels_by_folder,
            remove_missing=True, progress=False, apart=apart,
        ).run()  # fmt: skip
    if not apart:
        settle_album(album)
        assert not list((album / "parts").iterdir())
    given = {file.path for file in walk(photos).files}
    assert given == set(opened(folder, model).photos.paths())
    assert sum(part.indexed for part in opened(folder, model).parts) == apart * len(given)
    assert not list((album / PARTS).glob("*-of-*"))


CHANGES = {
    "update": update, "add": add, "remove": remove, "calibrate": calibrate, "learn": learn, "unlearn": unlearn,
    "part": part, "pieces": partial(part, apart=False),
}  # fmt: skip


@pytest.fixture(autouse=True)
def many_small_commits(monkeypatch, tmp_path):
    monkeypatch.setattr(update, "BATCH", 2)
    monkeypatch.setattr(update, "COMMIT_ROWS", 2)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def check(folder, model):
    """The album opens, every byte is right, and every photo in it is one that was there: its paths."""
    album = opened(folder, model)
    album.verify()
    paths = album.photos.paths()
    assert len(set(paths)) == len(paths) == len(album.vectors)
    assert (album.vectors == album.projected(album.model_vectors()[1])).all()
    return set(paths)


@pytest.mark.parametrize("kind", CHANGES)
def test_whenever_the_power_goes_the_album_is_whole(kind, made, tmp_path, monkeypatch, measured):
    source, model = made
    runs, seen = 0, set()
    step = 1 if kind == "remove" else short_or_long(9, 1)
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
            assert after >= before - {"class0/000.png", opened(source, model).photos[2].path}
            seen.add(frozenset(after))
            if kind != "remove":
                CHANGES[kind](folder, model)  # the next run finishes what this one began
                check(folder, model)
            shutil.rmtree(folder)
            runs += 1
        else:
            pytest.fail("a change has no end")
        shutil.rmtree(folder)
    assert runs >= 1
    assert (
        kind in ("add", "calibrate", "learn", "unlearn") or len(seen) >= 2
    )  # the old album and the new one were both met
    measured(f"{runs} power cuts while an album does {kind}")


@pytest.mark.parametrize("kind", ["update", "remove"])
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EROFS])
def test_a_full_disk_leaves_an_album_that_opens(kind, error, made, tmp_path, monkeypatch):
    source, model = made
    folder = shutil.copytree(source, tmp_path / "copy")
    before = check(folder, model)
    fsync, calls = os.fsync, []

    def full(descriptor):
        calls.append(descriptor)
        if len(calls) == 4:
            raise OSError(error, os.strerror(error))
        fsync(descriptor)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        full = r"disk of the album .*album is full\. The album opens as it was last written, .* run this again\."
        sentence = full if error == errno.ENOSPC else os.strerror(error)
        with pytest.raises(OSError, match=sentence):
            CHANGES[kind](folder, model)
    assert check(folder, model) >= before - {opened(source, model).photos[2].path}
    CHANGES["update"](folder, model)
    check(folder, model)
    assert not list(Path(folder / "album").glob(".*.partial"))
