"""Stanford Online Products: photos of things for sale, a class is an article, a group is its super-category.

On disk: `Ebay_train.txt` and `Ebay_test.txt` (image_id class_id super_class_id path) beside folders such as
`bicycle_final`; some copies keep the lists in `Info_Files` and the folders in `images`.
"""

from pathlib import Path

from smoothap.data.benchmark import Benchmark
from smoothap.data.datasets.counts import Counts, published_split
from smoothap.data.datasets.listing import find_file, listed_set
from smoothap.data.image_set import ImageSet
from smoothap.data.tables import read_rows, replaced

PAPER = {"train": Counts(59_551, 11_318), "test": Counts(60_502, 11_316)}


def sop(root: Path, *, paper: dict[str, Counts] = PAPER) -> Benchmark:
    """The published split; Recall@1, 10, 100, 1000."""
    return published_split("sop", {part: _part(root, part) for part in PAPER}, paper)


def _part(root: Path, part: str) -> ImageSet:
    listing = find_file(root, f"Ebay_{part}.txt", f"Info_Files/Ebay_{part}.txt")
    _, articles, _, paths = read_rows(listing, 4, skip=1)
    folder = root / "images" if (root / "images").is_dir() else root
    groups = replaced(paths, "(_final)?/.*$")
    return listed_set(f"sop {part}", folder, paths, articles, listing, (1, 10, 100, 1000), groups)
