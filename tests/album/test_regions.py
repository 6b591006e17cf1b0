"""Things inside photos: windows, their vectors and codes by their definitions, and albums that keep them up to date."""

import math
import random
import shutil

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from photo_makers import photo_bytes
from PIL import ExifTags, Image

from smoothap.album import Album, index_photos
from smoothap.album.ingest import embed_shard
from smoothap.album.joining import join_albums
from smoothap.album.regions import Basis, RegionStore
from smoothap.data.transforms import Transform
from smoothap.models import Embedder
from smoothap.models.regions import (
    LEVELS,
    PARTS,
    embed_with_maps,
    feature_maps,
    pixel_boxes,
    pooled,
    region_vectors,
    region_view,
    windows,
)

SIDES = st.integers(1, 5000)


@given(SIDES, SIDES)
def test_windows_are_inside_the_photo_and_no_corner_is_left_out(width, height):
    boxes = windows(width, height)
    assert boxes.shape == (PARTS, 4)
    assert (boxes[:, :2] >= 0).all()
    assert (boxes[:, :2] + boxes[:, 2:] <= 1 + 1e-9).all()
    for level in range(1, LEVELS.max() + 1):
        left, top, across, down = boxes[level == LEVELS].T
        for starts, sides in ((left, across), (top, down)):
            assert starts.min() == 0
            assert (starts + sides).max() == pytest.approx(1)
            ends = np.sort(starts + sides)
            assert all(start <= end + 1e-9 for start, end in zip(np.unique(starts)[1:], np.unique(ends), strict=False))
    for x, y, wide, high in pixel_boxes(np.arange(PARTS), np.array([(width, height)] * PARTS)):
        assert 0 <= x < x + wide <= width
        assert 0 <= y < y + high <= height


@pytest.mark.parametrize("size", [(640, 480), (300, 700), (500, 500)])
def test_a_part_is_the_root_of_the_mean_of_squares_of_the_map_in_its_window(size, model):
    network = Embedder.load(model)
    view = region_view(_picture(size), 160)
    found = region_vectors(network, [view, view])
    with torch.inference_mode():
        cells = feature_maps(network, view[0][None])[0].double().numpy()
    channels, height, width = cells.shape
    for part, (left, top, across, down) in enumerate(windows(*size)):
        total = np.zeros(channels)
        for row in range(height):
            for column in range(width):
                high = min(row + 1, (top + down) * height) - max(row, top * height)
                wide = min(column + 1, (left + across) * width) - max(column, left * width)
                if high > 0 and wide > 0:
                    total += high * wide * cells[:, row, column] * np.abs(cells[:, row, column])
        total /= down * height * across * width
        pooled = torch.from_numpy(np.sign(total) * np.sqrt(np.abs(total))).float()
        vector = network.embedding(pooled[None])[0].detach().numpy()
        assert found[0, part] == pytest.approx(vector / np.linalg.norm(vector), abs=1e-4)
    assert np.array_equal(found[0], found[1])


@pytest.mark.parametrize("name", ["paper", "released", "whole"])
@given(SIDES, SIDES)
def test_windows_of_the_networks_own_view_are_inside_what_it_takes_of_the_photo(name, width, height):
    transform = Transform(name=name, size=224)
    left, top, right, bottom = transform.test_corners(width, height)
    assert -1 <= left < right <= width + 1
    assert -1 <= top < bottom <= height + 1
    for x, y, wide, high in pixel_boxes(np.arange(PARTS), np.array([(width, height)] * PARTS), transform):
        assert max(0, left - 1) <= x < x + wide <= min(width, right + 2)
        assert max(0, top - 1) <= y < y + high <= min(height, bottom + 2)


@pytest.mark.parametrize("architecture", ["test_resnet", "tf_efficientnet_lite0", "test_efficientnet"])
def test_vectors_of_a_pass_that_gives_parts_too_are_those_of_a_pass_without(architecture):
    torch.manual_seed(0)
    network = Embedder(architecture, 16, size=64, pretrained=False).eval()
    images = torch.randint(0, 256, (3, 3, 64, 64), dtype=torch.uint8)
    ((vectors, maps, tag),) = embed_with_maps(network, [(images, "tag")])
    ((alone, _),) = network.embed_batches([(images, None)])
    assert np.array_equal(vectors, alone)
    assert tag == "tag"
    seen = (640.0, 480.0)
    one_by_one = region_vectors(network, [(image, seen) for image in images])
    assert pooled(network, maps, [seen] * 3) == pytest.approx(one_by_one, abs=1e-5)


def test_a_view_keeps_the_shape_and_the_number_of_pixels():
    for size in ((4000, 3000), (3000, 4000), (640, 480), (100, 100), (5000, 50)):
        pixels, of = region_view(_picture(size), 358)
        _, height, width = pixels.shape
        assert of == size
        assert (width >= height) == (size[0] >= size[1])
        assert height * width == pytest.approx(358**2, rel=0.15)
        assert height % 32 == width % 32 == 0


@pytest.mark.parametrize("path", ["compiled", "numpy"])
@pytest.mark.parametrize("dimension", [8, 40, 300])
def test_the_score_of_a_photo_is_the_best_cosine_of_whole_numbers_to_the_last_bit(
    tmp_path, path, dimension, monkeypatch
):
    monkeypatch.setattr("smoothap.album.region_search.numba_is_there", lambda: path == "compiled")
    monkeypatch.setattr("smoothap.album.region_search._WORTH_COMPILING", 0)
    album, vectors = _made_up(tmp_path, dimension, 60)
    query = vectors[7, 4] + 0.1 * vectors[9, 3]
    hits = album.search(query, k=60, space="region", rerank=False)
    basis, regions = album.region_space().basis(), album.region_space().regions(album)
    numbers = basis(query / np.linalg.norm(query))
    numbers = numbers / np.linalg.norm(numbers)
    asked = [int(value) for value in np.rint(numbers * (32_767 / np.abs(numbers).max()))]
    expected = []
    for row in range(60):
        scores = []
        for part in range(PARTS):
            code = [int(value) for value in regions.codes[regions.slots[row], part, :-4]]
            product = sum(one * other for one, other in zip(code, asked, strict=True))
            squares = sum(one * one for one in code) * sum(other * other for other in asked)
            scores.append(product / math.sqrt(squares))
        expected.append((-max(scores), row, scores.index(max(scores))))
    expected.sort()
    assert [(hit.id, hit.score) for hit in hits] == [(row, -score) for score, row, _ in expected]
    boxes = pixel_boxes(np.array([part for *_, part in expected]), np.array([(640, 480)] * 60))
    assert [hit.box for hit in hits] == boxes
    assert hits[0].id == 7


def test_codes_are_near_the_vectors_that_they_stand_for():
    parts = _random_parts(50, 64)
    basis = Basis.learnt(parts.reshape(-1, 64))
    numbers, codes = basis(parts), basis.coded(parts)[..., :-4].astype(np.float64)
    cosines = (numbers * codes).sum(-1) / np.linalg.norm(numbers, axis=-1) / np.linalg.norm(codes, axis=-1)
    assert cosines.min() > 0.999


@pytest.fixture(scope="module")
def things(tmp_path_factory):
    """Photos of noise, into some of which one of three patterns is pasted; and the patterns."""
    root, choose = tmp_path_factory.mktemp("things") / "photos", random.Random(0)
    patterns = [_picture((64, 64), seed=1000 + seed, cells=3) for seed in range(3)]
    for number in range(30):
        photo = _picture((240, 180), seed=number, cells=12)
        folder = root / (f"thing{number % 5}" if number % 5 < 3 else "none")
        folder.mkdir(parents=True, exist_ok=True)
        if number % 5 < 3:
            photo.paste(patterns[number % 5].resize((90, 90)), (choose.randrange(150), choose.randrange(90)))
        photo.save(folder / f"{number:02}.png")
    return root, patterns


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    torch.manual_seed(0)
    return Embedder("test_resnet", None, size=64, pretrained=False).save(tmp_path_factory.mktemp("network"))


@pytest.fixture
def region_album(things, network, tmp_path):
    return index_photos(things[0], tmp_path / "album", model=str(network), regions=True, progress=False).album


def test_parts_at_the_networks_own_size_come_from_the_pass_that_gives_the_whole_vector(
    region_album, things, network, tmp_path, monkeypatch
):
    index = {"model": str(network), "regions": True, "region_size": 64, "progress": False}
    album = index_photos(things[0], tmp_path / "shared", **index).album
    assert np.array_equal(np.asarray(album.vectors), np.asarray(region_album.vectors))
    for hit in album.search(things[1][0], k=30, space="region"):  # of 240 x 180, whose borders this view leaves out
        x, y, width, height = hit.box
        assert 13 <= x < x + width <= 225
        assert 10 <= y < y + height <= 169
    later = index_photos(things[0], tmp_path / "later", model=str(network), progress=False).album
    assert later.describe_regions(size=64, progress=False) == 30
    for photo in later.photos:
        difference = _codes(later, photo.id)[:, :-4].astype(int) - _codes(album, photo.id)[:, :-4]
        assert np.abs(difference).max() <= 1
    seen = []
    monkeypatch.setattr(
        "smoothap.models.regions.feature_maps",
        lambda model, images: seen.append(len(images)) or feature_maps(model, images),
    )
    photos = shutil.copytree(things[0], tmp_path / "photos")
    for number in range(3):
        _picture((240, 180), seed=50 + number).save(photos / f"new{number}.png")
    album = index_photos(photos, tmp_path / "shared", **index | {"regions": None}).album
    assert seen == [3]  # each new photo once
    assert album.region_space().regions(album).missing == 0


@pytest.mark.parametrize("rerank", [True, False])
def test_a_thing_is_found_inside_photos_each_once_with_a_box_around_it(region_album, things, rerank):
    for number, pattern in enumerate(things[1]):
        hits = region_album.search(pattern, k=6, space="region", rerank=rerank)
        whole = region_album.search(pattern, k=6, rerank=rerank)
        right = [sum(hit.path.startswith(f"thing{number}/") for hit in found) for found in (hits, whole)]
        assert right[0] >= 3
        assert right[0] >= right[1]
        assert len({hit.id for hit in hits}) == 6
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
        for hit in hits:
            x, y, width, height = hit.box
            assert 0 <= x < x + width <= 240
            assert 0 <= y < y + height <= 180


def test_queries_of_all_forms(region_album, things, tmp_path):
    things[1][0].save(tmp_path / "pattern.png")
    wide = Image.new("RGB", (200, 100))
    wide.paste(things[1][0], (30, 20))
    expected = region_album.search(tmp_path / "pattern.png", space="region")
    assert region_album.search(things[1][0], space="region") == expected
    assert region_album.search(wide, box=(30, 20, 64, 64), space="region") == expected
    wide.save(tmp_path / "wide.png")
    assert region_album.search(str(tmp_path / "wide.png"), box=(30, 20, 64, 64), space="region") == expected
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6  # a camera that was turned: the file lies on its side
    wide.transpose(Image.Transpose.ROTATE_90).save(tmp_path / "turned.png", exif=exif)
    for query in (tmp_path / "turned.png", Image.open(tmp_path / "turned.png")):
        assert region_album.search(query, box=(30, 20, 64, 64), space="region") == expected
        assert region_album.search(query) == region_album.search(wide)
    photo = region_album.photos[0]
    own = region_album.search(photo.id, k=99, space="region")
    assert len(own) == 29
    assert photo.id not in {hit.id for hit in own}
    part = region_album.search(photo.id, k=99, box=(10, 10, 80, 80), space="region")
    assert len(part) == 29
    assert part != own
    several = region_album.search([tmp_path / "pattern.png", things[1][1]], space="region")
    assert len(several) == 20
    vector = region_album.search(np.array(region_album.vectors[0]), k=30, space="region", rerank=False)
    assert len(vector) == 30
    for wrong, error in (((1.0, 2.0, 3.0), ValueError), (True, TypeError), (10_000, KeyError), ([], ValueError)):
        with pytest.raises(error):
            region_album.search(wrong, space="region")
    with pytest.raises(ValueError, match="outside"):
        region_album.search(wide, box=(500, 500, 10, 10), space="region")


def test_filters_marks_and_least_scores_hold_for_parts(region_album, things):
    query = things[1][0]
    everything = region_album.search(query, space="region", everything=True, rerank=False)
    assert len(everything) == 30
    some = region_album.search(query, space="region", where={"folder": "thing1"}, rerank=False)
    assert some
    assert [hit.id for hit in some] == [hit.id for hit in everything if hit.path.startswith("thing1/")]
    least = everything[9].score
    assert len(region_album.search(query, space="region", min_score=least)) == 10
    wrong = everything[0].id
    assert wrong not in {hit.id for hit in region_album.search(query, k=30, space="region", wrong=[wrong])}
    right = everything[20].id
    moved = region_album.search(query, k=30, space="region", right=[right], rerank=False)
    assert [hit.id for hit in moved].index(right) < 20
    with pytest.raises(ValueError, match="not known for parts"):
        region_album.search(query, space="region", recall=0.9)
    with pytest.raises(ValueError, match="face"):
        region_album.search(query, space="region", face=1)


def test_photos_that_come_change_and_go_take_their_parts_along(things, network, tmp_path):
    root = shutil.copytree(things[0], tmp_path / "photos")
    index = {"model": str(network), "progress": False}
    album = index_photos(root, tmp_path / "album", regions=True, **index).album
    first, gone, changed = album.photos[0], album.photos[1], album.photos[2]
    kept = _codes(album, first.id)
    (root / gone.path).unlink()
    (root / changed.path).write_bytes(photo_bytes(99, 120))
    (root / "new.png").write_bytes(photo_bytes(98, 120))
    before = _codes(album, changed.id)
    held = album.region_space().regions(album)  # by a search that goes on meanwhile
    there = np.array(held.codes)
    album = index_photos(root, tmp_path / "album", **index).album  # it has parts, and keeps them up to date
    assert np.array_equal(held.codes, there)
    assert np.array_equal(_codes(album, first.id), kept)
    assert not np.array_equal(_codes(album, changed.id), before)
    assert album.region_space().regions(album).missing == 0
    found = album.search(root / "new.png", k=1, space="region", rerank=False)
    assert found[0].path == "new.png"
    assert found[0].score > 0.99
    assert gone.id not in {hit.id for hit in album.search(root / "new.png", k=99, space="region")}
    album.verify()
    album.remove(album.photos.ids[5:15].tolist())
    assert set(RegionStore(album.folder).seen()) == set(album.photos.ids.tolist())
    album.update(progress=False)  # they are in the folder, and come back
    assert album.region_space().regions(album).missing == 0
    assert len(album.region_space().regions(album).codes) == 32  # slots of photos that went are used again
    with album.store.writing():  # a writer that is stopped before it has the parts of the new content
        (record,) = album.store.records([changed.id])
        album.store.add([{**record, "sha256": b"another"}], np.asarray(album.vectors)[:1])
    album = Album.open(album.folder)
    assert album.region_space().regions(album).slots[album.photos.row_of(changed.id)] == -1
    album.update(progress=False)
    assert np.array_equal(_codes(album, first.id), kept)
    album.verify()


def test_parts_that_are_asked_for_later_are_those_of_an_album_that_had_them_from_the_start(
    region_album, things, network, tmp_path
):
    later = index_photos(things[0], tmp_path / "later", model=str(network), progress=False).album
    with pytest.raises(ValueError, match="--regions"):
        later.search(things[1][0], space="region")
    assert later.describe_regions(progress=False) == 30
    assert later.describe_regions(progress=False) == 0
    for photo in later.photos:
        difference = _codes(later, photo.id)[:, :-4].astype(int) - _codes(region_album, photo.id)[:, :-4]
        assert np.abs(difference).max() <= 1
    assert np.array_equal(np.asarray(later.vectors), np.asarray(region_album.vectors))


@pytest.mark.parametrize("size", [None, 64])
def test_albums_of_shards_and_joined_albums_get_the_parts_that_one_run_gives(things, network, tmp_path, size):
    root, index = things[0], {"model": str(network), "progress": False}
    whole = index_photos(root, tmp_path / "whole", regions=True, region_size=size, **index).album
    for number in (1, 2):
        embed_shard(root, tmp_path / "sharded", f"{number}/2", model=str(network), progress=False)
    sharded = index_photos(root, tmp_path / "sharded", regions=True, region_size=size, **index).album
    folders = [path for path in sorted(root.iterdir()) if path.is_dir()]
    for folder in folders:
        index_photos(folder, tmp_path / "parts" / folder.name, regions=folder is folders[0], **index)
    join_albums([tmp_path / "parts" / folder.name for folder in folders], tmp_path / "joined")
    with pytest.raises(ValueError, match=r"smoothap index PHOTOS --out ALBUM --regions"):
        Album.open(tmp_path / "joined").search(things[1][0], space="region")
    joined = index_photos(root, tmp_path / "joined", regions=True, region_size=size, **index).album
    for album in (sharded, joined):
        assert album.region_space().regions(album).missing == 0
        for pattern in things[1]:
            expected = whole.search(pattern, k=30, space="region", rerank=False)
            found = album.search(pattern, k=30, space="region", rerank=False)
            scores = {hit.path: hit.score for hit in expected}
            assert [hit.score for hit in found] == pytest.approx([scores[hit.path] for hit in found], abs=5e-3)
            assert [hit.path for hit in found[:3]] == [hit.path for hit in expected[:3]]


def test_a_file_that_changed_since_it_was_taken_in_gets_no_parts_before_it_is_taken_in_again(things, network, tmp_path):
    root = shutil.copytree(things[0], tmp_path / "photos")
    album = index_photos(root, tmp_path / "album", model=str(network), progress=False).album
    changed = album.photos[4]
    (root / changed.path).write_bytes(photo_bytes(99, 120))
    assert album.describe_regions(progress=False) == 29
    assert [photo.id for photo in album.photos if photo.id not in RegionStore(album.folder).seen()] == [changed.id]
    assert changed.id not in {hit.id for hit in album.search(root / changed.path, k=30, space="region")}
    album.update(progress=False)
    assert album.search(root / changed.path, k=1, space="region", rerank=False)[0].id == changed.id


def test_parts_of_another_content_are_described_again(region_album):
    photo, store = region_album.photos[3], RegionStore(region_album.folder)
    own = _codes(region_album, photo.id)
    store.put({photo.id: (b"another", np.roll(own, 1, axis=0))})
    assert region_album.describe_regions(progress=False) == 1
    assert np.abs(_codes(region_album, photo.id)[:, :-4].astype(int) - own[:, :-4]).max() <= 1


def test_an_album_that_was_small_learns_its_basis_again_when_it_has_grown(things, network, tmp_path):
    root = tmp_path / "photos"
    files = sorted(things[0].rglob("*.png"))
    root.mkdir()
    for file in files[:3]:
        shutil.copy(file, root / file.name)
    index = {"model": str(network), "progress": False}
    album = index_photos(root, tmp_path / "album", regions=True, **index).album
    assert album.region_space().settings().learnt_from == 3
    for file in files:
        shutil.copy(file, root / file.name)
    album = index_photos(root, tmp_path / "album", **index).album
    assert album.region_space().settings().learnt_from == 30
    assert album.region_space().regions(album).missing == 0
    album.verify()


def test_a_changed_byte_is_refused(region_album):
    file = region_album.folder / "regions" / "codes-1"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(ValueError, match="damaged"):
        Album.open(region_album.folder).verify()


def test_parts_of_an_earlier_album_in_the_folder_are_not_those_of_a_new_one(region_album, things, network):
    folder = region_album.folder
    for file in folder.glob("*"):
        if file.name != "regions":
            shutil.rmtree(file) if file.is_dir() else file.unlink()
    album = index_photos(things[0], folder, model=str(network), regions=False, progress=False).album
    with pytest.raises(ValueError, match="no parts"):
        album.search(things[1][0], space="region")
    assert album.describe_regions(progress=False) == 30


def test_a_size_of_parts_that_are_not_wanted_is_refused_before_anything_is_made(things, network, tmp_path):
    for regions in (None, False):
        with pytest.raises(ValueError, match="give --regions too"):
            index_photos(things[0], tmp_path / "album", model=str(network), regions=regions, region_size=64)
    assert not (tmp_path / "album").exists()


def test_a_network_without_a_map_is_refused_before_anything_is_kept(things, tmp_path):
    model = Embedder("test_vit", None, pretrained=False).save(tmp_path / "model")
    with pytest.raises(ValueError, match="test_vit"):
        index_photos(things[0], tmp_path / "album", model=str(model), regions=True, progress=False)
    assert not RegionStore.is_in(tmp_path / "album")


def _picture(size, seed=0, cells=8):
    """A photo of random patches."""
    patches = np.random.default_rng(seed).integers(0, 256, (cells, cells, 3), dtype=np.uint8)
    return Image.fromarray(patches).resize(size, Image.Resampling.NEAREST)


def _random_parts(number, dimension, seed=0):
    parts = np.random.default_rng(seed).standard_normal((number, PARTS, dimension)).astype(np.float32)
    return parts / np.linalg.norm(parts, axis=-1, keepdims=True)


def _made_up(folder, dimension, number):
    """An album of made-up vectors and parts, with a second slot for one photo, and the parts."""
    parts = _random_parts(number, dimension)
    parts[:, 5] = parts[:, 4]  # of equal parts, the first counts
    records = {"path": [f"{row}.jpg" for row in range(number)], "width": [640] * number, "height": [480] * number}
    album = Album.from_arrays(parts[:, 0], records, folder / "album")
    basis, store = Basis.learnt(parts.reshape(-1, dimension)), RegionStore(folder / "album", create=True)
    store.begin(album.store.settings().uid, 358, basis, number)
    codes = basis.coded(parts)
    store.put({row: (b"", codes[number - 1 - row]) for row in range(number)})
    store.put({row: (b"", codes[row]) for row in reversed(range(number))})
    return album, parts


def _codes(album, identity):
    regions = album.region_space().regions(album)
    return np.array(regions.codes[regions.slots[album.photos.row_of(identity)]])
