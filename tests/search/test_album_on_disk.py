"""Albums on disk: made, brought up to date, moved, damaged."""

import io
import json
import os
import shutil
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from photo_makers import photo_bytes, photo_folder
from PIL import Image

from smoothap.models import Embedder
from smoothap.search import Album
from smoothap.search.updating import Updater, labels_by_folder


@pytest.fixture
def album(tmp_path, model, photos):
    made = Album.create(tmp_path / "album", model, photos)
    made.update(labels=labels_by_folder)
    return made


def test_vectors_are_those_of_the_model_on_each_file(album, model, photos):
    wanted = Embedder.load(model).embed([photos / path for path in album.photos.paths()], progress=False).numpy()
    assert np.abs(album.vectors - wanted).max() < 1e-5
    assert isinstance(album.vectors, np.memmap)
    assert [photo.label for photo in album.photos] == [str(Path(path).parent) for path in album.photos.paths()]
    first = album.photos[0]
    assert (first.width, first.height) == (40, 48)
    assert first.bytes == (photos / first.path).stat().st_size
    assert first.modified == pytest.approx((photos / first.path).stat().st_mtime)


def test_a_model_in_training_mode_embeds_as_in_evaluation_mode(tmp_path, photos):
    model = Embedder("test_resnet", 8, size=32, pretrained=False, freeze_batch_norm=False)
    album = Album.create(tmp_path / "album", model, photos)
    model.train()
    album.update(progress=False)
    wanted = model.embed([photos / path for path in album.photos.paths()], progress=False).numpy()
    assert np.abs(album.vectors - wanted).max() < 1e-5


def test_an_image_finds_itself_and_a_part_of_it_is_another_query(album, photos):
    path = photos / album.photos[4].path
    assert album.search(path, 1)[0].id == 4
    assert album.search(Image.open(path), 1)[0].score == pytest.approx(1, abs=1e-5)
    part = album.embed(path, box=(10, 10, 20, 20))
    cropped = album.embed(Image.open(path).crop((10, 10, 30, 30)))
    assert np.allclose(part, cropped, atol=1e-5)
    assert part @ album.vectors[4] < 0.9999
    assert album.search(4, 3, box=(10, 10, 20, 20))[0].id != 4


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


def test_a_run_with_nothing_to_do_writes_nothing(album):
    before = {file.name: file.stat().st_mtime_ns for file in Path(album._storage.folder).iterdir()}
    album.update(labels=labels_by_folder)
    assert {file.name: file.stat().st_mtime_ns for file in Path(album._storage.folder).iterdir()} == before


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


HOSTILE = ["new\nline.png", "quo\"te's.png", "<b>&amp;.png", "\u202egnp.png", "a,b;c.png", " space .png", "é€😀.png"]


def test_hostile_names_survive(tmp_path, model):
    root = tmp_path / "odd"
    root.mkdir()
    names = [*HOSTILE, os.fsdecode(b"not utf8 \xff.png")]
    for seed, name in enumerate(names):
        (root / name).write_bytes(photo_bytes(seed))
        (root / f"bad {name}").write_bytes(b"no image")
    album = Album.create(tmp_path / "album", model, root)
    report = album.update()
    assert sorted(report.unreadable) == sorted(f"bad {name}" for name in names)
    again = Album.open(tmp_path / "album")
    assert sorted(again.photos.paths()) == sorted(names)
    assert all(again.photo_path(photo.id).is_file() for photo in again.photos)
    again.embedder()
    report = again.update()
    assert (report.unchanged, len(report.unreadable)) == (len(names), len(names))


def test_the_album_names_no_place_of_this_machine(album, tmp_path):
    album.calibrate(album.vectors, album.photos.labels(), "itself")
    for file in (tmp_path / "album").iterdir():
        assert os.fsencode(tmp_path) not in file.read_bytes()
        assert str(tmp_path).encode("utf-16") not in file.read_bytes()


def test_photos_and_album_may_move_together(album, tmp_path, photos):
    (tmp_path / "moved").mkdir()
    shutil.move(tmp_path / "album", tmp_path / "moved" / "album")
    shutil.move(photos, tmp_path / "moved" / "photos")
    moved = Album.open(tmp_path / "moved" / "album")
    assert moved.photo_path(3).is_file()
    assert moved.update().unchanged == 12


def test_another_folder_does_not_empty_the_album(album, tmp_path):
    other = tmp_path / "elsewhere"
    other.mkdir()
    with pytest.raises(ValueError, match="no photos in"):
        Album.open(tmp_path / "album", root=other).update()
    (other / "x.png").write_bytes(photo_bytes(1))
    with pytest.raises(ValueError, match="another folder"):
        Album.open(tmp_path / "album", root=other).update()
    assert len(Album.open(tmp_path / "album")) == 12


def test_another_model_is_refused(album, tmp_path, other_model, model):
    with pytest.raises(ValueError, match="made by another model"):
        Album.open(tmp_path / "album", model=other_model)
    assert len(Album.open(tmp_path / "album", model=model).search(0)) == 11
    assert album.model.sha256 == json.loads((model / "model.json").read_text())["sha256"]


def test_a_model_that_is_gone_or_replaced_is_named(tmp_path, model, other_model, photos):
    here = shutil.copytree(model, tmp_path / "model")
    album = Album.create(tmp_path / "album", here, photos)
    album.update()
    shutil.rmtree(here)
    opened = Album.open(tmp_path / "album")
    assert opened.search(0, 1)  # a photo of the album needs no model
    with pytest.raises(ValueError, match=r"not at .* any more"):
        opened.search(photos / "class0/000.png")
    shutil.copytree(other_model, here)
    with pytest.raises(ValueError, match="made by another model"):
        Album.open(tmp_path / "album").search(photos / "class0/000.png")


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


def closed_folder(monkeypatch, *names):
    """As for a user without the permission to list these folders; the tests may run as one who has all."""
    scan = os.scandir

    def scandir(path):
        if Path(path).name in names:
            raise PermissionError(13, "Permission denied")
        return scan(path)

    monkeypatch.setattr("smoothap.search.walking.os.scandir", scandir)


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

    monkeypatch.setattr("smoothap.search.walking.os.scandir", scandir)
    report = album.update()
    assert report.removed == []
    assert report.unreadable == {path: "permission denied" for path in album.photos.paths() if "class1" in path}
    assert len(album) == 12


def test_a_photo_folder_that_cannot_be_read_is_an_error(album, photos, monkeypatch):
    closed_folder(monkeypatch, photos.name)
    with pytest.raises(ValueError, match=r"photos cannot be read: permission denied"):
        album.update(remove_missing=True)
    assert len(Album.open(album._storage.folder)) == 12


def test_a_disk_that_is_not_mounted_does_not_empty_the_album(album, photos, tmp_path, monkeypatch):
    album.remove(range(8, 12))  # eight are a few, but all
    shutil.move(photos, tmp_path / "away")
    (photos / "lost+found").mkdir(parents=True)
    closed_folder(monkeypatch, "lost+found")
    before = {file.name: file.read_bytes() for file in album._storage.folder.iterdir()}
    with pytest.raises(ValueError, match=r"8 of the 8 photos .* such as 'class0/000.png', .*--remove-missing"):
        album.update()
    assert {file.name: file.read_bytes() for file in album._storage.folder.iterdir()} == before


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
    album = Album.from_arrays(np.random.default_rng(0).standard_normal((200, 3)), {"path": paths}, tmp_path / "album")
    updater = Updater(album._storage, album.embedder, "", tmp_path, None, False)
    updater._check_missing(paths[:20])
    with pytest.raises(ValueError, match="21 of the 200"):
        updater._check_missing(paths[:21])


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


def test_where_the_model_lies_is_remembered(tmp_path, model, photos):
    here = shutil.copytree(model, tmp_path / "model")
    Album.create(tmp_path / "album", here, photos).update(progress=False)
    moved = shutil.move(here, tmp_path / "moved")
    Album.open(tmp_path / "album", model=moved).update(progress=False)
    assert Album.open(tmp_path / "album").search(photos / "class0/000.png", 1)[0].id == 0


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


def test_thumbnails_hold_nothing_but_pixels(tmp_path, model):
    root = tmp_path / "p"
    root.mkdir()
    exif = Image.Exif()
    exif[0x0112] = 6  # on its side
    exif[0x010E] = "SECRET PLACE"
    (root / "a.jpg").write_bytes(photo_bytes(1, side=600, form="JPEG", exif=exif))
    album = Album.create(tmp_path / "album", model, root)
    album.update()
    content = album.thumbnail(0)
    assert b"SECRET" in (root / "a.jpg").read_bytes()
    assert b"SECRET" not in content
    assert b"Exif" not in content
    picture = Image.open(io.BytesIO(content))
    assert max(picture.size) == 256
    assert picture.width > picture.height  # stored 600 x 608 upright, turned by a quarter
    assert (album.photos[0].width, album.photos[0].height) == (608, 600)
    (root / "a.jpg").unlink()
    assert album.thumbnail(0) == content


def test_two_writers_are_one_too_many(album, tmp_path):
    with album._storage.writing(), pytest.raises(ValueError, match="Another process is writing"):
        Album.open(tmp_path / "album").update()


def test_arrays_can_be_kept(tmp_path):
    vectors = np.random.default_rng(0).standard_normal((20, 5))
    Album.from_arrays(vectors, [{"path": f"{row}.jpg", "label": row % 3} for row in range(20)], tmp_path / "a")
    album = Album.open(tmp_path / "a")
    assert album.photos[4].label == "1"
    assert np.allclose(album.vectors, vectors / np.linalg.norm(vectors, axis=1, keepdims=True), atol=1e-6)
    album.remove([0])
    assert [photo.id for photo in Album.open(tmp_path / "a").photos] == list(range(1, 20))
    with pytest.raises(ValueError, match="already"):
        Album.from_arrays(vectors, path=tmp_path / "a")
    with pytest.raises(FileNotFoundError, match="no album"):
        Album.open(tmp_path / "b")


@pytest.fixture(scope="module")
def small_album(tmp_path_factory):
    """A folder with an album whose every byte can be flipped."""
    folder = tmp_path_factory.mktemp("flip") / "album"
    vectors = np.random.default_rng(0).standard_normal((10, 3))
    album = Album.from_arrays(
        vectors, {"path": [f"{row}.jpg" for row in range(10)], "label": list("aabbccddee")}, folder
    )
    album.calibrate(album.vectors, album.photos.labels(), "itself")
    return folder


@pytest.mark.parametrize("kind", ["cut", "missing", "empty"])
@pytest.mark.parametrize("name", ["vectors-000001.npy", "photos-000001.parquet", "album.json"])
def test_a_file_that_is_cut_or_missing_is_named(small_album, tmp_path, kind, name):
    album = shutil.copytree(small_album, tmp_path / "copy")
    file = album / name
    if kind == "missing":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[: -7 if kind == "cut" else 0])
    with pytest.raises((ValueError, FileNotFoundError), match=r"damaged|missing|no album"):
        Album.open(album)
