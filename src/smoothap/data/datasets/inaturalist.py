"""iNaturalist 2018: photos of living things, a class is a species, a group is its super-category.

On disk: `train_val2018/Aves/2761/<hash>.jpg` and the published split, `Inaturalist_train_set1.txt` and
`Inaturalist_test_set1.txt` with a path on each line, there or in `Inat_dataset_splits`. Without it, the competition's
`train2018.json` and `val2018.json` can be split by a seed, by another name.
"""

import json
from pathlib import Path

import pyarrow as pa

from smoothap.data.benchmark import Benchmark
from smoothap.data.datasets.counts import Counts, compare_counts, published_split
from smoothap.data.datasets.listing import find_file, listed_set
from smoothap.data.image_set import ImageSet
from smoothap.data.splits import split_by_class
from smoothap.data.tables import read_lines, read_text, replaced

_COMPETITION = ("train2018.json", "val2018.json")
PAPER = {"train": Counts(325_846, 5_690), "test": Counts(136_093, 2_452)}


def inaturalist(root: Path, *, paper: dict[str, Counts] = PAPER) -> Benchmark:
    """The published split; Recall@1, 4, 16, 32."""
    lists = {part: _published_list(root, part) for part in PAPER}
    parts = {part: _listed(root, f"inaturalist {part}", path, read_lines(path)) for part, path in lists.items()}
    return published_split("inaturalist", parts, paper)


def inaturalist_json(root: Path, *, paper: dict[str, Counts] = PAPER, seed: int = 0) -> Benchmark:
    """All images of the competition, split by a seed into as many classes as the published split has."""
    everything = _listed(root, "inaturalist", f"{root}, the json files", _paths_of_json(root))
    expected = Counts(paper["train"].images + paper["test"].images, paper["train"].classes + paper["test"].classes)
    warnings = [
        f"The classes were split by seed {seed}, not as published: the results cannot be compared with the paper's.",
        *compare_counts(everything, expected),
    ]
    train, test = split_by_class(everything, paper["test"].classes / expected.classes, seed)
    return Benchmark("inaturalist-json", train, {"test": test}, warnings=tuple(warnings))


def _published_list(root: Path, part: str) -> Path:
    name = f"Inaturalist_{part}_set1.txt"
    try:
        return find_file(root, name, f"Inat_dataset_splits/{name}")
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"There is no {name}, the published split, in {root} or its folder Inat_dataset_splits: unpack "
            "Inat_dataset_splits.zip of the paper's authors there. The data set inaturalist-json splits the images of "
            "the competition's json files by a seed, with results that cannot be compared with the paper's."
        ) from error


def _paths_of_json(root: Path) -> pa.Array:
    paths: list[str] = []
    for name in _COMPETITION:
        path = find_file(root, name)
        try:
            paths += [str(image["file_name"]) for image in json.loads(read_text(path))["images"]]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ValueError(
                f"{path} is not the competition's list of images, each with a file_name ({error}): fetch it again."
            ) from error
    return pa.array(paths, pa.string())


def _listed(root: Path, name: str, listing: Path | str, paths: pa.Array) -> ImageSet:
    folder = root / "train_val2018" if (root / "train_val2018").is_dir() else root
    paths = replaced(paths, "^.*/([^/]+/[^/]+/[^/]+)$", r"\1")  # Aves/2761/<hash>.jpg, whatever is before
    species, groups = replaced(paths, "/[^/]*$"), replaced(paths, "/.*$")
    return listed_set(name, folder, paths, species, listing, (1, 4, 16, 32), groups)
