"""What the page asks to look at photos: filters, stacks, facts, folders; each against brute force."""

import io
import re
import time
from datetime import date, datetime

import httpx2
import numpy as np
import pytest
from page_server import served
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from smoothap.album import Album
from smoothap.album.copies import copies_in
from smoothap.album.variants import Variant
from smoothap.server import app
from smoothap.server.routes import photos as photo_routes
from smoothap.server.served_album import is_plain_jpeg


def known(row):
    """A photo in one of three folders, by one of two cameras, every fifth without a date; every tenth has a copy."""
    content = row - 1 if row % 10 == 1 else row
    return {
        "path": f"{'abc'[row % 3]}/{row:03d}.jpg",
        "taken": None if row % 5 == 0 else datetime(2020, 1 + row % 12, 1 + row % 28, 12).isoformat(),
        "camera": ["Canon EOS R6", "Apple iPhone 15"][row % 2], "sha256": f"{content:064x}",
        "bytes": 1000 + row, "width": 40, "height": 30,
    }  # fmt: skip


PHOTOS = 80


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    random = np.random.default_rng(0)
    vectors = random.normal(size=(PHOTOS, 16))
    vectors[1::10] = vectors[0::10]
    root = tmp_path / "photos"
    for row in range(PHOTOS):
        file = root / known(row)["path"]
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(random.integers(0, 256, (30, 40, 3), dtype=np.uint8)).save(file)
    Album.from_arrays(vectors, [known(row) for row in range(PHOTOS)], tmp_path / "album", root=root)
    return tmp_path / "album"


@pytest.fixture
def api(folder):
    with (
        served({"photos": Album.open(folder)}, local=True) as port,
        httpx2.Client(base_url=f"http://127.0.0.1:{port}/api/v1/albums/photos", timeout=30) as client,
    ):
        yield client


def listed(api, **question):
    return api.get("/photos", params=question)


def ids(answer):
    assert answer.status_code == 200, answer.text
    return [photo["id"] for photo in answer.json().get("hits", answer.json().get("photos"))]


FILTERS = {
    "folder": ({"folder": "b"}, lambda photo: photo["path"].startswith("b/")),
    "camera": ({"camera": "Apple iPhone 15"}, lambda photo: "Apple" in photo["camera"]),
    "words": ({"text": "B 1"}, lambda photo: photo["path"].startswith("b/") and "1" in photo["path"]),
    "dates": (
        {"since": "2020-03-01", "until": "2020-05-31"},
        lambda photo: photo["taken"] is not None and "2020-03" <= photo["taken"][:7] <= "2020-05",
    ),
    "all": (
        {"folder": "a", "camera": "canon", "since": "2020-01-01"},
        lambda photo: photo["path"][0] == "a" and "Canon" in photo["camera"] and photo["taken"] is not None,
    ),
}


@pytest.mark.parametrize("name", FILTERS)
def test_lists_and_searches_hold_what_passes_and_nothing_else(api, folder, name):
    where, passes = FILTERS[name]
    right = [row for row in range(PHOTOS) if passes(known(row))]
    assert ids(listed(api, **where, limit=200)) == right
    album = Album.open(folder)
    scores = {hit.id: hit.score for hit in album.search(7, everything=True, rerank=False)}
    expected = sorted((row for row in right if row != 7), key=lambda row: (-scores[row], row))
    answer = api.post("/search", json={"id": 7, **where, "limit": 200, "statistics": True, "rerank": False})
    assert ids(answer) == expected
    assert (answer.json()["total"], answer.json()["ranked"]) == (len(expected), len(expected))
    middle = scores[expected[len(expected) // 2]]
    above = api.post("/search", json={"id": 7, **where, "limit": 200, "min_score": middle, "rerank": False})
    assert ids(above) == [row for row in expected if scores[row] >= middle]


def test_a_collection_and_what_is_in_none(api, folder):
    album = Album.open(folder)
    key = album.collections.add("dog", [3, 5, 8]).key
    assert ids(listed(api, collection=key)) == [3, 5, 8]
    assert set(ids(api.post("/search", json={"id": 0, "collection": key}))) == {3, 5, 8}
    rest = listed(api, in_no_collection=True, limit=200)
    assert set(ids(rest)) == set(range(PHOTOS)) - {3, 5, 8}
    album.collections.add("dog", [9])  # a search that was kept must not be believed
    assert set(ids(api.post("/search", json={"id": 0, "collection": key}))) == {3, 5, 8, 9}


@pytest.mark.parametrize(
    ("where", "sentence"),
    [
        ({"folder": "none"}, "it has 'a', 'b', 'c'"), ({"folder": "../x"}, "relative to the photo folder"),
        ({"camera": "Leica"}, "it has Apple iPhone 15, Canon EOS R6"),
        ({"since": "2021-01-01", "until": "2020-01-01"}, "the earlier one first"), ({"since": "May"}, "a day such as"),
        ({"since": "0"}, "a day such as 2024-06-01"), ({"until": "1577836800"}, "a day such as 2024-06-01"),
        ({"collection": 99}, "no collection"), ({"place": "Berlin"}, "place"),
    ],
)  # fmt: skip
def test_what_cannot_be_filtered_by_is_said(api, where, sentence):
    for answer in (listed(api, **where), api.post("/search", json={"id": 0, **where})):
        assert answer.status_code in (404, 422)
        assert sentence in answer.json()["detail"]


def test_what_there_is_to_choose_from(api):
    choices = api.get("/choices").json()
    dated = [known(row)["taken"][:10] for row in range(PHOTOS) if known(row)["taken"]]
    assert choices == {
        "folders": ["a", "b", "c"],
        "cameras": {"Apple iPhone 15": 40, "Canon EOS R6": 40},
        "first": min(dated), "last": max(dated), "undated": 16,
    }  # fmt: skip
    assert date.fromisoformat(choices["first"]) < date.fromisoformat(choices["last"])


def test_an_order_is_one_list_with_its_sections(api):
    for order in ("newest", "oldest", "name", "folder"):
        for where in ({}, {"camera": "Canon"}, {"stacked": True}):
            whole = listed(api, order=order, limit=200, **where).json()
            pages = [ids(listed(api, order=order, limit=30, offset=offset, **where)) for offset in (0, 30, 60)]
            assert [row for page in pages for row in page] == [photo["id"] for photo in whole["photos"]]
            sections = api.get("/photos/sections", params={"order": order, **where}).json()
            assert sections["version"] == whole["version"]
            assert sum(section["photos"] for section in sections["sections"]) == whole["total"]
            if "stacked" in where:  # a stack is where the first of it is
                continue
            for section in sections["sections"]:
                for photo in whole["photos"][section["start"] : section["start"] + section["photos"]]:
                    assert section["title"] == title_of(photo, order)
    newest = [photo["day"] for photo in listed(api, order="newest", limit=200).json()["photos"]]
    assert newest == sorted(filter(None, newest), reverse=True) + 16 * [None]
    assert listed(api, order="best").status_code == 422


def title_of(photo, order):
    if order in ("newest", "oldest"):
        return f"{date.fromisoformat(photo['day']):%B %Y}" if photo["day"] else "Without a date"
    return photo["path"][0] if order == "folder" else photo["path"].partition("/")[2][0]


def test_a_photo_says_its_day_and_what_says_so(api):
    first, second = listed(api, limit=2).json()["photos"]
    assert (first["day"], first["dated_by"]) == (None, None)
    assert (second["day"], second["dated_by"]) == ("2020-02-02", "camera")


def test_copies_stand_where_the_first_of_them_stands(api):
    answer = listed(api, stacked=True, limit=200)
    assert ids(answer) == [row for row in range(PHOTOS) if row % 10 != 0]  # of two copies the larger file
    assert (answer.json()["total"], answer.json()["folded"]) == (72, 8)
    assert [photo["copies"] for photo in answer.json()["photos"]][:10] == [[0], *8 * [[]], [10]]
    whole = ids(api.post("/search", json={"id": 7, "limit": 200}))
    shown, ranks, seen = [], [], set()
    for rank, row in enumerate(whole, start=1):
        content = known(row)["sha256"]
        if content not in seen:  # the better copy, where the first of them is
            shown.append(row + 1 if row % 10 == 0 else row)
            ranks.append(rank)
        seen.add(content)
    pages = [
        api.post("/search", json={"id": 7, "stacked": True, "limit": 30, "offset": offset}) for offset in (0, 30, 60)
    ]
    assert [row for page in pages for row in ids(page)] == shown
    assert [hit["rank"] for page in pages for hit in page.json()["hits"]] == ranks
    filtered = listed(api, stacked=True, camera="Canon", limit=200)
    assert [photo["copies"] for photo in filtered.json()["photos"]] == 40 * [[]]  # the copy is by another camera


def test_stacks_are_listed_with_their_kind_and_stay_while_a_new_version_is_looked_through(api, folder, monkeypatch):
    monkeypatch.setattr("smoothap.album.stacks._MUCH_LATER", 1.0)
    pairs = [Variant(2, 3, "crop"), Variant(12, 13, "black and white"), Variant(20, 22, "crop")]
    monkeypatch.setattr("smoothap.album.stacks.variants_in", lambda *_: pairs)
    before = api.get("/copies").json()
    end = time.monotonic() + 20
    while (answer := api.get("/copies").json())["total"] == 8 and time.monotonic() < end:
        time.sleep(0.05)
    assert answer["version"] != before["version"]
    assert [stack["kind"] for stack in answer["stacks"]].count("same file") == 7
    known = {frozenset(photo["id"] for photo in stack["photos"]): stack for stack in answer["stacks"]}
    assert known[frozenset((2, 3))]["kind"] == "crop"
    assert known[frozenset((12, 13))]["kind"] == "black and white"
    assert [photo["id"] for photo in answer["stacks"][0]["photos"]] == [22, 21, 20]  # the most first, the best first
    assert answer["stacks"][0]["best"] == 22
    assert api.get("/copies?offset=1&limit=2").json()["stacks"] == answer["stacks"][1:3]
    monkeypatch.setattr("smoothap.album.stacks.Stacks._find", lambda _: None)  # the next version is not looked through
    Album.open(folder).remove([3])
    while (after := api.get("/copies").json())["total"] == 10 and time.monotonic() < end:
        time.sleep(0.05)
    assert after["total"] == 9


def test_what_is_missing_is_told_with_copies_as_one_and_without_copies_of_what_is_marked(api, folder):
    album = Album.open(folder)
    key = album.collections.mark("dog", right=[10, 22, 33], wrong=[51, 64, 65]).key
    hits = api.post(f"/collections/{key}/next", json={"limit": 200}).json()["hits"]
    offered = {hit["id"] for hit in hits} | {one for hit in hits for one in hit["copies"]}
    assert offered == set(range(PHOTOS)) - {10, 11, 22, 33, 50, 51, 64, 65}
    assert [hit["copies"] for hit in hits if hit["id"] == 1] == [[0]]
    assert [hit["rank"] for hit in hits] == list(range(1, len(hits) + 1))
    assert 0 not in {hit["id"] for hit in hits}


def test_what_is_no_copy_is_remembered_and_changes_the_version(api, folder):
    before = listed(api, stacked=True).json()
    facts = api.get("/photos/0").json()
    assert [(photo["id"], photo["bytes"]) for photo in facts["stack"]] == [(1, 1001), (0, 1000)]  # the best first
    assert api.post("/photos/1/not-a-copy").status_code == 204
    after = listed(api, stacked=True).json()
    assert (after["total"], before["total"]) == (73, 72)
    assert after["version"] != before["version"]
    assert [photo["id"] for photo in api.get("/photos/0").json()["stack"]] == [0]
    assert len(copies_in(Album.open(folder))) == 7


def test_facts_of_a_photo(api):
    facts = api.get("/photos/7").json()
    assert [photo["id"] for photo in facts.pop("stack")] == [7]
    assert facts | {"picture": ""} == {
        "id": 7, "picture": "", "path": "b/007.jpg", "label": None, "columns": {}, "copies": [], "twins": [7],
        "day": "2020-08-08", "dated_by": "camera", "taken": "2020-08-08 12:00:00", "camera": "Apple iPhone 15",
        "width": 40, "height": 30, "bytes": 1007,
    }  # fmt: skip
    assert api.get("/photos/99999").status_code == 404


def test_a_photo_is_looked_at_from_near_with_more_pixels_and_nothing_else(api, folder):
    exif = Image.Exif()
    exif.get_ifd(0x8825).update({1: "N", 2: (51.0, 30.0, 12.0)})
    large = Image.fromarray(np.random.default_rng(0).integers(0, 256, (80, 60, 3), dtype=np.uint8)).resize((3375, 4500))
    large.save(folder.parent / "photos" / known(5)["path"], exif=exif, quality=50)
    for kind, size in (("image", (768, 1024)), ("detail", (3072, 4096))):
        answer = api.get(f"/photos/5/{kind}")
        with Image.open(io.BytesIO(answer.content)) as picture:
            assert picture.size == size
            assert not picture.getexif()
            assert set(picture.info) <= {"jfif", "jfif_version", "jfif_unit", "jfif_density"}
        assert answer.headers["cache-control"] == "no-store"
        key = api.get("/photos/5").json()["picture"]
        assert "immutable" in api.get(f"/photos/5/{kind}?picture={key}").headers["cache-control"]


def test_a_photo_is_shown_in_its_folder_by_this_computer(api, folder, monkeypatch):
    started = []
    monkeypatch.setattr(photo_routes.subprocess, "Popen", lambda command, **_: started.append(command))
    monkeypatch.setattr(photo_routes.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(photo_routes.sys, "platform", "linux")
    assert api.post("/photos/7/reveal").status_code == 204
    assert started == [["xdg-open", str(folder.parent / "photos" / "b")]]
    monkeypatch.setattr(photo_routes.shutil, "which", lambda name: None)
    answer = api.post("/photos/7/reveal")
    assert answer.status_code == 422
    assert "look in" in answer.json()["detail"]
    assert api.post("/photos/7/reveal", headers={"origin": "http://evil.example"}).status_code == 403
    (folder.parent / "photos" / "b" / "007.jpg").unlink()
    assert "not in its folder" in api.post("/photos/7/reveal").json()["detail"]


def test_no_folder_is_opened_for_others(folder, monkeypatch):
    monkeypatch.setattr(photo_routes.subprocess, "Popen", lambda *_, **__: pytest.fail("opened"))
    with served({"photos": Album.open(folder)}) as port:
        answer = httpx2.post(f"http://127.0.0.1:{port}/api/v1/albums/photos/photos/7/reveal")
        assert answer.status_code == 403
        assert httpx2.get(f"http://127.0.0.1:{port}/api/v1/albums").json()["local"] is False


def jpeg(**options):
    stream = io.BytesIO()
    Image.effect_noise((64, 48), 50).convert("RGB").save(stream, "JPEG", **options)
    return stream.getvalue()


def test_a_thumbnail_is_served_as_it_is_only_if_it_is_pixels_and_nothing_else():
    exif = Image.Exif()
    exif[0x010E] = "secret"
    assert is_plain_jpeg(jpeg())
    assert is_plain_jpeg(jpeg(progressive=True))
    assert is_plain_jpeg(jpeg(restart_marker_blocks=2))
    png = io.BytesIO()
    Image.new("RGB", (9, 9)).save(png, "PNG", pnginfo=PngInfo())
    for other in (
        jpeg(exif=exif), jpeg(comment=b"secret"), jpeg(icc_profile=b"x" * 200), jpeg() + b"secret", b"x" + jpeg(),
        jpeg()[:-2], jpeg()[:100], b"", png.getvalue(), jpeg().replace(b"\xff\xd9", b"") + jpeg(exif=exif)[2:],
    ):  # fmt: skip
        assert not is_plain_jpeg(other)


def test_the_page_asks_for_all_its_scripts_at_once():
    page = (app._STATIC / "index.html").read_text()
    asked = set(re.findall(r'<(?:link rel="modulepreload" href|script src)="static/(\w+)\.js"', page))
    assert asked == {file.stem for file in app._STATIC.glob("*.js")}
