"""`smoothap serve`: what it refuses before it starts, and that it starts, answers and ends."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys

import numpy as np
import pytest

from smoothap.album import Album
from smoothap.cli import app


def serve(*arguments):
    app(["serve", *map(str, arguments)], result_action="return_value", exit_on_error=False)


@pytest.fixture(scope="module")
def album(tmp_path_factory):
    folder = tmp_path_factory.mktemp("serve") / "album"
    metadata = [{"path": f"{number}.jpg", "label": "ab"[number % 2]} for number in range(6)]
    Album.from_arrays(np.random.default_rng(0).normal(size=(6, 4)), metadata, folder)
    return folder


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::"])
def test_beyond_this_machine_a_token_is_required(album, host, monkeypatch):
    monkeypatch.delenv("SMOOTHAP_TOKEN", raising=False)
    with pytest.raises(ValueError, match="a token is required: set SMOOTHAP_TOKEN"):
        serve(album, "--host", host)


def test_by_a_name_of_a_proxy_others_reach_the_page_so_a_token_is_required(album, monkeypatch):
    monkeypatch.delenv("SMOOTHAP_TOKEN", raising=False)
    with pytest.raises(ValueError, match=r"On photos\.example\.org .* a token is required: .*leave --allow-host out"):
        serve(album, "--allow-host", "photos.example.org")


def test_names_and_proxies_reach_the_server(album, monkeypatch):
    given = []
    monkeypatch.setattr("smoothap.server.run.run_server", lambda _, __, service, **___: given.append(service))
    options = ["--token", "only-for-this-test", "--allow-host", "photos.example.org", "--trusted-proxy", "192.0.2.7"]
    serve(album, "--port", 0, *options, "--allow-host", "*.shop", "--base-path", "/a/")
    assert given[0].names == ("photos.example.org", "*.shop")
    assert (given[0].proxies, given[0].base_path) == (("192.0.2.7",), "/a")
    with pytest.raises(ValueError, match=r"a name such as .* not 'https://shop'"):
        serve(album, *options, "--allow-host", "https://shop")
    with pytest.raises(ValueError, match=r"such as /search, not 'search'"):
        serve(album, "--port", 0, "--base-path", "search")
    with pytest.raises(ValueError, match=r"IP address of a proxy, such as .* not 'proxy'"):
        serve(album, "--trusted-proxy", "proxy")


def test_two_albums_without_a_common_photo_are_not_compared(album, tmp_path, monkeypatch):
    monkeypatch.setattr("smoothap.server.run.run_server", lambda *_, **__: None)  # a server that started would not end
    metadata = [{"path": f"other-{number}.jpg"} for number in range(6)]
    Album.from_arrays(np.random.default_rng(0).normal(size=(6, 4)), metadata, tmp_path / "strangers")
    with pytest.raises(ValueError, match="no photo in common"):
        serve(album, tmp_path / "strangers", "--port", 0)


@pytest.mark.parametrize("token", ["short", "with spaces in it", "täglich-Brot-heute"])
def test_a_weak_or_odd_token_is_refused(album, token):
    with pytest.raises(ValueError, match="12 or more letters"):
        serve(album, "--token", token)


def test_a_port_that_is_taken_is_told(album):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(ValueError, match=r"cannot be listened on .*another --port"):
            serve(album, "--port", other.getsockname()[1])
    with pytest.raises(ValueError, match="from 0 to 65535"):
        serve(album, "--port", 70_000)


def test_no_album_is_told(tmp_path):
    with pytest.raises(OSError, match="There is no album in"):
        serve(tmp_path, "--port", 0)


def test_it_tells_its_address_answers_and_ends_on_ctrl_c(album):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(each for each in sys.path if each)}
    environment |= {"SMOOTHAP_TOKEN": "only-for-this-test", "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "smoothap", "serve", str(album), str(album), "--port", "0"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip
    try:
        told = ""
        while "Stop" not in told:
            line = process.stdout.readline()
            assert line, process.stderr.read()
            told += line
        assert "6 photos" in told
        assert "only-for-this-test" not in told  # what the environment keeps is not for a log
        address = re.search(
            r"http://127\.0\.0\.1:(\d+)/ +\(with \?token= and the token of SMOOTHAP_TOKEN\)$", told, re.M
        )
        connection = http.client.HTTPConnection("127.0.0.1", int(address[1]), timeout=20)
        connection.request("GET", "/api/v1/albums", headers={"authorization": "Bearer only-for-this-test"})
        assert len(json.loads(connection.getresponse().read())["albums"]) == 2
        connection.close()
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
        assert process.stderr.read() == ""
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()


@pytest.mark.parametrize("command", ["serve", "photos"])
def test_a_port_that_is_none_is_refused(tmp_path, command):
    Album.from_arrays(np.eye(2), path=tmp_path / "album")
    with pytest.raises(ValueError, match="from 0 to 65535, not 99999"):
        app([command, str(tmp_path / "album"), "--port", "99999"], result_action="return_value")
