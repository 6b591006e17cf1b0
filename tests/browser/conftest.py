"""A headless Chromium of the system, and the page of an album of letters in it."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from page_albums import before_and_after, empty_album, pixel_album
from page_server import served

SHOTS = os.environ.get("SMOOTHAP_SCREENSHOTS")


@pytest.fixture(scope="session")
def browser():
    playwright = pytest.importorskip("playwright.sync_api")
    place = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if place is None:
        pytest.skip("no Chromium: apt-get install chromium")
    with playwright.sync_playwright() as session:
        running = session.chromium.launch(executable_path=place, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture(scope="session")
def letters(tmp_path_factory):
    return tmp_path_factory.mktemp("letters")


@pytest.fixture(scope="session")
def one(letters):
    with served({"letters": pixel_album(letters / "photos")}) as port:
        yield f"http://127.0.0.1:{port}/"


@pytest.fixture(scope="session")
def two(letters):
    with served(before_and_after(letters / "both")) as port:
        yield f"http://127.0.0.1:{port}/"


@pytest.fixture(scope="session")
def calibrated(letters):
    album = pixel_album(letters / "calibrated")
    labels = np.unique([photo.label for photo in album.photos], return_inverse=True)[1]
    album.calibrate(album.vectors, labels, "the letters themselves")
    with served({"letters": album}) as port:
        yield f"http://127.0.0.1:{port}/"


@pytest.fixture(scope="session")
def nothing():
    with served({"nothing": empty_album()}) as port:
        yield f"http://127.0.0.1:{port}/"


@pytest.fixture
def opened(browser):
    """Opens a page and sees that it says nothing to the console and asks no other host."""
    contexts, complaints, strangers = [], [], []

    def open_page(address, *, expected=(), **options):
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(10_000)

        def complain(text):
            # A server that was stopped before its page was closed is none of the page's mistakes.
            if not any(each in text for each in (*expected, "net::ERR_CONNECTION_REFUSED")):
                complaints.append(text)

        page.on("console", lambda message: complain(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: complain(str(error)))
        page.on(
            "request",
            lambda request: (
                strangers.append(request.url)
                if not request.url.startswith((address.partition("#")[0], "blob:"))
                else None
            ),
        )
        page.goto(address)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []
    assert strangers == []


@pytest.fixture
def keep_shot():
    """Keeps a screenshot in the folder of SMOOTHAP_SCREENSHOTS, if that is set."""

    def keep(page, name):
        if SHOTS:
            Path(SHOTS).mkdir(parents=True, exist_ok=True)
            while page.evaluate(
                "[...document.images].some((each) => !each.complete && each.getBoundingClientRect().top < innerHeight)"
            ):
                page.wait_for_timeout(50)
            page.wait_for_timeout(200)
            page.screenshot(path=Path(SHOTS) / f"{name}.png")

    return keep
