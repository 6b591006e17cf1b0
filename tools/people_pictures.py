"""Makes the pictures of docs/people.md in Chromium, from a folder with a folder for each person.

    python tools/people_pictures.py FOLDER [OUT] [--keep FOLDER]

The photos in the docs are those of Caltech 101, folder "Faces", by Fei-Fei Li, Marco Andreeto, Marc'Aurelio Ranzato and
Pietro Perona (CC BY 4.0). The names are made up.
"""

import argparse
import io
import shutil
import socket
import tempfile
import threading
import time
from pathlib import Path

import uvicorn
from PIL import Image
from playwright.sync_api import Page, sync_playwright

from smoothap.album.ingest import index_photos
from smoothap.server.app import create_app
from smoothap.server.run import configuration

FIGURES = Path(__file__).parents[1] / "docs" / "figures"
NAMES = ("Anna", "Ben", "Clara")
SIZE = (1100, 720)


def take(page: Page, file: Path) -> None:
    """Keep what is on the screen as a JPEG, once all of it has come."""
    page.wait_for_timeout(1_000)
    on_screen = "one.checkVisibility() && one.getBoundingClientRect().top < innerHeight"  # the others wait for that
    while page.evaluate(f"[...document.images].some((one) => one.src && !one.complete && {on_screen})"):
        page.wait_for_timeout(100)
    Image.open(io.BytesIO(page.screenshot())).convert("RGB").save(file, quality=82)
    print(f"{file}: {file.stat().st_size:,} bytes")


def main() -> None:
    """Make the album, name some people, serve it, and take the pictures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", nargs="?", type=Path, default=FIGURES)
    parser.add_argument("--keep", type=Path, help="a folder for the album: the next time, it is there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary, sync_playwright() as session, socket.socket() as listener:
        album = index_photos(options.folder, (options.keep or Path(temporary)) / "album", people=True).album
        asked = album.people.questions(1)[0].other  # so that the first question has a name in it
        others = [group.number for group in album.people.groups() if group.number != asked]
        for name, number in zip(NAMES, [asked, *others], strict=False):
            album.people.name(number, name)
        listener.bind(("127.0.0.1", 0))
        server = uvicorn.Server(configuration(create_app({"Family": album})))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.05)
        browser = session.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": SIZE[0], "height": SIZE[1]})
        page.goto(f"http://127.0.0.1:{listener.getsockname()[1]}/#people=1")
        page.wait_for_selector(".person")
        take(page, options.out / "people_tab.jpg")
        page.click(".person .cover")
        page.wait_for_selector(".tile .frame")
        take(page, options.out / "people_person.jpg")
        page.click(".tile .picture")
        page.wait_for_selector("#viewer .face")
        take(page, options.out / "people_photo.jpg")
        browser.close()
        server.should_exit = True
        thread.join(10)


if __name__ == "__main__":
    main()
