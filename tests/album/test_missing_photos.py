"""Photos that cannot be seen for a while are not lost: a closed folder, a disk that is not mounted."""

import os
import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest
from photo_makers import photo_bytes, photo_folder

from smoothap.album import Album
from smoothap.album.update import refuse_missing


def test_another_folder_does_not_empty_the_album(album, tmp_path):
    other = tmp_path / "elsewhere"
    other.mkdir()
    with pytest.raises(ValueError, match="no photos in"):
        Album.open(tmp_path / "album", root=other).update()
    (other / "x.png").write_bytes(photo_bytes(1))
    with pytest.raises(ValueError, match="another folder"):
        Album.open(tmp_path / "album", root=other).update()
    assert len(Album.open(tmp_path / "album")) == 12


def closed_folder(monkeypatch, *names):
    """As for a user without the permission to list these folders; the tests may run as one who has all."""
    scan = os.scandir

    def scandir(path):
        if Path(path).name in names:
            raise PermissionError(13, "Permission denied")
        return scan(path)

    monkeypatch.setattr("smoothap.album.walk.os.scandir", scandir)


class UnknownEntry:
    """An entry of a folder that can be listed but not entered: its name is known and nothing else."""

    def __init__(self, entry):
        self.name, self.path = entry.name, entry.path

    def is_symlink(self):
        return False

    is_dir = is_symlink

    def stat(self):
        raise PermissionError(13, "Permission denied")


def test_a_folder_that_cannot_be_entered_loses_no_photo(album, photos, monkeypatch):
    closed_folder(monkeypatch, "class1")
    report = album.update()
    assert report.removed == []
    assert "cannot be entered" in report.unreadable["class1"]
    assert len(album) == 12


def test_a_folder_that_can_be_listed_but_not_entered_loses_no_photo(album, monkeypatch):
    scan = os.scandir

    @contextmanager
    def scandir(path):
        with scan(path) as entries:
            yield map(UnknownEntry, entries) if Path(path).name == "class1" else entries

    monkeypatch.setattr("smoothap.album.walk.os.scandir", scandir)
    report = album.update()
    assert report.removed == []
    assert report.unreadable == {path: "permission denied" for path in album.photos.paths() if "class1" in path}
    assert len(album) == 12


def test_a_photo_folder_that_cannot_be_read_is_an_error(album, photos, monkeypatch):
    closed_folder(monkeypatch, photos.name)
    with pytest.raises(ValueError, match=r"photos cannot be read: permission denied"):
        album.update(remove_missing=True)
    assert len(Album.open(album.folder)) == 12


def test_a_disk_that_is_not_mounted_does_not_empty_the_album(album, photos, tmp_path, monkeypatch):
    album.remove(range(8, 12))  # eight are a few, but all
    shutil.move(photos, tmp_path / "away")
    (photos / "lost+found").mkdir(parents=True)
    closed_folder(monkeypatch, "lost+found")
    before = {file.name: file.read_bytes() for file in album.folder.iterdir()}
    with pytest.raises(ValueError, match=r"8 of the 8 photos .* such as 'class0/000.png', .*--remove-missing"):
        album.update()
    assert {file.name: file.read_bytes() for file in album.folder.iterdir()} == before


def test_many_missing_photos_are_removed_only_on_demand(tmp_path, model):
    photos = photo_folder(tmp_path / "many", 40, classes=2)
    album = Album.create(tmp_path / "album", model, photos)
    album.update(progress=False)
    gone = sorted((photos / "class1").iterdir())[:11]
    for file in gone[:10]:  # a few, although more than a tenth
        file.unlink()
    (photos / "new.png").write_bytes(photo_bytes(50))
    report = album.update(progress=False)
    assert (len(report.removed), report.added, len(album)) == (10, ["new.png"], 31)
    shutil.rmtree(photos / "class0")
    (photos / "late.png").write_bytes(photo_bytes(51))
    with pytest.raises(ValueError, match="20 of the 31 photos"):
        album.update(progress=False)
    assert "late.png" not in Album.open(tmp_path / "album").photos.paths()
    report = album.update(remove_missing=True, progress=False)
    assert (len(report.removed), report.added, len(album)) == (20, ["late.png"], 12)


def test_a_tenth_of_many_photos_may_go(tmp_path):
    paths = [f"{number}.png" for number in range(200)]
    refuse_missing(paths[:20], 200, tmp_path / "album", tmp_path)
    with pytest.raises(ValueError, match="21 of the 200"):
        refuse_missing(paths[:21], 200, tmp_path / "album", tmp_path)


def test_a_new_link_to_a_folder_does_not_take_its_photos(album, photos):
    before = album.photos.paths()
    (photos / "zz link").symlink_to("class0")
    report = album.update()
    assert (report.removed, report.added) == ([], [])
    assert album.photos.paths() == before


def test_a_folder_behind_a_link_that_leads_nowhere_loses_no_photo(album, photos, tmp_path):
    shutil.move(photos / "class1", tmp_path / "away")
    (photos / "class1").symlink_to("not mounted")
    report = album.update()
    assert report.removed == []
    assert report.unreadable["class1"] == "a link to nothing"
