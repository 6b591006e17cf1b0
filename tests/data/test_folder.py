import pytest

from smoothap.data.datasets.own import folder


def test_a_folder_is_a_class_and_the_classes_are_split(tmp_path, write_images):
    write_images(tmp_path, [f"{name}/{number}.jpg" for name in "abcd" for number in range(3)])
    benchmark = folder(tmp_path, test_fraction=0.25)
    test = benchmark.tests["test"]
    assert (benchmark.train.classes, test.classes, len(test)) == (3, 1, 3)
    assert test.read(0).size == (8, 6)
    assert test.groups is None


def test_another_seed_gives_another_split(tmp_path, write_images):
    write_images(tmp_path, [f"{name}/1.jpg" for name in "abcdefghijkl"])
    splits = {tuple(folder(tmp_path, seed=seed).tests["test"].class_names) for seed in range(3)}
    assert len(splits) == 3


def test_a_list_of_test_classes_is_followed(tmp_path, write_images):
    write_images(tmp_path, [f"{name}/1.jpg" for name in "abc"])
    wanted = tmp_path / "wanted.txt"
    wanted.write_text("b\n")
    assert list(folder(tmp_path, test_classes=wanted).tests["test"].class_names) == ["b"]


def test_nested_folders_give_groups(tmp_path, write_images):
    write_images(tmp_path, ["birds/owl/1.jpg", "birds/crow/1.jpg", "fish/cod/1.jpg", "fish/eel/1.jpg"])
    train, test = folder(tmp_path).train, folder(tmp_path).tests["test"]
    assert sorted([*train.class_names, *test.class_names]) == ["birds/crow", "birds/owl", "fish/cod", "fish/eel"]
    for part in (train, test):
        assert [part.group_names[group] for group in part.groups] == [name.split("/")[0] for name in part.names]


def test_folders_called_train_and_test_are_the_split(tmp_path, write_images):
    write_images(tmp_path, ["train/a/1.jpg", "train/b/1.jpg", "test/c/1.jpg", "test/c/2.jpg"])
    benchmark = folder(tmp_path)
    assert list(benchmark.train.class_names) == ["a", "b"]
    assert list(benchmark.tests["test"].names) == ["c/1.jpg", "c/2.jpg"]
    assert benchmark.tests["test"].read(1).size == (8, 6)


def test_a_class_in_train_and_test_is_refused(tmp_path, write_images):
    write_images(tmp_path, ["train/a/1.jpg", "train/b/1.jpg", "test/b/1.jpg"])
    with pytest.raises(ValueError, match="in train and in test, such as 'b'"):
        folder(tmp_path)


def test_images_outside_of_a_class_are_refused(tmp_path, write_images):
    write_images(tmp_path, ["a/1.jpg", "stray.jpg"])
    with pytest.raises(ValueError, match=r"1 images are directly in .* such as stray.jpg"):
        folder(tmp_path)


def test_an_empty_folder_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no images in"):
        folder(tmp_path)


def test_test_classes_of_one_image_are_warned_about(tmp_path, write_images):
    write_images(tmp_path, ["train/a/1.jpg", "test/b/1.jpg", "test/c/1.jpg", "test/c/2.jpg"])
    assert folder(tmp_path).warnings == ("1 test classes have one image only: as queries they have nothing to find.",)


def test_the_parts_of_a_set_decode_photos_no_larger_than_they_are_asked_to(tmp_path, write_images):
    write_images(tmp_path, ["a/1.jpg", "b/1.jpg"], size=(640, 480))
    test = folder(tmp_path).tests["test"]
    assert [test.read(0).size, test.read(0, 60).size] == [(640, 480), (80, 60)]
