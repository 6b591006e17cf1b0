"""The embedding layer alone, on features that a frozen backbone gave once: the same training, and a cache to trust."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from photo_makers import pattern_folder
from PIL import Image

from smoothap.data.dataset import ImageDataset
from smoothap.data.names import open_data
from smoothap.data.samplers import Draw
from smoothap.data.stored_features import chosen_views
from smoothap.losses import SmoothAP
from smoothap.models import Embedder
from smoothap.models.embedding import embed_set
from smoothap.training import frozen as module
from smoothap.training.config import RunOptions
from smoothap.training.frozen import freeze
from smoothap.training.log import read_rows
from smoothap.training.loop import train


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "smoothap" / "features"


@pytest.fixture
def photos(tmp_path):
    return pattern_folder(tmp_path / "photos", 20, 6)


@pytest.fixture
def benchmark(photos):
    return open_data(f"folder:{photos}")


@pytest.fixture
def computed(monkeypatch):
    """The sets whose features were computed, by name."""
    names, compute = [], module._compute
    monkeypatch.setattr(
        module,
        "_compute",
        lambda file, dataset, *rest: names.append(dataset.images.name) or compute(file, dataset, *rest),
    )
    return names


def losses(folder):
    return [row["loss"] for row in read_rows(folder) if "loss" in row]


def test_the_layer_learns_the_same_from_features_as_from_the_images(benchmark, small_model, small_settings, tmp_path):
    """With test views alone, and a backbone that does not learn: all weights and all metrics are the same."""
    settings = small_settings(steps=6, batch_size=16, head_init="projection")
    whole = small_model()
    whole.transform = replace(whole.transform, name="whole", flip=False)  # then every view is the test view
    frozen = freeze(benchmark, whole, views=0)
    head = frozen.head(16)
    head.embedding.load_state_dict(whole.embedding.state_dict())
    whole.backbone.requires_grad_(False)
    for name, model, sets in (("images", whole, benchmark), ("features", head, frozen.benchmark)):
        images, validation = sets.train_and_validation(0)
        train(model, SmoothAP(), images, validation, settings, tmp_path / name, RunOptions(device="cpu"))
    assert losses(tmp_path / "features") == pytest.approx(losses(tmp_path / "images"), abs=1e-6)
    assert torch.allclose(head.embedding.weight, whole.embedding.weight, atol=1e-6)
    saved = [Embedder.load(tmp_path / name / "model").state_dict() for name in ("images", "features")]
    assert saved[0].keys() == saved[1].keys()
    assert all(torch.allclose(saved[0][name], saved[1][name], atol=1e-6) for name in saved[0])


def test_a_resumed_training_ends_with_the_same_weights(benchmark, small_model, small_settings, tmp_path):
    frozen = freeze(benchmark, small_model())
    images, validation = frozen.benchmark.train_and_validation(0)

    def run(folder, steps, resume=False):
        head = frozen.head(16, saves_backbone=False)
        loss, settings = StopsAfter(steps), small_settings(epochs=4, batch_size=16, memory_size=32)
        try:
            options = RunOptions(resume=resume, device="cpu")
            train(head, loss, images, validation, settings, tmp_path / folder, options)
        except KeyboardInterrupt:
            return None
        return head.embedding.weight

    assert run("cut", 3) is None
    assert torch.equal(run("cut", 10**6, resume=True), run("whole", 10**6))


class StopsAfter(SmoothAP):
    """A loss that ends its training after a few steps."""

    def __init__(self, steps):
        super().__init__()
        self.left = steps

    def forward(self, *arguments, **options):
        if not self.left:
            raise KeyboardInterrupt
        self.left -= 1
        return super().forward(*arguments, **options)


def test_the_test_view_is_stored_to_the_bit_and_random_views_are_those_of_the_images(benchmark, small_model, tmp_path):
    model = small_model()
    images = freeze(benchmark, model, views=2).benchmark.train
    assert images.features.array.dtype == np.float16
    plain = ImageDataset(benchmark.train, model.transform, report=tmp_path / "bad.csv")
    for view in range(3):
        expected = embed_set(model, plain, view=view, features=True).vectors
        assert np.array_equal(images.features.array[view], expected.astype(np.float16))
    test = freeze(benchmark, model).benchmark.tests["test"].features.array
    plain = ImageDataset(benchmark.tests["test"], model.transform, report=tmp_path / "bad.csv")
    assert np.array_equal(test[0], embed_set(model, plain, features=True).vectors)


def test_a_draw_takes_one_of_all_views_and_an_index_the_test_view(benchmark, small_model, tmp_path):
    images = freeze(benchmark, small_model(), views=3).benchmark.train_and_validation(0)[0]
    dataset = ImageDataset(images, small_model().transform, report=tmp_path / "bad.csv")
    stored = images.features.array[:, images.features.rows].astype(np.float32)
    draws = [Draw(row % len(images), (5, 1, row)) for row in range(400)]
    views = chosen_views(np.array([draw.seed for draw in draws]), 4)
    assert set(np.bincount(views) // 70) == {1}  # each about as often as the others
    batch, _ = dataset[draws]
    assert batch.rows.tolist() == [draw.row for draw in draws]
    assert np.array_equal(batch.images.flatten(1), stored[views, batch.rows])
    assert np.array_equal(batch.labels, images.labels[batch.rows])
    assert np.array_equal(dataset[[7]][0].images.flatten(), stored[0, 7])


@pytest.mark.parametrize("change", ["weights", "transform", "views", "image", "names"])
def test_other_weights_views_or_images_have_features_of_their_own(benchmark, small_model, photos, computed, change):
    freeze(benchmark, small_model())
    before, model, views = len(computed), small_model(), 4
    if change == "weights":
        with torch.no_grad():
            next(model.backbone.parameters()).add_(1e-3)
    elif change == "transform":
        model.transform = model.transform.__class__.from_dict({**model.transform.to_dict(), "flip": False})
    elif change == "views":
        views = 3
    elif change == "image":
        file = benchmark.train.file(1)  # none of those whose colours are looked at
        Image.fromarray(np.asarray(Image.open(file)) // 2).save(file)
    else:
        for file in photos.rglob("*.png"):
            file.rename(file.with_stem(f"{file.stem}x"))
    freeze(open_data(f"folder:{photos}"), model, views=views)
    assert len(computed) - before == (1 if change in ("views", "image") else 2)


@pytest.mark.parametrize("damage", ["flipped", "cut", "empty", "other", "trailer"])
def test_a_damaged_file_is_computed_again(benchmark, small_model, computed, damage):
    (file, _) = freeze(benchmark, small_model()).files
    content = file.read_bytes()
    middle = len(content) // 2
    file.write_bytes({
        "flipped": content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :],
        "cut": content[:middle], "empty": b"", "other": b"no array at all", "trailer": content[:-5],
    }[damage])  # fmt: skip
    freeze(benchmark, small_model())
    assert computed == [benchmark.train.name, "photos test", benchmark.train.name]
    assert file.read_bytes() == content


def test_a_full_disk_is_a_sentence(benchmark, small_model, monkeypatch, cache):
    usage = shutil.disk_usage(cache.parents[2])
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1000))
    with pytest.raises(ValueError, match="MB left: make room"):
        freeze(benchmark, small_model())


def test_a_cache_that_cannot_be_written_is_a_sentence(benchmark, small_model, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(ValueError, match="where nothing can be written: let XDG_CACHE_HOME name another folder"):
        freeze(benchmark, small_model())


def test_unreadable_images_are_left_out_as_they_are_of_images(photos, small_model, tmp_path):
    victim, other = sorted(photos.rglob("*.png"))[:2]
    victim.write_bytes(b"no image")
    model = small_model()
    with pytest.raises(ValueError, match="cannot be read"):  # more than one in a hundred
        freeze(open_data(f"folder:{photos}"), model)
    for number in range(100):
        shutil.copy(other, victim.with_name(f"more {number}.png"))
    benchmark = open_data(f"folder:{photos}")
    frozen = freeze(benchmark, model)
    sets = [
        (one, other)
        for one, other in zip(benchmark.sets, frozen.benchmark.sets, strict=True)
        if other.features.unreadable
    ]
    assert len(sets) == 1
    plain, stored = (ImageDataset(images, model.transform, report=tmp_path / "bad.csv") for images in sets[0])
    row = next(iter(sets[0][1].features.unreadable))
    assert stored[[row]][0] is None
    assert stored[[row]][1] == plain[[row]][1]
    drawn = [Draw(row, (0, 0, 3))]
    assert stored[drawn][0].rows == plain[drawn][0].rows != row
    assert np.array_equal(embed_set(model, plain).rows, embed_set(model.on_features(), stored).rows)


def test_features_too_large_for_16_bits_are_refused(benchmark, small_model):
    model = small_model()
    model.backbone.register_forward_hook(lambda *_: torch.full((64, model.feature_dimension), 1e6)[: len(_[1][0])])
    with pytest.raises(ValueError, match="larger than 65,504"):
        freeze(benchmark, model)
