"""Photos that programs add to an album and take out of it, with a token of their own; and columns of its table."""

import errno
import json
import shutil

import numpy as np
import pytest
from photo_makers import photo_bytes, photo_folder, tiny_model

from smoothap._core.files import write_atomically
from smoothap.album import Album
from smoothap.server import writing

TOKEN, WRITE = "a-long-secret-token", "another-secret-token"
MAY_WRITE = {"authorization": f"Bearer {WRITE}"}
PHOTOS, SEARCH = "/api/v1/albums/shop/photos", "/api/v1/albums/shop/search"


def form(*photos):
    return [("image", (path, content, "image/png")) for path, content in photos]


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


def test_columns_of_the_table_filter_and_group(shop):
    bearer = {"authorization": f"Bearer {TOKEN}"}
    album = shop.get("/api/v1/albums/shop", headers=bearer).json()
    assert (album["photos"], album["columns"]) == (9, ["brand", "price"])
    question = {"id": 0, "where": ["price=1", "brand=acme"]}
    hits = shop.post(SEARCH, json=question, headers=bearer).json()["hits"]
    assert sorted(hit["path"] for hit in hits) == ["class1/001.png", "class1/007.png", "class2/005.png"]
    assert all(hit["columns"] == {"price": "1", "brand": "acme"} for hit in hits)
    groups = shop.post(SEARCH, json={"id": 0, "group_by": "price"}, headers=bearer).json()["groups"]
    assert {each["group"]: each["photos"] for each in groups} == {"0": 3, "1": 3}
    answer = shop.post(SEARCH, json={"id": 0, "where": ["size=9"]}, headers=bearer)
    assert (answer.status_code, answer.json()["detail"]) == (
        422,
        "The album has no column 'size': it has brand, price.",
    )
    for part in ({"folder": "class2"}, {"where": ["label=class2"]}):
        found = shop.post(SEARCH, json={"id": 0, **part}, headers=bearer).json()
        assert {hit["label"] for hit in found["hits"]} == {"class2"}
        assert found["total"] == len(found["hits"]) == 3
    listed = shop.get(f"{PHOTOS}?where=price=1&where=brand=acme", headers=bearer).json()
    assert sorted(photo["path"] for photo in listed["photos"]) == sorted(hit["path"] for hit in hits)


def test_a_photo_that_is_sent_by_a_path_through_a_link_is_answered_with_its_id(shop, folder):
    (folder / "photos" / "link").symlink_to(folder / "photos" / "class1")
    answer = shop.post(PHOTOS, files=form(("link/new.png", photo_bytes(77))), headers=MAY_WRITE)
    assert answer.status_code == 200
    identity = answer.json()["ids"]["link/new.png"]
    assert shop.get(f"{PHOTOS}/{identity}", headers=MAY_WRITE).json()["path"] == "class1/new.png"


def test_text_where_a_photo_belongs_is_refused_in_plain_words(shop):
    answer = shop.post(PHOTOS, files={"image": (None, "text")}, headers=MAY_WRITE)
    assert answer.json()["detail"] == "image 0: it is a file of the form (in curl: -F image=@photo.jpg), and not text."
    for box in ("a", "-1,0,1,1", "nan,0,1,1", "0,0,1", "0,0,inf,1", "9" * 1000):
        answer = shop.post(
            f"{SEARCH}/photo", files=form(("a.png", photo_bytes(1))), data={"box": box}, headers=MAY_WRITE
        )
        assert (answer.status_code, answer.json()["detail"][:24]) == (422, "A box is four numbers su")


def test_nobody_writes_without_the_write_token(shop, client, folder):
    before = sorted(folder.rglob("*"))
    files = form(("new.png", photo_bytes(1)))
    for method, address in (("post", PHOTOS), ("delete", f"{PHOTOS}/1"), ("delete", f"{PHOTOS}/99")):
        options = {"files": files} if method == "post" else {}
        answer = shop.request(method, address, headers={"authorization": f"Bearer {TOKEN}"}, **options)
        assert answer.status_code == 403
        assert "write token" in answer.json()["detail"]
        assert shop.request(method, address, **options).status_code == 401
    assert client.delete("/api/v1/albums/letters/photos/1", headers=MAY_WRITE).status_code == 403  # off unless asked
    assert sorted(folder.rglob("*")) == before


def test_a_photo_is_added_found_and_removed_over_http(shop, folder):
    content, said = photo_bytes(77), {"label": "hats", "column": ["price=9"]}
    added = shop.post(PHOTOS, files=form(("hats/red.png", content)), data=said, headers=MAY_WRITE).json()
    assert added["refused"] == {}
    identity = added["ids"]["hats/red.png"]
    assert (folder / "photos" / "hats" / "red.png").read_bytes() == content
    found = shop.post(f"{SEARCH}/photo", files={"image": content}, headers=MAY_WRITE).json()
    assert found["version"] == added["version"]
    hit = found["hits"][0]
    assert (hit["id"], hit["label"], hit["columns"]) == (identity, "hats", {"price": "9"})
    assert hit["score"] > 0.999
    # What others know of their photos is as it was.
    stored = Album.open(folder / "shop")
    assert stored.photo(0).label == "class0"
    assert stored.photo(stored.photos.id_of("class1/001.png")).columns == {"price": "1", "brand": "acme"}
    gone = shop.delete(f"{PHOTOS}/{identity}", headers=MAY_WRITE).json()
    assert (gone["path"], gone["file_deleted"]) == ("hats/red.png", False)
    assert (folder / "photos" / "hats" / "red.png").exists()
    assert shop.get(f"{PHOTOS}/{identity}", headers=MAY_WRITE).status_code == 404
    assert shop.delete(f"{PHOTOS}/{identity}", headers=MAY_WRITE).status_code == 404
    assert shop.delete(f"{PHOTOS}/0?delete_file=true", headers=MAY_WRITE).json()["file_deleted"]
    assert not (folder / "photos" / "class0" / "000.png").exists()
    assert len(Album.open(folder / "shop")) == 8


def test_several_photos_are_one_version_and_what_is_no_photo_is_refused_by_name(shop, folder):
    paths = ["a.png", "b/c.png", "broken.png", "../out.png", "/etc/out.png", ".hidden.png", "note.txt", "class0"]
    content = {path: b"no image" if path == "broken.png" else photo_bytes(len(path) + 50) for path in paths}
    answer = shop.post(PHOTOS, files=form(*content.items()), headers=MAY_WRITE).json()
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
        answer = shop.post(PHOTOS, files=form((path, photo_bytes(3))), headers=MAY_WRITE)
        assert answer.status_code == 422
        assert answer.json()["detail"] == f"Nothing was added. '{path}': it leads out of the photo folder."
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
    answer = shop.post(PHOTOS, files=form((path, photo_bytes(3))), headers=MAY_WRITE)
    assert (answer.status_code, said in answer.json()["detail"]) == (422, True), answer.text
    assert sorted(folder.rglob("*")) == before


def test_nothing_is_written_into_an_album_that_lies_among_its_photos(connect, tmp_path):
    photos = photo_folder(tmp_path / "photos", 2)
    Album.create(photos / "album", tiny_model(tmp_path / "model"), photos).update(progress=False)
    client = connect({"album": Album.open(photos / "album")}, write_token=WRITE)
    for path in ("album/x.png", "album/deeper/x.png"):
        answer = client.post("/api/v1/albums/album/photos", files=form((path, photo_bytes(3))), headers=MAY_WRITE)
        assert (answer.status_code, "folder of the album itself" in answer.json()["detail"]) == (422, True)


def test_a_photo_has_one_path_however_it_is_spelled(shop):
    added = shop.post(PHOTOS, files=form(("hats//./red.png", photo_bytes(7))), headers=MAY_WRITE)
    assert (added.status_code, list(added.json()["ids"])) == (200, ["hats/red.png"])


def test_where_nothing_can_be_written_a_sentence_says_so_and_what_was_written_is_in_the_album(
    shop, folder, monkeypatch
):
    def full(path, content):
        if path.name != "fits.png":
            raise OSError(errno.EROFS, "Read-only file system")
        write_atomically(path, content)

    monkeypatch.setattr(writing, "write_atomically", full)
    files = form(("fits.png", photo_bytes(0)), ("not.png", photo_bytes(1)))
    answer = shop.post(PHOTOS, files=files, headers=MAY_WRITE).json()
    assert (list(answer["ids"]), list(answer["refused"])) == (["fits.png"], ["not.png"])
    assert Album.open(folder / "shop").photos.id_of("fits.png") == answer["ids"]["fits.png"]
    answer = shop.post(PHOTOS, files=files[1:], headers=MAY_WRITE)
    assert answer.status_code == 507
    assert answer.json()["detail"] == "Nothing was added. 'not.png': it cannot be written: Read-only file system."


def test_a_form_says_label_and_columns_and_what_it_cannot_mean_is_refused(shop):
    files = form(("hats/red.png", photo_bytes(7)))
    data = {"label": "hats", "column": ["price=9", "brand=x=y"]}
    added = shop.post(PHOTOS, files=files, data=data, headers=MAY_WRITE).json()
    stored = shop.get(f"{PHOTOS}/{added['ids']['hats/red.png']}", headers=MAY_WRITE).json()
    assert (stored["label"], stored["columns"]) == ("hats", {"price": "9", "brand": "x=y"})
    for options, said in (
        ({"files": form(*((path, photo_bytes(7)) for path in ("hats/a.png", "hats//a.png")))}, "have one path"),
        ({"files": files, "data": {"colour": "red"}}, "no parameter 'colour' here"),
        ({"files": files, "data": {"column": "price"}}, "it is COLUMN=VALUE, such as brand=acme"),
        ({"files": files, "data": {"column": "label=hats"}}, "a column is not called label"),
        ({"data": {"label": "hats"}}, "image"),
    ):
        answer = shop.post(PHOTOS, headers=MAY_WRITE, **options)
        assert (answer.status_code, said in answer.json()["detail"]) == (422, True), answer.text


def test_the_token_in_the_address_does_at_every_address_of_programs(shop):
    base = "/api/v1/albums"
    for method, address, status in (
        ("get", base, 200), ("get", f"{base}/shop", 200), ("get", f"{base}/shop/photos?limit=2", 200),
        ("get", f"{base}/shop/photos/1", 200), ("get", f"{base}/shop/photos/1/thumbnail", 200),
        ("get", f"{base}/shop/photos/1/image", 200), ("delete", f"{base}/shop/photos/1", 403), ("get", "/metrics", 200),
    ):  # fmt: skip
        answer = shop.request(method, f"{address}{'&' if '?' in address else '?'}token={TOKEN}")
        assert answer.status_code == status, (address, answer.text)
        assert shop.request(method, address).status_code == 401
    answer = shop.post(f"{PHOTOS}?token={WRITE}", files=form(("a.png", photo_bytes(9))))
    assert list(answer.json()["ids"]) == ["a.png"]


def test_a_change_waits_for_another_process_that_writes(shop, folder, monkeypatch):
    monkeypatch.setattr(writing, "_PATIENCE", 0.3)
    with Album.open(folder / "shop").store.writing():
        answer = shop.delete(f"{PHOTOS}/2", headers=MAY_WRITE)
    assert answer.status_code == 503
    assert shop.delete(f"{PHOTOS}/2", headers=MAY_WRITE).status_code == 200


def test_a_file_that_is_no_longer_the_albums_photo_is_not_deleted_with_it(shop, folder):
    file = folder / "photos" / "class0" / "000.png"
    file.write_bytes(photo_bytes(78))  # another photo by now, which the album has not seen
    gone = shop.delete(f"{PHOTOS}/0?delete_file=true", headers=MAY_WRITE).json()
    assert (gone["path"], gone["file_deleted"]) == ("class0/000.png", False)
    assert file.read_bytes() == photo_bytes(78)


def test_where_the_albums_folder_is_gone_a_sentence_says_so(shop, folder):
    (folder / "shop").rename(folder / "away")
    answer = shop.delete(f"{PHOTOS}/2", headers=MAY_WRITE)
    assert (answer.status_code, "There is no album in" in answer.json()["detail"]) == (503, True)
    assert not (folder / "shop").exists()


def test_where_the_photo_folder_is_gone_none_is_made_in_its_place(shop, folder):
    (folder / "photos").rename(folder / "unmounted")
    answer = shop.post(PHOTOS, files=form(("a.png", photo_bytes(9))), headers=MAY_WRITE)
    assert (answer.status_code, "is its disk mounted?" in answer.json()["detail"]) == (503, True)
    assert not (folder / "photos").exists()


def test_an_album_without_a_photo_folder_takes_none(connect, tmp_path):
    Album.from_arrays(np.eye(3), path=tmp_path / "vectors")
    client = connect({"vectors": Album.open(tmp_path / "vectors")}, write_token=WRITE)
    files = form(("a.png", photo_bytes(1)))
    answer = client.post("/api/v1/albums/vectors/photos", files=files, headers=MAY_WRITE)
    assert (answer.status_code, "takes in no photos" in answer.json()["detail"]) == (409, True)
    answer = client.post("/api/v1/albums/vectors/search/photo", files=files)
    assert (answer.status_code, "no model" in answer.json()["detail"]) == (409, True)


def test_the_description_in_the_docs_is_the_one_that_the_server_gives(client):
    from write_openapi import FILE, description

    written = json.loads(FILE.read_text(encoding="utf-8"))
    assert written == description(), "Run: python tools/write_openapi.py"
    assert written == client.get("/api/openapi.json").json()
    assert all(path.startswith("/api/v1/") for path in written["paths"])
