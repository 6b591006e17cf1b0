"""An album keeps when and by which camera a photo was taken, or what its name and its file say of that."""

import io
import sys
import threading
import time
from datetime import datetime

import numpy as np
import pytest
from photo_makers import photo_bytes
from PIL import Image

from smoothap.album import Album


def camera_photo(seed, taken=None, model=None, maker="Apple"):
    """A JPEG as a phone writes it, with a place in it."""
    exif = Image.Exif()
    if model is not None:
        exif[0x010F], exif[0x0110] = maker, model
    if taken is not None:
        exif.get_ifd(0x8769)[0x9003] = taken.strftime("%Y:%m:%d %H:%M:%S")
    exif.get_ifd(0x8825)[1], exif.get_ifd(0x8825)[2] = "N", (52.0, 31.0, 12.0)
    stream = io.BytesIO()
    Image.open(io.BytesIO(photo_bytes(seed))).convert("RGB").save(stream, "JPEG", exif=exif)
    return stream.getvalue()


WHEN = {f"{place}.jpg": datetime(2020 + place, 3, 4, 5, 6, place) for place in range(4)}


@pytest.fixture
def shots(tmp_path):
    root = tmp_path / "shots"
    root.mkdir()
    for place, (name, when) in enumerate(WHEN.items()):
        (root / name).write_bytes(camera_photo(place, when, f"iPhone {place % 2}"))
    (root / "drawing.png").write_bytes(photo_bytes(9))
    return root


def assert_known(album):
    photos = {photo.path: photo for photo in album.photos}
    assert {path: photo.taken for path, photo in photos.items()} == {**WHEN, "drawing.png": None}
    assert photos["1.jpg"].camera == "Apple iPhone 1"
    assert photos["drawing.png"].camera is None


def test_dates_and_cameras_are_kept(tmp_path, model, shots):
    album = Album.create(tmp_path / "album", model, shots)
    album.update(progress=False)
    assert_known(album)
    assert_known(Album.open(tmp_path / "album"))


def test_a_place_is_not_kept(tmp_path, model, shots):
    album = Album.create(tmp_path / "album", model, shots)
    album.update(progress=False)
    for file in (tmp_path / "album").iterdir():
        assert b"GPS" not in file.read_bytes()
    for photo in album.photos:
        picture = Image.open(io.BytesIO(album.thumbnail(photo.id)))
        assert not picture.getexif()


def test_a_changed_photo_has_its_new_date(tmp_path, model, shots):
    album = Album.create(tmp_path / "album", model, shots)
    album.update(progress=False)
    (shots / "1.jpg").write_bytes(camera_photo(77, datetime(1999, 12, 31, 23, 59, 59), "D90", "NIKON"))
    assert album.update(progress=False).changed == ["1.jpg"]
    photo = next(photo for photo in album.photos if photo.path == "1.jpg")
    assert (photo.taken, photo.camera) == (datetime(1999, 12, 31, 23, 59, 59), "NIKON D90")


def test_vectors_made_elsewhere_may_come_with_dates_and_cameras():
    known = [{"path": "a.jpg", "taken": "2020-01-02T03:04:05", "camera": "X"}, {"path": "b.jpg"}]
    first, second = Album.from_arrays(np.eye(2), known).photos
    assert (first.taken, first.camera) == (datetime(2020, 1, 2, 3, 4, 5), "X")
    assert (second.taken, second.camera) == (None, None)


def test_a_heic_photo_is_tried_again_once_its_decoder_is_there(tmp_path, model, shots, monkeypatch):
    from smoothap.data import reading

    (shots / "IMG_1.HEIC").write_bytes(b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(100))
    album = Album.create(tmp_path / "album", model, shots)
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "pi_heif", None)
        patched.setattr(reading, "_load_heif", reading._load_heif.__wrapped__)
        assert "pip install" in album.update(progress=False).unreadable["IMG_1.HEIC"]
    monkeypatch.setattr("smoothap.album.prepare.read_image", lambda *_, **__: Image.new("RGB", (64, 48)))
    monkeypatch.setattr("smoothap.album.prepare.image_head", lambda _: reading.ImageHead(64, 48, None, ""))
    assert album.update(progress=False).added == ["IMG_1.HEIC"]


def test_of_many_large_photos_few_are_decoded_at_once(tmp_path, model, monkeypatch):
    from smoothap.album import prepare
    from smoothap.data.reading import read_image

    (tmp_path / "large").mkdir()
    for seed in range(12):
        (tmp_path / "large" / f"{seed}.png").write_bytes(photo_bytes(seed))
        (tmp_path / "large" / f"{seed}.jpg").write_bytes(photo_bytes(seed, form="JPEG"))
    now, most, lock = [], [], threading.Lock()

    def reading(content, **options):
        kind = content[:2] == b"\xff\xd8"
        with lock:
            now.append(kind)
            most.append(now.count(False))
        time.sleep(0.01)
        with lock:
            now.remove(kind)
        return read_image(content, **options)

    monkeypatch.setattr(prepare, "_LARGE_PIXELS", 100)
    monkeypatch.setattr(prepare, "read_image", reading)
    album = Album.create(tmp_path / "album", model, tmp_path / "large")
    assert len(album.update(progress=False, workers=12).added) == 24
    assert 1 <= max(most) <= 4
