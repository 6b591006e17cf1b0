"""What operators see: health, readiness, metrics, a log without secrets, several processes as one server."""

import contextlib
import http.client
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
from page_albums import letter
from photo_makers import photo_bytes, photo_folder, tiny_model

from smoothap.album import Album
from smoothap.cli.serve import listen
from smoothap.server._metrics import Metrics
from smoothap.server._server import create_app
from smoothap.server.limits import Limits
from smoothap.server.running import http_server

TOKEN, WRITE = "a-long-secret-token", "another-secret-token"


def samples(text):
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r'[a-z_]+(\{(\w+="[^"]*",?)+\})? [-+0-9.e]+', line) for line in lines), text
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}


def test_health_and_readiness_ask_for_no_token_and_metrics_do(connect, album):
    client = connect({"letters": album}, token=TOKEN)
    assert client.get("/health").text == "alive\n"
    end = time.monotonic() + 60
    while client.get("/ready").status_code == 503 and time.monotonic() < end:
        time.sleep(0.05)
    assert client.get("/ready").text == "ready\n"
    assert client.get("/metrics").status_code == 401
    assert client.get("/metrics", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
    assert client.get("/health", headers={"host": "10.0.0.7:8000"}).status_code == 200


def test_a_server_whose_model_is_gone_is_alive_and_not_ready(connect, tmp_path):
    model = tiny_model(tmp_path / "model")
    Album.create(tmp_path / "shop", model, photo_folder(tmp_path / "photos", 4)).update(progress=False)
    album = Album.open(tmp_path / "shop")
    (tmp_path / "model" / "model.safetensors").unlink()
    client = connect({"shop": album})
    assert client.get("/health").status_code == 200
    end = time.monotonic() + 60
    while "being loaded" in (answer := client.get("/ready")).text and time.monotonic() < end:
        time.sleep(0.05)
    assert answer.status_code == 503
    assert "The model of shop cannot be used" in answer.json()["error"]


def test_metrics_count_answers_seconds_photos_and_refusals(connect, album):
    client = connect({"letters": album})
    content = io.BytesIO()
    letter("Q", "DejaVuSans").save(content, "PNG")
    for _ in range(3):
        assert client.post("/api/v1/albums/letters/search", content=content.getvalue()).status_code == 200
    client.post("/api/v1/albums/letters/search", content=b"x")
    client.get("/api/albums", headers={"host": "evil.example"})
    client.post("/api/albums/0/search", content=b"x" * 300_000)
    found = samples(client.get("/metrics").text)
    assert found['smoothap_requests_total{route="search",status="200"}'] == 3
    assert found['smoothap_requests_total{route="search",status="422"}'] == 1
    assert found['smoothap_requests_total{route="other",status="421"}'] == 1
    assert found['smoothap_refused_total{status="413"}'] == 1
    assert found['smoothap_request_seconds_count{route="search"}'] == 5
    assert found['smoothap_request_seconds_bucket{route="search",le="+Inf"}'] == 5
    assert found['smoothap_request_seconds_sum{route="search"}'] > 0
    assert found["smoothap_embedded_photos_total"] == 3
    assert found['smoothap_album_photos{album="letters"}'] == len(album)
    assert found[f'smoothap_album_version{{album="letters",version="{album.version}"}}'] == 1
    assert found['smoothap_working{queue="photos"}'] == 0


def test_a_server_that_is_not_ready_yet_has_refused_nobody():
    metrics = Metrics()
    for route in ("operating", "search", "operating"):
        metrics.answered(route, 503, 0.1)
    found = samples(metrics.text([]))
    assert found['smoothap_requests_total{route="operating",status="503"}'] == 2
    assert found['smoothap_refused_total{status="503"}'] == 1


def test_a_process_that_was_killed_leaves_nobody_in_the_queue():
    memory = Metrics.shared(2)
    Metrics(memory, 0).queued("photos", 2, 5)
    Metrics(memory, 0).answered("search", 200, 0.3)
    Metrics(memory, 1).queued("photos", 1, 1)
    found = samples(Metrics(memory, 0).text([]))  # the one that is started in its place
    assert (found['smoothap_working{queue="photos"}'], found['smoothap_queue{queue="photos"}']) == (1, 1)
    assert found['smoothap_requests_total{route="search",status="200"}'] == 1


def test_counts_of_several_processes_are_summed():
    memory = Metrics.shared(3)
    for row, number in enumerate((1, 2, 4)):
        for _ in range(number):
            Metrics(memory, row).answered("search", 200, 0.3)
    found = samples(Metrics(memory, 1).text([]))
    assert found['smoothap_requests_total{route="search",status="200"}'] == 7
    assert found['smoothap_request_seconds_bucket{route="search",le="0.25"}'] == 0
    assert found['smoothap_request_seconds_bucket{route="search",le="0.5"}'] == 7
    assert found["smoothap_processes"] == 3


def test_the_log_has_a_line_for_each_request_and_no_secrets(connect, album):
    log = io.StringIO()
    client = connect({"letters": album}, token=TOKEN, write_token=WRITE, log=log)
    content = io.BytesIO()
    letter("Q", "DejaVuSans").save(content, "PNG")
    client.get("/health")
    client.get(f"/?token={TOKEN}", follow_redirects=False)
    client.get(f"/api/albums?token={TOKEN}")
    client.get("/api/albums?token=wrong-token-here", headers={"cookie": ""})
    client.post(
        "/api/v1/albums/letters/search?k=1", content=content.getvalue(), headers={"authorization": f"Bearer {WRITE}"}
    )
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    assert [(line["method"], line["path"], line["status"]) for line in lines] == [
        ("GET", "/", 303), ("GET", "/api/albums", 200), ("GET", "/api/albums", 401),
        ("POST", "/api/v1/albums/letters/search", 200),
    ]  # fmt: skip
    assert set(lines[0]) == {"time", "address", "method", "path", "status", "seconds", "bytes"}
    assert lines[1]["bytes"] > 10
    for secret in (TOKEN, WRITE, "wrong-token-here"):
        assert secret not in log.getvalue()


def test_a_server_takes_one_connection_at_a_time_and_leaves_others_to_its_neighbours(album):
    """Else of several processes the one that wakes first takes all that wait, and the others are idle."""
    listener = listen("127.0.0.1", 0)
    waiting = [socket.create_connection(listener.getsockname()) for _ in range(20)]
    neighbour, took_one, go_on = listener.dup(), threading.Event(), threading.Event()
    server = http_server(create_app({"letters": album}), Limits())

    class Busy(server.config.http):
        def connection_made(self, transport):
            super().connection_made(transport)
            took_one.set()
            assert go_on.wait(30)

    server.config.http = Busy
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        assert took_one.wait(30)
        neighbour.settimeout(5)
        neighbour.accept()[0].close()
    finally:
        go_on.set()
        server.should_exit = True
        for each in (*waiting, neighbour):
            each.close()
        thread.join(30)


@pytest.mark.alone
def test_servers_on_one_socket_share_the_connections_that_come_at_once(album):
    listener = listen("127.0.0.1", 0)
    servers = [http_server(create_app({"letters": album}), Limits(), shares=True) for _ in range(2)]
    threads = [threading.Thread(target=each.run, kwargs={"sockets": [listener.dup()]}) for each in servers]
    waiting = []
    try:
        for thread in threads:
            thread.start()
        end = time.monotonic() + 30
        while not all(each.started for each in servers) and time.monotonic() < end:
            time.sleep(0.01)
        waiting += [socket.create_connection(listener.getsockname()) for _ in range(40)]
        while sum(held := [len(each.server_state.connections) for each in servers]) < 40 and time.monotonic() < end:
            time.sleep(0.01)
    finally:
        for each in servers:
            each.should_exit = True
        for each in (*waiting, listener):
            each.close()
        for thread in threads:
            thread.join(30)
    assert sum(held) == 40
    assert min(held) >= 10


def test_no_answer_waits_for_its_head_to_be_confirmed(album):
    """Else each takes 40 ms longer: a visitor's system confirms late, hoping to send something along."""
    listener = listen("127.0.0.1", 0)
    connections, server = [], http_server(create_app({"letters": album}), Limits())

    class Seen(server.config.http):
        def connection_made(self, transport):
            super().connection_made(transport)
            socket_ = transport.get_extra_info("socket")
            connections.append(socket_.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

    server.config.http = Seen
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        assert ask(listener.getsockname()[1], "GET", "/health")[0] == 200
    finally:
        server.should_exit = True
        thread.join(60)
        listener.close()
    assert connections
    assert all(connections)


@contextlib.contextmanager
def started(*arguments, **environment):
    """`smoothap serve` as a program; gives the process and its port."""
    variables = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(each for each in sys.path if each),
        "PYTHONUNBUFFERED": "1",
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "smoothap", "serve", *map(str, arguments), "--port", "0"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**variables, **environment},
    )  # fmt: skip
    try:
        told = ""
        while "Stop" not in told:
            line = process.stdout.readline()
            assert line, told
            told += line
        yield process, int(re.search(r":(\d+)/", told)[1])
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def ask(port, method, path, body=None, headers=()):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request(method, path, body, dict(headers))
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, content


@pytest.mark.alone
def test_several_processes_are_one_server_that_loses_nothing_while_the_album_changes_and_it_stops(tmp_path):
    model = tiny_model(tmp_path / "model")
    Album.create(tmp_path / "shop", model, photo_folder(tmp_path / "photos", 6)).update(progress=False)
    log = tmp_path / "access.jsonl"
    with started(tmp_path / "shop", "--processes", "2", "--access-log", log, SMOOTHAP_WRITE_TOKEN=WRITE) as (
        process,
        port,
    ):
        statuses, stop = [], threading.Event()

        def search():
            while not stop.is_set():
                statuses.append(ask(port, "POST", "/api/v1/albums/shop/search?k=2", photo_bytes(3))[0])

        threads = [threading.Thread(target=search) for _ in range(3)]
        for thread in threads:
            thread.start()
        bearer = {"authorization": f"Bearer {WRITE}"}
        for number in range(4):  # whichever process takes it, all others see it
            status, answer = ask(
                port, "POST", f"/api/v1/albums/shop/photos?path=new{number}.png", photo_bytes(90 + number), bearer
            )
            assert status == 200, answer
            assert list(json.loads(answer)["ids"]) == [f"new{number}.png"]
            seen = [json.loads(ask(port, "GET", "/api/v1/albums/shop")[1])["photos"] for _ in range(6)]
            assert set(seen) == {7 + number}
        stop.set()
        for thread in threads:
            thread.join(60)
        assert set(statuses) == {200}
        found = samples(ask(port, "GET", "/metrics")[1].decode())
        assert found['smoothap_requests_total{route="search",status="200"}'] == len(statuses)
        assert found["smoothap_processes"] == 2
        logged = {json.loads(line)["path"] for line in log.read_text().splitlines()}
        assert logged >= {f"/api/v1/albums/shop{rest}" for rest in ("", "/photos", "/search")}
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


@pytest.mark.alone
def test_a_stop_finishes_what_has_begun(tmp_path):
    model = tiny_model(tmp_path / "model")
    Album.create(tmp_path / "shop", model, photo_folder(tmp_path / "photos", 6)).update(progress=False)
    with started(tmp_path / "shop") as (process, port):
        ask(port, "GET", "/api/albums")
        body = photo_bytes(3)
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.putrequest("POST", "/api/v1/albums/shop/search?k=2")
        connection.putheader("content-length", str(len(body)))
        connection.endheaders(body[:100])
        time.sleep(0.5)
        process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        with pytest.raises(ConnectionRefusedError):  # nobody new is let in
            ask(port, "GET", "/health")
        connection.send(body[100:])
        answer = connection.getresponse()
        assert answer.status == 200
        assert len(json.loads(answer.read())["hits"]) == 2
        connection.close()
        assert process.wait(60) == 0
