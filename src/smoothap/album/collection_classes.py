"""The collections of an album as classes to train on: `album:ALBUM`."""

from pathlib import Path

import numpy as np
from PIL import Image

from smoothap.album.album import Album
from smoothap.data.benchmark import Benchmark
from smoothap.data.image_set import ImageSet
from smoothap.data.names import DataSet
from smoothap.data.reading import read_image
from smoothap.data.splits import chosen_split

_FEWEST = 2  # photos of a collection


def collection_classes(
    path: Path, *, test_fraction: float = 0.25, test_classes: Path | None = None, seed: int = 0, name: str = "album"
) -> Benchmark:
    """Train on some collections and test on the others: those that `test_classes` lists, or a fraction by a seed.

    With a fraction of 0 all are for training. A photo in several collections is in none of the classes, for it would be
    wrong for the one and right for the other; what is marked as wrong is no class either.
    """
    album = Album.open(path)
    collections = album.collections.all()
    given = [photo for one in collections.values() for photo in one.right]
    ids, counts = np.unique(np.array(given, np.int64), return_counts=True)
    several = set(ids[counts > 1].tolist())
    files, classes, gone = list[Path](), list[str](), 0
    for collection, one in collections.items():
        here = [album.photo_path(photo) for photo in one.right if photo not in several]
        there = [file for file in here if file.is_file()]
        gone += len(here) - len(there)
        if len(there) >= _FEWEST:
            files += there
            classes += [collection] * len(there)
    if not files:
        raise ValueError(
            f"{path} has no collection of {_FEWEST} photos or more to train on: keep photos on its page (smoothap "
            f"serve {path}), or with smoothap album collections add {path} NAME PHOTO..."
        )
    warnings = [
        f"{len(several):,} photos are in more than one collection, and are left out." if several else "",
        f"{gone:,} photos of the collections are not in {album.root} any more, and are left out." if gone else "",
    ]
    train, tests = chosen_split(_images(name, files, classes, album.root), test_fraction, test_classes, seed)
    told = tuple(warning for warning in warnings if warning)
    return Benchmark(name, train, tests, warnings=told, tests_are_chosen=True)


def _images(name: str, files: list[Path], classes: list[str], root: Path | None) -> ImageSet:
    class_names, labels = np.unique(np.array(classes), return_inverse=True)

    def read(row: int, shorter_side: int | None = None) -> Image.Image:
        return read_image(files[row], shorter_side=shorter_side)

    names = [str(file if root is None else file.relative_to(root)) for file in files]
    labels = labels.astype(np.int64)
    return ImageSet(name, names, labels, class_names, read, recall_at=(1, 2, 4, 8), file=files.__getitem__)


DATA_SET = DataSet(collection_classes, "the folder of an album with collections", chooses_split=True, drawn=True)
