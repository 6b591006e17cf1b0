"""The real server in a thread of the tests, on a port of its own."""

import contextlib
import socket
import threading
import time

import uvicorn

from smoothap.server.app import create_app
from smoothap.server.run import configuration
from smoothap.server.settings import Service


@contextlib.contextmanager
def served(albums, *, port=0, local=False, log=None, **options):
    """Serve albums on a port, or any that is free, for the length of the block; gives the port."""
    service = Service(**{"names": () if local else ("elsewhere",), **options})
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    server = uvicorn.Server(configuration(create_app(albums, service, log), service))
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
