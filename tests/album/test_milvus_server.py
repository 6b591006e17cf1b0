"""A real Milvus server that is killed under a push and under searches, asks for a token, speaks TLS; taken ports."""

import shutil
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from milvus_servers import TOOL, real_server
from milvus_servers import tool as server_tool
from test_milvus import answers, facts_of, messages, opened, vectors_of

from smoothap.album import Album
from smoothap.album.engines.milvus import MilvusUnavailable, current_collection
from smoothap.album.engines.milvus_push import push
from smoothap.album.engines.milvus_server import MilvusAddress, MilvusServer

real = [pytest.mark.milvus, pytest.mark.alone, pytest.mark.slow]
PATIENCE = 240.0
SEARCHES = 500


def killed_and_started(server):
    """Kill the server now, and start it again a moment later, while others go on."""
    server.kill()
    time.sleep(1)
    server.start()


@pytest.fixture
def server(tmp_path):
    with real_server(tmp_path / "server") as running:
        yield running


class TestKilled:
    pytestmark = real

    def test_a_server_killed_in_the_middle_of_a_push_and_of_searches(self, server, tmp_path, monkeypatch):
        rows = 3_000
        here = Album.from_arrays(vectors_of(rows), facts_of(rows), path=tmp_path / "album")
        monkeypatch.setattr("smoothap.album.engines.milvus.PATIENCE", PATIENCE)
        monkeypatch.setattr("smoothap.album.engines.milvus.FEW", 30)
        kills = []

        def kill(number):
            if number == 15 and not kills:
                kills.append(threading.Thread(target=killed_and_started, args=(server,)))
                kills[0].start()

        address = f"{server.address}/one"
        with monkeypatch.context() as patched:
            messages(patched, kill)
            done = push(here, address, timeout=PATIENCE)
        assert len(kills) == 1
        assert done.photos == done.sent == rows
        kills[0].join()
        there = opened(here, address)
        assert np.array_equal(there.vectors[:], here.vectors[:])  # nothing lost, and every bit as it was
        asked = MilvusServer(MilvusAddress.parse(address))
        assert asked.count(current_collection(asked)) == rows + 1  # and nothing twice
        queries = np.random.default_rng(2).integers(0, rows, SEARCHES).tolist()
        wanted = {query: answers(here.search(query, 5)) for query in sorted(set(queries))}
        wrong = []
        for place, query in enumerate(queries):
            if place == SEARCHES // 3:
                again = threading.Thread(target=killed_and_started, args=(server,))
                again.start()
            if answers(there.search(query, 5)) != wanted[query]:
                wrong.append(query)
        again.join()
        assert not wrong
        there.searching._server.patience, there.searching._server.timeout = 1.0, 2.0
        server.kill()
        with pytest.raises(MilvusUnavailable, match="does not answer at milvus://"):
            there.search(5, 5)

    def test_a_push_that_is_killed_goes_on(self, server, tmp_path):
        rows = 20_000
        here = Album.from_arrays(vectors_of(rows), path=tmp_path / "album")
        address = f"{server.address}/two"
        asked = MilvusServer(MilvusAddress.parse(address))
        command = [sys.executable, "-m", "smoothap", "album", "push", str(tmp_path / "album"), address]
        pushing = subprocess.Popen([*command, "--connections", "1"], stdout=subprocess.DEVNULL)
        while pushing.poll() is None and not any("two_smoothap" in name for name in asked.ask("list_collections")):
            time.sleep(0.02)
        time.sleep(0.3)
        assert pushing.poll() is None, "it was done too soon"
        pushing.kill()
        pushing.wait()
        with pytest.raises(FileNotFoundError):
            opened(here, address)
        done = push(here, address)
        assert 0 < done.sent < rows
        assert np.array_equal(opened(here, address).vectors[:], here.vectors[:])

    def test_a_token_and_tls_are_asked_for_and_given(self, tmp_path, monkeypatch):
        if (openssl := shutil.which("openssl")) is None:
            pytest.skip("openssl makes the certificate, and is not here")
        certificate, key = tmp_path / "server.pem", tmp_path / "server.key"
        made = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
        made += ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)]
        subprocess.run(made, check=True, capture_output=True)
        album = Album.from_arrays(np.eye(8), path=tmp_path / "album")
        options = ["--authorization", "--tls", str(certificate), str(key)]
        with real_server(tmp_path / "server", options) as server:
            address = f"milvus+tls://localhost:{server.port}/one"
            with pytest.raises(ValueError, match="does not answer"):  # nobody vouches for the certificate
                push(album, address, timeout=1)
            monkeypatch.setenv("MILVUS_CERTIFICATE", str(certificate))
            with pytest.raises(ValueError, match="MILVUS_TOKEN"):
                push(album, address, timeout=1)
            monkeypatch.setenv("MILVUS_TOKEN", "root:wrong")
            with pytest.raises(ValueError, match="MILVUS_TOKEN"):
                push(album, address, timeout=1)
            monkeypatch.setenv("MILVUS_TOKEN", "root:Milvus")
            assert push(album, address).photos == 8
            assert len(opened(album, address).search(3, 7)) == 7


def test_taken_ports_are_told_in_a_sentence(tmp_path):
    if not server_tool.is_set_up():
        pytest.skip("the Milvus server is not set up: make test-milvus")
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        command = [sys.executable, str(TOOL), str(tmp_path / "data"), "--port", str(other.getsockname()[1])]
        done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert "is taken: one Milvus server runs at a time" in done.stderr
