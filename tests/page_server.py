"""The real server in a process or a thread of the tests, on a port of its own."""

import contextlib
import socket
import threading
import time

import uvicorn

from smoothap.web.running import HeadTimeoutProtocol
from smoothap.web.server import create_app


@contextlib.contextmanager
def served(albums, *, seconds_for_the_head=10.0, **options):
    """Serve albums on a free port for the length of the block; gives the port."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))

    class Protocol(HeadTimeoutProtocol):
        head_seconds = seconds_for_the_head

    config = uvicorn.Config(
        create_app(albums, **options), http=Protocol, ws="none", log_level="error", access_log=False, backlog=1024
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    end = time.monotonic() + 20
    while not server.started and time.monotonic() < end:
        time.sleep(0.02)
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(10)
        listener.close()
