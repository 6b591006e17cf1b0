"""Filter first, then rank: against brute force, by every engine, with recall, a minimum and everything."""

import re
from datetime import date, datetime

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smoothap.album import Album, Filter, postings
from smoothap.album.filters import cameras_of, day, days_of, folders_of

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
    "words of the path": (Filter(text="A/B 00"), lambda fact: "a/b" in fact["path"] and "00" in fact["path"]),
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
        for options in ({"k": 5}, {"everything": True}, {"min_score": 0.2}):
            k, minimum = options.get("k"), options.get("min_score", -2.0)
            wanted = oracle(album, facts, query, passes, k, minimum)
            assert [hit.id for hit in album.search(query, where=where, **options, rerank=False)] == wanted
    assert wanted or name == "a day"


def test_recall_is_asked_of_what_passes():
    album, facts = made()
    album.calibrate(album.vectors, np.arange(len(album)) // 4, "itself")
    where, passes = CASES["folder"]
    score = album.calibration.score_for_recall(0.8)
    found = album.search(3, recall=0.8, where=where, rerank=False)
    assert [hit.id for hit in found] == oracle(album, facts, 3, passes, minimum=score)


def test_first_answers_that_are_added_to_the_query_pass_too():
    album, facts = made()
    where, passes = CASES["camera"]
    first = oracle(album, facts, 3, passes, 4)
    scores = {hit.id: hit.score for hit in album.search(3, everything=True, rerank=False)}
    weights = np.array([max(scores[row], 0) ** 3 for row in first])
    moved = album.vectors[3] + (weights[:, None] * album.vectors[first]).sum(0)
    wanted = album.search(moved / np.linalg.norm(moved), everything=True, where=where, rerank=False)
    found = album.search(3, everything=True, expand=4, where=where, rerank=False)
    assert [hit.id for hit in found] == [hit.id for hit in wanted if hit.id != 3]


TEXTS = st.sampled_from([None, "", "x", "xy", "é", "0", "\U0001f600"])
FACTS = st.fixed_dictionaries(
    {
        "folder": st.sampled_from([*FOLDERS, "a0", "a/b/c", "é"]), "camera": st.sampled_from(CAMERAS),
        "taken": st.sampled_from([*DATES, "1969-07-20T20:17:40", "0999-01-01T00:00:00"]),
        "brand": TEXTS, "label": TEXTS,
    }
)  # fmt: skip
ASKED = st.fixed_dictionaries(
    {},
    optional={
        "folder": st.sampled_from(["a", "a/b", "ab", "é", "none"]),
        "camera": st.sampled_from(["canon", "5D", "iphone"]),
        "since": st.dates(date(1960, 1, 1), date(2022, 1, 1)), "until": st.dates(date(1960, 1, 1), date(2022, 1, 1)),
        "brand": TEXTS.filter(lambda text: text is not None), "label": TEXTS.filter(lambda text: text is not None),
    },
)  # fmt: skip


def passes(fact, asked):
    """Whether a photo passes, by looking at it."""
    cameras = {name for name in CAMERAS if name}
    word = asked.get("camera", "").lower()
    chosen = {name for name in cameras if name.lower() == word} or {name for name in cameras if word in name.lower()}
    return (
        ("folder" not in asked or f"{fact['folder']}/".startswith(f"{asked['folder']}/"))
        and ("camera" not in asked or fact["camera"] in chosen)
        and (not {"since", "until"} & set(asked) or in_range(fact, asked.get("since"), asked.get("until")))
        and all((fact[name] or "") == asked[name] for name in ("brand", "label") if name in asked)
    )


@settings(deadline=None, max_examples=80)
@given(st.lists(FACTS, min_size=1, max_size=40), st.lists(ASKED, min_size=1, max_size=5), st.integers(1, 40), st.data())
def test_what_passes_is_what_passes_by_looking_at_each_photo(facts, questions, block, data):
    """After photos came and went, with ids in blocks of any size."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(postings, "BLOCK", 8 * block)
        patched.setattr(postings, "_BITMAP", block)
        metadata = [
            {
                **fact, "path": f"{fact['folder']}/{row}.jpg".lstrip("/"),
                "columns": {"other": "z"} | ({} if fact["brand"] is None else {"brand": fact["brand"]}),
            }
            for row, fact in enumerate(facts)
        ]  # fmt: skip
        album = Album.from_arrays(np.ones((len(facts), 2)), metadata)
        album.remove(data.draw(st.sets(st.integers(0, len(facts) - 1), max_size=len(facts) // 2)))
        here = {photo.id: facts[photo.id] for photo in album.photos}
        for asked in questions:
            columns = tuple((name, asked[name]) for name in ("brand", "label") if name in asked)
            plain = {name: value for name, value in asked.items() if name not in ("brand", "label")}
            wanted = [identity for identity, fact in here.items() if passes(fact, asked)]
            said = ""
            try:
                found = album.passing(Filter(**plain, columns=columns))
            except ValueError as error:  # what no photo has
                said = str(error)
            if said:
                assert re.search("No day is|No photo of the album is|has no column 'brand'", said), said
                assert not wanted or "no column" in said
                continue
            assert (found is None and len(wanted) == len(here)) or album.photos.ids[found].tolist() == wanted


def test_a_collection_and_what_is_in_none(tmp_path):
    album, facts = made(path=tmp_path / "album")
    album.collections.add("dog", [1, 2, 3, 40])
    album.collections.mark("cat", right=[3, 50], wrong=[60])
    ids = [hit.id for hit in album.search(0, everything=True, where=Filter(collection="dog"), rerank=False)]
    assert sorted(ids) == [1, 2, 3, 40]
    assert ids == [row for row in oracle(album, facts, 0, lambda _: True) if row in {1, 2, 3, 40}]
    rest = {hit.id for hit in album.search(0, everything=True, where=Filter(in_no_collection=True), rerank=False)}
    assert rest == set(range(1, 120)) - {1, 2, 3, 40, 50}
    with pytest.raises(ValueError, match="no collection 'bird'"):
        album.search(0, where=Filter(collection="bird"), rerank=False)
    with pytest.raises(ValueError, match="give one of the two"):
        Filter(collection="dog", in_no_collection=True)


def test_what_no_photo_has_is_said_with_what_there_is():
    album, _ = made()
    with pytest.raises(ValueError, match="'b': it has 'a', 'a%_b', 'a/b', 'ab', 'c d'"):
        album.search(0, where=Filter(folder="b"), rerank=False)
    with pytest.raises(ValueError, match="'Nikon': it has Apple iPhone 15, Canon EOS 5D, Canon EOS 5D Mark II"):
        album.search(0, where=Filter(camera="Nikon"), rerank=False)
    with pytest.raises(ValueError, match="relative to the photo folder"):
        album.search(0, where=Filter(folder="../a"), rerank=False)
    with pytest.raises(ValueError, match="the earlier one first"):
        Filter(since=date(2021, 1, 1), until=date(2020, 1, 1))
    assert album.search(0, where=Filter(since=date(2050, 1, 1)), rerank=False) == []
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
