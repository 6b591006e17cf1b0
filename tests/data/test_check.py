import pytest

from smoothap.data.check import check
from smoothap.data.datasets.own import folder


@pytest.fixture
def root(tmp_path, write_images):
    names = {"train": "abc", "test": "xyz"}
    write_images(tmp_path, [f"{part}/{name}/{row}.png" for part in names for name in names[part] for row in range(3)])
    return tmp_path


def counts(findings):
    duplicates = findings.duplicates
    return duplicates.across_the_split, duplicates.under_two_labels, duplicates.within_a_class


def copy(root, source, target):
    (root / target).write_bytes((root / source).read_bytes())


def test_images_classes_and_images_per_class_are_counted(root):
    (root / "test/x/0.png").unlink()
    findings = check(folder(root, name="mine"))
    train, test = findings.parts
    assert (train.name, train.images, train.classes, train.fewest, train.most) == ("mine train", 9, 3, 3, 3)
    assert (test.images, test.fewest, test.median, test.most) == (8, 2, 3.0, 3)
    assert findings.unreadable == []
    assert counts(findings) == (0, 0, 0)


def test_two_unreadable_files_are_not_duplicates_of_each_other(root):
    for path in ("train/a/0.png", "test/x/0.png", "test/y/0.png"):
        (root / path).write_bytes(b"no picture")
    assert counts(check(folder(root))) == (0, 0, 0)


def test_duplicates_are_found_across_the_split_under_two_labels_and_within_a_class(root):
    copy(root, "train/a/0.png", "test/x/0.png")
    copy(root, "test/y/1.png", "test/z/1.png")
    copy(root, "train/c/1.png", "train/c/2.png")
    findings = check(folder(root))
    assert counts(findings) == (1, 2, 1)
    assert "a/0.png = x/0.png (train and folder test)" in findings.duplicates.examples
    assert "y/1.png = z/1.png (two labels in folder test)" in findings.duplicates.examples
