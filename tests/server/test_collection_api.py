"""Collections over the API: nothing is lost between browsers, nothing is changed from elsewhere, originals stream."""

import io
import json
import threading
import zipfile

import httpx2
import pytest
from page_albums import pixel_album
from page_server import served
from PIL import Image

from smoothap.album import Album

BASE = "/api/v1/albums/letters/collections"


@pytest.fixture
def kept(tmp_path):
    return pixel_album(tmp_path / "letters", path=tmp_path / "album")


@pytest.fixture
def api(connect, kept):
    return connect({"letters": kept})


def ok(answer):
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_collection_is_made_marked_renamed_deleted_and_undone(api, kept):
    made = ok(api.post(BASE, json={"name": "my dog"}))
    key = made["chosen"]
    assert made["collections"] == [{"key": key, "name": "my dog", "right": 0, "wrong": 0, "away": 0}]
    marked = ok(api.post(f"{BASE}/{key}/marks", json={"right": [1, 2, 3], "wrong": [9]}))
    assert (marked["collections"][0]["right"], marked["collections"][0]["wrong"]) == (3, 1)
    assert marked["undo"]["what"] == "kept 3 photos in my dog, marked 1 photo as not in my dog"
    assert ok(api.get(f"{BASE}/{key}"))["right"] == [1, 2, 3]
    assert ok(api.patch(f"{BASE}/{key}", json={"name": "Rex"}))["collections"][0]["name"] == "Rex"
    page = ok(api.get(f"{BASE}/{key}/photos?offset=1&limit=1"))
    assert (page["total"], [photo["id"] for photo in page["photos"]]) == (3, [2])
    assert ok(api.delete(f"{BASE}/{key}"))["collections"] == []
    back = ok(api.post(f"{BASE}/undo", json={}))
    assert back["collections"] == [{"key": key, "name": "Rex", "right": 3, "wrong": 1, "away": 0}]
    on_disk = Album.open(kept.collections.folder.parent).collections["Rex"]  # what another process sees
    assert (on_disk.right, on_disk.wrong) == ((1, 2, 3), (9,))


def test_many_marks_are_one_step_and_both_sides_are_listed(api, kept):
    key = ok(api.post(BASE, json={"name": "my dog", "right": [0]}))["chosen"]
    ids = kept.photos.ids.tolist()
    marks = {"right": ids[1:8], "wrong": ids[:0:-1][:9]}
    assert len({*marks["right"], *marks["wrong"]}) == 16
    step = ok(api.post(f"{BASE}/{key}/marks", json=marks))["undo"]
    for side, wanted in (("right", [0, *marks["right"]]), ("wrong", marks["wrong"])):
        page = ok(api.get(f"{BASE}/{key}/photos", params={"side": side, "offset": 2, "limit": 3}))
        assert (page["total"], [photo["id"] for photo in page["photos"]]) == (len(wanted), wanted[2:5])
    assert ok(api.get(f"{BASE}/{key}/photos"))["total"] == 8
    back = ok(api.post(f"{BASE}/undo", json={"step": step["number"]}))
    assert [(one["right"], one["wrong"]) for one in back["collections"]] == [(1, 0)]


def test_what_another_process_writes_is_seen(api, kept):
    first = ok(api.get(BASE))
    kept.collections.add("from elsewhere", [5])
    second = ok(api.get(BASE))
    assert second["version"] != first["version"]
    assert second["collections"][0]["name"] == "from elsewhere"


def test_all_that_a_search_finds_is_kept_but_for_what_is_marked_wrong(api):
    key = ok(api.post(BASE, json={"name": "A"}))["chosen"]
    hits = ok(api.post("/api/v1/albums/letters/search", json={"id": 0, "limit": 200}))["hits"]
    least = (hits[19]["score"] + hits[20]["score"]) / 2
    ok(api.post(f"{BASE}/{key}/marks", json={"wrong": [hits[4]["id"]]}))
    ok(api.post(f"{BASE}/{key}/keep", json={"id": 0, "min_score": least}))
    kept = ok(api.get(f"{BASE}/{key}"))
    assert kept["right"] == [0, *(hit["id"] for hit in hits[:20] if hit["id"] != hits[4]["id"])]
    assert kept["wrong"] == [hits[4]["id"]]
    assert ok(api.post(f"{BASE}/undo", json={}))["collections"][0]["right"] == 0  # one step


def test_a_search_with_a_collection_is_the_search_with_its_marks(api):
    key = ok(api.post(BASE, json={"name": "A"}))["chosen"]
    marks = {"right": [2, 5], "wrong": [30]}
    ok(api.post(f"{BASE}/{key}/marks", json=marks))
    with_marks = ok(api.post("/api/v1/albums/letters/search", json={"id": 0, **marks}))["hits"]
    assert ok(api.post("/api/v1/albums/letters/search", json={"id": 0, "marks": key}))["hits"] == with_marks
    assert ok(api.post("/api/v1/albums/letters/search", json={"id": 0}))["hits"] != with_marks


def test_two_browsers_that_write_at_once_lose_nothing(kept):
    import httpx2

    with served({"letters": kept}) as port, httpx2.Client(base_url=f"http://127.0.0.1:{port}") as client:
        key = ok(client.post(BASE, json={"name": "shared"}))["chosen"]
        answers = []

        def browser(ids):
            with httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as own:
                answers.extend(own.post(f"{BASE}/{key}/marks", json={"right": [one]}).status_code for one in ids)

        threads = [threading.Thread(target=browser, args=(range(first, 48, 4),)) for first in range(4)]
        for thread in threads:
            thread.start()
        for one in range(48, 60):  # and a process that is no browser
            kept.collections.add("shared", [one])
        for thread in threads:
            thread.join()
        assert answers == [200] * 48
        assert set(ok(client.get(f"{BASE}/{key}"))["right"]) == set(range(60))


@pytest.mark.parametrize("local", [True, False])
def test_a_zip_says_where_photos_were_taken_only_on_this_computer(kept, local):
    """The owner gets the originals, or asks for them without places; a visitor gets all but the place."""
    exif = Image.Exif()
    exif[0x010F] = "Canon"
    exif.get_ifd(0x8825).update({1: "N", 2: (51.0, 30.0, 12.48)})
    file = kept.photo_path(1)
    Image.new("RGB", (40, 30), "teal").save(file, "JPEG", exif=exif)
    key = kept.collections.add("trip", [1]).key
    with served({"letters": kept}, local=local) as port, httpx2.Client(base_url=f"http://127.0.0.1:{port}") as client:
        for asked, told in (("", local), ("?places=true", True), ("?places=false", False)):
            answer = client.get(f"{BASE}/{key}/originals.zip{asked}")
            if asked == "?places=true" and not local:
                assert answer.status_code == 403
                assert "this computer alone" in answer.json()["detail"]
                continue
            with zipfile.ZipFile(io.BytesIO(answer.content)) as packed:
                assert packed.testzip() is None
                content = packed.read(packed.namelist()[0])
            with Image.open(io.BytesIO(content)) as photo:
                assert photo.getexif()[0x010F] == "Canon"
                assert bool(photo.getexif().get_ifd(0x8825)) is told
            assert (content == file.read_bytes()) is told


def test_the_zip_of_the_originals_is_what_was_announced(api, kept):
    kept.collections.add("d\u00f6g \u4e2d", [0, 3, 8])
    key = kept.collections["d\u00f6g \u4e2d"].key
    announced = ok(api.get(f"{BASE}/{key}/originals"))
    answer = api.get(f"{BASE}/{key}/originals.zip")
    assert int(answer.headers["content-length"]) == announced["bytes"] == len(answer.content)
    assert "filename*=UTF-8''d%C3%B6g%20%E4%B8%AD.zip" in answer.headers["content-disposition"]
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        assert archive.testzip() is None
        contents = [archive.read(name) for name in archive.namelist()]
    assert contents == [kept.photo_path(identity).read_bytes() for identity in (0, 3, 8)]
    kept.photo_path(3).unlink()
    assert list(ok(api.get(f"{BASE}/{key}/originals"))["missing"]) == [kept.photo(3).path]


def test_a_collection_is_made_with_its_first_photos_in_one_step(api):
    made = ok(api.post(BASE, json={"name": "Luna", "right": [4, 7], "wrong": [9]}))
    assert [(each["right"], each["wrong"]) for each in made["collections"]] == [(2, 1)]
    assert ok(api.post(f"{BASE}/undo", json={}))["collections"] == []
    ok(api.post(BASE, json={"name": "Luna"}))
    again = api.post(BASE, json={"name": "Luna", "right": [4]})
    assert (again.status_code, "already" in again.json()["detail"]) == (422, True)


def test_a_photo_that_changes_while_it_is_sent_breaks_the_answer_off(kept):
    import httpx2

    kept.collections.add("all", range(4))
    key = kept.collections["all"].key
    large = kept.root / kept.photo(2).path
    large.write_bytes(b"x" * 20_000_000)
    with served({"letters": kept}, local=True) as port, httpx2.Client(base_url=f"http://127.0.0.1:{port}") as client:

        def take():
            with client.stream("GET", f"{BASE}/{key}/originals.zip?places=true") as zipped:
                pieces = zipped.iter_bytes()
                next(pieces)
                with large.open("r+b") as file:
                    file.truncate(10_000_000)
                for _ in pieces:
                    pass

        with pytest.raises(httpx2.RemoteProtocolError):
            take()


@pytest.mark.parametrize("form", ["csv", "json"])
def test_a_list_is_exported_and_taken_in_again(api, kept, form):
    kept.collections.mark("dog", right=[4, 2], wrong=[6])
    answer = api.get(f"{BASE}/{kept.collections['dog'].key}/export.{form}")
    assert answer.headers["content-disposition"].startswith(f'attachment; filename="dog.{form}"')
    kept.collections.delete("dog")
    taken = ok(api.post(f"{BASE}/import", content=answer.content))
    assert taken["photos"] == {"dog": 3}
    assert taken["collections"]["collections"][0]["right"] == 2
    assert kept.collections["dog"].wrong == (6,)


def test_a_list_of_many_photos_is_taken_in(api, kept):
    lines = "".join(f"dog,{kept.photo(row % 96).path}\r\n" for row in range(20_000))
    assert len(lines) > 256_000  # more than any other request may have
    assert ok(api.post(f"{BASE}/import", content=f"collection,path\r\n{lines}".encode()))["photos"]["dog"] == 20_000
    assert len(kept.collections["dog"].right) == 96


@pytest.mark.parametrize(
    ("method", "address", "content", "status", "sentence"),
    [
        ("POST", BASE, {"name": "dog"}, 422, "There is a collection 'dog' already"),
        ("POST", BASE, {"name": " "}, 422, "1 to 200 characters"),
        ("GET", f"{BASE}/99", None, 404, "no collection 99: there is 'dog'"),
        ("POST", f"{BASE}/99/marks", {"right": [1]}, 404, "no collection 99 any more"),
        ("POST", f"{BASE}/1/marks", {"right": [4711]}, 404, "no photo 4711"),
        ("POST", f"{BASE}/undo", {"step": 99}, 422, "Step 99 cannot be undone any more"),
        ("POST", f"{BASE}/1/keep", {}, 422, "A search needs a query"),
        ("POST", f"{BASE}/import", {"x": 1}, 422, "no JSON that smoothap album collections exported"),
        ("POST", "/api/v1/albums/letters/search", {"id": 0, "marks": 99}, 404, "no collection 99"),
    ],
)
def test_mistakes_are_answered_in_a_sentence(api, kept, method, address, content, status, sentence):
    kept.collections.add("dog", [1])
    answer = api.request(method, address, json=content)
    assert answer.status_code == status
    assert sentence in answer.json()["detail"]


def test_on_a_full_disk_a_mark_is_refused_in_a_sentence(api, kept):
    (made,) = ok(api.post(BASE, json={"name": "Rs", "right": [0]}))["collections"]
    connection = api.app.state.parts.albums._albums[0].album.collections._kept.database()._connection
    connection.execute("PRAGMA max_page_count=1")
    answer = api.post(f"{BASE}/{made['key']}/marks", json={"right": list(range(1, 96))})
    assert (answer.status_code, answer.headers["content-type"]) == (507, "application/problem+json")
    assert "is full, and nothing changed: make room" in answer.json()["detail"]
    connection.execute("PRAGMA max_page_count=1000000")
    assert ok(api.get(f"{BASE}/{made['key']}"))["right"] == [0]


def test_a_mark_makes_no_new_folder_where_the_albums_was_moved_away(api, kept):
    (made,) = ok(api.post(BASE, json={"name": "Rs", "right": [0]}))["collections"]
    folder = kept.collections.folder.parent
    folder.rename(folder.with_name("away"))
    answer = api.post(f"{BASE}/{made['key']}/marks", json={"right": [1]})
    assert (answer.status_code, "nothing changed" in answer.json()["detail"]) == (422, True)
    assert not folder.exists()
    folder.with_name("away").rename(folder)
    assert ok(api.get(f"{BASE}/{made['key']}"))["right"] == [0]


def test_an_album_in_memory_says_that_it_keeps_nothing(connect, album):
    client = connect({"letters": album})
    answer = client.post(BASE, json={"name": "dog"})
    assert answer.status_code == 409
    assert "temporary" in answer.json()["detail"]
    assert json.loads(client.get("/api/v1/albums").text)["albums"][0]["keeps"] is False


PLACED = Image.Exif()
PLACED[0x010F] = "Canon"
PLACED.get_ifd(0x8825).update({1: "N", 2: (51.0, 30.0, 12.48)})


@pytest.fixture
def placed(kept, tmp_path, monkeypatch):
    """An album whose photo 1 says where it was taken, of a user with a home."""
    Image.new("RGB", (40, 30), "teal").save(kept.photo_path(1), "JPEG", exif=PLACED)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return kept


PHOTOS = "/api/v1/albums/letters/photos"


@pytest.mark.parametrize("what", ["photos", "collection"])
def test_photos_are_copied_into_a_new_folder_of_this_computer(placed, tmp_path, what):
    key = placed.collections.add("../Trip", [1, 2, 3]).key
    placed.photo_path(2).unlink()
    chosen = {"photos": [1, 2, 3]} if what == "photos" else {"collection": key}
    with served({"letters": placed}, local=True) as port, httpx2.Client(base_url=f"http://127.0.0.1:{port}") as client:
        folders = []
        for options in ({}, {"remove_place": True}):
            done = ok(client.post(f"{PHOTOS}/export", json=chosen | options))
            assert done["files"] == 2
            assert done["skipped"] == [f"{placed.photo(2).path}: no such file or directory"]
            folders.append(tmp_path / done["folder"])
            copies = {file.name: file.read_bytes() for file in folders[-1].iterdir()}
            assert len(copies) == 2
            assert placed.photo_path(3).read_bytes() in copies.values()
            assert (placed.photo_path(1).read_bytes() in copies.values()) is (not options)
        assert folders[0] != folders[1]
        assert {folder.parent for folder in folders} == {tmp_path / "home" / "Downloads"}
        for nothing in ({}, {"photos": [1], "collection": key}, {"photos": [2]}, {"photos": [9999]}):
            assert client.post(f"{PHOTOS}/export", json=nothing).status_code in (404, 422)


def test_copies_never_go_into_the_photo_folder(placed, tmp_path):
    from smoothap.album.moving_copies import export_folder

    placed.root = tmp_path / "home"
    assert export_folder(placed, "Trip").is_relative_to(tmp_path / "data")
    placed.root = tmp_path
    with pytest.raises(ValueError, match="outside of the photo folder"):
        export_folder(placed, "Trip")


def test_a_server_for_others_copies_nothing_and_gives_no_places_away(placed):
    with served({"letters": placed}) as port, httpx2.Client(base_url=f"http://127.0.0.1:{port}") as client:
        refused = client.post(f"{PHOTOS}/export", json={"photos": [1]})
        assert (refused.status_code, "this computer alone" in refused.json()["detail"]) == (403, True)
        assert client.post(f"{PHOTOS}/originals.zip", json={"photos": [1], "remove_place": False}).status_code == 403
        for options in ({}, {"remove_place": True}):
            answer = client.post(f"{PHOTOS}/originals.zip", json={"photos": [1, 3]} | options)
            with zipfile.ZipFile(io.BytesIO(answer.content)) as packed:
                first, second = (packed.read(name) for name in packed.namelist())
            assert second == placed.photo_path(3).read_bytes()
            with Image.open(io.BytesIO(first)) as photo:
                assert photo.getexif()[0x010F] == "Canon"
                assert not photo.getexif().get_ifd(0x8825)


def test_a_zip_of_chosen_photos_has_the_originals_on_this_computer(placed):
    with served({"letters": placed}, local=True) as port, httpx2.Client(base_url=f"http://127.0.0.1:{port}") as client:
        answer = client.post(f"{PHOTOS}/originals.zip", json={"photos": [1, 3]})
        assert int(answer.headers["content-length"]) == len(answer.content)
        with zipfile.ZipFile(io.BytesIO(answer.content)) as packed:
            contents = [packed.read(name) for name in packed.namelist()]
        assert contents == [placed.photo_path(one).read_bytes() for one in (1, 3)]
