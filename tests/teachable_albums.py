"""Albums with something to learn: classes differ in a few directions, and photos of each in many louder ones."""

import numpy as np

from smoothap.album import Album

CLASSES, PHOTOS, SIGNAL, NOISE = 24, 16, 6, 24
TAUGHT, KEPT = 12, 8  # the first classes, and the first photos of each, are in collections


def vectors_and_labels(seed=0, classes=CLASSES, photos=PHOTOS):
    random = np.random.default_rng(seed)
    labels = np.repeat(np.arange(classes), photos)
    signal = random.normal(size=(classes, SIGNAL))[labels] + 0.15 * random.normal(size=(len(labels), SIGNAL))
    rows = np.concatenate([signal, 0.8 * random.normal(size=(len(labels), NOISE))], axis=1)
    turned = rows @ np.linalg.qr(random.normal(size=(rows.shape[1],) * 2))[0]
    return (turned / np.linalg.norm(turned, axis=1, keepdims=True)).astype(np.float32), labels


def labelled_album(folder):
    """An album of all classes, and the class of each photo."""
    vectors, labels = vectors_and_labels()
    metadata = [{"path": f"{row:04d}.jpg", "label": f"class {label}"} for row, label in enumerate(labels)]
    return Album.from_arrays(vectors, metadata, folder), labels


def taught_album(folder):
    """The same with collections."""
    album, labels = labelled_album(folder)
    for label in range(TAUGHT):
        album.collections.add(f"thing {label}", np.flatnonzero(labels == label)[:KEPT].tolist())
    return album
