"""`smoothap photos` serves at once and fills in; whatever stops it, what was taken in stays."""

import contextlib
import http.client
import json
import re
import signal
import subprocess
import sys
import time

import pytest
from photo_makers import photo_bytes, photo_folder, tiny_model

from smoothap.album import Album
from smoothap.album.settings import album_place

PHOTOS = 60
# A command whose photos take some time to read, so that something can happen meanwhile.
SLOW = """
import sys, time
from smoothap.album import prepare
read = prepare.prepare
prepare.prepare = lambda *arguments: (time.sleep(float(sys.argv[1])), read(*arguments))[1]
from smoothap.cli import app
app(sys.argv[2:])
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    for variable in ("XDG_DATA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(variable, str(tmp_path / variable))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    tiny_model(tmp_path / "model")
    photo_folder(tmp_path / "photos", PHOTOS)
    return tmp_path


@contextlib.contextmanager
def running(place, seconds=0.0):
    """The command, killed at the end if it still runs, and what asks it; photos take that long to read."""
    command = [sys.executable, "-u", "-c", SLOW, str(seconds), "photos", str(place / "photos"), "--no-open", "--port"]
    with subprocess.Popen(
        [*command, "0", "--no-people", "--model", str(place / "model")],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    ) as process:  # fmt: skip
        try:
            port = next(found[1] for line in process.stdout if (found := re.search(r"127\.0\.0\.1:(\d+)/", line)))
            yield process, int(port)
        finally:
            process.kill()


def albums(port):
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
        connection.request("GET", "/api/v1/albums")
        return json.loads(connection.getresponse().read())["albums"][0]


def first_event(port):
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
        connection.request("GET", "/api/v1/events")
        answer = connection.getresponse()
        while not (line := answer.readline()).startswith(b"data:"):
            assert line
        return json.loads(line.removeprefix(b"data:"))


def wait_for(port, is_so, seconds=60):
    end = time.monotonic() + seconds
    while not is_so(known := albums(port)):
        assert time.monotonic() < end, known
        time.sleep(0.05)
    return known


def test_it_is_killed_while_it_fills_in_and_goes_on(place):
    with running(place, 0.2) as (process, port):  # two at a time: some six seconds
        assert albums(port)["photos"] < PHOTOS
        some = wait_for(port, lambda known: known["photos"])
        assert 0 < some["photos"] < PHOTOS
        (event,) = first_event(port)
        for told in (some, event):
            assert (told["indexing"]["step"], told["indexing"]["total"]) == ("reading photos", PHOTOS)
        assert some["photos"] <= event["photos"] < PHOTOS
        process.kill()
        process.wait()
    album = Album.open(album_place(place / "photos"))
    album.verify()
    kept = {photo.path: photo.id for photo in album.photos}
    assert some["photos"] <= len(kept) < PHOTOS
    with running(place) as (process, port):
        wait_for(port, lambda known: known["photos"] == PHOTOS and known["indexing"] is None)
        for number in range(10):
            (place / "photos" / f"new{number}.png").write_bytes(photo_bytes(1000 + number))
        wait_for(port, lambda known: known["photos"] == PHOTOS + 10)
        process.send_signal(signal.SIGINT)
        said = process.stdout.read()
        assert process.wait(30) == 0
    assert f"{PHOTOS:,} photos, {PHOTOS - len(kept)} added, {len(kept)} unchanged" in said
    assert "photos: 10 added" in said
    album = Album.open(album_place(place / "photos"))
    assert {photo.path: photo.id for photo in album.photos}.items() >= kept.items()


def test_an_interrupt_keeps_what_was_read(place):
    with running(place, 0.5) as (process, port):
        wait_for(port, lambda known: known["indexing"] and known["indexing"]["done"] >= 9)  # a batch, and one more
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
    assert 8 <= len(Album.open(album_place(place / "photos"))) < PHOTOS


def test_a_second_process_is_told_to_wait_and_takes_over(place):
    with running(place, 1.0) as (first, _), running(place) as (_, other):
        waiting = wait_for(other, lambda known: known["problem"])
        assert "Another process is writing to" in waiting["problem"]
        wait_for(other, lambda known: known["photos"])  # it shows what the first takes in
        first.kill()
        first.wait()
        done = wait_for(other, lambda known: known["photos"] == PHOTOS)
        assert wait_for(other, lambda known: known["problem"] is None)["photos"] == done["photos"]


def test_a_folder_without_photos_is_a_page_that_says_so_and_takes_the_first(place):
    for file in (place / "photos").rglob("*.png"):
        file.unlink()
    with running(place) as (_, port):
        assert "There are no photos in" in wait_for(port, lambda known: known["problem"])["problem"]
        (place / "photos" / "first.png").write_bytes(photo_bytes(1))
        assert wait_for(port, lambda known: known["photos"])["problem"] is None
