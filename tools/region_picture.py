"""Makes docs/figures/page_things.jpg: a product that is found in photos in which it is a small part, in Chromium.

    python tools/region_picture.py CALTECH101 GROCERY [OUT]

A packet of a shop is pasted into 12 of 300 photos, at 30 to 50% of the width. The photos are parts of Caltech 101 by
Li, Andreeto, Ranzato and Perona (CC BY 4.0), the packets of the Grocery Store dataset by Klasson, Zhang and Kjellstrom
(MIT).
"""

import argparse
import random
import shutil
import tempfile
from pathlib import Path

from page_pictures import served
from people_pictures import FIGURES, take
from PIL import Image
from playwright.sync_api import sync_playwright

from smoothap.album.ingest import index_photos

PHOTOS, WITH_IT = 300, 12
PACKET = "Alpro-Blueberry-Soyghurt"


def make_photos(caltech: Path, packets: list[Path], folder: Path) -> None:
    """Photos with the packet in some of them; the first one is the packet itself."""
    draw, folder = random.Random(0), folder / "photos"
    folder.mkdir()
    shutil.copy(packets[0], folder / "packet.jpg")
    packet = Image.open(packets[0]).convert("RGB")
    files = draw.sample(sorted(caltech.rglob("*.jpg")), PHOTOS)
    for number, file in enumerate(files):
        photo = Image.open(file).convert("RGB")
        if number < WITH_IT:
            width = round(photo.width * draw.uniform(0.3, 0.5))
            part = packet.resize((width, min(photo.height, round(width * packet.height / packet.width))))
            photo.paste(part, (draw.randint(0, photo.width - width), draw.randint(0, photo.height - part.height)))
        photo.save(folder / f"IMG_{number:04}.jpg", quality=90)


def main() -> None:
    """Make the album, search in it, and take the picture."""
    parser = argparse.ArgumentParser()
    parser.add_argument("caltech", type=Path)
    parser.add_argument("grocery", type=Path)
    parser.add_argument("out", nargs="?", type=Path, default=FIGURES)
    options = parser.parse_args()
    packets = sorted(file for file in options.grocery.rglob("*.jpg") if file.parent.name == PACKET)
    if not packets:
        raise SystemExit(f"{options.grocery} has no folder {PACKET}")
    with tempfile.TemporaryDirectory() as temporary, sync_playwright() as session:
        make_photos(options.caltech, packets, Path(temporary))
        album = index_photos(Path(temporary) / "photos", Path(temporary) / "album", regions=True).album
        query = next(photo.id for photo in album.photos if photo.path == "packet.jpg")
        with served(Photos=album) as address:
            browser = session.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 1100, "height": 720})
            page.goto(f"{address}#photo={query}&space=region")
            page.get_by_text("Got it").click()
            page.wait_for_selector(".tile .frame")
            take(page, options.out / "page_things.jpg")
            browser.close()


if __name__ == "__main__":
    main()
