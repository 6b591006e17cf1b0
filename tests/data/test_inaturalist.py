import json

import pytest

from smoothap.data.datasets.counts import Counts
from smoothap.data.datasets.inaturalist import inaturalist, inaturalist_json

TRAIN = ["Aves/10/a.jpg", "Aves/10/b.jpg", "Plantae/20/c.jpg", "Plantae/21/d.jpg"]
TEST = ["Aves/11/e.jpg", "Aves/11/f.jpg"]
SMALL = {"train": Counts(4, 3), "test": Counts(2, 1)}


@pytest.fixture
def root(tmp_path, write_images):
    write_images(tmp_path, [f"train_val2018/{path}" for path in TRAIN + TEST])
    return tmp_path


@pytest.mark.parametrize("folder", [".", "Inat_dataset_splits"])
@pytest.mark.parametrize("prefix", ["", "train_val2018/", "/somebody/else/train_val2018/"])
def test_the_published_split_is_read_whatever_stands_before_the_paths(root, prefix, folder):
    (root / folder).mkdir(exist_ok=True)
    for part, paths in (("train", TRAIN), ("test", TEST)):
        (root / folder / f"Inaturalist_{part}_set1.txt").write_text("".join(f"{prefix}{path}\n" for path in paths))
    benchmark = inaturalist(root, paper=SMALL)
    train, test = benchmark.train, benchmark.tests["test"]
    assert list(train.class_names) == ["Aves/10", "Plantae/20", "Plantae/21"]
    assert [train.group_names[group] for group in train.groups] == ["Aves", "Aves", "Plantae", "Plantae"]
    assert (test.classes, test.recall_at, test.read(1).size) == (1, (1, 4, 16, 32), (8, 6))
    assert benchmark.warnings == ()


def write_json(root):
    for name, paths in (("train2018", TRAIN), ("val2018", TEST)):
        images = [{"id": row, "file_name": f"train_val2018/{path}"} for row, path in enumerate(paths)]
        (root / f"{name}.json").write_text(json.dumps({"images": images, "annotations": [], "categories": []}))


def test_the_json_is_split_by_a_seed_and_a_warning_says_so(root):
    write_json(root)
    benchmark = inaturalist_json(root, paper=SMALL)
    assert (benchmark.train.classes, benchmark.tests["test"].classes) == (3, 1)
    assert "split by seed 0" in benchmark.warnings[0]
    tested = {inaturalist_json(root, paper=SMALL, seed=seed).tests["test"].class_names[0] for seed in range(9)}
    assert len(tested) > 1


def test_no_other_split_takes_the_place_of_the_published_one(root):
    write_json(root)
    with pytest.raises(
        FileNotFoundError, match=r"no Inaturalist_train_set1.txt, the published split.*inaturalist-json"
    ):
        inaturalist(root)


def test_half_of_the_published_split_is_refused(root):
    (root / "Inaturalist_train_set1.txt").write_text("Aves/10/a.jpg\n")
    with pytest.raises(FileNotFoundError, match=r"no Inaturalist_test_set1.txt"):
        inaturalist(root)


def test_a_missing_json_is_named(root):
    with pytest.raises(FileNotFoundError, match=r"no train2018.json in"):
        inaturalist_json(root)


def test_a_missing_image_is_an_error(root):
    write_json(root)
    (root / "train_val2018" / TEST[0]).unlink()
    with pytest.raises(ValueError, match=r"the json files: 1 of 6 .* such as Aves/11/e.jpg"):
        inaturalist_json(root, paper=SMALL)
