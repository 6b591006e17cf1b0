"""CUB-200-2011: photos of birds, a class is a species; the first 100 species train, the others test.

On disk: `images/001.Black_footed_Albatross/Black_Footed_Albatross_0001_796111.jpg`, `images.txt` (image_id path) and
`image_class_labels.txt` (image_id class_id). A few photos are grey, and a handful are in the training images of
ImageNet: every published figure has both.
"""

from pathlib import Path

import numpy as np
import pyarrow as pa

from smoothap.data.benchmark import Benchmark
from smoothap.data.datasets.counts import Counts, published_split
from smoothap.data.datasets.listing import find_file, find_listed, set_of_files
from smoothap.data.image_set import ImageSet
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
    numbers = numbers.take(rows).to_numpy(zero_copy_only=False).astype(int)
    files = find_listed(root / "images", paths, listing)
    parts = {"train": numbers <= training_classes, "test": numbers > training_classes}
    return published_split("cub", {part: _part(root, part, files, rows) for part, rows in parts.items()}, published)


def _part(root: Path, part: str, files: pa.Array, rows: np.ndarray) -> ImageSet:
    kept = files.filter(pa.array(rows))
    return set_of_files(f"cub {part}", root / "images", kept, replaced(kept, "/.*$"), RECALL_AT)
