"""A real Milvus server that is killed and started again in the middle of a load and of a thousand searches."""

import threading
import time

import numpy as np
import pytest
from milvus_servers import real_server
from smoothap.album.milvus_loading import load_album
from smoothap.album.milvus_server import MilvusServer, MilvusUnavailable
from test_milvus_albums import answers, facts_of, vectors_of

from smoothap.album import Album

pytestmark = [pytest.mark.milvus, pytest.mark.alone, pytest.mark.slow]
PATIENCE = 240.0
SEARCHES = 1000


@pytest.fixture
def server(tmp_path):
    with real_server(tmp_path / "server") as running:
        yield running


def killed_and_started(server):
    """Kill the server now, and start it again a moment later, while others go on."""
    server.kill()
    time.sleep(1)
    server.start()


def test_a_server_killed_in_the_middle_of_a_load_and_of_a_thousand_searches(server, tmp_path, monkeypatch):
    rows = 3_000
    here = Album.from_arrays(vectors_of(rows), facts_of(rows), path=tmp_path / "album")
    monkeypatch.setattr("smoothap.album.milvus_loading._BYTES_AT_ONCE", 60_000)
    monkeypatch.setattr("smoothap.album._milvus_storage._PATIENCE", PATIENCE)
    monkeypatch.setattr("smoothap.album._milvus_vectors.FEW", 30)
    ask, sent, kills = MilvusServer.ask, [], []

    def watched(self, method, *arguments, **options):
        if method == "upsert" and not arguments[0].endswith(("_about", "_pictures")):
            sent.append(len(arguments[1]))
            if len(sent) == 15:
                kills.append(threading.Thread(target=killed_and_started, args=(server,)))
                kills[0].start()
        return ask(self, method, *arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(MilvusServer, "ask", watched)
        loaded = load_album(tmp_path / "album", f"{server.address}/one", patience=PATIENCE)
    assert len(kills) == 1
    assert loaded.photos == loaded.sent == rows
    kills[0].join()
    there = Album.open(f"{server.address}/one")
    assert np.array_equal(there.vectors[:], here.vectors)  # nothing lost, and every bit as it was
    assert there._storage.server.count("one") == rows  # and nothing twice

    queries = np.random.default_rng(2).integers(0, rows, SEARCHES).tolist()
    wanted = {query: answers(here.search(query, 5)) for query in sorted(set(queries))}
    wrong = []
    for place, query in enumerate(queries):
        if place == SEARCHES // 3:
            again = threading.Thread(target=killed_and_started, args=(server,))
            again.start()
        found = answers(there.search(query, 5))
        if found != wanted[query]:
            wrong.append((query, found))
    again.join()
    assert not wrong

    there._storage.server.patience, there._storage.server.timeout = 1.0, 2.0
    server.kill()
    with pytest.raises(MilvusUnavailable, match="does not answer at milvus://"):
        there.search(5, 5)
