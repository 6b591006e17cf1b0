"""The real server in a thread of the tests, on a port of its own."""

import contextlib
import socket
import threading
import time

from smoothap.web.limits import Limits
from smoothap.web.running import http_server
from smoothap.web.server import create_app


@contextlib.contextmanager
def served(albums, *, limits=None, **options):
    """Serve albums on a free port for the length of the block; gives the port."""
    limits = limits or Limits()
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    server = http_server(create_app(albums, limits=limits, **options), limits)
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
