"""An album that is indexed while it is served: each answer is of one version, and no picture is another photo's."""

import json
import shutil

import numpy as np
import pytest
from page_albums import COLOURS, PixelAlbum, letter
from photo_makers import photo_bytes, photo_folder, tiny_model

from smoothap.album import Album
from smoothap.album import store as stores
from smoothap.server import dependencies
from smoothap.server.routes import search


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A model, photos, and an album of them that is copied for every test."""
    folder = tmp_path_factory.mktemp("made")
    model = tiny_model(folder / "model")
    Album.create(folder / "album", model, photo_folder(folder / "photos", 8)).update(progress=False)
    return folder


@pytest.fixture
def folder(made, tmp_path):
    return shutil.copytree(made, tmp_path / "copy")


def names(client):
    return [photo["path"] for photo in client.get("/api/v1/albums/album/photos").json()["photos"]]


def address(photo, kind):
    return f"/api/v1/albums/album/photos/{photo['id']}/{kind}?picture={photo['picture']}"


def by_photo(client, content):
    answer = client.post("/api/v1/albums/album/search/photo", files={"image": content})
    assert answer.status_code == 200, answer.text
    return answer.json()["query"]


def test_a_list_of_photos_that_are_forgotten_before_it_is_written_is_an_answer(folder, connect, monkeypatch):
    client = connect({"album": Album.open(folder / "album")})
    found = search.everything

    def everything(served, question):
        album, answer = Album.open(folder / "album"), found(served, question)
        album.remove([0])
        for number in range(20):  # a removed photo is remembered for some versions alone
            album.update(labels=lambda path, number=number: str(number), progress=False)
        album.remove([1])
        return answer

    monkeypatch.setattr(search, "everything", everything)
    listed = client.post("/api/v1/albums/album/search.csv", json={"id": 5})
    assert listed.status_code == 404, listed.text
    assert "was removed" in listed.json()["detail"]


def test_photos_that_are_indexed_or_removed_are_seen_by_the_next_request(folder, connect):
    client = connect({"album": Album.open(folder / "album")})
    before = client.get("/api/v1/albums/album/photos").json()
    gone = before["photos"][2]
    (folder / "photos" / gone["path"]).unlink()
    (folder / "photos" / "new.png").write_bytes(photo_bytes(77))
    Album.open(folder / "album").update(progress=False)
    after = client.get("/api/v1/albums/album/photos").json()
    assert after["version"] != before["version"]
    wanted = [photo["path"] for photo in before["photos"] if photo != gone] + ["new.png"]
    assert [photo["path"] for photo in after["photos"]] == wanted
    assert client.get("/api/v1/albums").json()["albums"][0]["photos"] == 8
    new = after["photos"][-1]
    found = client.post("/api/v1/albums/album/search", json={"id": new["id"], "limit": 200, "statistics": True}).json()
    assert found["version"] == after["version"]
    assert sorted(hit["path"] for hit in found["hits"]) == sorted(wanted[:-1])
    assert client.get(address(new, "thumbnail")).status_code == 200
    assert client.post("/api/v1/albums/album/search", json={"id": gone["id"]}).status_code == 404


def test_a_request_sees_one_version_to_its_end(folder, connect, monkeypatch):
    """The album changes while an answer is being worked out: the answer is the one of before."""
    album = Album.open(folder / "album")
    client, ranking = connect({"album": album}), Album.ranking

    def disturbed(self, *arguments, **options):
        if len(self) == 8:
            Album.open(folder / "album").remove([0])
        return ranking(self, *arguments, **options)

    monkeypatch.setattr(Album, "ranking", disturbed)
    first = client.post("/api/v1/albums/album/search", json={"id": 3, "limit": 200, "statistics": True}).json()
    second = client.post("/api/v1/albums/album/search", json={"id": 3, "limit": 200, "statistics": True}).json()
    assert ({hit["id"] for hit in first["hits"]}, first["ranked"]) == ({0, 1, 2, 4, 5, 6, 7}, 7)
    assert ({hit["id"] for hit in second["hits"]}, second["ranked"]) == ({1, 2, 4, 5, 6, 7}, 6)
    assert first["version"] != second["version"]


def test_both_albums_of_a_comparison_are_taken_up(folder, connect):
    shutil.copytree(folder / "album", folder / "other")
    client = connect({"one": Album.open(folder / "album"), "two": Album.open(folder / "other")})
    Album.open(folder / "other").remove([4])
    assert client.get("/api/v1/albums/one/photos/4").json()["twins"] == [4, None]
    assert client.get("/api/v1/albums/two/photos/5").json()["twins"] == [5, 5]
    assert [album["photos"] for album in client.get("/api/v1/albums").json()["albums"]] == [8, 7]


def test_files_that_are_swept_away_while_an_album_is_opened_are_those_of_an_older_version(folder, monkeypatch):
    mapped, calls = stores.growing.mapped, []

    def disturbed(*arguments):
        calls.append(arguments)
        if len(calls) == 1:  # between what album.db says and the opening of a file
            Album.open(folder / "album").remove([4, 5, 6])
        return mapped(*arguments)

    monkeypatch.setattr(stores.growing, "mapped", disturbed)
    assert len(Album.open(folder / "album")) == 5


@pytest.mark.parametrize("damage", ["gone", "torn"])
def test_an_album_that_cannot_be_opened_again_is_served_as_it_was(folder, connect, damage, monkeypatch, caplog):
    monkeypatch.setattr(dependencies, "_TRY_AGAIN", 0.0)
    client = connect({"album": Album.open(folder / "album")})
    shutil.move(folder / "album", folder / "elsewhere")
    if damage == "torn":
        (folder / "album").mkdir()
        (folder / "album" / "album.db").write_bytes((folder / "elsewhere" / "album.db").read_bytes()[:-9000])
    assert len(names(client)) == 8
    assert client.post("/api/v1/albums/album/search", json={"id": 1}).json()["total"] == 7
    assert "last version of the album is served" in caplog.text
    shutil.rmtree(folder / "album", ignore_errors=True)
    shutil.move(folder / "elsewhere", folder / "album")
    Album.open(folder / "album").remove([4])
    assert len(names(client)) == 7


def test_while_a_large_album_is_opened_the_last_version_answers(folder, connect, monkeypatch):
    monkeypatch.setattr(dependencies, "_PATIENCE", 0.05)
    client, reopened, held = connect({"album": Album.open(folder / "album")}), Album.reopened, []

    def slow(self):
        while not held:
            pass
        return reopened(self)

    monkeypatch.setattr(Album, "reopened", slow)
    Album.open(folder / "album").remove([4])
    assert len(names(client)) == 8
    held.append(True)
    while len(names(client)) == 8:
        pass
    assert len(names(client)) == 7


def test_the_model_is_not_loaded_again_with_each_version(folder, connect):
    album = Album.open(folder / "album")
    embedder = album.embedder()
    Album.open(folder / "album").remove([4])
    assert album.reopened().embedder() is embedder
    assert len(album) == 8


def test_a_vector_of_a_model_that_is_no_longer_the_albums_is_refused(folder, connect):
    client = connect({"album": Album.open(folder / "album")})
    answer = by_photo(client, photo_bytes(5))
    assert client.post("/api/v1/albums/album/search", json=answer).status_code == 200
    shutil.rmtree(folder / "album")
    tiny_model(folder / "another", seed=1)
    Album.create(folder / "album", folder / "another", folder / "photos").update(progress=False)
    refused = client.post("/api/v1/albums/album/search", json=answer)
    assert refused.status_code == 409
    assert "another model" in refused.json()["detail"]
    fresh = by_photo(client, photo_bytes(5))
    assert fresh["model"] != answer["model"]
    assert client.post("/api/v1/albums/album/search", json=fresh).status_code == 200


def test_a_picture_is_kept_only_under_an_address_that_no_other_picture_has(folder, connect):
    client = connect({"album": Album.open(folder / "album")})
    photo = client.get("/api/v1/albums/album/photos/1").json()
    for kind in ("thumbnail", "image"):
        assert "max-age" in client.get(address(photo, kind)).headers["cache-control"]
        for other in (address(photo, kind).partition("?")[0], address({**photo, "picture": "0" * 16}, kind)):
            assert client.get(other).headers["cache-control"] == "no-store"
    (folder / "photos" / photo["path"]).write_bytes(photo_bytes(99))
    Album.open(folder / "album").update(progress=False)
    changed = client.get("/api/v1/albums/album/photos/1").json()
    assert changed["id"] == photo["id"]
    assert changed["picture"] != photo["picture"]
    hits = client.post("/api/v1/albums/album/search", json={"id": 0}).json()["hits"]
    assert {hit["picture"] for hit in hits if hit["id"] == 1} == {changed["picture"]}


def test_two_albums_of_vectors_made_elsewhere_share_no_address(tmp_path, connect):
    """Serve red, stop, serve blue on the same port: the browser must not show red under blue's names."""
    addresses = []
    for colour in COLOURS[:2]:
        root = tmp_path / colour[1:]
        root.mkdir()
        letter("A", "DejaVuSans", colour).save(root / "a.png")
        client = connect({"album": PixelAlbum.from_arrays(np.eye(1, 4), [{"path": "a.png"}], root=root)})
        addresses.append(address(json.loads(client.get("/api/v1/albums/album/photos/0").text), "thumbnail"))
        assert "max-age" in client.get(addresses[-1]).headers["cache-control"]
        assert all(client.get(other).headers["cache-control"] == "no-store" for other in addresses[:-1])
    assert len(set(addresses)) == 2
