"""An album is brought up to date with its folder: what changed is touched, and nothing else."""

import os
from pathlib import Path

import numpy as np
import pytest
from photo_makers import photo_bytes

from smoothap.album import Album, prepare
from smoothap.album.update import labels_by_folder
from smoothap.models import Embedder


def test_only_what_changed_is_touched_and_ids_stay(album, photos, monkeypatch):
    before = {photo.path: photo.id for photo in album.photos}
    (photos / "class0/000.png").unlink()
    (photos / "class1/001.png").write_bytes(photo_bytes(77))
    (photos / "new.jpg").write_bytes(photo_bytes(78, form="JPEG"))
    os.utime(photos / "class2/002.png", (1, 1))  # another time, the same content
    embedded = []
    forward = Embedder.forward
    monkeypatch.setattr(Embedder, "forward", lambda self, views: embedded.append(len(views)) or forward(self, views))
    report = album.update(labels=labels_by_folder)
    assert (report.added, report.changed, report.removed) == (["new.jpg"], ["class1/001.png"], ["class0/000.png"])
    assert report.unchanged == 10
    assert sum(embedded) == 2
    after = {photo.path: photo.id for photo in album.photos}
    assert after.pop("new.jpg") == 12
    assert after == {path: number for path, number in before.items() if path != "class0/000.png"}
    assert album.photo(after["class2/002.png"]).modified == 1
    assert album.update().unchanged == 12
    assert sum(embedded) == 2


def test_the_number_of_readers_changes_nothing_but_the_speed(tmp_path, album, model, photos, monkeypatch):
    readers = []
    pool = prepare.ThreadPoolExecutor
    monkeypatch.setattr(prepare, "ThreadPoolExecutor", lambda number, **more: readers.append(number) or pool(number))
    for workers in (1, 3):
        other = Album.create(tmp_path / f"read by {workers}", model, photos)
        other.update(workers=workers, progress=False)
        assert other.photos.paths() == album.photos.paths()
        assert np.array_equal(other.vectors, album.vectors)
    assert readers == [1, 3]
    with pytest.raises(ValueError, match="workers is how many photos are read at once, at least 1, not 0"):
        album.update(workers=0)


def test_a_run_with_nothing_to_do_writes_nothing(album):
    before = {file.name: file.stat().st_mtime_ns for file in Path(album.folder).iterdir()}
    album.update(labels=labels_by_folder)
    assert {file.name: file.stat().st_mtime_ns for file in Path(album.folder).iterdir()} == before


def test_ids_are_never_given_twice(album, photos):
    album.remove([11, 3])
    assert len(album) == 10
    with pytest.raises(KeyError, match="no photo 11"):
        album.photo(11)
    report = album.add([photos / "class2/011.png"])
    assert report.added == ["class2/011.png"]
    assert album.photos[-1].id == 12
    assert album.search(12, 1, everything=True)


def test_labels_can_be_given_later_without_embedding(tmp_path, model, photos):
    album = Album.create(tmp_path / "later", model, photos)
    album.update()
    assert {photo.label for photo in album.photos} == {None}
    report = album.update(labels=lambda path: "x" if "class1" in path else None)
    assert len(report.relabelled) == 4
    assert {photo.path for photo in album.photos if photo.label == "x"} == set(report.relabelled)


def test_links_do_not_lead_out(tmp_path, model, photos):
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "s.png").write_bytes(photo_bytes(1))
    (photos / "link.png").symlink_to(secret / "s.png")
    (photos / "folder").symlink_to(secret)
    (photos / "inside.png").symlink_to(photos / "class0/000.png")
    (photos / "loop.png").symlink_to("loop.png")
    album = Album.create(tmp_path / "album", model, photos)
    report = album.update()
    assert set(report.unreadable) == {"link.png", "folder", "loop.png"}
    assert "inside.png" in album.photos.paths()
    (photos / "inside.png").unlink()
    (photos / "inside.png").symlink_to(secret / "s.png")
    with pytest.raises(ValueError, match="leads out"):
        album.photo_path(next(photo.id for photo in album.photos if photo.path == "inside.png"))


def test_add_takes_only_what_lies_below_the_root(album, tmp_path):
    (tmp_path / "outside.png").write_bytes(photo_bytes(1))
    report = album.add([tmp_path / "outside.png", "class0/missing.png", "../outside.png"])
    assert not report.added
    assert len(report.unreadable) >= 2
    assert len(album) == 12


def test_a_date_that_no_album_can_hold_is_no_reason_to_stop(album, photos):
    late = photos / "late.png"
    late.write_bytes(photo_bytes(60))
    os.utime(late, (1e10, 1e10))  # the year 2286
    if late.stat().st_mtime_ns < 2**63:
        pytest.skip("this file system has no such dates")
    assert album.update().added == ["late.png"]
    assert album.update().unchanged == 13


def test_a_folder_name_that_is_not_utf8_is_a_label(album, photos):
    folder = photos / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    (folder / "a.png").write_bytes(photo_bytes(61))
    album.update(labels=labels_by_folder)
    assert album.photos[-1].label == r"caf\udce9"
    assert album.update(labels=labels_by_folder).relabelled == []
