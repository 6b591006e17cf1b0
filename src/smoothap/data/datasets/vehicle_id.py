"""VehicleID: cars seen by surveillance cameras, a class is one vehicle.

On disk: `image/0000001.jpg` and `train_test_split/{train_list,test_list_800,test_list_1600,test_list_2400}.txt` with
the image and the vehicle on each line. The public release has a few more training vehicles than the paper counts.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from smoothap.data.benchmark import Benchmark
from smoothap.data.datasets.counts import Counts, published_split
from smoothap.data.datasets.listing import find_file, listed_set
from smoothap.data.image_set import ImageSet
from smoothap.data.tables import read_rows

PAPER = {
    "train": Counts(110_178, 13_134),
    "small": Counts(7_332, 800),
    "medium": Counts(12_995, 1_600),
    "large": Counts(20_038, 2_400),
}
RELEASE = {"train": Counts(113_346, 13_164)}
_LISTS = {"train": "train_list", "small": "test_list_800", "medium": "test_list_1600", "large": "test_list_2400"}
_DRAWS = 10


def vehicle_id(root: Path, *, paper: dict[str, Counts] = PAPER) -> Benchmark:
    """The paper's protocol: on each of three lists every image is a query in turn; Recall@1 and 5."""
    return published_split("vehicle-id", {part: _part(root, part) for part in _LISTS}, paper, RELEASE)


def vehicle_id_gallery(root: Path, *, paper: dict[str, Counts] = PAPER, seed: int = 0) -> Benchmark:
    """The re-identification protocol: one random image of each vehicle is the gallery, the others are the queries.

    Its results are the mean over 10 draws, and about 18 points of Recall@1 below those of the paper's protocol.
    """
    whole = vehicle_id(root, paper=paper)
    tests: dict[str, ImageSet] = {}
    averages: dict[str, tuple[str, ...]] = {}
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


def _part(root: Path, part: str) -> ImageSet:
    listing = find_file(root, f"train_test_split/{_LISTS[part]}.txt")
    numbers, vehicles = read_rows(listing, 2)
    paths = pa.array([f"{number.removesuffix('.jpg').zfill(7)}.jpg" for number in numbers.to_pylist()], pa.string())
    return listed_set(f"vehicle-id {part}", root / "image", paths, vehicles, listing, (1, 5))
