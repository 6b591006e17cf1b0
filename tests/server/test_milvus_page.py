"""The page over vectors in Milvus answers as it does over those in the album's folder."""

import shutil
import uuid

import pytest
from milvus_servers import EVERY_MILVUS, address_of
from photo_makers import photo_bytes, tiny_model

from smoothap.album import Album
from smoothap.album.engines.milvus import MilvusUnavailable
from smoothap.album.engines.milvus_push import push
from smoothap.cli.serve import open_albums

PHOTOS = 24


@pytest.fixture(scope="module", params=EVERY_MILVUS)
def both(request, tmp_path_factory, connect):
    """Clients of an album with its vectors here, and of the same with its vectors in Milvus."""
    folder = tmp_path_factory.mktemp("page")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        for number in range(PHOTOS):
            file = folder / "photos" / f"f{number % 3}" / f"{number:03d}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(photo_bytes(number - number % 4 if number % 4 == 1 else number, side=300))
        here = Album.create(folder / "here", tiny_model(folder / "model"), folder / "photos")
        here.update(labels=lambda path: path.split("/")[0], progress=False)
        address = f"{address_of(request, request.param)}/t{uuid.uuid4().hex[:12]}"
        push(here, address)
        shutil.copytree(folder / "here", folder / "there", ignore=shutil.ignore_patterns("vectors-*", "items-*"))
        there = open_albums([folder / "there"], engine=address)["there"]
        assert there.searching.name == "milvus"
        yield connect({"a": here}), connect({"a": there})


def same(both, method, address, **options):
    """What both answer, which is the same."""
    here, there = (client.request(method, address, **options) for client in both)
    assert (here.status_code, there.status_code) == (200, 200), there.text
    assert here.json() == there.json()
    return there.json()


def test_lists_searches_and_facts_are_the_same(both):
    assert same(both, "GET", "/api/v1/albums/a/photos?stacked=true")["folded"] > 0
    for question in (
        {"id": 3},
        {"id": 3, "stacked": True, "limit": 5},
        {"id": 3, "min_score": 0.2},
        {"id": 3, "right": [4], "wrong": [8, 9]},
        {"id": 3, "folder": "f1"},
        {"id": 3, "statistics": True},
    ):
        assert same(both, "POST", "/api/v1/albums/a/search", json=question | {"rerank": False})["hits"]
    same(both, "GET", "/api/v1/albums/a/choices")
    assert same(both, "GET", "/api/v1/albums/a/photos/4")["stack"]
    query = same(
        both, "POST", "/api/v1/albums/a/search/photo", files={"image": photo_bytes(100)}, data={"rerank": "false"}
    )["query"]
    same(both, "POST", "/api/v1/albums/a/search", json=query | {"rerank": False})
    assert same(both, "POST", "/api/v1/albums/a/search", json={"id": 3, "group_by": "label", "rerank": False})["groups"]


def test_pictures_and_collections_are_those_of_the_folder(both):
    here, there = (client.get("/api/v1/albums/a/photos/5/thumbnail") for client in both)
    assert there.status_code == 200
    assert here.content == there.content
    there = both[1]
    key = there.post("/api/v1/albums/a/collections", json={"name": "dogs"}).json()["chosen"]
    marks = {"right": [3, 4, 5], "wrong": [8, 9, 10]}
    assert there.post(f"/api/v1/albums/a/collections/{key}/marks", json=marks).status_code == 200
    found = there.post(f"/api/v1/albums/a/collections/{key}/next", json={"limit": 5})
    assert found.status_code == 200, found.text
    assert found.json()["missing"] is not None  # of photos that are all alike, none but copies is left
    search = there.post("/api/v1/albums/a/search", json={"id": 3, "collection": key})
    assert sorted(hit["id"] for hit in search.json()["hits"]) == [4, 5]


def test_a_server_that_is_away_is_an_answer_503(both, monkeypatch):
    def away(*_):
        raise MilvusUnavailable("Milvus does not answer")

    monkeypatch.setattr("smoothap.album.engines.milvus.MilvusSearch._scores", away)
    answer = both[1].post("/api/v1/albums/a/search", json={"id": 7})
    assert (answer.status_code, answer.json()["detail"]) == (503, "Milvus does not answer")
