"""`smoothap photos FOLDER`: an album in a place of its own, brought up to date, served, and opened in the browser."""

import contextlib
import http.client
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from photo_makers import photo_bytes, photo_folder, tiny_model

from smoothap.album import Album
from smoothap.album.settings import album_place
from smoothap.cli import app


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
    monkeypatch.setattr("smoothap.server.run.run_server", lambda *albums, **options: served.append((*albums, options)))
    monkeypatch.setattr("smoothap.album.ingest.ARCHITECTURE", str(place / "model"))
    photos(place / "My photos", "--no-open")
    said = capsys.readouterr().out
    album = album_place(place / "My photos")
    assert f"Album   {album}" in said
    assert "6 photos, 6 added" in said
    assert "which is taken where no --model is given" in said
    assert album.is_relative_to(place / "XDG_DATA_HOME" / "smoothap" / "albums")
    assert album.name.startswith("My-photos-")
    assert sorted(path.name for path in (place / "My photos").iterdir()) == ["class0", "class1", "class2"]
    (place / "My photos" / "new.png").write_bytes(photo_bytes(99))
    photos(place / "My photos" / "class0" / "..", "--port", 0)  # the same folder by another way
    assert "7 photos, 1 added, 6 unchanged" in capsys.readouterr().out
    (albums, listener, options), again = served
    assert list(albums) == ["My photos"]
    assert len(again[0]["My photos"]) == 7
    assert options == {"open_page": False, "watch": True}
    assert listener.fileno() == -1  # closed when all is over
    assert again[2]["open_page"] is True


def test_commands_take_the_photo_folder_for_its_album(place, capsys, monkeypatch):
    monkeypatch.setattr("smoothap.server.run.run_server", lambda *_, **__: None)
    photos(place / "My photos", "--no-open", "--no-people", "--model", place / "model")
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


@pytest.mark.slow
def test_it_serves_and_takes_up_what_comes(place):
    command = [sys.executable, "-u", "-m", "smoothap", "photos", str(place / "My photos"), "--no-open", "--port", "0"]
    process = subprocess.Popen(
        [*command, "--model", str(place / "model")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    try:
        port, said = None, ""
        while port is None:
            said += process.stdout.readline()
            found = re.search(r"Page +http://127\.0\.0\.1:(\d+)/", said)
            port = found and int(found[1])
            assert process.poll() is None, process.stderr.read()
        assert '"photos":6' in ask(port, "/api/v1/albums")
        (place / "My photos" / "new.png").write_bytes(photo_bytes(99))
        while "1 added" not in said:
            said += process.stdout.readline()
            assert process.poll() is None, process.stderr.read()
        assert '"photos":7' in ask(port, "/api/v1/albums")
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    assert process.returncode == 0
    assert len(Album.open(album_place(place / "My photos"))) == 7


def ask(port, path):
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=20)) as connection:
        connection.request("GET", path)
        return connection.getresponse().read().decode()


def test_only_a_page_of_this_computer_is_watched(place, monkeypatch):
    monkeypatch.setenv("SMOOTHAP_TOKEN", "only-for-this-test")
    for option in (("--host", "0.0.0.0"), ("--allow-host", "photos.example.org")):
        with pytest.raises(ValueError, match="--watch is for a page that only this computer sees"):
            app(["serve", str(Path("album")), "--watch", *option], result_action="return_value", exit_on_error=False)
