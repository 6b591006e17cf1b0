"""Albums on disk: made, kept, moved, damaged."""

import io
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from photo_makers import photo_bytes
from PIL import Image

from smoothap.album import Album
from smoothap.album.ingest import index_photos
from smoothap.models import Embedder


def test_vectors_are_those_of_the_model_on_each_file(album, model, photos):
    wanted = Embedder.load(model).embed([photos / path for path in album.photos.paths()], progress=False).numpy()
    assert np.abs(album.vectors - wanted).max() < 1e-5
    assert isinstance(album.vectors[:].base, np.memmap)
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


def test_where_the_model_is_is_remembered(tmp_path, model, photos):
    here = shutil.copytree(model, tmp_path / "model")
    Album.create(tmp_path / "album", here, photos).update(progress=False)
    moved = shutil.move(here, tmp_path / "moved")
    Album.open(tmp_path / "album", model=moved).update(progress=False)
    assert Album.open(tmp_path / "album").search(photos / "class0/000.png", 1)[0].id == 0


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


def test_no_album_is_made_inside_another(album, tmp_path, model, photos):
    inside = tmp_path / "album" / "network" / "second"
    for make in (
        lambda: Album.create(inside, model, photos),
        lambda: Album.from_arrays(np.eye(3), path=inside),
        lambda: index_photos(photos, inside, model=str(model)),
    ):
        with pytest.raises(ValueError, match=r"second is in the album .*album: choose a folder outside of it"):
            make()
    assert not inside.parent.exists()
    (tmp_path / "album.json").write_text("{}")  # by another program
    assert len(Album.from_arrays(np.eye(3), path=tmp_path / "third")) == 3


def test_two_writers_are_one_too_many(album, tmp_path):
    with album.store.writing(), pytest.raises(ValueError, match="Another process is writing"):
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
