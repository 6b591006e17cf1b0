"""Makes docs/figures/tour.webp, the moving picture of the README, in Chromium: a search, marks, people, export.

    python tools/moving_picture.py CALTECH101 CALTECH_FACES [OUT]

Both are folders with a folder of photos for each class or person: parts of Caltech 101 by Fei-Fei Li, Marco Andreeto,
Marc'Aurelio Ranzato and Pietro Perona, CC BY 4.0.
"""

import argparse
import io
import random
import shutil
import tempfile
from pathlib import Path

from guide_pictures import FIGURES, settle
from page_pictures import served
from PIL import Image
from playwright.sync_api import Page, sync_playwright

from smoothap.album.ingest import index_photos

DOGS = "dalmatian"
OTHERS = (
    "Leopards",
    "wild_cat",
    "cougar_face",
    "strawberry",
    "llama",
    "okapi",
    "kangaroo",
    "elephant",
    "beaver",
    "rhino",
)
PEOPLE = {"p01": "Alex", "p02": "Ben", "p03": "Chris"}  # made-up names
WIDTH, HEIGHT = 1120, 700
SECOND = 1000


class Film:
    """Screenshots, each with how long it is shown in milliseconds."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.frames: list[tuple[Image.Image, int]] = []

    def shoot(self, milliseconds: int) -> None:
        """Show the page as it is now for so long."""
        settle(self.page)
        shot = Image.open(io.BytesIO(self.page.screenshot())).convert("RGB")
        self.frames.append((shot.resize((840, 525), Image.Resampling.LANCZOS), milliseconds))

    def save(self, file: Path) -> None:
        """All of it as one animated WebP that repeats."""
        (first, _), *rest = self.frames
        durations = [milliseconds for _, milliseconds in self.frames]
        first.save(
            file,
            save_all=True,
            append_images=[each for each, _ in rest],
            duration=durations,
            loop=0,
            quality=70,
            method=6,
        )


def collect(folder: Path, things: Path, people: Path) -> set[str]:
    """Some photos of each kind, mixed, under names as a camera gives them; the paths of the dogs."""
    dogs = sorted((things / DOGS).iterdir())[1:31]
    others = [file for name in OTHERS for file in sorted((things / name).iterdir())[:12]]
    others += [file for name in PEOPLE for file in sorted((people / name).iterdir())[:10]]
    mixed = random.Random(0).sample([*dogs, *others], len(dogs) + len(others))
    folder.mkdir()
    for number, file in enumerate(mixed):
        shutil.copy(file, folder / f"IMG_{number:04d}.jpg")
    return {f"IMG_{number:04d}.jpg" for number, file in enumerate(mixed) if file in dogs}


def walk_through(film: Film, address: str, query: int, dogs: set[int]) -> None:
    """Pick a photo, mark, ask what is missing, look at people, export."""
    page = film.page
    page.goto(address)
    page.click("#welcome-close")
    film.shoot(SECOND)
    page.goto(f"{address}#photo={query}")
    page.wait_for_selector(".tile .score")
    film.shoot(SECOND)
    mark(film, dogs, 4)
    page.keyboard.press("m")
    film.shoot(SECOND)
    mark(film, dogs, 3)
    page.click("#collections-open")
    page.wait_for_selector("#collection-zip:has-text(',')")
    film.shoot(3 * SECOND // 2)
    page.goto(f"{address}#people=1")
    page.reload()
    film.shoot(3 * SECOND // 2)


def mark(film: Film, dogs: set[int], number: int) -> None:
    """Press ✓ under some dogs of the list, one frame for each."""
    for tile in film.page.locator(".tile").all()[:12]:
        if number and int(tile.get_attribute("data-id") or -1) in dogs:
            tile.locator(".yes").click()
            film.page.wait_for_timeout(100)
            if film.page.locator("#naming").is_visible():
                film.page.fill("#naming-name", "my dog")
                film.page.keyboard.press("Enter")
            film.page.mouse.move(5, 5)
            film.shoot(SECOND // 4)
            number -= 1


def main() -> None:
    """Make the album, serve it, and take the frames."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("things", type=Path)
    parser.add_argument("people", type=Path)
    parser.add_argument("out", nargs="?", type=Path, default=FIGURES / "tour.webp")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary, sync_playwright() as session:
        photos = Path(temporary) / "Pictures"
        named = collect(photos, options.things, options.people)
        album = index_photos(photos, Path(temporary) / "album", people=True).album
        names = list(PEOPLE.values())
        for group in album.people.groups():
            if names:
                album.people.name(group.number, names.pop(0))
            else:
                album.people.stranger(group.number)  # a dog that looks like one
        dogs = {photo.id for photo in album.photos if photo.path in named}
        browser = session.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        with served(Pictures=album) as address:
            film = Film(browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}))
            walk_through(film, address, sorted(dogs)[12], dogs)
        browser.close()
    film.save(options.out)
    seconds = sum(milliseconds for _, milliseconds in film.frames) / SECOND
    print(f"{options.out}: {len(film.frames)} frames, {seconds:.1f} s, {options.out.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
