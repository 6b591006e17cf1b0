"""What an album gains by learning from a few collections, for what it was taught and for everything else.

    python benchmarks/learning.py --data emoji folder:GROCERY folder:CALTECH [--keep FOLDER]

An album holds all photos of a set. Some classes, drawn at random, become collections of a few photos each, and the
album learns from them. Then photos that were in no collection are looked for, with each of them as a query in turn:
those of the classes that were taught, and those of all others. The photos of the collections are left out of the
ranking. With --random the collections hold photos of any class, so that there is nothing to learn. A set without
classes of that many photos is left out. With --unseen the album holds test classes alone, for a --model that was
trained on the others.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
from drawn_collections import drawn, mean_average_precision
from labelled_vectors import all_vectors, unseen_vectors

from smoothap.album import Album, learn


def run(vectors: np.ndarray, labels: np.ndarray, collections: int, photos: int, seed: int, anything: bool) -> str:
    """One draw of collections, as a line of the table."""
    kept = drawn(labels, collections, photos, seed, anything)
    taught_rows = np.concatenate([*kept.values()])
    rest = np.setdiff1d(np.arange(len(labels)), taught_rows)
    is_taught = np.isin(labels[rest], labels[taught_rows])
    with tempfile.TemporaryDirectory() as folder:
        album = Album.from_arrays(vectors, {"path": [f"{row:06d}.jpg" for row in range(len(labels))]}, folder)
        album.collections.put([(name, rows.tolist(), []) for name, rows in kept.items()], "drawn")
        metrics = {}
        started = time.perf_counter()
        learning = learn(album, progress=False)
        seconds = time.perf_counter() - started
        for when, found in (("before", album.model_vectors()[1]), ("after", album.vectors)):
            metrics[when] = [
                mean_average_precision(np.asarray(found[rest]), labels[rest], np.flatnonzero(mask))
                for mask in (is_taught, ~is_taught)
            ]
    gains = [after - before for before, after in zip(metrics["before"], metrics["after"], strict=True)]
    check = learning.check
    expected = "" if check is None else f"{100 * check.taught.value:+5.1f} ({100 * check.taught.low:+5.1f} to "
    expected += "" if check is None else f"{100 * check.taught.high:+5.1f}) x{check.strength:.2f}"
    expected += "" if check is None else f", others {100 * check.untaught.value:+5.1f}"
    taught, others = (
        f"{before:5.1f} -> {after:5.1f} ({gain:+5.1f})"
        for before, after, gain in zip(metrics["before"], metrics["after"], gains, strict=True)
    )
    return f"{'learnt' if learning.learnt else 'kept':6s}  {taught}  {others}  {seconds:4.1f} s  {expected}"


def main() -> None:
    """Print a line for each set, size and draw."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="tf_efficientnet_lite0")
    parser.add_argument("--data", nargs="+", default=["emoji"])
    parser.add_argument("--size", type=int)
    parser.add_argument("--collections", type=int, nargs="+", default=[2, 5, 10, 20])
    parser.add_argument("--photos", type=int, nargs="+", default=[5, 10])
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--random", action="store_true")
    parser.add_argument("--unseen", action="store_true")
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    print("set  collections x photos  draw  taught: mAP before -> after  all others  time  expected of what was taught")
    for data in options.data:
        of = unseen_vectors if options.unseen else all_vectors
        vectors, labels = of(options.model, data, options.size, options.keep)
        for collections in options.collections:
            for photos in options.photos:
                for seed in range(options.draws if np.bincount(labels).max() >= photos + 2 else 0):
                    line = run(vectors, labels, collections, photos, seed, options.random)
                    name = data.rpartition(":")[2].removesuffix("/images").rpartition("/")[2]
                    print(f"{name:10s} {collections:2d} x {photos:2d}  {seed}  {line}", flush=True)


if __name__ == "__main__":
    main()
