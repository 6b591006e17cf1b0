import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from smoothap.data.check import check
from smoothap.data.datasets.own import folder, table

PATHS = ["1.jpg", "2.jpg", "3.jpg", "4.jpg"]


@pytest.fixture
def write_table(tmp_path, write_images):
    write_images(tmp_path, [*PATHS, "a, b.jpg"])

    def write(text):
        path = tmp_path / "table.csv"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def both_sides(benchmark):
    return [*benchmark.train.class_names, *benchmark.tests["test"].class_names]


def test_spaces_quotes_and_numbers_as_labels_are_read_as_written(write_table):
    path = write_table('\ufeff"path", label , group\n1.jpg, 007,x\n"a, b.jpg",NA,x\n2.jpg,10,y\n3.jpg,10,y\n')
    benchmark = table(path)
    assert sorted(both_sides(benchmark)) == ["007", "10", "NA"]
    assert sorted([*benchmark.train.names, *benchmark.tests["test"].names]) == ["1.jpg", "2.jpg", "3.jpg", "a, b.jpg"]
    assert list(benchmark.train.group_names) == ["x", "y"]


def test_parquet_gives_the_same_set_as_csv(tmp_path, write_table):
    as_csv = table(write_table("path,label\n1.jpg,1\n2.jpg,1\n3.jpg,2\n4.jpg,3\n"))
    pq.write_table(pa.table({"path": PATHS, "label": [1, 1, 2, 3]}), tmp_path / "table.parquet")
    as_parquet = table(tmp_path / "table.parquet")
    assert both_sides(as_csv) == both_sides(as_parquet)
    assert list(as_csv.train.names) == list(as_parquet.train.names)


def test_queries_and_gallery_are_the_test_and_the_rest_is_for_training(write_table):
    path = write_table("path,label,is_query,is_gallery\n1.jpg,a,0,0\n2.jpg,b,True,no\n3.jpg,b,false,yes\n4.jpg,c,,1\n")
    benchmark = table(path)
    test = benchmark.tests["test"]
    assert list(benchmark.train.class_names) == ["a"]
    assert test.is_query.tolist() == [True, False, False]
    assert test.is_gallery.tolist() == [False, True, True]
    assert test.read(0).size == (8, 6)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("path,class\n1.jpg,a\n", "lacks the column 'label'; it has path, class"),
        ("path,label\n1.jpg,a\n2.jpg, \n", "1 rows have no label, the first is row 2"),
        ("path,label\n", "has no rows"),
        ("path,label\n1.jpg,a,b,c\n", "cannot be read as a table"),
        ("path,label,is_query\n1.jpg,a,1\n", "give both or neither"),
        ("path,label,is_query,is_gallery\n1.jpg,a,maybe,1\n", "is_query holds 'maybe'"),
        ("path,label,is_query,is_gallery\n1.jpg,a,0,1\n2.jpg,a,0,1\n", "at least one row that is true"),
        ("path,label,is_query,is_gallery\n1.jpg,a,1,1\n2.jpg,a,0,0\n", "1 classes have rows to train on"),
        ("path,label\n1.jpg,a\n2.jpg,a\n", "leaves one side of the split empty"),
        ("path,label\n1.jpg,a\n9.jpg,b\n", r"1 of 2 listed files are missing, such as 9.jpg. Paths are relative"),
    ],
)
def test_a_mistake_in_the_table_is_explained(write_table, text, complaint):
    with pytest.raises(ValueError, match=complaint):
        table(write_table(text))


def test_a_folder_is_a_class_and_the_classes_are_split(tmp_path, write_images):
    write_images(tmp_path, [f"{name}/{number}.jpg" for name in "abcd" for number in range(3)])
    benchmark = folder(tmp_path, test_fraction=0.25)
    test = benchmark.tests["test"]
    assert (benchmark.train.classes, test.classes, len(test)) == (3, 1, 3)
    assert test.read(0).size == (8, 6)
    assert test.groups is None


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


@pytest.mark.parametrize(
    ("paths", "complaint"),
    [
        (["train/a/1.jpg", "train/b/1.jpg", "test/b/1.jpg"], "in train and in test, such as 'b'"),
        (["a/1.jpg", "stray.jpg"], r"1 images are directly in .* such as stray.jpg"),
        ([], "no images in"),
    ],
)
def test_images_without_a_class_or_with_one_on_both_sides_are_refused(tmp_path, write_images, paths, complaint):
    write_images(tmp_path, paths)
    with pytest.raises(ValueError, match=complaint):
        folder(tmp_path)


def test_several_labels_of_an_image_are_separated_by_semicolons(write_table):
    path = write_table("path,labels\n1.jpg,beach;dog\n2.jpg,dog\n3.jpg,car; street\n4.jpg,street\n")
    images = table(path, test_fraction=0).train
    assert list(images.class_names) == ["beach", "car", "dog", "street"]
    assert [images.class_names[label] for label in images.labels] == ["beach", "dog", "car", "street"]
    assert images.ranked_labels(np.arange(4)).tolist() == [[1, 0, 1, 0], [0, 0, 1, 0], [0, 1, 0, 1], [0, 0, 0, 1]]


def test_an_image_with_labels_of_both_sides_of_a_split_is_on_neither(write_table, tmp_path):
    path = write_table("path,labels\n1.jpg,a;b\n2.jpg,b;c\n3.jpg,c\n4.jpg,c;d\n")
    (tmp_path / "tests.txt").write_text("c\nd\n")
    split = table(path, test_classes=tmp_path / "tests.txt")
    assert list(split.train.names) == ["1.jpg"]
    assert list(split.tests["test"].names) == ["3.jpg", "4.jpg"]
    assert list(split.tests["test"].class_names) == ["c", "d"]
    assert split.tests["test"].marks.tolist() == [[1, 0], [1, 1]]
    assert split.warnings[0].startswith("Left out: 1 images")
    assert [(part.classes, part.fewest, part.most) for part in check(split, read=False).parts] == [(2, 1, 1), (2, 1, 2)]
