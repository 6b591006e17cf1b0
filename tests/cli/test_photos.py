"""`smoothap photos FOLDER`: an album in a place of its own, brought up to date, served, and opened in the browser."""

import threading
from pathlib import Path

import pytest
from photo_makers import photo_bytes, photo_folder, tiny_model

from smoothap.album.settings import album_place
from smoothap.cli import app


def take_in_and_end(albums, listener, *, watchers, **options):
    """A server that ends when the albums are up to date."""
    for watcher in watchers.values():
        watcher.run(threading.Event())


@pytest.fixture
def place(tmp_path, monkeypatch):
    for variable in ("XDG_DATA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(variable, str(tmp_path / variable))
    tiny_model(tmp_path / "model")
    photo_folder(tmp_path / "My photos", 6)
    return tmp_path


def photos(*arguments):
    app(["photos", *map(str, arguments)], result_action="return_value", exit_on_error=False)


def test_the_album_has_a_place_of_its_own_that_is_said(place, capsys, monkeypatch):
    served = []

    def run_server(*arguments, **options):
        take_in_and_end(*arguments, **options)
        served.append((*arguments, options))

    monkeypatch.setattr("smoothap.server.run.run_server", run_server)
    monkeypatch.setattr("smoothap.album.ingest.ARCHITECTURE", str(place / "model"))
    photos(place / "My photos", "--no-open", "--no-watch")
    said = capsys.readouterr().out
    album = album_place(place / "My photos")
    assert f"Album   {album}" in said
    assert "6 photos, 6 added" in said
    assert "the default" in said
    assert album.is_relative_to(place / "XDG_DATA_HOME" / "smoothap" / "albums")
    assert album.name.startswith("My-photos-")
    assert sorted(path.name for path in (place / "My photos").iterdir()) == ["class0", "class1", "class2"]
    (place / "My photos" / "new.png").write_bytes(photo_bytes(99))
    photos(place / "My photos" / "class0" / "..", "--port", 0, "--no-watch")  # by another way
    assert "7 photos, 1 added, 6 unchanged" in capsys.readouterr().out
    (albums, listener, options), again = served
    assert list(albums) == ["My photos"]
    assert len(again[0]["My photos"].reopened()) == 7
    assert options["open_page"] is False
    assert listener.fileno() == -1  # closed when all is over
    assert again[2]["open_page"] is True


def test_commands_take_the_photo_folder_for_its_album(place, capsys, monkeypatch):
    monkeypatch.setattr("smoothap.server.run.run_server", take_in_and_end)
    photos(place / "My photos", "--no-open", "--no-watch", "--no-people", "--model", place / "model")
    photo = next((place / "My photos").rglob("*.png"))
    for words in (["search", place / "My photos", photo], ["album", "verify", place / "My photos"]):
        capsys.readouterr()
        app([str(word) for word in words], result_action="return_value", exit_on_error=False)
        assert photo.name in capsys.readouterr().out or words[0] == "album"
    with pytest.raises(FileNotFoundError, match="To make one of a folder of photos: smoothap photos"):
        app(["search", str(place / "model"), str(photo)], result_action="return_value", exit_on_error=False)


def test_two_folders_of_one_name_have_two_albums(tmp_path):
    assert album_place(tmp_path / "a" / "Photos") != album_place(tmp_path / "b" / "Photos")
    assert album_place("/").name.startswith("photos-")
    assert "/" not in album_place(tmp_path / "a b\n/../c<>|").name


def test_a_folder_that_is_none_is_refused_before_anything_is_made(place):
    with pytest.raises(FileNotFoundError, match="give the folder that holds the photos"):
        photos(place / "no", "--no-open", "--port", 0)
    assert not album_place(place / "no").exists()


def test_a_port_that_is_taken_is_no_reason_to_stop(place, capsys, monkeypatch):
    import socket

    ports = []
    monkeypatch.setattr(
        "smoothap.server.run.run_server", lambda _, listener, **__: ports.append(listener.getsockname()[1])
    )
    with socket.socket() as taken:
        try:
            taken.bind(("127.0.0.1", 8000))
            taken.listen()
        except OSError:
            pass  # somebody else has it already
        photos(place / "My photos", "--model", place / "model")
        with pytest.raises(ValueError, match="cannot be listened on"):
            photos(place / "My photos", "--port", 8000)
    assert ports != [8000]


def test_only_a_page_of_this_computer_is_watched(place, monkeypatch):
    monkeypatch.setenv("SMOOTHAP_TOKEN", "only-for-this-test")
    for option in (("--host", "0.0.0.0"), ("--allow-host", "photos.example.org")):
        with pytest.raises(ValueError, match="--watch is for a page that only this computer sees"):
            app(["serve", str(Path("album")), "--watch", *option], result_action="return_value", exit_on_error=False)
