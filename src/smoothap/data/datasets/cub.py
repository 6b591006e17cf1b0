"""CUB-200-2011: photos of birds, a class is a species; the first 100 species train, the others test.

On disk: `images/001.Black_footed_Albatross/Black_Footed_Albatross_0001_796111.jpg`, `images.txt` (image_id path) and
`image_class_labels.txt` (image_id class_id). A few photos are grey, and a handful are in the training images of
ImageNet: every published figure has both.
"""

from pathlib import Path

import numpy as np

from smoothap.data.benchmark import Benchmark
from smoothap.data.datasets.counts import Counts, published_split
from smoothap.data.datasets.listing import find_file, find_listed, set_of_files
from smoothap.data.splits import split_at_classes
from smoothap.data.tables import positions, read_rows, replaced

PUBLISHED = {"train": Counts(5_864, 100), "test": Counts(5_924, 100)}
RECALL_AT = (1, 2, 4, 8)


def cub(root: Path, *, published: dict[str, Counts] = PUBLISHED, training_classes: int = 100) -> Benchmark:
    """The split of the metric-learning papers: half of the species each; Recall@1, 2, 4, 8."""
    listing = find_file(root, "images.txt")
    identifiers, paths = read_rows(listing, 2)
    labelled, numbers = read_rows(find_file(root, "image_class_labels.txt"), 2)
    rows = positions(identifiers, labelled)
    if rows.null_count:
        raise ValueError(f"{root}/image_class_labels.txt lacks images of images.txt: fetch the set again.")
    files = find_listed(root / "images", paths, listing)
    images = set_of_files("cub", root / "images", files, replaced(files, "/.*$"), RECALL_AT)
    number_of = dict(zip(replaced(files, "/.*$").to_pylist(), numbers.take(rows).to_pylist(), strict=True))
    tested = np.array([int(number_of[name]) > training_classes for name in images.class_names])
    train, test = split_at_classes(images, tested)
    return published_split("cub", {"train": train, "test": test}, published)
