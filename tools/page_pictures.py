"""Makes page_album.png, page_photo.png and page_narrow.png of docs/photos.md, in Chromium, and page_compare.png.

    python tools/page_pictures.py [FOLDER] [--after MODEL]

page_compare.png is made with --after, the model of a demo (runs/demo/model): glyphs as the network before training and
as that model sees them. Its caption has numbers, which are printed.

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

import numpy as np
import torch
import uvicorn
from guide_pictures import FIGURES, take, write_photos
from PIL import ExifTags, Image
from playwright.sync_api import Browser, sync_playwright

from smoothap import evaluate
from smoothap.album import Album
from smoothap.album.ingest import index_photos
from smoothap.data.datasets.glyphs import renderings
from smoothap.server.app import create_app
from smoothap.server.run import configuration

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


def write_glyphs(folder: Path) -> Path:
    """Characters in many fonts, a folder for each: a hundred of them drawn at random, and Q."""
    glyphs = renderings()
    drawn = np.random.default_rng(0).permutation(len(glyphs.class_names))[:100].tolist()
    chosen = {*drawn, *(place for place, letters in enumerate(glyphs.class_names) if "Q" in letters)}
    for row, label in enumerate(glyphs.labels.tolist()):
        if label in chosen:
            file = folder / f"{label:04d} {glyphs.class_names[label][0]}".rstrip("./") / f"{row:06d}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            glyphs.read(row).resize((160, 160), Image.Resampling.BICUBIC).save(file)
    return folder


def compare(browser: Browser, photos: Path, place: Path, after: Path, out: Path) -> None:
    """The page that compares two models, with a Q as the query."""
    albums = {
        name: index_photos(photos, place / name, model=model, labels="folders").album
        for name, model in (("before", "tf_efficientnet_lite0"), ("after", str(after)))
    }
    query = next(photo.id for photo in albums["before"].photos if str(photo.label).endswith("Q"))
    for name, album in albums.items():
        labels = np.unique([str(label) for label in album.photos.labels()], return_inverse=True)[1]
        report = evaluate(torch.tensor(album.vectors[:]), torch.from_numpy(labels))
        print(f"{name}: {len(album):,} glyphs, mAP {100 * report.mean_average_precision:.1f}%")
    with served(**albums) as address:
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.goto(f"{address}#photo={query},{query}")  # the same photos, so the same ids
        page.click("#welcome-close")
        page.wait_for_selector(".tile .score")
        take(page, out / "page_compare.png")


@contextmanager
def served(**albums: Album) -> Generator[str]:
    """The address of a page of the albums, which this computer alone sees."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        server = uvicorn.Server(configuration(create_app(albums)))
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
    parser.add_argument("--after", type=Path)
    options = parser.parse_args()
    out = options.out
    with tempfile.TemporaryDirectory() as temporary, sync_playwright() as session:
        place = Path(temporary)
        photos = as_taken(write_photos(place / "Pictures"))
        album = index_photos(photos, place / "album", model="tf_efficientnet_lite0").album
        browser = session.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        with served(Pictures=album) as address:
            look(browser, address, photo_of(album, SHOWN), out)
        if options.after is not None:
            compare(browser, write_glyphs(place / "glyphs"), place, options.after, out)
        browser.close()


if __name__ == "__main__":
    main()
