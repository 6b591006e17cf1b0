"""The addresses for programs: one call searches by image, id or vector; groups, filters, photos that are written."""

import errno
import io
import json
import shutil

import numpy as np
import pytest
from page_albums import LETTERS, letter
from photo_makers import photo_bytes, photo_folder, tiny_model
from PIL import Image

from smoothap._core.files import write_atomically
from smoothap.album import Album

TOKEN, WRITE = "a-long-secret-token", "another-secret-token"
MAY_WRITE = {"authorization": f"Bearer {WRITE}"}
SEARCH = "/api/v1/albums/letters/search"


def jpeg(image):
    stream = io.BytesIO()
    image.save(stream, "JPEG", quality=95)
    return stream.getvalue()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    model = tiny_model(folder / "model")
    album = Album.create(folder / "shop", model, photo_folder(folder / "photos", 9))
    album.update(
        labels=lambda path: path.partition("/")[0],
        columns=lambda path: {"price": str(int(path[-5]) % 2), "brand": "acme"} if "class0" not in path else None,
        progress=False,
    )
    return folder


@pytest.fixture
def folder(made, tmp_path):
    return shutil.copytree(made, tmp_path / "copy")


@pytest.fixture
def shop(folder, connect):
    return connect({"shop": Album.open(folder / "shop")}, token=TOKEN, write_token=WRITE)


def test_one_call_finds_what_looks_like_an_image_in_every_form_of_body(client, album):
    content = jpeg(letter("Q", "DejaVuSans"))
    answers = [
        client.post(f"{SEARCH}?k=5", content=content, headers={"content-type": kind})
        for kind in ("image/jpeg", "application/octet-stream")
    ]
    answers.append(client.post(SEARCH, files={"image": ("q.jpg", content, "image/jpeg")}, data={"k": "5"}))
    for answer in answers:
        found = answer.json()
        assert answer.status_code == 200, found
        assert [hit["label"] for hit in found["hits"]][:3] == ["Q", "Q", "Q"]
        assert len(found["hits"]) == 5
        assert found["hits"] == answers[0].json()["hits"]
        assert found["total"] == len(album)
        assert (found["album"], found["groups"]) == ("letters", None)


def test_the_answer_is_that_of_the_album_in_python(client, album):
    for identity in (0, 17, len(album) - 1):
        expected = album.search(identity, k=7)
        for options in ({"params": {"id": identity, "k": 7}}, {"json": {"id": identity, "k": 7}}):
            hits = client.post(SEARCH, **options).json()["hits"]
            found = [(hit["id"], hit["rank"], hit["score"], hit["path"], hit["label"]) for hit in hits]
            assert found == [(hit.id, hit.rank, hit.score, hit.path, hit.label) for hit in expected]
        vector = album.vectors[identity].tolist()
        hits = client.post(SEARCH, json={"vector": vector, "k": 3}).json()["hits"]
        assert [hit["id"] for hit in hits] == [hit.id for hit in album.search(np.array(vector, np.float32), k=3)]


def test_a_minimum_bounds_the_list_and_counts_what_passes(client, album):
    expected = album.search(3, minimum=0.5)
    found = client.post(f"{SEARCH}?id=3&minimum=0.5&k=2").json()
    assert found["total"] == len(expected)
    assert [hit["id"] for hit in found["hits"]] == [hit.id for hit in expected][:2]
    assert client.post(f"{SEARCH}?id=3&recall=0.9").status_code == 409


def test_groups_are_the_best_photo_of_each_with_counts(client, album):
    everything = album.search(3, everything=True)
    found = client.post(f"{SEARCH}?id=3&group_by=label&k=100").json()
    best = {}
    for hit in everything:
        best.setdefault(hit.label, hit)
    assert [(each["group"], each["best"]["id"]) for each in found["groups"]] == [
        (name, hit.id) for name, hit in best.items()
    ]
    counts = {label: sum(hit.label == label for hit in everything) for label in LETTERS}
    assert {each["group"]: each["photos"] for each in found["groups"]} == counts
    assert found["hits"] == []
    assert len(client.post(f"{SEARCH}?id=3&group_by=label&k=2").json()["groups"]) == 2


def test_columns_of_the_table_filter_and_group(shop):
    bearer = {"authorization": f"Bearer {TOKEN}"}
    album = shop.get("/api/v1/albums/shop", headers=bearer).json()
    assert (album["photos"], album["columns"]) == (9, ["brand", "price"])
    path = "/api/v1/albums/shop/search"
    hits = shop.post(f"{path}?id=0&where=price=1&where=brand=acme", headers=bearer).json()["hits"]
    assert sorted(hit["path"] for hit in hits) == ["class1/001.png", "class1/007.png", "class2/005.png"]
    assert all(hit["columns"] == {"price": "1", "brand": "acme"} for hit in hits)
    groups = shop.post(f"{path}?id=0&group_by=price", headers=bearer).json()["groups"]
    assert {each["group"]: each["photos"] for each in groups} == {"0": 3, "1": 3}
    answer = shop.post(f"{path}?id=0&where=size=9", headers=bearer)
    assert (answer.status_code, answer.json()["error"]) == (422, "The album has no column 'size': it has brand, price.")
    folder = shop.post(f"{path}?id=0&folder=class2", headers=bearer).json()
    assert folder["total"] == len(folder["hits"])


@pytest.mark.parametrize(
    ("options", "status", "words"),
    [
        ({}, 422, "needs a photo: send an image"),
        ({"json": {"id": 1, "vector": [1.0] * 64}}, 422, "one query too many"),
        ({"json": {"vector": [1.0, 2.0]}}, 422, "has 2 numbers and the album's model gives 64"),
        ({"json": [1]}, 422, "no JSON object"),
        ({"json": {"idd": 1}}, 422, "no parameter 'idd' here"),
        ({"json": {"vector": [0.0] * 64}}, 422, "zero or not finite"),
            ({"json": {"vector": [1e39] * 64}}, 422, "zero or not finite"),
            ({"content": b'{"id": 3}'}, 422, "Content-Type: application/json"),
            ({"files": {"other": b"x"}}, 422, "no parameter 'other' here"),
            ({"content": b"--x--\r\n", "headers": {"content-type": "multipart/form-data; boundary=x"}}, 422, "a photo"),
            ({"params": {"kk": 3}}, 422, "no parameter 'kk' here"),
        ({"json": {"query": 3}}, 422, "no parameter 'query' here"),
            ({"params": {"where": "colour"}}, 422, "it is COLUMN=VALUE"),
        ({"json": {"id": 10**6}}, 404, "no photo 1000000"),
        ({"content": b"no image"}, 422, "cannot be used"),
        ({"params": {"id": 1, "k": 0}}, 422, "k: "),
        ({"params": {"id": 1, "group_by": "size"}}, 422, "no column 'size'"),
        ({"content": b"--x", "headers": {"content-type": "multipart/form-data; boundary=x"}}, 422, "cut off"),
        ({"content": b"--x", "headers": {"content-type": "multipart/form-data"}}, 422, "boundary"),
        ({"files": {"image": b"no image"}, "data": {"k": "many"}}, 422, "k: "),
    ],
)  # fmt: skip
def test_a_mistake_is_answered_in_a_sentence(client, options, status, words):
    answer = client.post(SEARCH, **options)
    assert answer.status_code == status, answer.text
    assert words in answer.json()["error"]


def test_an_album_goes_by_its_name(client):
    assert [album["name"] for album in client.get("/api/v1/albums").json()["albums"]] == ["letters"]
    answer = client.post("/api/v1/albums/0/search?id=1")
    assert (answer.status_code, answer.json()["error"]) == (404, "There is no album '0': this server has letters.")
    assert client.get("/api/v1/albums/letters/photos/3").json()["path"] == "0041-DejaVuSansMono.jpg"
    for kind in ("thumbnail", "image"):
        Image.open(io.BytesIO(client.get(f"/api/v1/albums/letters/photos/3/{kind}").content)).verify()


def test_nobody_writes_without_the_write_token(shop, client, folder):
    before = sorted(folder.rglob("*"))
    photos = "/api/v1/albums/shop/photos"
    for method, address in (("post", f"{photos}?path=new.png"), ("delete", f"{photos}/1"), ("delete", f"{photos}/99")):
        answer = getattr(shop, method)(address, headers={"authorization": f"Bearer {TOKEN}"})
        assert answer.status_code == 403
        assert "write token" in answer.json()["error"]
        assert getattr(shop, method)(address).status_code == 401
    assert client.delete("/api/v1/albums/letters/photos/1", headers=MAY_WRITE).status_code == 403  # off unless asked
    assert sorted(folder.rglob("*")) == before


def test_a_photo_is_added_found_and_removed_over_http(shop, folder):
    photos = "/api/v1/albums/shop/photos"
    content = photo_bytes(77)
    added = shop.post(
        f"{photos}?path=hats/red.png&label=hats&column=price=9", content=content, headers=MAY_WRITE
    ).json()
    assert added["refused"] == {}
    identity = added["ids"]["hats/red.png"]
    assert (folder / "photos" / "hats" / "red.png").read_bytes() == content
    found = shop.post("/api/v1/albums/shop/search?k=1", content=content, headers=MAY_WRITE).json()
    assert found["version"] == added["version"]
    hit = found["hits"][0]
    assert (hit["id"], hit["label"], hit["columns"]) == (identity, "hats", {"price": "9"})
    assert hit["score"] > 0.999
    # What others know of their photos is as it was.
    stored = Album.open(folder / "shop")
    assert stored.photo(0).label == "class0"
    assert stored.photo(stored.photos.id_of("class1/001.png")).columns == {"price": "1", "brand": "acme"}
    gone = shop.delete(f"{photos}/{identity}", headers=MAY_WRITE).json()
    assert (gone["path"], gone["file_deleted"]) == ("hats/red.png", False)
    assert (folder / "photos" / "hats" / "red.png").exists()
    assert shop.get(f"{photos}/{identity}", headers=MAY_WRITE).status_code == 404
    assert shop.delete(f"{photos}/{identity}", headers=MAY_WRITE).status_code == 404
    assert shop.delete(f"{photos}/0?delete_file=true", headers=MAY_WRITE).json()["file_deleted"]
    assert not (folder / "photos" / "class0" / "000.png").exists()
    assert len(Album.open(folder / "shop")) == 8


def test_several_photos_are_one_version_and_what_is_no_photo_is_refused_by_name(shop, folder):
    paths = ["a.png", "b/c.png", "broken.png", "../out.png", "/etc/out.png", ".hidden.png", "note.txt", "class0"]
    content = {path: b"no image" if path == "broken.png" else photo_bytes(len(path) + 50) for path in paths}
    form = [("image", (path, content[path], "image/png")) for path in paths]
    answer = shop.post("/api/v1/albums/shop/photos", files=form, headers=MAY_WRITE).json()
    assert sorted(answer["ids"]) == ["a.png", "b/c.png"]
    assert sorted(answer["refused"]) == sorted(set(paths) - {"a.png", "b/c.png"})
    album = Album.open(folder / "shop")
    assert len(album) == 11
    assert album.version == answer["version"]
    assert not (folder / "out.png").exists()
    assert not (folder / "photos" / "broken.png").exists()


def test_a_link_out_of_the_photo_folder_is_not_written_through(shop, folder):
    (folder / "elsewhere").mkdir()
    (folder / "photos" / "link").symlink_to(folder / "elsewhere")
    (folder / "photos" / "file.png").symlink_to(folder / "elsewhere" / "file.png")
    for path in ("link/new.png", "file.png"):
        answer = shop.post(f"/api/v1/albums/shop/photos?path={path}", content=photo_bytes(3), headers=MAY_WRITE)
        assert answer.status_code == 422
        assert answer.json()["error"] == f"Nothing was added. '{path}': it leads out of the photo folder."
    assert list((folder / "elsewhere").iterdir()) == []


@pytest.mark.parametrize(
    ("path", "said"),
    [
        (f"{'a' * 300}.png", "a name of more than 200 bytes"),
        (f"{'👟' * 60}.png", "a name of more than 200 bytes"),
        ("class0/000.png/b.png", "a folder of it is a photo that is there"),
        ("../shop/x.png", "no path below the photo folder"),
    ],
)
def test_a_path_that_no_photo_can_have_is_refused_with_a_sentence(shop, folder, path, said):
    before = sorted(folder.rglob("*"))
    answer = shop.post("/api/v1/albums/shop/photos", params={"path": path}, content=photo_bytes(3), headers=MAY_WRITE)
    assert (answer.status_code, said in answer.json()["error"]) == (422, True), answer.text
    assert sorted(folder.rglob("*")) == before


def test_nothing_is_written_into_an_album_that_lies_among_its_photos(connect, tmp_path):
    photos = photo_folder(tmp_path / "photos", 2)
    Album.create(photos / "album", tiny_model(tmp_path / "model"), photos).update(progress=False)
    client = connect({"album": Album.open(photos / "album")}, write_token=WRITE)
    for path in ("album/x.png", "album/deeper/x.png"):
        answer = client.post(f"/api/v1/albums/album/photos?path={path}", content=photo_bytes(3), headers=MAY_WRITE)
        assert (answer.status_code, "folder of the album itself" in answer.json()["error"]) == (422, True)


def test_a_photo_has_one_path_however_it_is_spelled(shop):
    added = shop.post("/api/v1/albums/shop/photos?path=hats//./red.png", content=photo_bytes(7), headers=MAY_WRITE)
    assert (added.status_code, list(added.json()["ids"])) == (200, ["hats/red.png"])


def test_where_nothing_can_be_written_a_sentence_says_so_and_what_was_written_is_in_the_album(
    shop, folder, monkeypatch
):
    from smoothap.server import _v1_writing as writing

    def full(path, content):
        if path.name != "fits.png":
            raise OSError(errno.EROFS, "Read-only file system")
        write_atomically(path, content)

    monkeypatch.setattr(writing, "write_atomically", full)
    form = [("image", (path, photo_bytes(place), "image/png")) for place, path in enumerate(("fits.png", "not.png"))]
    answer = shop.post("/api/v1/albums/shop/photos", files=form, headers=MAY_WRITE).json()
    assert (list(answer["ids"]), list(answer["refused"])) == (["fits.png"], ["not.png"])
    assert Album.open(folder / "shop").photos.id_of("fits.png") == answer["ids"]["fits.png"]
    answer = shop.post("/api/v1/albums/shop/photos", files=form[1:], headers=MAY_WRITE)
    assert answer.status_code == 507
    assert answer.json()["error"] == "Nothing was added. 'not.png': it cannot be written: Read-only file system."


def test_a_form_says_label_and_columns_and_what_it_cannot_mean_is_refused(shop):
    photos, files = "/api/v1/albums/shop/photos", {"image": ("hats/red.png", photo_bytes(7), "image/png")}
    data = {"label": "hats", "column": ["price=9", "brand=x=y"]}
    added = shop.post(photos, files=files, data=data, headers=MAY_WRITE).json()
    stored = shop.get(f"{photos}/{added['ids']['hats/red.png']}", headers=MAY_WRITE).json()
    assert (stored["label"], stored["columns"]) == ("hats", {"price": "9", "brand": "x=y"})
    twice = [("image", (path, photo_bytes(7), "image/png")) for path in ("hats/a.png", "hats//a.png")]
    for options, said in (
        ({"files": twice}, "have one path"),
        ({"files": files, "data": {"colour": "red"}}, "no parameter 'colour' here"),
        ({"files": files, "params": {"colum": "price=9"}}, "no parameter 'colum' here"),
        ({"files": files, "params": {"column": "price"}}, "it is COLUMN=VALUE, such as brand=acme"),
        ({"files": files, "params": {"column": "label=hats"}}, "a column is not called label"),
    ):
        answer = shop.post(photos, headers=MAY_WRITE, **options)
        assert (answer.status_code, said in answer.json()["error"]) == (422, True), answer.text


def test_a_file_name_may_be_spelled_out_in_utf_8(shop):
    body = b"--x\r\nContent-Disposition: form-data; name=\"image\"; filename*=UTF-8''hats%2Fr%C3%B6d.png\r\n\r\n"
    body += photo_bytes(8) + b"\r\n--x--\r\n"
    kind = {"content-type": "multipart/form-data; boundary=x"}
    added = shop.post("/api/v1/albums/shop/photos", content=body, headers={**MAY_WRITE, **kind}).json()
    assert list(added["ids"]) == ["hats/röd.png"]


def test_the_token_in_the_address_does_at_every_address_of_programs(shop):
    base = "/api/v1/albums"
    for method, address, status in (
        ("get", base, 200), ("get", f"{base}/shop", 200), ("post", f"{base}/shop/search?id=1&k=2", 200),
        ("get", f"{base}/shop/photos/1", 200), ("get", f"{base}/shop/photos/1/thumbnail", 200),
        ("get", f"{base}/shop/photos/1/image", 200), ("delete", f"{base}/shop/photos/1", 403), ("get", "/metrics", 200),
    ):  # fmt: skip
        answer = shop.request(method, f"{address}{'&' if '?' in address else '?'}token={TOKEN}")
        assert answer.status_code == status, (address, answer.text)
        assert shop.request(method, address).status_code == 401
    answer = shop.post(f"{base}/shop/photos", params={"path": "a.png", "token": WRITE}, content=photo_bytes(9))
    assert list(answer.json()["ids"]) == ["a.png"]


def test_photos_of_one_label_alone_are_looked_at(shop):
    found = shop.post("/api/v1/albums/shop/search?id=0&where=label=class1", headers=MAY_WRITE).json()
    assert {hit["label"] for hit in found["hits"]} == {"class1"}
    assert found["total"] == len(found["hits"])


def test_a_change_waits_for_another_process_that_writes(shop, folder, monkeypatch):
    from smoothap.server import _v1_writing as writing

    monkeypatch.setattr(writing, "_PATIENCE", 0.3)
    with Album.open(folder / "shop").store.writing():
        answer = shop.delete("/api/v1/albums/shop/photos/2", headers=MAY_WRITE)
    assert answer.status_code == 503
    assert shop.delete("/api/v1/albums/shop/photos/2", headers=MAY_WRITE).status_code == 200


def test_an_album_without_a_photo_folder_takes_none(connect, tmp_path):
    Album.from_arrays(np.eye(3), path=tmp_path / "vectors")
    client = connect({"vectors": Album.open(tmp_path / "vectors")}, write_token=WRITE)
    answer = client.post("/api/v1/albums/vectors/photos?path=a.png", content=photo_bytes(1), headers=MAY_WRITE)
    assert (answer.status_code, "takes in no photos" in answer.json()["error"]) == (409, True)
    answer = client.post("/api/v1/albums/vectors/search", content=photo_bytes(1))
    assert (answer.status_code, "no model" in answer.json()["error"]) == (409, True)


def test_the_description_in_the_docs_is_the_one_that_the_server_gives(client):
    from write_openapi import FILE, description

    written = json.loads(FILE.read_text(encoding="utf-8"))
    assert written == description(), "Run: python tools/write_openapi.py"
    served = client.get("/api/openapi.json").json()
    assert written["paths"].items() <= served["paths"].items()
    assert set(written["paths"]) == {path for path in served["paths"] if path.startswith("/api/v1/")}
