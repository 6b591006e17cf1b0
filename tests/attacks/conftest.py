"""The server as a program of its own, so that its memory can be measured."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from page_albums import pixel_album

_TESTS = Path(__file__).parent.parent
_SERVER = """
import socket, sys
from pathlib import Path
from page_albums import pixel_album
from smoothap.server.settings import Limits
from smoothap.server.run import run_server
from smoothap.server.settings import Service

listener = socket.socket(fileno=int(sys.argv[1]))
limits = Limits(
    seconds_for_head=1.5, seconds_of_silence=1.5, seconds_to_send=4, seconds_to_read=2, decode_seconds=3
)
run_server({"letters": pixel_album(Path(sys.argv[2]))}, listener, Service(limits=limits))
"""


class Server:
    """A running server: its port, and how much memory it and its decoder hold."""

    def __init__(self, process, port):
        self.process, self.port = psutil.Process(process.pid), port

    @property
    def address(self):
        return f"http://127.0.0.1:{self.port}"

    def memory(self):
        """Resident bytes of the server and its children, pages of libraries counted once."""
        total = 0
        for each in [self.process, *self.process.children(recursive=True)]:
            try:
                total += each.memory_full_info().uss
            except psutil.NoSuchProcess:
                continue
        return total

    def open_files(self):
        return sorted(each.path for each in self.process.open_files())


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """The server's folder: its photos, its temporary files and where it was started."""
    return tmp_path_factory.mktemp("server")


@pytest.fixture(scope="session")
def server(folder):
    for name in ("photos", "temporary", "here"):
        (folder / name).mkdir()
    pixel_album(folder / "photos")
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    environment = {**os.environ, "TMPDIR": str(folder / "temporary"), "OMP_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = os.pathsep.join([str(_TESTS), *(each for each in sys.path if each)])
    process = subprocess.Popen(
        [sys.executable, "-c", _SERVER, str(listener.fileno()), str(folder / "photos")],
        pass_fds=[listener.fileno()], env=environment, cwd=folder / "here", stdout=subprocess.DEVNULL,
    )  # fmt: skip
    port = listener.getsockname()[1]
    listener.close()
    end = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            break
        except OSError:
            assert time.monotonic() < end
            assert process.poll() is None
            time.sleep(0.1)
    running = Server(process, port)
    warm_up(running)
    yield running
    process.terminate()
    assert process.wait(15) in (0, -15)


def warm_up(server):
    """One search and one upload, so that everything is loaded before memory is measured."""
    from attackers import ask, photo_bytes, upload

    assert ask(server.port, "GET", "/api/v1/albums")[0] == 200
    assert upload(server.port, "/api/v1/albums/letters/search/photo", photo_bytes())[0] == 200
    for photo in range(20):
        assert ask(server.port, "GET", f"/api/v1/albums/letters/photos/{photo}/image")[0] == 200
