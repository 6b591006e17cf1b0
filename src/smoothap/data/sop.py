"""Stanford Online Products: photos of things for sale, a class is an article, a group is its super-category.

On disk: `Ebay_train.txt` and `Ebay_test.txt` (image_id class_id super_class_id path) beside folders such as
`bicycle_final`; some copies keep the lists in `Info_Files` and the folders in `images`.
"""

from pathlib import Path

from smoothap.data.benchmark import Benchmark
from smoothap.data.columns import as_names, label_by, read_rows, replaced
from smoothap.data.counts import Counts, compare_counts
from smoothap.data.image_set import ImageSet
from smoothap.data.manifest import find_file, find_listed, image_files, read_from

PAPER = {"train": Counts(59_551, 11_318), "test": Counts(60_502, 11_316)}


def sop(root: Path, *, paper: dict[str, Counts] = PAPER) -> Benchmark:
    """The published split; Recall@1, 10, 100, 1000."""
    train, test = (_part(root, part) for part in ("train", "test"))
    warnings = [*compare_counts(train, paper["train"]), *compare_counts(test, paper["test"])]
    return Benchmark("sop", train, {"test": test}, warnings=tuple(warnings))


def _part(root: Path, part: str) -> ImageSet:
    listing = find_file(root, f"Ebay_{part}.txt", f"Info_Files/Ebay_{part}.txt")
    _, class_ids, _, paths = (column[1:] for column in read_rows(listing, 4))  # the first line is a header
    folder = root / "images" if (root / "images").is_dir() else root
    found = find_listed(str(listing), image_files(folder), paths, f"Unpack the images into {folder}.")
    labels, class_names = label_by(class_ids)
    groups, group_names = label_by(replaced(paths, "(_final)?/.*$"))
    return ImageSet(
        name=f"sop {part}",
        names=as_names(found),
        labels=labels,
        class_names=class_names,
        read=read_from(folder, found),
        recall_at=(1, 10, 100, 1000),
        groups=groups,
        group_names=group_names,
    )
