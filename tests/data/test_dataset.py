"""From a set to batches: equal for any number of workers, in memory or not, with bad images accounted for."""

import errno
import io
import resource
from functools import partial

import numpy as np
import pytest
import torch
from PIL import Image

from smoothap.data.dataset import BadImages, ImageDataset, evaluation_batches, training_batches
from smoothap.data.decoded import decoded_once
from smoothap.data.image_set import ImageSet
from smoothap.data.reading import read_image
from smoothap.data.samplers import BalancedBatches, Draw
from smoothap.data.transforms import Transform


def read_row(files, row, shorter_side=None):
    return read_image(files[row], shorter_side=shorter_side)


def image_set(bad=(), images=60, classes=12, size=(60, 50), format="PNG"):
    random, files = np.random.default_rng(0), []
    for row in range(images):
        file = io.BytesIO()
        pixels = random.integers(0, 256, (6, 5, 3), dtype=np.uint8)
        Image.fromarray(pixels).resize(size, Image.Resampling.BICUBIC).save(file, format)
        files.append(b"broken" if row in bad else file.getvalue())
    labels = np.arange(images) % classes
    names = [f"{row}.jpg" for row in range(images)]
    return ImageSet("toy", names, labels, [str(label) for label in range(classes)], partial(read_row, files))


@pytest.fixture
def dataset_of(tmp_path):
    def make(images, name="paper", size=24, **settings):
        return ImageDataset(images, Transform(name, size), report=tmp_path / "bad.csv", **settings)

    return make


def balanced(images, **settings):
    return BalancedBatches(images.labels, 16, samples_per_class=2, **settings)


def train(dataset, epochs=2, **settings):
    return list(training_batches(dataset, balanced(dataset.images), epochs=epochs, **settings))


def assert_equal(batches, others):
    assert len(batches) == len(others) > 0
    for batch, other in zip(batches, others, strict=True):
        for name in ("images", "labels", "rows"):
            assert torch.equal(getattr(batch, name), getattr(other, name))


@pytest.mark.parametrize("name", ["paper", "released"])
def test_batches_are_bit_equal_with_two_workers_and_with_none(name, dataset_of):
    images = image_set(bad=[7], format="JPEG")
    assert_equal(*(train(dataset_of(images, name, bad_limit=0.05), workers=workers) for workers in (0, 2)))


@pytest.mark.parametrize("name", ["paper", "released"])
def test_images_held_in_memory_give_the_same_batches_and_are_read_once(name, dataset_of):
    images, reads = image_set(bad=[7]), []
    counted = ImageSet(
        images.name,
        images.names,
        images.labels,
        images.class_names,
        lambda row, side: reads.append(row) or images.read(row, side),
    )
    held = dataset_of(decoded_once(counted, Transform(name, 24)), name, bad_limit=0.05)
    assert reads[-60:] == list(range(60))
    del reads[:]
    assert_equal(train(held), train(dataset_of(images, name, bad_limit=0.05)))
    assert reads == [7]  # to say why it cannot be read
    assert list(held.bad.reasons) == ["7.jpg"]


def test_a_disk_that_fills_while_decoded_images_are_written_is_told_from_other_errors(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, hard))  # as a full disk, a short write and then an error
    try:
        with pytest.raises(OSError, match="File too large") as raised:
            decoded_once(image_set(), Transform("paper", 24), tmp_path / "decoded")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert raised.value.errno == errno.EFBIG
    assert not list(tmp_path.iterdir())


def test_each_place_of_a_batch_is_the_view_its_draw_asks_for(dataset_of):
    images, transform = image_set(), Transform("released", 24)
    dataset = dataset_of(images, "released")
    draws = [draw for step in balanced(images).draws(1) for draw in step]
    views = torch.cat([batch.images for batch in train(dataset)[len(balanced(images)) :]])
    for draw, view in zip(draws, views, strict=True):
        assert torch.equal(view, transform.train(images.read(draw.row), draw.seed))


@pytest.mark.parametrize("workers", [0, 2])
def test_starting_at_a_step_gives_the_batches_from_there_on(workers, dataset_of):
    dataset = dataset_of(image_set())
    whole = train(dataset, epochs=3)
    steps = len(balanced(dataset.images))
    assert len(whole) == 3 * steps
    for start in ((0, 1), (1, 0), (2, steps - 1)):
        assert_equal(train(dataset, epochs=3, start=start, workers=workers), whole[start[0] * steps + start[1] :])
    assert train(dataset, epochs=3, start=(3, 0)) == []


def test_ranks_share_the_batches_of_one_process(dataset_of):
    dataset = dataset_of(image_set())
    alone = train(dataset)
    shares = [
        list(training_batches(dataset, balanced(dataset.images, rank=rank, ranks=2), epochs=2)) for rank in (0, 1)
    ]
    for batch, first, second in zip(alone, *shares, strict=True):
        assert torch.equal(batch.images, torch.cat([first.images, second.images]))


def test_in_training_the_next_readable_image_of_the_class_stands_in(dataset_of):
    dataset = dataset_of(image_set(bad=[5, 17, 53]), bad_limit=0.1)  # class 5 has rows 5, 17, 29, 41, 53
    draws = [Draw(row, (0, 0, 0)) for row in (5, 17, 29, 53)]
    assert dataset[draws][0].rows.tolist() == [29, 29, 29, 29]
    batches = train(dataset)
    for batch in batches:
        assert len(batch.rows) == 16
        assert set(np.bincount(batch.labels).tolist()) <= {0, 2}
    assert set(dataset.bad.reasons) == {"5.jpg", "17.jpg", "53.jpg"}
    assert dataset.bad.report.read_text().count("not an image") == 3


@pytest.mark.parametrize("workers", [0, 2])
def test_in_evaluation_bad_images_are_left_out_and_listed(workers, dataset_of):
    dataset = dataset_of(image_set(bad=[3, 4, 5, 59]), bad_limit=0.1)
    batches = list(evaluation_batches(dataset, 3, workers=workers))
    rows = torch.cat([batch.rows for batch in batches])
    assert rows.tolist() == [row for row in range(60) if row not in (3, 4, 5, 59)]
    assert torch.cat([batch.labels for batch in batches]).tolist() == (rows % 12).tolist()
    assert all(len(batch.rows) for batch in batches)
    assert torch.equal(batches[0].images[1], Transform("paper", 24).test(dataset.images.read(1)))
    assert list(dataset.bad.reasons) == ["3.jpg", "4.jpg", "5.jpg", "59.jpg"]
    assert len(dataset.bad.report.read_text().splitlines()) == 5


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("bad", [range(0, 60, 5), range(60)])
def test_too_many_bad_images_stop_the_run_with_the_report_named(bad, workers, dataset_of):
    for run in (train, lambda dataset, **settings: list(evaluation_batches(dataset, 16, **settings))):
        dataset = dataset_of(image_set(bad=bad), bad_limit=0.1)
        with pytest.raises(ValueError, match=r"of the 60 images of toy .*bad\.csv"):
            run(dataset, workers=workers)
        assert dataset.bad.report.exists()


def test_a_photo_is_decoded_no_larger_than_the_transform_needs(dataset_of):
    images = image_set(images=4, classes=2, size=(640, 480), format="JPEG")
    sizes = []

    def read(row, shorter_side):
        image = images.read(row, shorter_side)
        sizes.append(image.size)
        return image

    watched = ImageSet(images.name, images.names, images.labels, images.class_names, read)
    dataset = dataset_of(watched, size=105)  # resized to 120
    list(evaluation_batches(dataset, 4))
    dataset[[Draw(0, (0, 0, 0))]]
    assert set(sizes) == {(160, 120)}


@pytest.mark.parametrize(("total", "limit", "allowed"), [(1000, 0.01, 10), (99, 0.01, 0), (50, 0.1, 5), (3, 1.0, 2)])
def test_one_more_than_the_limit_is_an_error_that_names_the_report(total, limit, allowed, tmp_path):
    bad = BadImages("toy train", total, tmp_path / "bad.csv", limit)
    for number in range(allowed):
        bad.add(f"{number}.jpg", "empty")
    with pytest.raises(ValueError, match=f"{allowed + 1} of the {total:,} images of toy train") as caught:
        bad.add("last.jpg", "empty")
    assert str(caught.value).endswith(f"{bad.report} lists them: repair these files, or take them out of the set.")
    assert len(bad.report.read_text().splitlines()) == allowed + 2
