import pytest

from smoothap.data.datasets.counts import Counts
from smoothap.data.datasets.sop import sop

TRAIN = ["bicycle_final/1_0.JPG", "bicycle_final/1_1.JPG", "chair_final/2_0.JPG"]
TEST = ["bicycle_final/3_0.JPG", "lamp_final/4_0.JPG", "lamp_final/4_1.JPG"]
SMALL = {"train": Counts(3, 2), "test": Counts(3, 2)}


@pytest.fixture
def root(tmp_path, write_images):
    write_images(tmp_path, TRAIN + TEST)
    header = "image_id class_id super_class_id path\n"
    (tmp_path / "Ebay_train.txt").write_text(header + "1 1 1 {}\n2 1 1 {}\n3 2 2 {}\n".format(*TRAIN))
    (tmp_path / "Ebay_test.txt").write_text(header + "4 3 1 {}\n5 4 3 {}\n6 4 3 {}\n".format(*TEST))
    return tmp_path


def test_classes_groups_and_recalls_are_those_of_the_lists(root):
    benchmark = sop(root, paper=SMALL)
    test = benchmark.tests["test"]
    assert list(benchmark.train.class_names) == ["1", "2"]
    assert test.labels.tolist() == [0, 1, 1]
    assert [test.group_names[group] for group in test.groups] == ["bicycle", "lamp", "lamp"]
    assert test.recall_at == (1, 10, 100, 1000)
    assert test.read(2).size == (8, 6)
    assert benchmark.warnings == ()


def test_a_copy_with_images_and_info_files_is_read_too(root, tmp_path_factory):
    copy = tmp_path_factory.mktemp("copy")
    (copy / "images").mkdir()
    (copy / "Info_Files").mkdir()
    for name in ("bicycle_final", "chair_final", "lamp_final"):
        (root / name).rename(copy / "images" / name)
    for part in ("train", "test"):
        (root / f"Ebay_{part}.txt").rename(copy / "Info_Files" / f"Ebay_{part}.txt")
    assert list(sop(copy, paper=SMALL).train.names) == TRAIN


def test_files_in_another_case_are_found(root):
    (root / TEST[0]).rename(root / "bicycle_final/3_0.jpg")
    test = sop(root, paper=SMALL).tests["test"]
    assert test.names[0] == "bicycle_final/3_0.jpg"
    assert test.read(0).size == (8, 6)


def test_a_missing_file_is_an_error(root):
    (root / TEST[1]).unlink()
    with pytest.raises(ValueError, match=r"1 of 3 listed files are missing, such as lamp_final/4_0.JPG"):
        sop(root, paper=SMALL)


def test_a_partial_copy_is_an_error_that_says_what_was_expected(root):
    with pytest.raises(ValueError, match="found 3 images of 2 classes, expected 59,551 images of 11,318"):
        sop(root)


def test_a_missing_list_is_named(root):
    (root / "Ebay_test.txt").unlink()
    with pytest.raises(FileNotFoundError, match=r"no Ebay_test.txt or Info_Files/Ebay_test.txt"):
        sop(root)


def test_a_damaged_list_is_shown(root):
    (root / "Ebay_test.txt").write_text("image_id class_id super_class_id path\n4 3 1\n")
    with pytest.raises(ValueError, match="4 cells a line, but a line reads '4 3 1'"):
        sop(root)
