"""Filter first, then rank: against brute force, by every engine, with recall, a minimum and everything."""

from datetime import date, datetime

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from smoothap.album.filters import cameras_of, day, days_of, folders_of

from smoothap.album import Album, Filter, engines

FOLDERS = ["", "a", "a/b", "ab", "c d", "a%_b"]
CAMERAS = ["", "Canon EOS 5D", "Canon EOS 5D Mark II", "Apple iPhone 15", None]
DATES = [None, "2019-12-31T23:59:59", "2020-01-01T00:00:00", "2020-06-15T12:00:00", "2021-01-01T00:00:00"]


def made(rows=120, seed=0, **options):
    """An album of random vectors and random facts; the facts again, for the oracle."""
    random = np.random.default_rng(seed)
    facts = []
    for row in range(rows):
        folder, camera, taken = (choices[random.integers(len(choices))] for choices in (FOLDERS, CAMERAS, DATES))
        name = f"{row:04d}.jpg"
        facts.append({"path": f"{folder}/{name}" if folder else name, "camera": camera, "taken": taken})
    return Album.from_arrays(random.normal(size=(rows, 8)), facts, **options), facts


def oracle(album, facts, query, passes, k=None, minimum=-2.0):
    """Ids by score, best first, of the facts that pass: one product after the other in float64."""
    vectors = np.asarray(album.vectors, np.float64)
    vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    scores = vectors @ vectors[query]
    rows = [row for row, fact in enumerate(facts) if row != query and passes(fact) and scores[row] >= minimum]
    return sorted(rows, key=lambda row: (-scores[row], row))[:k]


def in_range(fact, since, until):
    if fact["taken"] is None:
        return False
    taken = datetime.fromisoformat(fact["taken"]).date()
    return (since is None or taken >= since) and (until is None or taken <= until)


CASES = {
    "folder": (Filter(folder="a"), lambda fact: fact["path"].startswith("a/")),
    "folder inside": (Filter(folder="./a/b/"), lambda fact: fact["path"].startswith("a/b/")),
    "folder with letters that mean something to SQL": (
        Filter(folder="a%_b"), lambda fact: fact["path"].startswith("a%_b/"),
    ),
    "from": (Filter(since=date(2020, 1, 1)), lambda fact: in_range(fact, date(2020, 1, 1), None)),
    "until": (Filter(until=date(2020, 12, 31)), lambda fact: in_range(fact, None, date(2020, 12, 31))),
    "a day": (Filter(since=date(2020, 6, 15), until=date(2020, 6, 15)), lambda fact: fact["taken"] == DATES[3]),
    "camera": (Filter(camera="canon eos 5d"), lambda fact: fact["camera"] == "Canon EOS 5D"),
    "part of cameras": (Filter(camera="CANON"), lambda fact: (fact["camera"] or "").startswith("Canon")),
    "two": (
        Filter(folder="a", camera="iphone"),
        lambda fact: fact["path"].startswith("a/") and fact["camera"] == "Apple iPhone 15",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_only_what_passes_is_ranked(name):
    album, facts = made()
    where, passes = CASES[name]
    for query in (0, 7, 33):
        for options in ({"k": 5}, {"everything": True}, {"minimum": 0.2}):
            k, minimum = options.get("k"), options.get("minimum", -2.0)
            wanted = oracle(album, facts, query, passes, k, minimum)
            assert [hit.id for hit in album.search(query, where=where, **options)] == wanted
    assert wanted or name == "a day"


def test_recall_is_asked_of_what_passes():
    album, facts = made()
    album.calibrate(album.vectors, np.arange(len(album)) // 4, "itself")
    where, passes = CASES["folder"]
    score = album.calibration.score_for_recall(0.8)
    found = album.search(3, recall=0.8, where=where)
    assert [hit.id for hit in found] == oracle(album, facts, 3, passes, minimum=score)


def test_first_answers_that_are_added_to_the_query_pass_too():
    album, facts = made()
    where, passes = CASES["camera"]
    first = oracle(album, facts, 3, passes, 4)
    scores = {hit.id: hit.score for hit in album.search(3, everything=True)}
    weights = np.array([max(scores[row], 0) ** 3 for row in first])
    moved = album.vectors[3] + (weights[:, None] * album.vectors[first]).sum(0)
    wanted = album.search(moved / np.linalg.norm(moved), everything=True, where=where)
    found = album.search(3, everything=True, expand=4, where=where)
    assert [hit.id for hit in found] == [hit.id for hit in wanted if hit.id != 3]


class Blurred:
    """An engine that names what is near by half of the numbers, and no more than its limit."""

    name = "blurred"

    def __init__(self, vectors, limit):
        self.vectors, self.limit = vectors, limit

    def nearest(self, query, k):
        return np.argsort(-(self.vectors @ query), kind="stable")[:k]


@pytest.mark.parametrize("limit", [0, 3, 20, 60, 120])
@pytest.mark.parametrize("name", CASES)
def test_an_engine_that_names_too_few_is_not_believed(name, limit, monkeypatch):
    album, facts = made(engine="hnsw")
    monkeypatch.setattr(engines, "EXACT_UP_TO", 0)
    album._neighbours.__dict__["engine"] = Blurred(album.vectors, limit)
    where, passes = CASES[name]
    for query in (0, 7, 33):
        found = album.search(query, 5, where=where)
        assert [hit.id for hit in found] == oracle(album, facts, query, passes, 5)
        if limit < 5:
            assert "all of them were compared, exactly, and hnsw was not needed" in found.note
        if limit == 120 and name in ("folder", "until"):
            assert found.note == ""


@pytest.mark.parametrize("rows_at_once", [0, 100_000])
def test_hnsw_gives_what_brute_force_gives(rows_at_once, monkeypatch, tmp_path):
    pytest.importorskip("faiss")
    monkeypatch.setattr(engines, "EXACT_UP_TO", rows_at_once)
    album, facts = made(400, engine="hnsw")
    for where, passes in CASES.values():
        for query in (0, 7):
            found = album.search(query, 5, where=where)
            assert [hit.id for hit in found] == oracle(album, facts, query, passes, 5)
    assert ("exactly" in found.note) or rows_at_once == 0


def test_no_engine_is_asked_where_few_pass():
    album, facts = made(200, engine="hnsw")
    found = album.search(3, 5, where=CASES["folder"][0])
    assert [hit.id for hit in found] == oracle(album, facts, 3, CASES["folder"][1], 5)
    assert "hnsw was not needed" in found.note
    assert "engine" not in vars(album._neighbours)  # nor built


def test_a_collection_and_what_is_in_none(tmp_path):
    album, facts = made(path=tmp_path / "album")
    album.collections.add("dog", [1, 2, 3, 40])
    album.collections.mark("cat", right=[3, 50], wrong=[60])
    ids = [hit.id for hit in album.search(0, everything=True, where=Filter(collection="dog"))]
    assert sorted(ids) == [1, 2, 3, 40]
    assert ids == [row for row in oracle(album, facts, 0, lambda _: True) if row in {1, 2, 3, 40}]
    rest = {hit.id for hit in album.search(0, everything=True, where=Filter(in_no_collection=True))}
    assert rest == set(range(1, 120)) - {1, 2, 3, 40, 50}
    with pytest.raises(ValueError, match="no collection 'bird'"):
        album.search(0, where=Filter(collection="bird"))
    with pytest.raises(ValueError, match="give one of the two"):
        Filter(collection="dog", in_no_collection=True)


def test_what_no_photo_has_is_said_with_what_there_is():
    album, _ = made()
    with pytest.raises(ValueError, match="'b': it has 'a', 'a%_b', 'a/b', 'ab', 'c d'"):
        album.search(0, where=Filter(folder="b"))
    with pytest.raises(ValueError, match="'Nikon': it has Apple iPhone 15, Canon EOS 5D, Canon EOS 5D Mark II"):
        album.search(0, where=Filter(camera="Nikon"))
    with pytest.raises(ValueError, match="relative to the photo folder"):
        album.search(0, where=Filter(folder="../a"))
    with pytest.raises(ValueError, match="the earlier one first"):
        Filter(since=date(2021, 1, 1), until=date(2020, 1, 1))
    assert album.search(0, where=Filter(since=date(2050, 1, 1))) == []
    assert not Filter()


def test_what_there_is_to_choose_from():
    album, facts = made()
    assert folders_of(album.photos) == ["a", "a%_b", "a/b", "ab", "c d"]
    named = [fact["camera"] for fact in facts if fact["camera"]]
    assert cameras_of(album.photos) == {camera: named.count(camera) for camera in sorted(set(named))}
    assert days_of(album.photos) == (date(2019, 12, 31), date(2021, 1, 1))
    assert days_of(Album.from_arrays(np.eye(2)).photos) is None


@given(st.dates(date(1900, 1, 1), date(2200, 12, 31)))
@settings(max_examples=50)
def test_a_day_a_month_and_a_year_in_words(one):
    assert day(one.isoformat()) == day(one.isoformat(), last=True) == one
    month = f"{one.year:04d}-{one.month:02d}"
    assert day(month) <= one <= day(month, last=True)
    assert day(str(one.year)) == date(one.year, 1, 1)
    assert day(str(one.year), last=True) == date(one.year, 12, 31)


@pytest.mark.parametrize("text", ["", "yesterday", "2020-13", "2020-02-30", "20", "2020-1-1-1", "0000"])
def test_what_is_no_day_is_refused(text):
    with pytest.raises(ValueError, match="A day is 2024-06-01"):
        day(text)
