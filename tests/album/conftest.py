"""Shared by the tests of albums: a tiny model, a folder of photos, and a cache of their own."""

import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest
import teachable_albums
from photo_makers import photo_folder, tiny_model

from smoothap.album import Album, shards
from smoothap.album.update import labels_by_folder


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    return tiny_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="session")
def other_model(tmp_path_factory):
    return tiny_model(tmp_path_factory.mktemp("other"), seed=1)


@pytest.fixture
def photos(tmp_path, made_album):
    return shutil.copytree(made_album / "photos", tmp_path / "photos")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="session")
def made_album(tmp_path_factory, model):
    """Twelve photos and an album of them, which are copied for each test."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        Album.create(folder / "album", model, photo_folder(folder / "photos", 12)).update(labels=labels_by_folder)
    return folder


@pytest.fixture
def album(tmp_path, made_album, photos):
    return Album.open(shutil.copytree(made_album / "album", tmp_path / "album"))


@pytest.fixture
def no_processes(monkeypatch):
    """A thread in the place of the processes that embed shards, which take longer to start than to embed."""
    monkeypatch.setattr("smoothap._core.workers.end_with_the_parent", lambda: None)
    monkeypatch.setattr(shards, "_work", None)
    monkeypatch.setattr(
        shards, "ProcessPoolExecutor", lambda _, __, begin, given: ThreadPoolExecutor(1, "", begin, given)
    )


@pytest.fixture
def labelled_album(tmp_path):
    return teachable_albums.labelled_album(tmp_path / "album")


@pytest.fixture
def taught_album(tmp_path):
    return teachable_albums.taught_album(tmp_path / "album"), teachable_albums.vectors_and_labels()[1]
