import numpy as np
import pytest

from smoothap.data.datasets.counts import Counts
from smoothap.data.datasets.vehicle_id import PAPER, RELEASE, vehicle_id, vehicle_id_gallery

SMALL = {"train": Counts(2, 1), "small": Counts(6, 3), "medium": Counts(6, 3), "large": Counts(6, 3)}


@pytest.fixture
def root(tmp_path, write_images):
    write_images(tmp_path, [f"image/{number:07d}.jpg" for number in range(1, 9)])
    lists = tmp_path / "train_test_split"
    lists.mkdir()
    (lists / "train_list.txt").write_text("0000001 900\n0000002 900\n")
    for name in ("test_list_800", "test_list_1600", "test_list_2400"):
        (lists / f"{name}.txt").write_text("0000003 7 \r\n4 7\r\n0000005 7\n0000006 8\n0000007 8\n0000008 9\n\n")
    return tmp_path


def test_the_paper_s_lists_are_leave_one_out(root):
    benchmark = vehicle_id(root, paper=SMALL)
    assert list(benchmark.tests) == ["small", "medium", "large"]
    small = benchmark.tests["small"]
    assert (small.is_query, small.is_gallery, small.recall_at) == (None, None, (1, 5))
    assert list(small.names[:2]) == ["0000003.jpg", "0000004.jpg"]
    assert list(benchmark.train.class_names) == ["900"]
    assert small.read(5).size == (8, 6)


def test_the_gallery_protocol_has_one_image_of_each_vehicle_in_each_of_ten_draws(root):
    benchmark = vehicle_id_gallery(root, paper=SMALL)
    assert list(benchmark.averages) == ["small gallery", "medium gallery", "large gallery"]
    draws = [benchmark.tests[name] for name in benchmark.averages["small gallery"]]
    assert len(draws) == 10
    for draw in draws:
        assert np.bincount(draw.labels[draw.is_gallery]).tolist() == [1, 1, 1]
        assert np.array_equal(draw.is_query, ~draw.is_gallery)
    assert len({draw.is_gallery.tobytes() for draw in draws}) > 1
    assert len({id(draw.read) for draw in draws}) == 1


def test_the_draws_of_a_seed_are_always_the_same(root):
    one, other = (vehicle_id_gallery(root, paper=SMALL, seed=4).tests for _ in range(2))
    assert all(np.array_equal(one[name].is_gallery, other[name].is_gallery) for name in one)


def test_the_release_differs_from_the_paper_and_is_not_refused():
    assert RELEASE["train"].classes == 13_164
    assert RELEASE["train"] != PAPER["train"]


def test_a_missing_image_is_an_error(root):
    (root / "image" / "0000008.jpg").unlink()
    with pytest.raises(ValueError, match=r"1 of 6 listed files are missing, such as 0000008.jpg"):
        vehicle_id(root, paper=SMALL)
