"""Collections drawn at random from a labelled set, and mAP of what is in none of them."""

import numpy as np

from smoothap import evaluate

QUERIES = 500  # of each kind


def drawn(labels: np.ndarray, collections: int, photos: int, seed: int, anything: bool) -> dict[str, np.ndarray]:
    """Collections by name: rows of that many photos of that many classes, each of which has two more at least."""
    random = np.random.default_rng(seed)
    if anything:
        rows = random.permutation(len(labels))[: collections * photos].reshape(collections, photos)
        return {f"collection {number}": some for number, some in enumerate(rows)}
    large = np.flatnonzero(np.bincount(labels) >= photos + 2)
    classes = random.permutation(large)[: min(collections, len(large) // 2)]
    return {f"class {one}": random.permutation(np.flatnonzero(labels == one))[:photos] for one in classes}


def mean_average_precision(vectors: np.ndarray, labels: np.ndarray, queries: np.ndarray) -> float:
    """mAP in per cent of some rows as queries among all others."""
    some = queries[np.random.default_rng(0).permutation(len(queries))[:QUERIES]]
    itself = some[:, None] == np.arange(len(labels))[None]
    report = evaluate(vectors[some], labels[some], vectors, labels, ignore=itself, progress=False)
    return 100 * report.mean_average_precision
