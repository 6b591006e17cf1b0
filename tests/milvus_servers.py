"""Servers of Milvus for the tests: the embedded engine, which is always there, and a real server where it is set up."""

import contextlib
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[1] / "tools" / "milvus_server.py"
sys.path.insert(0, str(TOOL.parent))
import milvus_server as tool  # noqa: E402

_PATIENCE = 240.0  # seconds until a server listens: 8 on a machine that has nothing else to do


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class RealServer:
    """A real server of Milvus, which can be killed and started again with what it has kept."""

    def __init__(self, data, options=()):
        self.data, self.port, self.options, self.process = data, free_port(), options, None
        self.address = f"milvus://127.0.0.1:{self.port}"

    def start(self):
        self.data.mkdir(parents=True, exist_ok=True)
        for _ in range(300):  # what was killed just now may still hold on to its ports
            if not tool.taken_ports(self.port, *tool.STORE_PORTS):
                break
            time.sleep(0.1)
        with (self.data / "log").open("ab") as log:
            self.log_before = log.tell()
            command = [sys.executable, str(TOOL), str(self.data), "--port", str(self.port), *self.options]
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        return self

    def wait(self):
        """Until it answers that all of it is healthy."""
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end:
            if self.process.poll() is not None:
                log = (self.data / "log").read_bytes()[self.log_before :].decode(errors="replace")
                if "bind failed" not in log and "address already in use" not in log:
                    pytest.fail(f"The Milvus server ended: {log[-2_000:]}")
                time.sleep(2)  # the system keeps a port for a minute when the server has closed a connection
                self.start()
            with contextlib.suppress(OSError):
                address = f"http://127.0.0.1:{self._health_port()}/healthz"
                if b"OK" in urllib.request.urlopen(address, timeout=5).read():
                    return self
            time.sleep(0.2)
        pytest.fail("The Milvus server does not answer.")

    def _health_port(self):
        with contextlib.suppress(OSError):
            for line in (Path("/proc") / str(self.process.pid) / "environ").read_bytes().split(b"\0"):
                if line.startswith(b"METRICS_PORT="):
                    return int(line.partition(b"=")[2])
        return 9091

    def kill(self):
        """As a power cut ends it."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(20)

    def stop(self):
        """It ignores a first SIGTERM while it is busy, so nobody waits for it for long."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.terminate()
        try:
            self.process.wait(2)
        except subprocess.TimeoutExpired:
            self.kill()


_running = []  # of which the last one answers, and the others wait: one server runs at a time


@contextlib.contextmanager
def real_server(data, options=()):
    """A running server; skips the test where it is not set up, and where another program has its ports."""
    if not tool.is_set_up():
        pytest.skip("the Milvus server is not set up: make test-milvus")
    pytest.importorskip("pymilvus")
    for other in _running[-1:]:
        other.stop()
    if not _running and (taken := tool.taken_ports(*tool.STORE_PORTS)):
        pytest.skip(f"port {taken[0]} is taken: one Milvus server runs at a time")
    server = RealServer(data, options)
    _running.append(server)
    try:
        yield server.start().wait()
    finally:
        server.stop()
        _running.remove(server)
        for other in _running[-1:]:
            other.start().wait()


@contextlib.contextmanager
def lite_server(folder):
    """The address of a server of milvus-lite."""
    pytest.importorskip("pymilvus")
    pytest.importorskip("milvus_lite")
    program = shutil.which("milvus-lite", path=str(Path(sys.executable).parent)) or shutil.which("milvus-lite")
    port = free_port()
    with (folder / "log").open("w") as log:
        command = [str(program), "server", "--data-dir", str(folder / "data"), "--host", "127.0.0.1", "--port"]
        server = subprocess.Popen([*command, str(port)], stdout=log, stderr=log)
        try:
            for _ in range(600):
                assert server.poll() is None, "milvus-lite ended"
                try:
                    socket.create_connection(("127.0.0.1", port), 1).close()
                    break
                except OSError:
                    time.sleep(0.1)
            else:
                pytest.fail("milvus-lite does not answer")
            yield f"milvus://127.0.0.1:{port}"
        finally:
            server.terminate()
            server.wait(20)


@pytest.fixture(scope="session")
def milvus(tmp_path_factory):
    """The address of an embedded Milvus."""
    with lite_server(tmp_path_factory.mktemp("milvus")) as address:
        yield address


@pytest.fixture(scope="session")
def milvus_server(tmp_path_factory):
    """A real Milvus server, one for all tests."""
    with real_server(tmp_path_factory.mktemp("milvus_server")) as server:
        yield server


REAL = pytest.param("milvus_server", marks=[pytest.mark.milvus, pytest.mark.alone])  # for parametrize: by its fixture
EVERY_MILVUS = [pytest.param("milvus"), REAL]


def address_of(request, name):
    """The address of the server that a parameter of EVERY_MILVUS names."""
    server = request.getfixturevalue(name)
    return server if isinstance(server, str) else server.address
