"""Vectors and labels of a data set by a model, for measurements; kept in a folder, since embedding takes the time."""

import hashlib
from pathlib import Path

import numpy as np

from smoothap.data.dataset import ImageDataset
from smoothap.data.image_set import ImageSet
from smoothap.data.names import open_data
from smoothap.models import open_model
from smoothap.models.embedding import embed_set


def labelled_vectors(
    model: str, data: str, size: int | None, keep: Path | None
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """The validation classes and the test classes of a set: name -> vectors (n, d), labels (n,)."""
    benchmark = open_data(data)
    parts = {
        "validation": benchmark.train_and_validation()[1],
        "test": next(iter(benchmark.tests.values())),
    }
    return {name: _embedded(model, data, size, name, images, keep) for name, images in parts.items()}


def all_vectors(model: str, data: str, size: int | None, keep: Path | None) -> tuple[np.ndarray, np.ndarray]:
    """Every image of a set, of training classes and test classes alike: vectors (n, d), labels (n,)."""
    benchmark = open_data(data)
    parts = {"train": benchmark.training_images(), "test": next(iter(benchmark.tests.values()))}
    embedded = [_embedded(model, data, size, name, images, keep) for name, images in parts.items()]
    first = embedded[0][1].max() + 1
    return (
        np.concatenate([vectors for vectors, _ in embedded]),
        np.concatenate([embedded[0][1], embedded[1][1] + first]),
    )


def unseen_vectors(
    model: str, data: str, size: int | None, keep: Path | None, *, features: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """The test classes of a set, by the model or, with `features`, by its backbone: vectors (n, d), labels (n,)."""
    return _embedded(model, data, size, "test", next(iter(open_data(data).tests.values())), keep, features)


def _embedded(
    model: str, data: str, size: int | None, part: str, images: ImageSet, keep: Path | None, features: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    what = f"{model} {data} {size} {part} {len(images)}{' features' if features else ''}"
    key = hashlib.sha256(what.encode()).hexdigest()[:16]
    file = None if keep is None else keep / f"{key}.npz"
    if file is not None and file.is_file():
        with np.load(file, allow_pickle=False) as known:
            return known["vectors"], known["labels"]
    embedder = open_model(model, size=None if Path(model).is_dir() else size)
    report = (keep or Path()) / f"{key}-unreadable.csv"
    embedded = embed_set(embedder, ImageDataset(images, embedder.transform, report=report), features=features)
    vectors, labels = embedded.vectors, images.labels[embedded.rows]
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        np.savez(file, vectors=vectors, labels=labels)
    return vectors, labels
