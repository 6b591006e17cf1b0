"""The files of deploy/ do what they say: nginx in front, the systemd unit, the steps of the Dockerfile."""

import contextlib
import http.client
import io
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from attackers import BOUNDARY, form_of
from page_albums import letter, pixel_album
from page_server import served
from PIL import Image

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
TOKEN = "a-long-secret-token"
NAME = "search.example.org"
NGINX = os.environ.get("NGINX") or shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")

pytestmark = pytest.mark.deploy


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


@contextlib.contextmanager
def nginx(folder, backend):
    """nginx with the server of deploy/nginx.conf, on a port of its own; gives that."""
    port = free_port()
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={NAME}",
         "-addext", f"subjectAltName=DNS:{NAME}", "-keyout", folder / "search.key", "-out", folder / "search.crt"],
        check=True, capture_output=True,
    )  # fmt: skip
    server = (DEPLOY / "nginx.conf").read_text()
    for ours, theirs in (
        ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"), ("/etc/nginx/", f"{folder}/"),
        ("127.0.0.1:8000", f"127.0.0.1:{backend}"), ("client_header_timeout 10s", "client_header_timeout 1s"),
        ("client_body_timeout 10s", "client_body_timeout 1s"),
    ):  # fmt: skip
        assert ours in server, ours
        server = server.replace(ours, theirs)
    temporary = "".join(
        f"{name}_temp_path {folder}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    user = "user root;" if os.geteuid() == 0 else ""  # else its workers may not write where this user's files are
    configuration = (
        f"{user} pid {folder}/pid; error_log {folder}/error.log; events {{}} http {{ {temporary}\n{server} }}\n"
    )
    (folder / "nginx.conf").write_text(configuration)
    # It would take a variable of its own name for sockets that it inherits.
    environment = {name: value for name, value in os.environ.items() if name != "NGINX"}
    command = [NGINX, "-p", folder, "-c", folder / "nginx.conf", "-g", "daemon off;"]
    process = subprocess.Popen(command, env=environment)
    try:
        end = time.monotonic() + 20
        while time.monotonic() < end:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            assert process.poll() is None, (folder / "error.log").read_text()
            time.sleep(0.05)
        yield port
    finally:
        process.terminate()
        process.wait(20)


@pytest.mark.skipif(NGINX is None, reason="nginx is not here: apt install nginx, or set NGINX to the program")
def test_behind_nginx_tls_ends_large_photos_pass_slow_clients_are_cut_and_the_token_works(tmp_path):
    album = pixel_album(tmp_path / "letters", letters="ARQ")
    options = {"token": TOKEN, "names": (NAME,), "proxies": ("127.0.0.1",)}
    with served({"letters": album}, **options) as backend, nginx(tmp_path, backend) as port:
        trust = ssl.create_default_context(cafile=tmp_path / "search.crt")

        def ask(method, path, body=None, **headers):
            connection = http.client.HTTPSConnection("127.0.0.1", port, context=trust, timeout=60)
            connection._context.check_hostname = False  # by address; the certificate itself is checked
            connection.request(method, path, body, {"host": NAME, "content-type": "application/json", **headers})
            answer = connection.getresponse()
            content = answer.read()
            connection.close()
            return answer, content

        assert ask("GET", "/api/v1/albums")[0].status == 401
        bearer = {"authorization": f"Bearer {TOKEN}"}
        answer, content = ask("GET", "/api/v1/albums", **bearer)
        assert (answer.status, json.loads(content)["albums"][0]["name"]) == (200, "letters")
        ours = {"host": f"{NAME}:{port}", "origin": f"https://{NAME}:{port}"}  # what a browser sends on such a port
        answer, content = ask("POST", "/api/v1/albums/letters/search", '{"id": 0}', **ours, **bearer)
        assert answer.status == 200, content
        page, _ = ask("GET", f"/?token={TOKEN}")
        assert page.status == 303
        assert "secure" in page.headers["set-cookie"].lower()  # nginx said that the visitor came by TLS
        pixels = np.random.default_rng(0).integers(0, 256, (2_600, 2_600, 3), dtype=np.uint8)
        pixels[600:2000, 600:2000] = np.asarray(letter("Q", "DejaVuSans", size=1400))
        large = io.BytesIO()
        Image.fromarray(pixels).save(large, "BMP")
        assert large.tell() > 20_000_000
        form = form_of(large.getvalue())
        answer, content = ask("POST", "/api/v1/albums/letters/search/photo", form, **bearer, **BOUNDARY)
        assert answer.status == 200, content
        assert len(json.loads(content)["hits"]) == 20
        with trust.wrap_socket(socket.create_connection(("127.0.0.1", port)), server_hostname=NAME) as slow:
            slow.sendall(b"GET / HTTP/1.1\r\nHost: ")
            slow.settimeout(30)
            assert slow.recv(100) == b""  # cut, and never heard of by the server
        assert ask("GET", "/api/v1/albums", **{"host": "evil.example", **bearer})[0].status == 421


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not here: it comes with systemd"
)
def test_the_unit_is_one_that_systemd_takes(tmp_path):
    unit = (DEPLOY / "smoothap.service").read_text()
    program = re.search(r"ExecStart=(\S+)", unit)[1]
    (tmp_path / "smoothap.service").write_text(unit.replace(program, sys.executable))
    done = subprocess.run(["systemd-analyze", "verify", tmp_path / "smoothap.service"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def commands_of(file):
    """Words after `smoothap serve` in a file of deploy/."""
    text = file.read_text()
    if file.name == "Dockerfile":
        return json.loads(re.search(r"^ENTRYPOINT (.+)$", text, re.MULTILINE)[1])[1:]
    return re.search(r"^ExecStart=\S+ (.+)$", text, re.MULTILINE)[1].split()


@pytest.mark.parametrize("name", ["Dockerfile", "smoothap.service"])
def test_their_commands_are_taken_by_the_command_line(name, monkeypatch):
    from smoothap.cli import app

    words = commands_of(DEPLOY / name)
    if name == "Dockerfile":
        words += json.loads(re.search(r"command: (\[.+\])$", (DEPLOY / "compose.yaml").read_text(), re.MULTILINE)[1])
        words = [word.replace("${NAME:-localhost}", "localhost") for word in words]
    monkeypatch.setenv("SMOOTHAP_TOKEN", TOKEN)
    command, bound, _ = app.parse_args(words, print_error=False, exit_on_error=False)
    assert command.__name__ == "serve"
    assert bound.arguments["access_log"] == "-"


def test_the_steps_of_the_dockerfile_make_a_server_in_a_clean_environment(tmp_path):
    """As the build does them, in a virtual environment instead of the image."""
    context = tmp_path / "source"  # what .dockerignore lets through
    context.mkdir()
    for name in re.findall(r"^!(\S+)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE):
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, context / name)
    text = (DEPLOY / "Dockerfile").read_text().replace("\\\n", "")
    step = re.search(r"^RUN (PIP_CONSTRAINT.+?) && rm", text, re.MULTILINE)[1].replace("/source", str(context))
    variable, *words = step.replace('"', "").split()
    name, _, value = variable.partition("=")
    environment = {key: each for key, each in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "clean"], check=True)
    python, program = tmp_path / "clean" / "bin" / "python", tmp_path / "clean" / "bin" / "smoothap"
    done = subprocess.run(
        [python, "-m", *words], env={**environment, name: value}, capture_output=True, text=True, check=False
    )
    if done.returncode and ("No matching distribution" in done.stderr or "connection" in done.stderr.lower()):
        pytest.skip("the package index cannot be reached from here")
    assert done.returncode == 0, done.stderr[-2000:]
    pixel_album(tmp_path / "letters", letters="AR")
    model = ["--model", "test_resnet", "--weights", "none"]
    subprocess.run(
        [program, "index", tmp_path / "letters", "--out", tmp_path / "album", *model],
        check=True, env=environment, capture_output=True,
    )  # fmt: skip
    words, port = commands_of(DEPLOY / "Dockerfile"), free_port()
    words = [str(tmp_path / "album") if word == "/album" else word for word in words]
    process = subprocess.Popen(
        [program, *words, "--port", str(port)], env={**environment, "SMOOTHAP_TOKEN": TOKEN}, stdout=subprocess.DEVNULL
    )
    try:
        end, status = time.monotonic() + 120, 0
        while status != 200 and time.monotonic() < end:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            with contextlib.closing(connection), contextlib.suppress(OSError):
                connection.request("GET", "/ready")
                status = connection.getresponse().status
            time.sleep(0.2)
        assert status == 200
    finally:
        process.terminate()
        assert process.wait(60) == 0
