import numpy as np
import pytest
from scipy.io import savemat

from smoothap.data.datasets.cars import cars
from smoothap.data.datasets.counts import Counts

NAMES = ["Acura RL Sedan 2012", "Ram C/V Cargo Van Minivan 2012", "Volvo 240 Sedan 1993"]
SMALL = {"train": Counts(3, 2), "test": Counts(2, 1)}


def cells(words):
    return np.array(words, dtype=object)


def annotations(paths, classes, column):
    """A struct array as MATLAB writes it: the file, a box and the class of each image."""
    kinds = [(column, object), ("bbox_x1", object), ("class", object)]
    return np.array([(path, 1, number) for path, number in zip(paths, classes, strict=True)], dtype=kinds)


@pytest.fixture
def first_release(tmp_path, write_images):
    paths = [f"car_ims/{number:06}.jpg" for number in range(1, 6)]
    write_images(tmp_path, paths)
    rows = annotations(paths, [1, 2, 1, 3, 3], "relative_im_path")
    savemat(tmp_path / "cars_annos.mat", {"annotations": rows, "class_names": cells(NAMES)})
    return tmp_path


@pytest.fixture
def later_release(tmp_path, write_images):
    write_images(tmp_path, ["cars_train/00001.jpg", "cars_train/00002.jpg", "cars_train/00003.jpg"])
    write_images(tmp_path, ["cars_test/00001.jpg", "cars_test/00002.jpg"])
    (tmp_path / "devkit").mkdir()
    savemat(tmp_path / "devkit/cars_meta.mat", {"class_names": cells(NAMES)})
    train = annotations(["00001.jpg", "00002.jpg", "00003.jpg"], [1, 3, 2], "fname")
    savemat(tmp_path / "devkit/cars_train_annos.mat", {"annotations": train})
    test = annotations(["00001.jpg", "00002.jpg"], [3, 1], "fname")
    savemat(tmp_path / "devkit/cars_test_annos_withlabels.mat", {"annotations": test})
    return tmp_path


def test_the_first_classes_train_and_the_others_test(first_release):
    benchmark = cars(first_release, published=SMALL, training_classes=2)
    assert list(benchmark.train.class_names) == ["001 Acura RL Sedan 2012", "002 Ram C-V Cargo Van Minivan 2012"]
    assert benchmark.train.labels.tolist() == [0, 1, 0]
    test = benchmark.tests["test"]
    assert list(test.names) == ["car_ims/000004.jpg", "car_ims/000005.jpg"]
    assert test.recall_at == (1, 2, 4, 8)
    assert test.read(0).size == (8, 6)
    assert benchmark.warnings == ()


def test_the_later_release_has_the_same_classes(later_release):
    benchmark = cars(later_release, published=SMALL, training_classes=2)
    assert list(benchmark.train.names) == ["cars_train/00001.jpg", "cars_train/00003.jpg", "cars_test/00002.jpg"]
    assert benchmark.train.labels.tolist() == [0, 1, 0]
    assert list(benchmark.tests["test"].names) == ["cars_train/00002.jpg", "cars_test/00001.jpg"]


def test_a_list_that_is_none_is_named(first_release):
    (first_release / "cars_annos.mat").write_bytes(b"<html>not found</html>" * 20)
    with pytest.raises(ValueError, match=r"cars_annos.mat is not the list of Cars-196"):
        cars(first_release)


def test_the_list_with_labels_is_asked_for(later_release):
    (later_release / "devkit/cars_test_annos_withlabels.mat").unlink()
    with pytest.raises(FileNotFoundError, match=r"cars_test_annos_withlabels\.mat"):
        cars(later_release)


def test_a_partial_copy_says_what_was_expected(first_release):
    with pytest.raises(ValueError, match=r"cars train is partial: found .*, expected 8,054 images of 98 classes"):
        cars(first_release)
