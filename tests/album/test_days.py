"""The day of a photo: by its camera, else by its file's name, else by the file's own time; and the orders by it."""

import os
import time
from datetime import date, datetime, timedelta

import numpy as np
import pytest
from photo_makers import photo_bytes

from smoothap.album import Album, Filter, postings
from smoothap.album.dates import dated
from smoothap.album.filters import days_of, undated
from smoothap.album.order import WITHOUT_DATE, order_of

NAMES = {
    "IMG-20160319-WA0001.jpg": "2016-03-19 00:00:00",
    "20160319_123456.jpg": "2016-03-19 12:34:56",
    "20160319123456.jpg": "2016-03-19 12:34:56",
    "2016-03-19 12.34.jpg": "2016-03-19 12:34:00",
    "Screenshot_2016-03-19-12-34-56.png": "2016-03-19 12:34:56",
    "Screenshot_20160319-123456_Maps.png": "2016-03-19 12:34:56",
    "PXL_20160319_123456789.MP.jpg": "2016-03-19 12:34:56",
    "WhatsApp Image 2016-03-19 at 12.34.56 (1).jpeg": "2016-03-19 12:34:56",
    "signal-2016-03-19-123456.jpg": "2016-03-19 12:34:56",
    "photo_2016_03_19.jpg": "2016-03-19 00:00:00",
    "20160230_first_20160319.jpg": "2016-03-19 00:00:00",  # there is no 30th of February
    "IMG_20161319.jpg": None,
    "IMG_120160319.jpg": None,
    "IMG_201603190.jpg": None,
    "IMG_0042.jpg": None,
    "1458390123456.jpg": None,
}


@pytest.fixture
def in_berlin(monkeypatch):
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("name", NAMES)
def test_the_date_in_a_name(name):
    when = dated(None, f"20010101/{name}".encode(), 0)  # a folder says nothing
    known = None if when.seconds is None else str(datetime(1970, 1, 1) + timedelta(seconds=when.seconds))
    assert (known, when.by) == (NAMES[name], "name" if NAMES[name] else None)


def test_the_camera_comes_first_and_the_file_last(in_berlin):
    late = round(datetime(2020, 6, 1, 0, 30).timestamp() * 1e9)  # the day before, by UTC
    assert dated(0, b"IMG-20160319.jpg", late) == (0, "camera")
    assert dated(None, b"IMG-20160319.jpg", late).day == "2016-03-19"
    assert (dated(None, b"a.jpg", late).day, dated(None, b"a.jpg", late).by) == ("2020-06-01", "file")
    assert dated(None, b"a.jpg", 0) == (None, None)
    assert dated(None, b"a.jpg", 2**63 - 1).day == "2262-04-12"


@pytest.fixture
def shots(tmp_path, model):
    root = tmp_path / "shots"
    (root / "Été").mkdir(parents=True)
    for seed, name in enumerate(("IMG-20160319-WA0001.png", "Été/20160401_080000.png", "Été/Ärger.png")):
        (root / name).write_bytes(photo_bytes(seed))
        os.utime(root / name, (1_500_000_000, 1_500_000_000))  # 2017-07-14
    return Album.create(tmp_path / "album", model, root)


def test_photos_are_found_by_their_day_whatever_says_it(shots):
    shots.update(progress=False)
    assert [(photo.dated.day, photo.dated.by) for photo in shots.photos] == [
        ("2016-03-19", "name"), ("2016-04-01", "name"), ("2017-07-14", "file"),
    ]  # fmt: skip
    assert shots.passing(Filter(since=date(2016, 4, 1))).tolist() == [False, True, True]
    assert days_of(shots.photos) == (date(2016, 3, 19), date(2017, 7, 14))
    file = shots.root / "Été/Ärger.png"
    os.utime(file, (1_000_000_000, 1_000_000_000))
    shots.update(progress=False)
    assert shots.passing(Filter(until=date(2001, 9, 9))).tolist() == [False, False, True]


def test_an_older_album_gets_days_at_the_next_update_and_embeds_nothing(shots, monkeypatch):
    shots.update(progress=False)
    with shots.store.database.writing() as connection:  # as it was written before there were such days
        connection.execute("DELETE FROM posting WHERE name='dated by'")
        postings.change(connection, [(0, ("day", b"2016-03-19"))], [(0, ("day", b""))])
    assert undated(Album.open(shots.folder).photos) == 1
    monkeypatch.setattr(type(shots), "embedder", lambda _: pytest.fail("nothing is to be embedded"))
    again = Album.open(shots.folder)
    assert again.update(progress=False).unchanged == 3
    assert again.passing(Filter(until=date(2016, 3, 19))).tolist() == [True, False, False]
    assert undated(again.photos) == 0
    version = again.version
    again.update(progress=False)
    assert again.version == version


def test_words_are_looked_for_without_case_and_accents(shots):
    shots.update(progress=False)
    for words, found in {"ete": [1, 2], "ÉTÉ arger": [2], "png 2016": [0, 1], "dog": [], " ": [0, 1, 2]}.items():
        assert np.flatnonzero(shots.passing(Filter(text=words))).tolist() == found, words


ROWS = 60


@pytest.fixture
def listed():
    """Dates out of order, some of one second, every seventh without one."""
    random = np.random.default_rng(0)
    facts = [
        {"path": f"{'bAé'[row % 3]}/{'xY'[row % 2]}{row:02d}.jpg"}
        | ({} if row % 7 == 0 else {"taken": datetime(2020, 1 + int(random.integers(12)), 1 + row % 3).isoformat()})
        for row in range(ROWS)
    ]
    return Album.from_arrays(random.normal(size=(ROWS, 4)), facts), facts


def test_orders_and_their_sections(listed):
    album, facts = listed
    rows = np.arange(ROWS)
    dates = [row for row in range(ROWS) if row % 7]
    none = [row for row in range(ROWS) if row % 7 == 0]
    oldest = sorted(dates, key=lambda row: (facts[row]["taken"], row))
    wanted = {
        "oldest": oldest + none,
        "newest": oldest[::-1] + none[::-1],
        "name": sorted(rows.tolist(), key=lambda row: facts[row]["path"].split("/")[1].lower()),
        "folder": sorted(rows.tolist(), key=lambda row: (row % 3 != 1, row % 3 == 2, facts[row]["path"].lower())),
    }
    for by, right in wanted.items():
        order = order_of(album.photos, by)
        assert order.sorted(rows).tolist() == right, by
        some = order.sorted(rows[rows % 4 != 0])
        assert some.tolist() == [row for row in right if row % 4], by
        sections = order.sections(some)
        assert [start for _, start, _ in sections] == np.cumsum([0, *(n for *_, n in sections)])[:-1].tolist()
        for title, start, number in sections:
            for row in some[start : start + number]:
                assert title == titles(facts[row])[by]
        assert len({title for title, *_ in sections}) == len(sections)


def titles(fact):
    taken = fact.get("taken")
    month = WITHOUT_DATE if taken is None else f"{datetime.fromisoformat(taken):%B %Y}"
    folder, name = fact["path"].split("/")
    return {"newest": month, "oldest": month, "name": name[0].upper(), "folder": folder}


def test_an_empty_album_has_no_sections():
    album = Album.from_arrays(np.empty((0, 4)))
    for by in ("newest", "name"):
        order = order_of(album.photos, by)
        assert (order.sorted(np.arange(0)).tolist(), order.sections(np.arange(0)), order.titles) == ([], [], ())
