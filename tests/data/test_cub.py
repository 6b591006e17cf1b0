import pytest

from smoothap.data.datasets.counts import Counts
from smoothap.data.datasets.cub import cub

PATHS = ["001.Albatross/a_1.jpg", "001.Albatross/a_2.jpg", "002.Auklet/b_1.jpg", "003.Crow/c_1.jpg", "003.Crow/c_2.jpg"]
SMALL = {"train": Counts(3, 2), "test": Counts(2, 1)}


@pytest.fixture
def root(tmp_path, write_images):
    write_images(tmp_path / "images", PATHS)
    (tmp_path / "images.txt").write_text("".join(f"{row} {path}\n" for row, path in enumerate(PATHS, 1)))
    # in another order than the images: the number joins them, not the line
    (tmp_path / "image_class_labels.txt").write_text("5 3\n4 3\n3 2\n2 1\n1 1\n")
    return tmp_path


def test_the_first_classes_train_and_the_others_test(root):
    benchmark = cub(root, published=SMALL, training_classes=2)
    test = benchmark.tests["test"]
    assert list(benchmark.train.class_names) == ["001.Albatross", "002.Auklet"]
    assert benchmark.train.labels.tolist() == [0, 0, 1]
    assert list(test.names) == ["003.Crow/c_1.jpg", "003.Crow/c_2.jpg"]
    assert test.recall_at == (1, 2, 4, 8)
    assert test.read(1).size == (8, 6)
    assert benchmark.warnings == ()


def test_a_grey_photo_is_read_as_rgb(root):
    from PIL import Image

    Image.new("L", (8, 6), 90).save(root / "images" / PATHS[3])
    assert cub(root, published=SMALL, training_classes=2).tests["test"].read(0).getpixel((0, 0)) == (90, 90, 90)


def test_images_without_a_class_are_an_error(root):
    (root / "image_class_labels.txt").write_text("1 1\n")
    with pytest.raises(ValueError, match=r"image_class_labels.txt lacks images of images.txt"):
        cub(root, published=SMALL)


def test_a_partial_copy_says_what_was_expected(root):
    with pytest.raises(ValueError, match=r"cub train is partial: found .*, expected 5,864 images of 100 classes"):
        cub(root)
