"""The published sets of photos: each is written as it comes, in a few images."""

import json

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from smoothap.data.datasets.counts import Counts, compare_counts
from smoothap.data.datasets.published import cars, in_shop, inaturalist, inaturalist_json, sop, vehicle_id_gallery
from smoothap.data.image_set import ImageSet
from smoothap.data.names import open_data

SOP_TRAIN = ["bicycle_final/1_0.JPG", "bicycle_final/1_1.JPG", "chair_final/2_0.JPG"]
SOP_TEST = ["bicycle_final/3_0.JPG", "lamp_final/4_0.JPG", "lamp_final/4_1.JPG"]
BIRDS = ["001.Albatross/a_1.jpg", "001.Albatross/a_2.jpg", "002.Auklet/b_1.jpg", "003.Crow/c_1.jpg", "003.Crow/c_2.jpg"]
CARS = ["Acura RL Sedan 2012", "Ram C/V Cargo Van Minivan 2012", "Volvo 240 Sedan 1993"]
CLOTHES = [
    ("img/WOMEN/Dresses/id_00000002/02_1_front.jpg", "id_00000002", "train"),
    ("img/WOMEN/Dresses/id_00000002/02_2_side.jpg", "id_00000002", "train"),
    ("img/MEN/Denim/id_00000080/01_1_front.jpg", "id_00000080", "query"),
    ("img/MEN/Denim/id_00000080/01_2_side.jpg", "id_00000080", "gallery"),
    ("img/WOMEN/Skirts/id_00000090/01_1_front.jpg", "id_00000090", "gallery"),
]
LIVING = {
    "train": ["Aves/10/a.jpg", "Aves/10/b.jpg", "Plantae/20/c.jpg", "Plantae/21/d.jpg"],
    "test": ["Aves/11/e.jpg", "Aves/11/f.jpg"],
}
TESTED_VEHICLES = "0000003 7 \r\n4 7\r\n0000005 7\n0000006 8\n0000007 8\n0000008 9\n\n"
SMALL = {
    "sop train": (3, 2), "sop test": (3, 2), "cub train": (3, 2), "cub test": (2, 1), "cars train": (3, 2),
    "cars test": (2, 1), "in-shop train": (2, 1), "in-shop test": (3, 2), "vehicle-id train": (2, 1),
    "vehicle-id small": (6, 3), "vehicle-id medium": (6, 3), "vehicle-id large": (6, 3), "inaturalist train": (4, 3),
    "inaturalist test": (2, 1),
}  # fmt: skip


@pytest.fixture
def small(paper_has):
    paper_has(SMALL)


def annotations(paths, classes, column):
    """A struct array as MATLAB writes it: the file, a box and the class of each image."""
    kinds = [(column, object), ("bbox_x1", object), ("class", object)]
    return np.array([(path, 1, number) for path, number in zip(paths, classes, strict=True)], dtype=kinds)


def write_clothes(path, rows):
    path.parent.mkdir(exist_ok=True)
    lines = [str(len(rows)), "image_name item_id evaluation_status", *(" ".join(row) for row in rows)]
    path.write_text("\n".join(lines) + "\n")


def write_json(root):
    for name, part in (("train2018", "train"), ("val2018", "test")):
        images = [{"id": row, "file_name": f"train_val2018/{path}"} for row, path in enumerate(LIVING[part])]
        (root / f"{name}.json").write_text(json.dumps({"images": images, "annotations": [], "categories": []}))


@pytest.fixture
def root(tmp_path, write_images):
    """All sets in one folder, but Online Products, which would take the folder `images` for its own."""
    write_images(tmp_path / "sop", SOP_TRAIN + SOP_TEST)
    header = "image_id class_id super_class_id path\n"
    (tmp_path / "sop/Ebay_train.txt").write_text(header + "1 1 1 {}\n2 1 1 {}\n3 2 2 {}\n".format(*SOP_TRAIN))
    (tmp_path / "sop/Ebay_test.txt").write_text(header + "4 3 1 {}\n5 4 3 {}\n6 4 3 {}\n".format(*SOP_TEST))
    write_images(tmp_path / "images", BIRDS)
    (tmp_path / "images.txt").write_text("".join(f"{row} {path}\n" for row, path in enumerate(BIRDS, 1)))
    # in another order than the images: the number joins them, not the line
    (tmp_path / "image_class_labels.txt").write_text("5 3\n4 3\n3 2\n2 1\n1 1\n")
    write_images(tmp_path, [path for path, _, _ in CLOTHES])
    write_clothes(tmp_path / "list_eval_partition.txt", CLOTHES)
    write_images(tmp_path, [f"image/{number:07d}.jpg" for number in range(1, 9)])
    (tmp_path / "train_test_split").mkdir()
    (tmp_path / "train_test_split/train_list.txt").write_text("0000001 900\n0000002 900\n")
    for number in (800, 1600, 2400):
        (tmp_path / f"train_test_split/test_list_{number}.txt").write_text(TESTED_VEHICLES)
    for part, paths in LIVING.items():
        write_images(tmp_path / "train_val2018", paths)
        (tmp_path / f"Inaturalist_{part}_set1.txt").write_text("".join(f"{path}\n" for path in paths))
    cars_at = [f"car_ims/{number:06}.jpg" for number in range(1, 6)]
    write_images(tmp_path, cars_at)
    rows = annotations(cars_at, [1, 2, 1, 3, 3], "relative_im_path")
    savemat(tmp_path / "cars_annos.mat", {"annotations": rows, "class_names": np.array(CARS, dtype=object)})
    return tmp_path


def opened(name, root):
    return open_data(f"{name}:{root / 'sop' if name == 'sop' else root}")


EXPECTED = {  # the classes to train on, the names to test on, their labels and groups, and the K of Recall@K
    "sop": (["1", "2"], SOP_TEST, [0, 1, 1], ["bicycle", "lamp", "lamp"], (1, 10, 100, 1000)),
    "cub": (["001.Albatross", "002.Auklet"], BIRDS[3:], [0, 0], None, (1, 2, 4, 8)),
    "cars": (
        ["001 Acura RL Sedan 2012", "002 Ram C-V Cargo Van Minivan 2012"],
        ["car_ims/000004.jpg", "car_ims/000005.jpg"],
        [0, 0],
        None,
        (1, 2, 4, 8),
    ),
    "in-shop": (
        ["id_00000002"],
        [path for path, _, _ in CLOTHES[2:]],
        [0, 0, 1],
        ["MEN/Denim", "MEN/Denim", "WOMEN/Skirts"],
        (1, 10, 20, 30),
    ),
    "vehicle-id": (["900"], [f"{number:07}.jpg" for number in range(3, 9)], [0, 0, 0, 1, 1, 2], None, (1, 5)),
    "inaturalist": (["Aves/10", "Plantae/20", "Plantae/21"], LIVING["test"], [0, 0], ["Aves", "Aves"], (1, 4, 16, 32)),
}


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", EXPECTED)
def test_classes_groups_and_recalls_are_those_of_the_lists(name, root):
    benchmark = opened(name, root)
    classes, names, labels, groups, recall_at = EXPECTED[name]
    assert list(benchmark.train.class_names) == classes
    for test in benchmark.tests.values():
        assert list(test.names) == names
        assert test.labels.tolist() == labels
        assert groups is None or [test.group_names[group] for group in test.groups] == groups
        assert test.recall_at == recall_at
        assert test.read(1).size == (8, 6)
    assert benchmark.warnings == ()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("sop", "sop train is partial: found 3 images of 2 classes, expected 59,551 images of 11,318 classes"),
        ("in-shop", "in-shop train is partial: found .*, expected 25,882 images of 3,997 classes"),
        ("vehicle-id", "vehicle-id train is partial: found .*, expected 110,178 images of 13,134 classes"),
        ("cub", "cub train is partial: found .*, expected 5,864 images of 100 classes"),
        ("cars", "cars train is partial: found .*, expected 8,054 images of 98 classes"),
    ],
)
def test_a_partial_copy_is_an_error_that_says_what_was_expected(name, said, root, paper_has):
    if name in ("cub", "cars"):
        paper_has({f"{name} train": (5_864 if name == "cub" else 8_054, 2)})
        said = said.replace("100", "2").replace("98", "2")
    with pytest.raises(ValueError, match=said):
        opened(name, root)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("name", "lost", "said"),
    [
        ("sop", f"sop/{SOP_TEST[1]}", "1 of 3 listed files are missing, such as lamp_final/4_0.JPG"),
        ("sop", "sop/Ebay_test.txt", "no Ebay_test.txt or Info_Files/Ebay_test.txt"),
        ("vehicle-id", "image/0000008.jpg", "1 of 6 listed files are missing, such as 0000008.jpg"),
        ("inaturalist", "Inaturalist_train_set1.txt", "no Inaturalist_train_set1.txt, the published.*inaturalist-json"),
        ("inaturalist", "Inaturalist_test_set1.txt", "no Inaturalist_test_set1.txt"),
        ("inaturalist-json", "train2018.json", "no train2018.json in"),
        ("inaturalist-json", f"train_val2018/{LIVING['test'][0]}", "the json files: 1 of 6 .* such as Aves/11/e.jpg"),
    ],
)  # fmt: skip
def test_a_missing_file_is_named(name, lost, said, root):
    write_json(root)
    (root / lost).unlink()
    with pytest.raises((ValueError, FileNotFoundError), match=said):
        opened(name, root)


@pytest.mark.parametrize(
    ("name", "file", "content", "said"),
    [
        ("sop", "sop/Ebay_test.txt", b"image_id class_id\n4 3 1\n", "4 cells a line, but a line reads '4 3 1'"),
        ("cub", "image_class_labels.txt", b"1 1\n", "image_class_labels.txt lacks images of images.txt"),
        ("cars", "cars_annos.mat", b"<html>not found</html>" * 20, "cars_annos.mat is not the list of Cars-196"),
        (
            "in-shop",
            "list_eval_partition.txt",
            b"1\nheader\nimg/MEN/Denim/id_00000080/01_1_front.jpg id_00000080 test\n",
            "1 lines that end in none of train, query, gallery",
        ),
    ],
)
def test_a_damaged_list_is_shown(name, file, content, said, root):
    (root / file).write_bytes(content)
    with pytest.raises(ValueError, match=said):
        opened(name, root)


@pytest.mark.usefixtures("small")
def test_a_copy_of_sop_with_images_and_info_files_is_read_too(root, tmp_path_factory):
    copy = tmp_path_factory.mktemp("copy")
    (copy / "images").mkdir()
    (copy / "Info_Files").mkdir()
    for name in ("bicycle_final", "chair_final", "lamp_final"):
        (root / "sop" / name).rename(copy / "images" / name)
    for part in ("train", "test"):
        (root / "sop" / f"Ebay_{part}.txt").rename(copy / "Info_Files" / f"Ebay_{part}.txt")
    assert list(sop(copy).train.names) == SOP_TRAIN


@pytest.mark.usefixtures("small")
def test_files_in_another_case_are_found(root):
    (root / "sop" / SOP_TEST[0]).rename(root / "sop" / "bicycle_final/3_0.jpg")
    test = sop(root / "sop").tests["test"]
    assert test.names[0] == "bicycle_final/3_0.jpg"
    assert test.read(0).size == (8, 6)


@pytest.mark.usefixtures("small")
def test_the_later_release_of_cars_has_the_same_classes(tmp_path, write_images):
    (tmp_path / "devkit").mkdir()
    savemat(tmp_path / "devkit/cars_meta.mat", {"class_names": np.array(CARS, dtype=object)})
    lists = {"train": ("cars_train_annos.mat", [1, 3, 2]), "test": ("cars_test_annos_withlabels.mat", [3, 1])}
    for part, (file, classes) in lists.items():
        names = [f"{number:05}.jpg" for number in range(1, 1 + len(classes))]
        write_images(tmp_path / f"cars_{part}", names)
        savemat(tmp_path / "devkit" / file, {"annotations": annotations(names, classes, "fname")})
    benchmark = cars(tmp_path)
    assert list(benchmark.train.names) == ["cars_train/00001.jpg", "cars_train/00003.jpg", "cars_test/00002.jpg"]
    assert benchmark.train.labels.tolist() == [0, 1, 0]
    assert list(benchmark.tests["test"].names) == ["cars_train/00002.jpg", "cars_test/00001.jpg"]
    (tmp_path / "devkit/cars_test_annos_withlabels.mat").unlink()
    with pytest.raises(FileNotFoundError, match=r"cars_test_annos_withlabels\.mat"):
        cars(tmp_path)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("released", [False, True])
def test_queries_look_for_their_article_in_the_gallery(released, tmp_path, write_images):
    write_images(tmp_path / "Img" if released else tmp_path, [path for path, _, _ in CLOTHES])
    write_clothes(tmp_path / ("Eval/list_eval_partition.txt" if released else "list_eval_partition.txt"), CLOTHES)
    test = in_shop(tmp_path).tests["test"]
    assert test.is_query.tolist() == [True, False, False]
    assert test.is_gallery.tolist() == [False, True, True]


@pytest.mark.usefixtures("small")
def test_the_gallery_protocol_has_one_image_of_each_vehicle_in_each_of_ten_draws(root):
    benchmark = vehicle_id_gallery(root)
    assert list(benchmark.averages) == ["small gallery", "medium gallery", "large gallery"]
    draws = [benchmark.tests[name] for name in benchmark.averages["small gallery"]]
    assert len(draws) == 10
    for draw in draws:
        assert np.bincount(draw.labels[draw.is_gallery]).tolist() == [1, 1, 1]
        assert np.array_equal(draw.is_query, ~draw.is_gallery)
    assert len({draw.is_gallery.tobytes() for draw in draws}) > 1
    assert len({id(draw.read) for draw in draws}) == 1
    again = vehicle_id_gallery(root).tests
    assert all(np.array_equal(benchmark.tests[name].is_gallery, again[name].is_gallery) for name in again)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("folder", [".", "Inat_dataset_splits"])
@pytest.mark.parametrize("prefix", ["train_val2018/", "/somebody/else/train_val2018/"])
def test_the_published_split_is_read_whatever_is_before_the_paths(root, prefix, folder):
    (root / folder).mkdir(exist_ok=True)
    for part, paths in LIVING.items():
        (root / f"Inaturalist_{part}_set1.txt").unlink()
        (root / folder / f"Inaturalist_{part}_set1.txt").write_text("".join(f"{prefix}{path}\n" for path in paths))
    assert list(inaturalist(root).tests["test"].names) == LIVING["test"]


@pytest.mark.usefixtures("small")
def test_the_json_is_split_by_a_seed_and_a_warning_says_so(root):
    write_json(root)
    benchmark = inaturalist_json(root)
    assert (benchmark.train.classes, benchmark.tests["test"].classes) == (3, 1)
    assert "split by seed 0" in benchmark.warnings[0]
    assert len({inaturalist_json(root, seed=seed).tests["test"].class_names[0] for seed in range(9)}) > 1


def image_set(images, classes, name):
    labels = np.arange(images) % classes
    return ImageSet(name, [""] * images, labels, [""] * classes, lambda row, _=None: Image.new("RGB", (1, 1)))


@pytest.mark.parametrize(
    ("counts", "warning"),
    [
        ((6, 3), None),
        ((7, 3), "toy test: found 7 images of 3 classes, the paper has 6 images of 3 classes."),
        ((6, 4), "toy test: found 6 images of 4 classes, the paper has 6 images of 3 classes."),
    ],
)
def test_what_differs_from_the_paper_is_a_warning(counts, warning):
    assert compare_counts(image_set(*counts, "toy test"), Counts(6, 3)) == ([] if warning is None else [warning])


@pytest.mark.parametrize("counts", [(5, 3), (6, 2)])
def test_less_than_the_paper_is_an_error_unless_the_set_varies_by_protocol(counts):
    with pytest.raises(ValueError, match=r"toy test is partial: found .*, expected 6 images of 3 classes"):
        compare_counts(image_set(*counts, "toy test"), Counts(6, 3))
    assert len(compare_counts(image_set(*counts, "toy test"), Counts(6, 3), strict=False)) == 1
