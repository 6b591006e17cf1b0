"""Albums that can learn, each in a folder and with a cache of its own."""

import pytest
import teachable_albums


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def labelled_album(tmp_path):
    return teachable_albums.labelled_album(tmp_path / "album")


@pytest.fixture
def taught_album(tmp_path):
    return teachable_albums.taught_album(tmp_path / "album"), teachable_albums.vectors_and_labels()[1]
