"""A watched folder: what comes to rest is taken in once, and what goes wrong is told once and tried again."""

import threading

import pytest
from photo_makers import photo_bytes

from smoothap.album import watching
from smoothap.album.watching import Watcher


@pytest.fixture
def watcher(album):
    made = Watcher(album, lambda said: None)
    assert made.look().unchanged == 12  # the first look brings it up to date
    return made


def test_a_new_photo_is_taken_in_once_two_looks_agree(watcher, photos, album):
    assert watcher.look() is None
    (photos / "new.png").write_bytes(photo_bytes(50)[:200])  # it is being copied
    assert watcher.look() is None
    (photos / "new.png").write_bytes(photo_bytes(50))
    assert watcher.look() is None
    report = watcher.look()
    assert (report.added, report.unreadable) == (["new.png"], {})
    assert watcher.look() is None
    assert len(album) == 13


def test_a_change_and_a_removal_are_taken_up(watcher, photos, album):
    first, second = sorted(photos.rglob("*.png"))[:2]
    first.write_bytes(photo_bytes(51))
    second.unlink()
    watcher.look()
    report = watcher.look()
    assert [len(report.changed), len(report.removed)] == [1, 1]
    assert watching.summary(report) == "1 changed, 1 removed"


def test_nothing_is_loaded_while_nothing_changes(watcher, album, monkeypatch):
    monkeypatch.setattr(album, "update", lambda **_: pytest.fail("updated"))
    for _ in range(3):
        assert watcher.look() is None


def test_what_goes_wrong_is_told_once_and_tried_again(album, photos, monkeypatch):
    said, stop, looks = [], threading.Event(), []
    watcher = Watcher(album, said.append)
    look = watcher.look

    def three_times_wrong():
        looks.append(1)
        if len(looks) == 5:
            stop.set()
        if len(looks) <= 3:
            raise ValueError("Another process is writing to it: wait until it is done.")
        return look()

    (photos / "new.png").write_bytes(photo_bytes(52))
    monkeypatch.setattr(watcher, "look", three_times_wrong)
    monkeypatch.setattr(watching, "_PAUSE", 0.0)
    monkeypatch.setattr(watching, "_SHARE", 0)
    watcher.run(stop)
    assert said == [
        "The photo folder is not watched for now: Another process is writing to it: wait until it is done.",
        "1 added",
    ]
