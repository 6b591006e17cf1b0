"""From what should an album of a trained model learn: from the model's vectors, or from its backbone's features?

    smoothap train --data emoji --frozen --out runs/emoji
    python benchmarks/learning_features.py --model runs/emoji/model --data emoji [--keep FOLDER]

The album holds the test classes, which the model never saw; 20 of them, drawn at random, are taught with a few photos
each. Features are learnt from twice: from their own principal components, and from the model's layer, which keeps what
the training knew. Printed is mAP of photos in no collection, of classes that were taught / of all others.
"""

import argparse
from pathlib import Path

import numpy as np
from drawn_collections import drawn, mean_average_precision
from labelled_vectors import unseen_vectors

from smoothap.album._learn_training import Lessons, principal_components, train_projection
from smoothap.album.projection import Projection
from smoothap.models import open_model

COLLECTIONS = 20


def lessons_of(rows: np.ndarray, labels: np.ndarray) -> Lessons:
    """The photos in these rows as collections, one for each label."""
    classes = np.unique(labels[rows])
    member = labels[rows][:, None] == classes
    return Lessons(tuple(map(str, classes)), rows, member)


def unit(rows: np.ndarray) -> np.ndarray:
    """Rows at length 1."""
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def main() -> None:
    """Print a line for each draw."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--photos", type=int, default=5)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    vectors, labels = unseen_vectors(options.model, options.data, None, options.keep)
    features = unit(unseen_vectors(options.model, options.data, None, options.keep, features=True)[0])
    layer = open_model(options.model).embedding
    assert layer is not None
    weight = layer.weight.detach().numpy()
    print(f"{vectors.shape[1]} numbers of the model, {features.shape[1]} of its backbone, 4 bytes each")
    for seed in range(options.draws):
        kept = drawn(labels, COLLECTIONS, options.photos, seed, anything=False)
        rows = np.sort(np.concatenate([*kept.values()]))
        rest = np.setdiff1d(np.arange(len(labels)), rows)
        taught = np.isin(labels[rest], labels[rows])
        lessons = lessons_of(rows, labels)

        def figures(found: np.ndarray, rest: np.ndarray = rest, taught: np.ndarray = taught) -> str:
            parts = (np.flatnonzero(mask) for mask in (taught, ~taught))
            return " / ".join(f"{mean_average_precision(found[rest], labels[rest], part):.1f}" for part in parts)

        start, unmarked = principal_components(vectors), np.setdiff1d(np.arange(len(vectors)), rows)
        through = start.weight @ weight
        through = Projection((through / np.linalg.norm(through, axis=1).mean()).astype(np.float32), start.bias)
        ways = {
            "model's": (vectors, start),
            "features": (features, principal_components(features)),
            "features by its layer": (features, through),
        }
        line = [f"before: {figures(vectors)}"]
        for name, (given, begin) in ways.items():
            line.append(f"{name}: {figures(train_projection(given, lessons, begin, unmarked, lambda: None)(given))}")
        print(f"draw {seed}  " + "   ".join(line), flush=True)


if __name__ == "__main__":
    main()
