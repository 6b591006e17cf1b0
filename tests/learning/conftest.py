"""Albums with something to learn: classes differ in a few directions, and photos of each in many louder ones."""

import numpy as np
import pytest

from smoothap.search import Album

CLASSES, PHOTOS, SIGNAL, NOISE = 24, 16, 6, 24


def vectors_and_labels(seed=0, classes=CLASSES, photos=PHOTOS):
    random = np.random.default_rng(seed)
    labels = np.repeat(np.arange(classes), photos)
    signal = random.normal(size=(classes, SIGNAL))[labels] + 0.15 * random.normal(size=(len(labels), SIGNAL))
    rows = np.concatenate([signal, 1.5 * random.normal(size=(len(labels), NOISE))], axis=1)
    turned = rows @ np.linalg.qr(random.normal(size=(rows.shape[1],) * 2))[0]
    return (turned / np.linalg.norm(turned, axis=1, keepdims=True)).astype(np.float32), labels


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def labelled_album(tmp_path):
    vectors, labels = vectors_and_labels()
    metadata = [{"path": f"{row:04d}.jpg", "label": f"class {label}"} for row, label in enumerate(labels)]
    return Album.from_arrays(vectors, metadata, tmp_path / "album"), labels


@pytest.fixture
def taught_album(labelled_album):
    """Eight of the photos of each of the first twelve classes are in collections."""
    album, labels = labelled_album
    for label in range(12):
        album.collections.add(f"thing {label}", np.flatnonzero(labels == label)[:8].tolist())
    return album, labels
