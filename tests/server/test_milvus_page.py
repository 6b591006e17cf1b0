"""The page over an album in Milvus answers as it does over the same album in a folder, and keeps nothing of its own."""

import base64
import shutil
import uuid

import numpy as np
import pytest
from milvus_servers import EVERY_MILVUS, address_of
from photo_makers import photo_bytes, tiny_model
from PIL import Image
from smoothap.album.milvus_loading import load_album

from smoothap.album import Album

PHOTOS = 24


@pytest.fixture(scope="module", params=EVERY_MILVUS)
def both(request, tmp_path_factory, connect):
    """Clients of an album in a folder and of the same in Milvus, whose own folder is gone."""
    folder = tmp_path_factory.mktemp("page")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        for number in range(PHOTOS):
            file = folder / "photos" / f"f{number % 3}" / f"{number:03d}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(photo_bytes(number - number % 4 if number % 4 == 1 else number, side=300))
        made = Album.create(folder / "album", tiny_model(folder / "model"), folder / "photos")
        made.update(labels=lambda path: path.split("/")[0], progress=False)
        address = f"{address_of(request, request.param)}/t{uuid.uuid4().hex[:12]}"
        load_album(folder / "album", address)
        shutil.copytree(folder / "album", folder / "here")
        shutil.rmtree(folder / "album")
        here, there = Album.open(folder / "here"), Album.open(address)
        assert (len(here), len(there)) == (PHOTOS, PHOTOS)
        yield connect({"a": here}), connect({"a": there})


def same(both, method, address, **options):
    """What both answer, alike but for the version."""
    here, there = (client.request(method, address, **options) for client in both)
    assert (here.status_code, there.status_code) == (200, 200), there.text
    answers = [answer.json() for answer in (here, there)]
    for answer in answers:
        answer.pop("version", None)
    assert answers[0] == answers[1]
    return answers[1]


def test_lists_searches_and_facts_are_the_same(both):
    assert same(both, "GET", "/api/albums")["albums"][0]["takes_photos"]
    assert same(both, "POST", "/api/albums/0/browse", json={"stacked": True})["folded"] > 0
    for question in (
        {"photo": 3},
        {"photo": 3, "stacked": True, "limit": 5},
        {"photo": 3, "minimum": 0.2},
        {"photo": 3, "right": [4], "wrong": [8, 9]},
        {"photo": 3, "where": {"folder": "f1"}},
    ):
        assert same(both, "POST", "/api/albums/0/search", json=question)["hits"]
    same(both, "GET", "/api/albums/0/choices")
    assert same(both, "GET", "/api/albums/0/photos/4/facts")["stack"]
    vector = same(both, "POST", "/api/albums/0/embed", content=photo_bytes(100))
    assert len(base64.b64decode(vector["vector"])) == 32
    same(both, "POST", "/api/albums/0/search", json={"vector": vector["vector"]})


def test_programs_get_the_same_hits_and_groups(both):
    for question in ("k=5", "minimum=0.1&k=50", "group_by=label&k=3"):
        same(both, "POST", f"/api/v1/albums/a/search?id=3&{question}")


def test_pictures_come_from_milvus(both):
    here, there = (client.get("/api/albums/0/photos/5/thumbnail") for client in both)
    assert there.status_code == 200
    assert here.content == there.content
    Image.open(__import__("io").BytesIO(there.content)).load()


def test_collections_are_kept_and_looked_on_in(both):
    _, there = both
    key = there.post("/api/albums/0/collections", json={"name": "dogs"}).json()["chosen"]
    marks = {"right": [3, 4, 5], "wrong": [8, 9, 10]}
    answer = there.post(f"/api/albums/0/collections/{key}/marks", json=marks)
    assert answer.status_code == 200, answer.text
    assert there.get("/api/albums/0/collections").json()["collections"][0]["right"] == 3
    found = there.post(f"/api/albums/0/collections/{key}/next", json={"limit": 5})
    assert found.status_code == 200, found.text
    assert len(found.json()["hits"]) == 5
    search = there.post("/api/albums/0/search", json={"photo": 3, "where": {"collection": key}})
    assert [hit["id"] for hit in search.json()["hits"]] in ([4, 5], [5, 4])
    assert np.isfinite(search.json()["highest"])


def test_what_cannot_be_done_in_milvus_is_said(both):
    _, there = both
    answer = there.get("/api/albums/0/learning")
    assert answer.status_code in (200, 409), answer.text
    answer = there.post("/api/albums/0/photos/4/not-a-copy")
    assert answer.status_code == 422
    assert "copies" in answer.json()["error"]
