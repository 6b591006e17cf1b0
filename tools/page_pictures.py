"""Makes page_album.png, page_photo.png and page_narrow.png of docs/page.md, in Chromium.

    python tools/page_pictures.py [FOLDER]

The photos are those of `guide_pictures.py`: emoji as Google (Noto, Apache License 2.0) and Twitter (Twemoji, CC BY 4.0)
draw them. They get made-up dates and cameras, and some of them copies.
"""

import argparse
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from guide_pictures import FIGURES, take, write_photos
from PIL import ExifTags, Image
from playwright.sync_api import Browser, sync_playwright

from smoothap.experiments import index_photos
from smoothap.search import Album
from smoothap.web._server import create_app
from smoothap.web.limits import Limits
from smoothap.web.running import http_server

CAMERAS = (("Canon", "Canon EOS R6"), ("Apple", "iPhone 15 Pro"), ("Google", "Pixel 8"))
SHOWN = 0x1F415  # a dog, which is looked at and searched with


def as_taken(folder: Path) -> Path:
    """Write a date and a camera into most photos, and make copies of some: the same to the byte, and smaller."""
    for number, file in enumerate(sorted(folder.rglob("*.jpg"))):
        with Image.open(file) as image:
            name, exif = image.info["comment"].decode(), Image.Exif()
            if number % 5:
                exif[ExifTags.Base.Make], exif[ExifTags.Base.Model] = CAMERAS[number % len(CAMERAS)]
                day = f"{2021 + number % 4}:{1 + number % 12:02d}:{1 + number % 28:02d} 1{number % 10}:30:00"
                exif.get_ifd(ExifTags.IFD.Exif)[ExifTags.Base.DateTimeOriginal] = day
            large = image.resize((1200, 1200), Image.Resampling.LANCZOS)
            large.save(file, quality=90, exif=exif, comment=name.encode())
        if number % 20 == 3:
            shutil.copy(file, file.with_name(f"{file.stem} copy.jpg"))
            large.resize((600, 600)).save(file.with_name(f"{file.stem} small.jpg"), quality=85, comment=name.encode())
    return folder


@contextmanager
def served(album: Album) -> Generator[str]:
    """The address of a page of the album, which this computer alone sees."""
    limits = Limits()
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        server = http_server(create_app({"Pictures": album}, limits=limits, local=True), limits)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.05)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        server.should_exit = True
        thread.join(10)


def photo_of(album: Album, code: int) -> int:
    """The first photo of an emoji."""
    for photo in album.photos:
        with Image.open(album.photo_path(photo.id)) as image:
            if image.info["comment"].decode() == f"U+{code:X}":
                return photo.id
    raise SystemExit(f"U+{code:X} is not among the drawings")


def look(browser: Browser, address: str, query: int, out: Path) -> None:
    """The album with the filters open, a photo large, and the first visit on a phone."""
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.goto(address)
    page.click("#welcome-close")
    page.click("#filter-details summary")
    page.select_option("#filter-folder", "animals")
    page.wait_for_selector(".tile .stack")
    take(page, out / "page_album.png")
    page.goto(f"{address}#photo={query}")
    page.wait_for_selector(".tile .score")
    page.click(".tile[data-place='0'] .picture")
    page.wait_for_selector("#viewer-facts dd")
    page.mouse.move(5, 5)
    take(page, out / "page_photo.png")
    phone = browser.new_page(viewport={"width": 390, "height": 760}, device_scale_factor=2)
    phone.goto(address)
    phone.wait_for_selector(".tile img")
    take(phone, out / "page_narrow.png")


def main() -> None:
    """Make the album, serve it, and take the pictures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("out", nargs="?", type=Path, default=FIGURES)
    out = parser.parse_args().out
    with tempfile.TemporaryDirectory() as temporary, sync_playwright() as session:
        place = Path(temporary)
        photos = as_taken(write_photos(place / "Pictures"))
        album = index_photos(photos, place / "album", model="tf_efficientnet_lite0").album
        browser = session.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        with served(album) as address:
            look(browser, address, photo_of(album, SHOWN), out)
        browser.close()


if __name__ == "__main__":
    main()
