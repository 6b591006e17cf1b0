"""Crops and black-and-white versions are found as copies of their photo, and what merely looks like it is not."""

import numpy as np
import pytest
from PIL import Image, ImageFilter

from smoothap.album import Album, variants
from smoothap.album.copies import copies_in
from smoothap.album.update import UpdateReport
from smoothap.album.variants import CROP, GREY, Variant, variants_in

SIZE = 640, 480


def scene(seed):
    """A picture with large and small things in colour."""
    random = np.random.default_rng(seed)
    layers = [random.integers(0, 256, (side, side, 3), dtype=np.uint8) for side in (4, 12, 60)]
    parts = [np.asarray(Image.fromarray(layer).resize(SIZE, Image.Resampling.BICUBIC), np.float64) for layer in layers]
    return Image.fromarray((0.5 * parts[0] + 0.3 * parts[1] + 0.2 * parts[2]).astype(np.uint8))


@pytest.fixture
def album(tmp_path, model):
    """Five scenes; of the first a crop, a grey version, another moment, and its left half beside another scene."""
    root = tmp_path / "photos"
    root.mkdir()
    for seed in range(5):
        scene(seed).save(root / f"scene{seed}.jpg", quality=90)
    whole = scene(0)
    whole.crop((37, 51, 37 + 544, 51 + 408)).save(root / "crop.jpg", quality=90)
    whole.convert("L").save(root / "grey.jpg", quality=90)
    moved = Image.fromarray(np.roll(np.asarray(whole), 40, axis=1)).filter(ImageFilter.GaussianBlur(2))
    moved.resize((600, 450)).save(root / "moment.jpg", quality=90)
    half = whole.copy()
    half.paste(scene(9).crop((0, 0, 320, 480)), (320, 0))
    half.convert("L").save(root / "half.jpg", quality=90)
    made = Album.create(tmp_path / "album", model, root)
    assert isinstance(made.update(progress=False), UpdateReport)
    return made


def test_a_crop_and_a_grey_version_are_found_and_nothing_else(album, monkeypatch):
    monkeypatch.setattr(variants, "_ALIKE", -1.0)  # pixels decide: the tiny network knows nothing
    ids = {photo.path: photo.id for photo in album.photos}
    whole = ids["scene0.jpg"]
    found = variants_in(album)
    assert set(found) == {Variant(whole, ids["crop.jpg"], CROP), Variant(whole, ids["grey.jpg"], GREY)}
    groups = copies_in(album, None, found)
    assert [group.photos[0].path for group in groups] == ["scene0.jpg"]
    assert {photo.path for photo in groups[0].photos} == {"scene0.jpg", "crop.jpg", "grey.jpg"}
    assert (groups[0].kind, groups[0].exact) == (CROP, False)
    assert copies_in(album, None) == []
    with monkeypatch.context() as patched:  # found once, it is read from the cache
        patched.setattr(variants, "_found", lambda *_: pytest.fail("compared again"))
        assert variants_in(album) == found
    known = set(ids.values()) - {ids["crop.jpg"]}
    assert variants_in(album, known) == [one for one in found if one.kind == CROP]
    album.remove([whole])
    assert copies_in(album, None, found) == []


def test_an_album_without_thumbnails_or_with_too_many_photos_has_none(monkeypatch):
    facts = [{"path": f"{row}.jpg", "width": 9, "height": 9 - row} for row in range(4)]
    album = Album.from_arrays(np.ones((4, 3)), facts)
    assert variants_in(album) == []
    monkeypatch.setattr(variants, "MOST", 3)
    monkeypatch.setattr(variants, "pairs_above", lambda *_: pytest.fail("compared"))
    assert variants_in(album) == []
