"""No photo is lost in silence: indexed and reported together are all files, whatever is wrong with them."""

import csv
import io
import os
import threading
import zlib
from pathlib import Path

import numpy as np
import psutil
import pytest
from guarantees import short_or_long
from photo_makers import photo_bytes
from PIL import Image

from smoothap.album import Album, prepare, update
from smoothap.album.walk import kinds_of
from smoothap.data.reading import UnreadableImage


def bomb() -> bytes:
    """A PNG of a few bytes that says it has 40,000 x 40,000 pixels."""
    content = bytearray(photo_bytes(0))
    content[16:24] = (40_000).to_bytes(4, "big") * 2
    content[29:33] = zlib.crc32(content[12:29]).to_bytes(4, "big")
    return bytes(content)


def float_tiff() -> bytes:
    stream = io.BytesIO()
    Image.fromarray(np.full((8, 8), np.nan, np.float32)).save(stream, "TIFF")
    return stream.getvalue()


BAD = {
    "empty.jpg": b"",
    "text.png": b"this is text",
    "html.jpg": b"<html><script>alert(1)</script></html>",
    "cut.jpg": photo_bytes(1, 200, "JPEG")[:300],
    "cut.png": photo_bytes(1, 200, "PNG")[:200],
    "cut.webp": photo_bytes(1, 200, "WEBP")[:60],
    "cut.gif": photo_bytes(1, 200, "GIF")[:900],
    "head only.bmp": photo_bytes(1, 50, "BMP")[:40],
    "bomb.png": bomb(),
    "zeros.tiff": bytes(1000),
    "nan.tiff": float_tiff(),
    "postscript.jpg": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n",
    "pickle.png": b"\x80\x04\x95.",
}


GOOD = 120
OTHERS = {
    "notes.txt": "not a photo, going by its file name",
    "clip.MOV": "a video",
    "film.mov": "a video",
    ".hidden.jpg": "a hidden file",
    "IMG_1.CR2": "a raw file of a camera, which has to be converted first",
    "README": "not a photo, going by its file name",
}


@pytest.fixture
def pile(tmp_path):
    root = tmp_path / "pile"
    root.mkdir()
    formats = [("PNG", "png"), ("JPEG", "JPG"), ("WEBP", "webp"), ("GIF", "gif"), ("BMP", "bmp"), ("TIFF", "tif")]
    for seed in range(GOOD):
        form, suffix = formats[seed % len(formats)]
        (root / f"{seed}.{suffix}").write_bytes(photo_bytes(seed, form=form))
    for name, content in BAD.items():
        (root / name).write_bytes(content)
    (root / "broken link.jpg").symlink_to("nowhere.jpg")
    (root / "folder.jpg").mkdir()
    os.mkfifo(root / "pipe.jpg")
    for name in OTHERS:
        (root / name).write_text("no image")
    return root


@pytest.mark.guarantee(13)
def test_indexed_and_reported_are_all(tmp_path, model, pile):
    album = Album.create(tmp_path / "album", model, pile)
    report = album.update(progress=False)
    assert set(report.unreadable) == {*BAD, "broken link.jpg", "pipe.jpg"}
    assert all(report.unreadable.values())
    assert (len(album), len(report.added), report.others) == (GOOD, GOOD, OTHERS)
    assert kinds_of(report.others) == {".mov": 2, ".cr2": 1, ".jpg": 1, ".txt": 1, "without a suffix": 1}
    assert report.seen == GOOD + len(BAD) + 2
    with (tmp_path / "album" / "unreadable.csv").open(newline="") as file:
        listed = {row["path"]: row["reason"] for row in csv.DictReader(file)}
    assert listed == {**report.unreadable, **OTHERS}
    again = album.update(progress=False)
    assert again.unreadable == report.unreadable
    assert again.unchanged == GOOD


def test_a_repaired_photo_is_taken_in_and_leaves_the_list(tmp_path, model, pile):
    album = Album.create(tmp_path / "album", model, pile)
    album.update(progress=False)
    (pile / "cut.png").write_bytes(photo_bytes(999))
    report = album.update(progress=False)
    assert report.added == ["cut.png"]
    assert "cut.png" not in report.unreadable
    assert "cut.png" not in (tmp_path / "album" / "unreadable.csv").read_text()


@pytest.mark.parametrize("error", [PermissionError(13, "Permission denied"), OSError(5, "I/O error"), MemoryError()])
def test_a_reason_that_can_pass_is_tried_again(tmp_path, model, pile, monkeypatch, error):
    content = prepare._content

    def failing(file):
        if file.name == "0.png":
            raise error
        return content(file)

    album = Album.create(tmp_path / "album", model, pile)
    with monkeypatch.context() as patched:
        patched.setattr(prepare, "_content", failing)
        assert "0.png" in album.update(progress=False).unreadable
        assert "0.png" in album.update(progress=False).unreadable
    assert "0.png" in (tmp_path / "album" / "unreadable.csv").read_text()
    report = album.update(progress=False)
    assert report.added == ["0.png"]
    assert set(report.unreadable) == {*BAD, "broken link.jpg", "pipe.jpg"}


def test_memory_that_runs_out_while_decoding_is_a_reason_that_can_pass(tmp_path, model, pile, monkeypatch):
    def failing(*_, **__):
        raise UnreadableImage("image", "MemoryError") from MemoryError()

    album = Album.create(tmp_path / "album", model, pile)
    with monkeypatch.context() as patched:
        patched.setattr("smoothap.album.prepare.read_image", failing)
        album.add([pile / "0.png"], progress=False)
    assert album.add([pile / "0.png"], progress=False).added == ["0.png"]


def test_damage_is_not_looked_at_twice(tmp_path, model, pile, monkeypatch):
    album = Album.create(tmp_path / "album", model, pile)
    before = album.update(progress=False).unreadable
    monkeypatch.setattr("smoothap.album.prepare._content", lambda file: pytest.fail(f"{file} was read again"))
    assert album.update(progress=False).unreadable == before


@pytest.mark.parametrize("error", [OverflowError("too large"), RuntimeError("strange"), ZeroDivisionError()])
def test_one_bad_file_is_one_line_whatever_is_bad_about_it(tmp_path, model, pile, monkeypatch, error):
    thumbnail = prepare.thumbnail_of
    calls = []

    def failing(picture):
        calls.append(picture)
        if len(calls) == 1:
            raise error
        return thumbnail(picture)

    monkeypatch.setattr(prepare, "thumbnail_of", failing)
    report = Album.create(tmp_path / "album", model, pile).update(progress=False)
    assert len(report.unreadable) == len(BAD) + 3
    assert len(report.added) == GOOD - 1


def test_a_photo_that_becomes_unreadable_is_reported_and_kept_as_it_was(tmp_path, model, pile):
    album = Album.create(tmp_path / "album", model, pile)
    album.update(progress=False)
    number = next(photo.id for photo in album.photos if photo.path == "0.png")
    before = album.vectors[album.photos.row_of(number)].copy()
    (pile / "0.png").write_bytes(b"damaged")
    report = album.update(progress=False)
    assert "0.png" in report.unreadable
    assert np.array_equal(album.vectors[album.photos.row_of(number)], before)


def test_an_interrupted_run_keeps_what_it_has(tmp_path, model, pile, monkeypatch):
    album = Album.create(tmp_path / "album", model, pile)
    add = update.Updater.take
    batches = []

    def interrupted(self, *arguments):
        if len(batches) == 3:
            raise KeyboardInterrupt
        batches.append(1)
        add(self, *arguments)

    monkeypatch.setattr(prepare, "BATCH", 16)
    monkeypatch.setattr(update.Updater, "take", interrupted)
    with pytest.raises(KeyboardInterrupt):
        album.update(progress=False)
    assert len(Album.open(tmp_path / "album")) == 8 + 16 + 16
    batches.clear()
    monkeypatch.setattr(update.Updater, "take", add)
    report = album.update(progress=False)
    assert len(report.added) + 40 == len(album) == GOOD


def write_many(root: Path, files: int, bad: int) -> list[str]:
    """Folders of photos, of which some are bad in 15 ways; returns the paths of those."""
    ways = [*BAD.items(), ("link.jpg", None), ("pipe.jpg", None)]
    assert len(ways) == 15
    formats = [("PNG", "png"), ("JPEG", "jpg"), ("WEBP", "webp"), ("GIF", "gif"), ("BMP", "bmp"), ("TIFF", "tif")]
    made = [(photo_bytes(seed, form=form), suffix) for seed, (form, suffix) in enumerate(formats * 20)]
    names = []
    for number in range(files):
        folder = root / f"{number // 100:03d}"
        folder.mkdir(parents=True, exist_ok=True)
        if number % (files // bad) or len(names) == bad:
            content, suffix = made[number % len(made)]
            (folder / f"{number}.{suffix}").write_bytes(content)
            continue
        name, content = ways[len(names) % len(ways)]
        file = folder / f"{number} {name}"
        if content is not None:
            file.write_bytes(content)
        elif name == "link.jpg":
            file.symlink_to("nowhere.jpg")
        else:
            os.mkfifo(file)
        names.append(file.relative_to(root).as_posix())
    return names


@pytest.mark.alone
@pytest.mark.guarantee(13)
def test_of_many_files_none_is_lost_and_memory_is_bounded(tmp_path, model, measured):
    files, bad = short_or_long(150, 10_000), short_or_long(15, 500)
    names = write_many(tmp_path / "photos", files, bad)
    assert len(names) == bad
    album = Album.create(tmp_path / "album", model, tmp_path / "photos")
    album.add([path for path in sorted((tmp_path / "photos").glob("000/*")) if path.is_file()], progress=False)
    process, most, done = psutil.Process(), [0], threading.Event()
    before = process.memory_info().rss

    def watch():
        while not done.wait(0.02):
            most[0] = max(most[0], process.memory_info().rss)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        report = album.update(progress=False)
    finally:
        done.set()
        watcher.join()
    assert sorted(report.unreadable) == sorted(names)
    assert len(album) + len(report.unreadable) == report.seen == files
    with (tmp_path / "album" / "unreadable.csv").open(newline="") as file:
        assert sorted(row["path"] for row in csv.DictReader(file)) == sorted(names)
    growth = (most[0] - before) / 1e6
    measured(f"{len(album):,} indexed + {len(names)} reported = {files:,}, memory {growth:+.0f} MB")
    assert growth < 200  # as much for 300 files as for 10,000
