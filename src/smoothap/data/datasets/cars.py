"""Cars-196: photos of cars, a class is make, model and year; the first 98 classes train, the others test.

On disk, as first released: `car_ims/000001.jpg` and `cars_annos.mat`. In the later release: `cars_train`, `cars_test`
and `devkit` (or the folder itself) with `cars_meta.mat`, `cars_train_annos.mat` and `cars_test_annos_withlabels.mat`.
Both hold the same 16,185 photos; their own halves into training and test, by image, are not those of retrieval.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from smoothap.data.benchmark import Benchmark
from smoothap.data.datasets.counts import Counts, published_split
from smoothap.data.datasets.listing import find_file, listed_set
from smoothap.data.splits import split_at_classes

PUBLISHED = {"train": Counts(8_054, 98), "test": Counts(8_131, 98)}
RECALL_AT = (1, 2, 4, 8)


def cars(root: Path, *, published: dict[str, Counts] = PUBLISHED, training_classes: int = 98) -> Benchmark:
    """The split of the metric-learning papers: half of the classes each; Recall@1, 2, 4, 8."""
    paths, numbers, words, listing = _first_release(root) if (root / "cars_annos.mat").is_file() else _later(root)
    # numbered, so that the classes keep their order, and two of one name stay two
    classes = pa.array([f"{number:03} {words[number - 1]}" for number in numbers])
    images = listed_set("cars", root, pa.array(paths), classes, listing, RECALL_AT)
    tested = np.array([int(name.partition(" ")[0]) > training_classes for name in images.class_names])
    train, test = split_at_classes(images, tested)
    return published_split("cars", {"train": train, "test": test}, published)


def _first_release(root: Path) -> tuple[list[str], np.ndarray, list[str], Path]:
    listing = root / "cars_annos.mat"
    content = _read_matlab(listing, ("annotations", "class_names"))
    rows = np.atleast_1d(content["annotations"])
    numbers = np.array([int(row["class"]) for row in rows])
    return [str(row["relative_im_path"]) for row in rows], numbers, _names(content), listing


def _later(root: Path) -> tuple[list[str], np.ndarray, list[str], Path]:
    paths: list[str] = []
    numbers: list[int] = []
    for part, file in (("train", "cars_train_annos.mat"), ("test", "cars_test_annos_withlabels.mat")):
        listing = find_file(root, f"devkit/{file}", file)
        rows = np.atleast_1d(_read_matlab(listing, ("annotations",))["annotations"])
        paths += [f"cars_{part}/{row['fname']}" for row in rows]
        numbers += [int(row["class"]) for row in rows]
    meta = find_file(root, "devkit/cars_meta.mat", "cars_meta.mat")
    return paths, np.array(numbers), _names(_read_matlab(meta, ("class_names",))), meta.parent


def _names(content: dict[str, Any]) -> list[str]:
    return [str(name).replace("/", "-") for name in np.atleast_1d(content["class_names"])]


def _read_matlab(path: Path, wanted: tuple[str, ...]) -> dict[str, Any]:
    from scipy.io import loadmat  # a second to import, for this set alone

    try:
        content = loadmat(path, simplify_cells=False, squeeze_me=True)
        return {name: content[name] for name in wanted}
    except Exception as error:  # damaged files make it raise anything
        raise ValueError(f"{path} is not the list of Cars-196: {str(error)[:200] or type(error).__name__}.") from error
