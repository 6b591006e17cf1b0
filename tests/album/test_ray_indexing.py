"""An album made on Ray, on two nodes of this machine: nothing is lost and nothing is there twice, whoever is killed."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from photo_makers import photo_bytes, photo_folder, tiny_model

from smoothap.album import Album, shards
from smoothap.album.ingest import index_photos
from smoothap.album.shards import SHARDS
from smoothap.album.walk import walk

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'smoothap[ray]'")
# Ray leaves files and processes to the end
pytestmark = [pytest.mark.slow, pytest.mark.alone, pytest.mark.filterwarnings("ignore")]

SOURCE = os.pathsep.join([str(Path(__file__).parents[2] / "src"), os.environ.get("PYTHONPATH", "")])


@pytest.fixture(scope="module")
def cluster():
    """The address of a cluster of two nodes."""
    from ray.cluster_utils import Cluster

    os.environ["PYTHONPATH"] = SOURCE  # for the actors
    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": 1 << 27})
    nodes.add_node(num_cpus=1, object_store_memory=1 << 27)
    ray.init(address=nodes.address, include_dashboard=False, log_to_driver=False)
    yield nodes.address
    ray.shutdown()
    nodes.shutdown()


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A model, 120 photos and one file that is none; shards of ten photos."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(shards, "PHOTOS_A_SHARD", 10)
    tiny_model(tmp_path / "model")
    photo_folder(tmp_path / "photos", 120)
    (tmp_path / "photos" / "broken.jpg").write_bytes(b"no image")
    return tmp_path


def actors() -> list[int]:
    """The processes of Ray's that compute shards."""
    import psutil

    return [
        process.pid
        for process in psutil.process_iter(["cmdline"])
        if any("ray::_RayActor" in word for word in process.info["cmdline"] or ())
    ]


def indexed(place, cluster, **options) -> dict[str, int]:
    """What became of the photos."""
    made = index_photos(place / "photos", place / "album", ray=cluster, progress=False, **options)
    return made.report.counts()


def check(place):
    """The album is the one that a plain run makes."""
    album = Album.open(place / "album")
    album.verify()
    whole = Album.create(place / "whole", place / "model", place / "photos")
    whole.update(progress=False)
    assert sorted(album.photos.paths()) == sorted(whole.photos.paths())
    rows = {path: row for row, path in enumerate(whole.photos.paths())}
    wanted = whole.vectors[[rows[path] for path in album.photos.paths()]]
    assert abs(album.vectors - wanted).max() < 1e-5
    assert not (place / "album" / SHARDS).exists()
    assert len(album) == len(walk(place / "photos").files) - 1


def test_actors_on_two_nodes_make_the_album(cluster, place):
    counts = indexed(place, cluster, model=str(place / "model"))
    assert (counts["added"], counts["unreadable"], counts["seen"]) == (120, 1, 121)
    check(place)
    (place / "photos" / "new.png").write_bytes(photo_bytes(999))
    again = indexed(place, cluster)
    assert (again["added"], again["unchanged"], again["unreadable"]) == (1, 120, 1)


def test_parts_of_photos_are_those_of_a_plain_run(cluster, place):
    options = {"model": str(place / "model"), "regions": True}
    assert indexed(place, cluster, **options)["added"] == 120
    album = Album.open(place / "album")
    plain = index_photos(place / "photos", place / "plain", progress=False, **options).album
    photo = plain.photo_path(int(plain.photos.ids[7]))
    scores = {hit.path: hit.score for hit in plain.search(photo, k=120, space="region", rerank=False)}
    found = album.search(photo, k=120, space="region", rerank=False)
    assert len(found) == len(scores) == 120
    assert [hit.score for hit in found] == pytest.approx([scores[hit.path] for hit in found], abs=5e-3)


def test_a_killed_actor_loses_nothing(cluster, place):
    killed = []

    def kill():
        while not killed:
            for process in actors()[:1]:
                if list((place / "album" / SHARDS).glob("*.parquet")):
                    os.kill(process, signal.SIGKILL)
                    killed.append(process)
            time.sleep(0.01)

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    counts = indexed(place, cluster, model=str(place / "model"))
    thread.join()
    assert killed
    assert counts["seen"] == 121
    check(place)


def test_a_killed_driver_loses_nothing(cluster, place):
    command = [
        sys.executable, "-c",
        "import sys; from smoothap.album import shards, index_photos; shards.PHOTOS_A_SHARD = 10;"
        "index_photos(sys.argv[1], sys.argv[2], model=sys.argv[3], ray=sys.argv[4], progress=False)",
        *(str(place / name) for name in ("photos", "album", "model")), cluster,
    ]  # fmt: skip
    driver = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": SOURCE})
    while not (place / "album" / "album.db").exists() or not len(Album.open(place / "album")):
        assert driver.poll() is None
        time.sleep(0.02)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    before = len(Album.open(place / "album"))
    assert before > 0
    counts = indexed(place, cluster)
    assert counts["seen"] == 121
    check(place)
