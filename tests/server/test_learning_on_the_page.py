"""Learning from the page: one album at a time, in a process of its own, followed, undone, and by nobody else."""

import subprocess
import sys
import time

import numpy as np
import pytest
from teachable_albums import taught_album, vectors_and_labels

from smoothap.album import Album, Learnt, Projection
from smoothap.server import learning as learning_job
from smoothap.server.learning import LearningJob

ADDRESS, SEARCH = "/api/v1/albums/album/learning", "/api/v1/albums/album/search"


@pytest.fixture
def album(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return taught_album(tmp_path / "album")


def waited(client):
    """The answer when the learning is done; it has told how far it is meanwhile."""
    shares = []
    while (answer := client.get(ADDRESS).json())["running"]:
        shares.append(answer["share"])
        time.sleep(0.05)
    assert shares == sorted(shares)
    return answer


def test_it_learns_and_forgets(album, connect):
    client = connect({"album": album})
    before = client.post("/api/v1/albums/album/search", json={"id": 3}).json()
    assert client.get(ADDRESS).json() == {
        "learnt": False, "collections": 12, "wanted": 5, "photos": 4, "running": False, "share": 0.0, "said": None,
    }  # fmt: skip
    begun = client.post(ADDRESS)
    assert begun.status_code == 200
    assert begun.json()["running"]
    again = client.post(ADDRESS)
    assert (again.status_code, "is learning already" in again.json()["detail"]) == (409, True)
    done = waited(client)
    assert done["learnt"]
    assert done["said"].startswith("Photos that were left out find the others of their collection")
    after = client.post("/api/v1/albums/album/search", json={"id": 3}).json()
    assert after["version"] != before["version"]
    assert [hit["id"] for hit in after["hits"]] != [hit["id"] for hit in before["hits"]]
    forgotten = client.delete(ADDRESS)
    assert (forgotten.status_code, forgotten.json()["learnt"], forgotten.json()["said"]) == (200, False, None)
    restored = client.post("/api/v1/albums/album/search", json={"id": 3}).json()
    assert [(hit["id"], hit["score"]) for hit in restored["hits"]] == [
        (hit["id"], hit["score"]) for hit in before["hits"]
    ]
    assert client.delete(ADDRESS).status_code == 409


def test_a_vector_from_before_is_stale(tmp_path, connect):
    """The model is the same, and has as many numbers: yet a query has to be embedded again."""
    from page_albums import pixel_album

    album = pixel_album(tmp_path / "photos", path=tmp_path / "album")
    client = connect({"album": album})
    photo = (tmp_path / "photos" / album.photos[0].path).read_bytes()
    question = client.post(f"{SEARCH}/photo", files={"image": photo}).json()["query"]
    assert client.post("/api/v1/albums/album/search", json=question).status_code == 200
    same_size = Projection(np.eye(64, dtype=np.float32)[::-1].copy(), np.zeros(64, np.float32))
    Album.open(tmp_path / "album").learn(same_size, Learnt(64, 5, 20, (0.2, 0.1, 0.3)), None)
    refused = client.post("/api/v1/albums/album/search", json=question)
    assert (refused.status_code, "has learnt: give the photo again" in refused.json()["detail"]) == (409, True)
    again = client.post(f"{SEARCH}/photo", files={"image": photo}).json()["query"]
    best = client.post("/api/v1/albums/album/search", json=again).json()["hits"][0]
    assert (best["id"], round(best["score"], 3)) == (album.photos[0].id, 1.0)


def test_an_album_with_little_to_learn_from_says_so_at_once(tmp_path, connect, monkeypatch):
    vectors, _ = vectors_and_labels(classes=4, photos=4)
    album = Album.from_arrays(vectors, path=tmp_path / "album")
    monkeypatch.setattr(learning_job.subprocess, "Popen", lambda *_, **__: pytest.fail("a process was started"))
    answer = connect({"album": album}).post(ADDRESS)
    assert answer.status_code == 409
    assert "at least 5 collections of 4 photos or more, and it has 0" in answer.json()["detail"]


def test_an_album_in_memory_learns_nothing(connect):
    client = connect({"album": Album.from_arrays(np.eye(3))})
    assert client.get(ADDRESS).status_code == 409
    assert client.post(ADDRESS).status_code == 409


def test_a_process_that_prints_something_else_is_followed_to_its_end(album, monkeypatch):
    command = """print('hello of a library', chr(252)); print('[1]'); print('{"said": "done"}')"""
    begin = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda _, **options: begin([sys.executable, "-c", command], **options))
    job = LearningJob()
    job.start(album)
    end = time.monotonic() + 60
    while job.state(album).running and time.monotonic() < end:
        time.sleep(0.02)
    assert job.state(album).said == "done"
    assert not job.state(album).running


def test_a_process_that_dies_leaves_the_album_and_says_so(album, connect, monkeypatch):
    files = {file.name: file.read_bytes() for file in (album.collections.folder.parent).iterdir() if file.is_file()}
    monkeypatch.setattr(learning_job.sys, "executable", "/bin/false")
    client = connect({"album": album})
    client.post(ADDRESS)
    done = waited(client)
    assert not done["learnt"]
    assert "was ended before it was done, and the album is as it was" in done["said"]
    assert files == {
        file.name: file.read_bytes() for file in album.collections.folder.parent.iterdir() if file.is_file()
    }
