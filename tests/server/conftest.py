"""A client of the page's server without a network, on an album of letters."""

import pytest
from page_albums import before_and_after, pixel_album

from smoothap.server.app import create_app
from smoothap.server.settings import Service

ADDRESS = "http://127.0.0.1:8000"


@pytest.fixture(scope="session")
def album(tmp_path_factory):
    return pixel_album(tmp_path_factory.mktemp("letters"))


@pytest.fixture(scope="session")
def albums(tmp_path_factory):
    return before_and_after(tmp_path_factory.mktemp("both"))


@pytest.fixture(scope="session")
def connect():
    """Makes clients; each server is shut down at the end."""
    testclient = pytest.importorskip("starlette.testclient")
    clients = []

    def new(albums, address=ADDRESS, log=None, **options):
        app = create_app(albums, Service(**options), log)
        client = testclient.TestClient(app, base_url=address, raise_server_exceptions=False)
        client.__enter__()
        clients.append(client)
        return client

    yield new
    for client in clients:
        client.__exit__(None, None, None)


@pytest.fixture(scope="session")
def client(connect, album):
    return connect({"letters": album})
