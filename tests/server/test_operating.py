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
import uvicorn
from attackers import BOUNDARY, ask, form_of, upload
from page_albums import letter
from photo_makers import photo_bytes, photo_folder, tiny_model

from smoothap.album import Album
from smoothap.cli.serve import listen
from smoothap.server.app import create_app
from smoothap.server.observing import Metrics
from smoothap.server.run import configuration

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
    assert "The model of shop cannot be used" in answer.json()["detail"]


def test_metrics_count_answers_seconds_photos_and_refusals(connect, album):
    client = connect({"letters": album})
    content = io.BytesIO()
    letter("Q", "DejaVuSans").save(content, "PNG")
    for _ in range(3):
        assert (
            client.post("/api/v1/albums/letters/search/photo", files={"image": content.getvalue()}).status_code == 200
        )
    client.post("/api/v1/albums/letters/search/photo", files={"image": b"x"})
    client.get("/api/v1/albums", headers={"host": "evil.example"})
    client.post("/api/v1/albums/letters/search", content=b"x" * 300_000)
    found = samples(client.get("/metrics").text)
    by_photo = 'route="/albums/{album}/search/photo"'
    assert found[f'smoothap_requests_total{{{by_photo},status="200"}}'] == 3
    assert found[f'smoothap_requests_total{{{by_photo},status="422"}}'] == 1
    assert found['smoothap_requests_total{route="other",status="421"}'] == 1
    assert found['smoothap_refused_total{status="413"}'] == 1
    assert found[f"smoothap_request_seconds_count{{{by_photo}}}"] == 4
    assert found[f'smoothap_request_seconds_bucket{{le="+Inf",{by_photo}}}'] == 4
    assert found[f"smoothap_request_seconds_sum{{{by_photo}}}"] > 0
    assert found["smoothap_embedded_photos_total"] == 3
    assert found['smoothap_album_photos{album="letters"}'] == len(album)
    assert found[f'smoothap_album_version{{album="letters",version="{album.version}"}}'] == 1
    assert found['smoothap_working{queue="photos"}'] == 0


def test_a_server_that_is_not_ready_yet_has_refused_nobody():
    metrics = Metrics()
    for route in ("operating", "search", "operating"):
        metrics.answered(route, 503, 0.1)
    found = samples(metrics.text(()).decode())
    assert found['smoothap_requests_total{route="operating",status="503"}'] == 2
    assert found['smoothap_refused_total{status="503"}'] == 1


def test_the_log_has_a_line_for_each_request_and_no_secrets(connect, album):
    log = io.StringIO()
    client = connect({"letters": album}, token=TOKEN, write_token=WRITE, log=log)
    content = io.BytesIO()
    letter("Q", "DejaVuSans").save(content, "PNG")
    client.get("/health")
    client.get(f"/?token={TOKEN}", follow_redirects=False)
    client.get(f"/api/v1/albums?token={TOKEN}")
    client.get("/api/v1/albums?token=wrong-token-here", headers={"cookie": ""})
    bearer = {"authorization": f"Bearer {WRITE}"}
    client.post("/api/v1/albums/letters/search/photo", files={"image": content.getvalue()}, headers=bearer)
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    assert [(line["method"], line["path"], line["status"]) for line in lines] == [
        ("GET", "/", 303), ("GET", "/api/v1/albums", 200), ("GET", "/api/v1/albums", 401),
        ("POST", "/api/v1/albums/letters/search/photo", 200),
    ]  # fmt: skip
    assert set(lines[0]) == {"time", "address", "method", "path", "status", "seconds", "bytes"}
    assert lines[1]["bytes"] > 10
    for secret in (TOKEN, WRITE, "wrong-token-here"):
        assert secret not in log.getvalue()


def test_no_answer_waits_for_its_head_to_be_confirmed(album):
    """Else each takes 40 ms longer: a visitor's system confirms late, hoping to send something along."""
    listener = listen("127.0.0.1", 0)
    connections, server = [], uvicorn.Server(configuration(create_app({"letters": album})))

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
                statuses.append(upload(port, "/api/v1/albums/shop/search/photo", photo_bytes(3))[0])

        threads = [threading.Thread(target=search) for _ in range(3)]
        for thread in threads:
            thread.start()
        bearer = {"authorization": f"Bearer {WRITE}"}
        for number in range(4):  # whichever process takes it, all others see it
            form = form_of(photo_bytes(90 + number), f"new{number}.png")
            status, answer = ask(port, "POST", "/api/v1/albums/shop/photos", form, {**bearer, **BOUNDARY})
            assert status == 200, answer
            assert list(json.loads(answer)["ids"]) == [f"new{number}.png"]
            seen = [json.loads(ask(port, "GET", "/api/v1/albums/shop")[1])["photos"] for _ in range(6)]
            assert set(seen) == {7 + number}
        stop.set()
        for thread in threads:
            thread.join(60)
        assert set(statuses) == {200}
        found = samples(ask(port, "GET", "/metrics")[1].decode())
        assert found['smoothap_requests_total{route="/albums/{album}/search/photo",status="200"}'] == len(statuses)
        assert found["smoothap_processes"] == 2
        logged = {json.loads(line)["path"] for line in log.read_text().splitlines()}
        assert logged >= {f"/api/v1/albums/shop{rest}" for rest in ("", "/photos", "/search/photo")}
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


@pytest.mark.alone
def test_a_stop_finishes_what_has_begun(tmp_path):
    model = tiny_model(tmp_path / "model")
    Album.create(tmp_path / "shop", model, photo_folder(tmp_path / "photos", 6)).update(progress=False)
    with started(tmp_path / "shop") as (process, port):
        ask(port, "GET", "/api/v1/albums")
        body = form_of(photo_bytes(3))
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.putrequest("POST", "/api/v1/albums/shop/search/photo")
        connection.putheader("content-type", BOUNDARY["content-type"])
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
        assert len(json.loads(answer.read())["hits"]) == 6
        connection.close()
        assert process.wait(60) == 0
