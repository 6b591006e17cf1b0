"""The published sets of photos, read from the lists that come with them. Their numbers are in `counts.py`."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from smoothap.data.benchmark import Benchmark
from smoothap.data.datasets.counts import PAPER, Counts, compare_counts, published_split
from smoothap.data.datasets.listing import find_file, find_folder, find_listed, set_of_files
from smoothap.data.image_set import ImageSet
from smoothap.data.splits import split_at_classes, split_by_class
from smoothap.data.tables import is_equal, positions, read_lines, read_rows, read_text, replaced

_VEHICLE_LISTS = {
    "train": "train_list", "small": "test_list_800", "medium": "test_list_1600", "large": "test_list_2400",
}  # fmt: skip
_DRAWS = 10  # of the gallery of VehicleID
_STATES = ("train", "query", "gallery")  # of an image of In-Shop


def sop(root: Path) -> Benchmark:
    """Stanford Online Products: things for sale, a class is an article, a group its super-category; Recall@1 to 1000.

    On disk: `Ebay_train.txt` and `Ebay_test.txt` (image_id class_id super_class_id path) beside folders such as
    `bicycle_final`; some copies keep the lists in `Info_Files` and the folders in `images`.
    """
    folder, parts = find_folder(root, "images"), dict[str, ImageSet]()
    for part in ("train", "test"):
        listing = find_file(root, f"Ebay_{part}.txt", f"Info_Files/Ebay_{part}.txt")
        _, articles, _, paths = read_rows(listing, 4, skip=1)
        files, groups = find_listed(folder, paths, listing), replaced(paths, "(_final)?/.*$")
        parts[part] = set_of_files(f"sop {part}", folder, files, articles, (1, 10, 100, 1000), groups=groups)
    return published_split("sop", parts)


def cub(root: Path) -> Benchmark:
    """CUB-200-2011: birds, a class is a species; the first 100 species train, the others test; Recall@1, 2, 4, 8.

    On disk: `images/001.Black_footed_Albatross/Black_Footed_Albatross_0001_796111.jpg`, `images.txt` (image_id path)
    and `image_class_labels.txt` (image_id class_id). A few photos are grey, and a handful are in the training images of
    ImageNet: every published result has both.
    """
    listing = find_file(root, "images.txt")
    identifiers, paths = read_rows(listing, 2)
    labelled, numbers = read_rows(find_file(root, "image_class_labels.txt"), 2)
    rows = positions(identifiers, labelled)
    if rows.null_count:
        raise ValueError(f"{root}/image_class_labels.txt lacks images of images.txt: fetch the set again.")
    files = find_listed(root / "images", paths, listing)
    species = replaced(files, "/.*$")
    number_of = dict(zip(species.to_pylist(), map(int, numbers.take(rows).to_pylist()), strict=True))
    images = set_of_files("cub", root / "images", files, species, (1, 2, 4, 8))
    return _first_classes_train(images, [number_of[name] for name in images.class_names])


def cars(root: Path) -> Benchmark:
    """Cars-196: a class is make, model and year; the first 98 classes train, the others test; Recall@1, 2, 4, 8.

    On disk, as first released: `car_ims/000001.jpg` and `cars_annos.mat`. In the later release: `cars_train`,
    `cars_test` and `devkit` (or the folder itself) with `cars_meta.mat`, `cars_train_annos.mat` and
    `cars_test_annos_withlabels.mat`. Both hold the same 16,185 photos; their own halves into training and test, by
    image, are not those of retrieval.
    """
    if (root / "cars_annos.mat").is_file():  # as first released
        meta, column = root / "cars_annos.mat", "relative_im_path"
        lists = {"": meta}
    else:
        meta, column = find_file(root, "devkit/cars_meta.mat", "cars_meta.mat"), "fname"
        annotations = {"cars_train/": "cars_train_annos.mat", "cars_test/": "cars_test_annos_withlabels.mat"}
        lists = {part: find_file(root, f"devkit/{file}", file) for part, file in annotations.items()}
    rows = [(part, row) for part, file in lists.items() for row in _read_matlab(file, "annotations")]
    words = [str(name).replace("/", "-") for name in _read_matlab(meta, "class_names")]
    # Numbered, so that the classes keep their order, and two of one name stay two.
    classes = pa.array([f"{int(row['class']):03} {words[int(row['class']) - 1]}" for _, row in rows])
    files = find_listed(root, pa.array([f"{part}{row[column]}" for part, row in rows]), next(iter(lists.values())))
    images = set_of_files("cars", root, files, classes, (1, 2, 4, 8))
    return _first_classes_train(images, [int(name.partition(" ")[0]) for name in images.class_names])


def _first_classes_train(images: ImageSet, numbers: list[int]) -> Benchmark:
    """The split of the metric-learning papers: the first half of the classes, by their numbers, is trained on."""
    tested = np.array(numbers) > PAPER[f"{images.name} train"].classes
    train, test = split_at_classes(images, tested)
    return published_split(images.name, {"train": train, "test": test})


def _read_matlab(path: Path, name: str) -> np.ndarray:
    from scipy.io import loadmat  # a second to import, for this set alone

    try:
        content: dict[str, Any] = loadmat(path, simplify_cells=False, squeeze_me=True)
        return np.atleast_1d(content[name])
    except Exception as error:  # damaged files make it raise anything
        raise ValueError(f"{path} is not the list of Cars-196: {str(error)[:200] or type(error).__name__}.") from error


def in_shop(root: Path) -> Benchmark:
    """In-Shop Clothes Retrieval (DeepFashion): a class is an article, a group its kind; Recall@1, 10, 20, 30.

    On disk: `list_eval_partition.txt` (or `Eval/list_eval_partition.txt`: the number of images, a header, then
    image_name item_id evaluation_status) and the images in `img` or `Img/img`. Queries look for their article in a
    gallery apart.
    """
    listing = find_file(root, "list_eval_partition.txt", "Eval/list_eval_partition.txt")
    paths, articles, states = read_rows(listing, 3, skip=2)
    folder = find_folder(root, "Img")
    files = find_listed(folder, paths, listing)
    files, articles, states = (column.filter(files.is_valid()) for column in (files, articles, states))
    chosen = {state: is_equal(states, state) for state in _STATES}
    if (others := len(states) - sum(int(rows.sum()) for rows in chosen.values())) > 0:
        raise ValueError(f"{listing} has {others:,} lines that end in none of {', '.join(_STATES)}: fetch it again.")
    groups = replaced(replaced(files, "^.*img/"), "/id_.*$")
    images = set_of_files("in-shop", folder, files, articles, (1, 10, 20, 30), groups=groups)
    train = images.rows(np.flatnonzero(chosen["train"]), "in-shop train")
    marked = replace(images, is_query=chosen["query"], is_gallery=chosen["gallery"])
    test = marked.rows(np.flatnonzero(~chosen["train"]), "in-shop test")
    return published_split("in-shop", {"train": train, "test": test})


def vehicle_id(root: Path) -> Benchmark:
    """VehicleID: cars seen by surveillance cameras, a class is one vehicle.

    The paper's protocol: on each of three lists every image is a query in turn; Recall@1 and 5. On disk:
    `image/0000001.jpg` and `train_test_split/{train_list,test_list_800,test_list_1600,test_list_2400}.txt` with the
    image and the vehicle on each line. The public release has a few more training vehicles than the paper counts.
    """
    parts = dict[str, ImageSet]()
    for part, name in _VEHICLE_LISTS.items():
        listing = find_file(root, f"train_test_split/{name}.txt")
        numbers, vehicles = read_rows(listing, 2)
        paths = pa.array([f"{number.removesuffix('.jpg').zfill(7)}.jpg" for number in numbers.to_pylist()], pa.string())
        files = find_listed(root / "image", paths, listing)
        parts[part] = set_of_files(f"vehicle-id {part}", root / "image", files, vehicles, (1, 5))
    return published_split("vehicle-id", parts)


def vehicle_id_gallery(root: Path, *, seed: int = 0) -> Benchmark:
    """The re-identification protocol: one random image of each vehicle is the gallery, the others are the queries.

    Its results are the mean over 10 draws, and about 18 points of Recall@1 below those of the paper's protocol.
    """
    whole = vehicle_id(root)
    tests, averages = dict[str, ImageSet](), dict[str, tuple[str, ...]]()
    for part, images in whole.tests.items():
        draws = {f"{part} gallery draw {draw + 1}": one_in_the_gallery(images, seed + draw) for draw in range(_DRAWS)}
        averages[f"{part} gallery"] = tuple(draws)
        tests |= draws
    return replace(whole, name="vehicle-id-gallery", tests=tests, averages=averages)


def one_in_the_gallery(images: ImageSet, seed: int) -> ImageSet:
    """The set with one image of each class, drawn by the seed, in the gallery and all others as queries."""
    order = np.random.default_rng(seed).permutation(len(images))
    _, first = np.unique(images.labels[order], return_index=True)
    is_gallery = np.zeros(len(images), dtype=bool)
    is_gallery[order[first]] = True
    return replace(images, name=f"{images.name} gallery", is_query=~is_gallery, is_gallery=is_gallery)


def inaturalist(root: Path) -> Benchmark:
    """iNaturalist 2018: living things, a class is a species, a group its super-category; Recall@1, 4, 16, 32.

    On disk: `train_val2018/Aves/2761/<hash>.jpg` and the published split, `Inaturalist_train_set1.txt` and
    `Inaturalist_test_set1.txt` with a path on each line, there or in `Inat_dataset_splits`.
    """
    parts = dict[str, ImageSet]()
    for part in ("train", "test"):
        name = f"Inaturalist_{part}_set1.txt"
        try:
            listing = find_file(root, name, f"Inat_dataset_splits/{name}")
        except FileNotFoundError as error:
            raise FileNotFoundError(
                f"There is no {name}, the published split, in {root} or its folder Inat_dataset_splits: unpack "
                "Inat_dataset_splits.zip of the paper's authors there. The data set inaturalist-json splits the images "
                "of the competition's json files by a seed, with results that cannot be compared with the paper's."
            ) from error
        parts[part] = _living_things(root, f"inaturalist {part}", listing, read_lines(listing))
    return published_split("inaturalist", parts)


def inaturalist_json(root: Path, *, seed: int = 0) -> Benchmark:
    """All images of the competition's json files, split by a seed into as many classes as the published split has.

    On disk: `train_val2018` as for `inaturalist`, `train2018.json` and `val2018.json`.
    """
    paths: list[str] = []
    for name in ("train2018.json", "val2018.json"):
        path = find_file(root, name)
        try:
            paths += [str(image["file_name"]) for image in json.loads(read_text(path))["images"]]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ValueError(
                f"{path} is not the competition's list of images, each with a file_name ({error}): fetch it again."
            ) from error
    everything = _living_things(root, "inaturalist", f"{root}, the json files", pa.array(paths, pa.string()))
    train, test = PAPER["inaturalist train"], PAPER["inaturalist test"]
    expected = Counts(train.images + test.images, train.classes + test.classes)
    warnings = (
        f"The classes were split by seed {seed}, not as published: the results cannot be compared with the paper's.",
        *compare_counts(everything, expected),
    )
    trained, tested = split_by_class(everything, test.classes / expected.classes, seed)
    return Benchmark("inaturalist-json", trained, {"test": tested}, warnings)


def _living_things(root: Path, name: str, listing: Path | str, paths: pa.Array) -> ImageSet:
    folder = find_folder(root, "train_val2018")
    paths = replaced(paths, "^.*/([^/]+/[^/]+/[^/]+)$", r"\1")  # Aves/2761/<hash>.jpg, whatever is before
    species, groups = replaced(paths, "/[^/]*$"), replaced(paths, "/.*$")
    return set_of_files(name, folder, find_listed(folder, paths, listing), species, (1, 4, 16, 32), groups=groups)
