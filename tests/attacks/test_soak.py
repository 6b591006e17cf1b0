"""One server for a long time, while its album, its model's folder and its disk change and clients come, hang and go."""

import base64
import contextlib
import io
import json
import os
import random
import re
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np
import psutil
import pytest
from attackers import BOUNDARY, ask, connect, form_of, head, upload
from guarantees import short_or_long
from photo_makers import photo_bytes, tiny_model
from PIL import Image

from smoothap.album import Album, update
from smoothap.models import Embedder

SECONDS = int(os.environ.get("SMOOTHAP_SOAK_SECONDS", short_or_long(5, 1_800)))
CLIENTS = short_or_long(4, 12)
TESTS = Path(__file__).parent.parent
JSON = {"content-type": "application/json"}


class Client(threading.Thread):
    """A visitor who does anything, and keeps what it was answered until it has been looked at."""

    def __init__(self, port, seed, end):
        super().__init__()
        self.port, self.choose, self.end = port, random.Random(seed), end
        self.statuses, self.answers, self.error, self.ids = Counter(), [], None, [0]

    def run(self):
        doings = [self.list_photos, self.search, self.search, self.search_a_photo, self.look, self.download, self.hang]
        try:
            while time.monotonic() < self.end and len(self.answers) < 100_000:
                self.choose.choice(doings)()
        except Exception as error:
            self.error = error

    def ask(self, method, path, body=None, headers=None):
        status, answer = ask(self.port, method, path, body, headers, timeout=60)
        self.statuses[status] += 1
        return answer if status == 200 else None

    def list_photos(self):
        if answer := self.ask("GET", "/api/v1/albums/album/photos?limit=200"):
            page = json.loads(answer)
            self.ids = [photo["id"] for photo in page["photos"]] or [0]
            self.answers.append((page["version"], None, None, page["photos"]))

    def search(self):
        photo = self.choose.choice(self.ids)
        if answer := self.ask("POST", "/api/v1/albums/album/search", json.dumps({"id": photo, "limit": 200}), JSON):
            page = json.loads(answer)
            self.answers.append((page["version"], photo, None, page["hits"]))

    def search_a_photo(self):
        form = form_of(photo_bytes(self.choose.randrange(20)))
        if answer := self.ask("POST", "/api/v1/albums/album/search/photo", form, BOUNDARY):
            vector = json.loads(answer)["query"]
            if answer := self.ask("POST", "/api/v1/albums/album/search", json.dumps({**vector, "limit": 200}), JSON):
                page = json.loads(answer)
                numbers = np.frombuffer(base64.b64decode(vector["vector"]), "<f4")
                self.answers.append((page["version"], None, numbers, page["hits"]))

    def look(self):
        kind = self.choose.choice(["thumbnail", "image"])
        if answer := self.ask("GET", f"/api/v1/albums/album/photos/{self.choose.choice(self.ids)}/{kind}"):
            with Image.open(io.BytesIO(answer)) as picture:
                picture.load()

    def download(self):
        self.ask("POST", "/api/v1/albums/album/search.csv", json.dumps({"id": self.choose.choice(self.ids)}), JSON)

    def hang(self):
        """Ask and do not read, send half a head or half a photo, and go, or wait until one is sent away."""
        contents = [b"GET /api/al", head("/api/v1/albums/album/search/photo", Content_Length=500) + b"half"]
        contents.append(b"GET /api/v1/albums/album/photos?limit=200 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 20)
        with contextlib.suppress(OSError), connect(self.port) as connection:
            connection.sendall(self.choose.choice(contents))
            time.sleep(self.choose.uniform(0, 0.3))
            if self.choose.random() < 0.5:  # no farewell either
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, bytes([1, 0, 0, 0, 0, 0, 0, 0]))


def belongs_to_a_version(folder, answer, loaded):
    """That an answer is, photo by photo and score by score, what this one version of the album gives."""
    version, photo, vector, hits = answer
    if version not in loaded:
        with np.load(folder / "versions" / f"{version}.npz") as kept:
            loaded[version] = dict(kept)
    ids, names, vectors = (loaded[version][name] for name in ("ids", "names", "vectors"))
    rows = {int(identity): row for row, identity in enumerate(ids)}
    expected = set(rows) - {photo}
    assert {hit["id"] for hit in hits} == expected, version
    assert all(hit["path"] == names[rows[hit["id"]]] for hit in hits)
    if photo is not None or vector is not None:
        query = vectors[rows[photo]] if vector is None else vector
        scores = vectors.astype(np.float64) @ (query / np.linalg.norm(query))
        told = np.array([hit["score"] for hit in hits])
        # Ranked by neighbourhood: the places of the list have the scores of the plain one.
        assert np.allclose(told, np.sort(scores[[rows[hit["id"]] for hit in hits]])[::-1], atol=1e-5)


def resources(process):
    """Descriptors, processes and memory of the server and what it has started."""
    processes = [process, *process.children(recursive=True)]
    return process.num_fds(), len(processes), sum(each.memory_full_info().uss for each in processes)


def settled(process, port, most):
    """What the server holds once those who hung are gone, waited for at most half a minute."""
    end = time.monotonic() + 30
    while (held := resources(process))[0] > most and time.monotonic() < end:
        ask(port, "GET", "/api/v1/albums")
        time.sleep(0.5)
    return held


def start(*command, **options):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    environment["PYTHONPATH"] = os.pathsep.join([str(TESTS), *(path for path in sys.path if path)])
    return subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, text=True, env=environment, **options)


def visits(port, seconds, seed):
    end = time.monotonic() + seconds
    clients = [Client(port, seed + number, end) for number in range(CLIENTS)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    for client in clients:
        if client.error is not None:
            raise client.error
    return sum((client.statuses for client in clients), Counter()), [a for client in clients for a in client.answers]


@pytest.mark.alone
@pytest.mark.guarantee(22)
def test_a_served_album_may_change_under_its_visitors(tmp_path, measured):
    model = Embedder.load(tiny_model(tmp_path / "model"))
    tiny_model(tmp_path / "another", seed=1)
    indexer = start(str(Path(__file__).parent / "soak_indexer.py"), str(tmp_path), "0")
    server = None
    try:
        assert indexer.stdout.readline() == "ready\n"
        with (tmp_path / "server.log").open("w") as log:  # a pipe that nobody reads would stop the server one day
            server = start("-m", "smoothap", "serve", str(tmp_path / "album"), "--port", "0", stderr=log)
        told = "".join(iter(server.stdout.readline, "Stop    Ctrl-C\n"))
        port, process = int(re.search(r":(\d+)/", told)[1]), psutil.Process(server.pid)
        statuses, answers, loaded = Counter(), 0, {}
        visits(port, max(2, SECONDS / 20), 10_000)  # threads, caches and pools come into being
        before = settled(process, port, 0 if SECONDS > 60 else 10**6)
        end, turn = time.monotonic() + SECONDS, 0
        while time.monotonic() < end:
            turn += 1
            counted, kept = visits(port, min(30, max(1, end - time.monotonic())), turn * 100)
            statuses += counted
            answers += len(kept)
            for answer in kept:
                belongs_to_a_version(tmp_path, answer, loaded)
            while len(loaded) > 500:
                loaded.pop(next(iter(loaded)))
        (tmp_path / "stop").touch()
        changes = indexer.stdout.readline().strip()
        assert indexer.wait(600) == 0
        after = settled(process, port, before[0] + 5)
        assert server.poll() is None
        assert set(statuses) <= {200, 404, 409, 503}, statuses
        assert "Traceback" not in (tmp_path / "server.log").read_text()
        assert answers > SECONDS
        assert after[0] <= before[0] + 5, "descriptors"
        assert after[1] <= 2, "processes"
        assert after[2] < 1.1 * before[2] + 20_000_000, "memory"

        # The album is what an index from nothing makes, and the server has taken it up.
        fresh = Album.create(tmp_path / "fresh", tmp_path / "model", tmp_path / "photos")
        fresh.update(labels=update.labels_by_folder, progress=False)
        album = Album.open(tmp_path / "album")
        album.verify()
        vectors = {photo.path: vector for photo, vector in zip(fresh.photos, fresh.vectors, strict=True)}
        assert set(album.photos.paths()) == set(vectors)
        assert all(
            np.allclose(vector, vectors[photo.path], atol=1e-5)
            for photo, vector in zip(album.photos, album.vectors, strict=True)
        )
        listed = json.loads(ask(port, "GET", "/api/v1/albums/album/photos?limit=200")[1])
        assert {photo["path"] for photo in listed["photos"]} == set(vectors)
        embedded = json.loads(upload(port, "/api/v1/albums/album/search/photo", photo_bytes(3))[1])["query"]["vector"]
        with Image.open(io.BytesIO(photo_bytes(3))) as photo:
            expected = model.eval().embed([photo.convert("RGB")], progress=False)[0].numpy()
        assert np.allclose(np.frombuffer(base64.b64decode(embedded), "<f4"), expected, atol=1e-4)
        assert not list((tmp_path / "album").glob(".*.partial"))
        versions = len(list((tmp_path / "versions").iterdir()))
        measured(
            f"{SECONDS:,} s, {answers:,} answers looked at, {versions:,} versions "
            f"({', '.join(f'{count:,} x {status}' for status, count in sorted(statuses.items()))}); {changes}; "
            f"descriptors {before[0]} to {after[0]}, memory {after[2] / before[2] - 1:+.1%}"
        )
    finally:
        for process in filter(None, (indexer, server)):
            process.terminate()
            process.wait(20)
            process.stdout.close()
