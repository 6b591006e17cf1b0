"""Shared by the tests of albums: a tiny model, a folder of photos, and a cache of their own."""

import pytest
import teachable_albums
from photo_makers import photo_folder, tiny_model

from smoothap.album import Album
from smoothap.album.update import labels_by_folder


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    return tiny_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="session")
def other_model(tmp_path_factory):
    return tiny_model(tmp_path_factory.mktemp("other"), seed=1)


@pytest.fixture
def photos(tmp_path):
    return photo_folder(tmp_path / "photos", 12)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def album(tmp_path, model, photos):
    made = Album.create(tmp_path / "album", model, photos)
    made.update(labels=labels_by_folder)
    return made


@pytest.fixture
def labelled_album(tmp_path):
    return teachable_albums.labelled_album(tmp_path / "album")


@pytest.fixture
def taught_album(tmp_path):
    return teachable_albums.taught_album(tmp_path / "album"), teachable_albums.vectors_and_labels()[1]
