"""Several servers of the page before one album in Milvus keep nothing of their own: one is killed under load."""

import http.client
import json
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from milvus_servers import free_port
from smoothap.album.milvus_loading import load_album

from smoothap.album import Album

pytestmark = [pytest.mark.milvus, pytest.mark.alone, pytest.mark.slow]
PHOTOS, CLIENTS, TURNS = 400, 4, 25


class Proxy(BaseHTTPRequestHandler):
    """Hands each request to the next of its ports that answers, as a proxy in front of two servers does."""

    ports: tuple[int, ...] = ()
    turn = 0

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        Proxy.turn += 1
        for attempt in range(4):
            port = self.ports[(Proxy.turn + attempt) % len(self.ports)]
            asked = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            try:
                asked.request(self.command, self.path, body, {"content-type": "application/json"})
                answer = asked.getresponse()
                status, content = answer.status, answer.read()
                break
            except (OSError, http.client.HTTPException):
                continue
            finally:
                asked.close()
        else:
            status, content = 502, b"{}"
        self.send_response(status)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST  # noqa: N815

    def log_message(self, *_):
        return


def ask(port, method, path, content=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    body = None if content is None else json.dumps(content)
    connection.request(method, path, body, {"content-type": "application/json"})
    try:
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read() or b"{}")
    finally:
        connection.close()


def wait_for(port):
    for _ in range(600):
        try:
            if ask(port, "GET", "/api/albums")[0] == 200:
                return
        except OSError:
            time.sleep(0.2)
    pytest.fail("smoothap serve does not answer")


def test_two_servers_of_which_one_is_killed_give_no_wrong_answer_and_lose_no_mark(milvus_server, tmp_path):
    random = np.random.default_rng(0)
    vectors = np.repeat(random.standard_normal((PHOTOS // 20, 16)), 20, axis=0) + random.standard_normal((PHOTOS, 16))
    here = Album.from_arrays(vectors, path=tmp_path / "album")
    address = f"{milvus_server.address}/two_servers"
    load_album(tmp_path / "album", address)
    ports = free_port(), free_port()
    with (tmp_path / "log").open("w") as log:
        command = [sys.executable, "-m", "smoothap", "serve", address, "--port"]
        servers = [subprocess.Popen([*command, str(port)], stdout=log, stderr=log) for port in ports]
    proxy = ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    Proxy.ports = ports
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    try:
        for port in ports:
            wait_for(port)
        front = proxy.server_address[1]
        status, made = ask(front, "POST", "/api/albums/0/collections", {"name": "kept"})
        assert status == 200, made
        key, wrong, failed = made["chosen"], [], []

        def visit(client):
            for turn in range(TURNS):
                photo = client * TURNS + turn
                status, found = ask(front, "POST", "/api/albums/0/search", {"photo": photo, "limit": 10})
                wanted = [hit.id for hit in here.search(photo, 10)]
                if status != 200 or [hit["id"] for hit in found["hits"]] != wanted:
                    wrong.append((photo, status))
                status, said = ask(front, "POST", f"/api/albums/0/collections/{key}/marks", {"right": [photo]})
                if status != 200:
                    failed.append((photo, status, said))

        visitors = [threading.Thread(target=visit, args=(client,)) for client in range(CLIENTS)]
        for visitor in visitors:
            visitor.start()
        time.sleep(5)
        servers[0].kill()
        for visitor in visitors:
            visitor.join()
        assert not wrong
        assert not failed
        kept = Album.open(address).collections["kept"]
        assert sorted(kept.right) == list(range(CLIENTS * TURNS))  # every mark that was answered is there
    finally:
        proxy.shutdown()
        proxy.server_close()
        for server in servers:
            server.kill()
            server.wait()
