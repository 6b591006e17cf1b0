"""The page over a large album against one over a small one: the first screen, and how smoothly it scrolls, in Chromium.

Run: python benchmarks/page_speed.py
     python benchmarks/page_speed.py --photos 2000 --photos 50000
The aims: the first screen within a second of opening, and frames while scrolling that take no longer over 200,000
photos than over 2,000. Photos are random patches with thumbnails of the usual size, vectors have 512 numbers.
"""

import argparse
import io
import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import numpy as np
from PIL import Image
from playwright.sync_api import Page, sync_playwright

from smoothap.album.photos import new_record
from smoothap.album.store import Store

FIRST_SCREEN_AIM = 1.0  # seconds
DIMENSION, PICTURES, BATCH = 512, 500, 20_000
SCROLLS, STEP = 80, 700  # turns of the wheel, and how far each goes, in pixels: not to the end of 2,000 photos
# Resolves when every picture that is seen is there, with the milliseconds since the page was asked for.
FIRST_SCREEN = """() => new Promise((done) => {
  const look = () => {
    const all = [...document.querySelectorAll(".tile img")];
    const seen = all.filter((each) => each.getBoundingClientRect().top < innerHeight);
    if (seen.length >= 12 && seen.every((each) => each.complete && each.naturalWidth)) done(performance.now());
    else requestAnimationFrame(look);
  };
  look();
})"""
WATCH_FRAMES = """() => {
  window.frames_taken = [];
  let last = performance.now();
  const next = (now) => { window.frames_taken.push(now - last); last = now; requestAnimationFrame(next); };
  requestAnimationFrame(next);
}"""


def thumbnails() -> list[bytes]:
    """Different pictures, as an index makes them."""
    random, made = np.random.default_rng(0), list[bytes]()
    for _ in range(PICTURES):
        patches = random.integers(0, 256, (8, 8, 3), dtype=np.uint8)
        stream = io.BytesIO()
        Image.fromarray(patches).resize((256, 192), Image.Resampling.BICUBIC).save(stream, "JPEG", quality=80)
        made.append(stream.getvalue())
    return made


def make_album(folder: Path, photos: int) -> None:
    """An album of this many photos, without their files."""
    random, pictures = np.random.default_rng(1), thumbnails()
    store = Store.create(folder, DIMENSION)
    with store.writing():
        for start in range(0, photos, BATCH):
            rows = range(start, min(start + BATCH, photos))
            vectors = random.standard_normal((len(rows), DIMENSION), dtype=np.float32)
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
            records = [
                new_record(
                    f"folder {row % 40}/IMG_{row:06d}.jpg", bytes=3_000_000, width=4032, height=3024,
                    sha256=row.to_bytes(32, "big"), taken=1_500_000_000 + 600 * row, camera=f"camera {row % 7}",
                )
                for row in rows
            ]  # fmt: skip
            store.add(records, vectors, [pictures[row % PICTURES] for row in rows])


def serve(album: Path) -> tuple["subprocess.Popen[bytes]", str]:
    """A server of the album in a process of its own, which answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "smoothap", "serve", str(album), "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}/"
    for _ in range(600):
        try:
            with urllib.request.urlopen(f"{address}api/v1/albums") as answer:
                json.load(answer)
            return process, address
        except OSError:
            time.sleep(0.1)
    process.kill()
    raise SystemExit("the server did not start")


def measured(page: Page, address: str) -> dict[str, float]:
    """Seconds to the first screen, and milliseconds of frames while the wheel turns: in the middle, and at worst."""
    page.goto(address, wait_until="commit")
    first = page.evaluate(FIRST_SCREEN) / 1000
    page.mouse.move(900, 500)
    page.evaluate(WATCH_FRAMES)
    for _ in range(SCROLLS):
        page.mouse.wheel(0, STEP)
        page.wait_for_timeout(16)
    frames = np.array(page.evaluate("window.frames_taken")[5:])
    page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    start = time.perf_counter()
    page.evaluate(FIRST_SCREEN)
    return {
        "first screen, s": first,
        "frame, median, ms": float(np.median(frames)),
        "frame, 95%, ms": float(np.quantile(frames, 0.95)),
        "frames above 50 ms, %": float(100 * (frames > 50).mean()),
        "jump to the end, s": time.perf_counter() - start,
        "tiles": page.evaluate("document.querySelectorAll('.tile').length"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photos", type=int, action="append", help="how many photos an album has; 2000 and 200000")
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        raise SystemExit("This needs Chromium: sh tests/browser/chromium.sh")
    results: dict[int, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as session:
        browser = session.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for photos in arguments.photos or [2_000, 200_000]:
            album = Path(folder) / str(photos)
            make_album(album, photos)
            server, address = serve(album)
            try:
                runs = []
                for _ in range(arguments.runs):
                    context = browser.new_context(viewport={"width": 1280, "height": 900})
                    runs.append(measured(context.new_page(), address))
                    context.close()
                results[photos] = {name: float(np.median([run[name] for run in runs])) for name in runs[0]}
            finally:
                server.terminate()
                server.wait()
            print(
                f"{photos:>9,} photos: " + ", ".join(f"{name} {value:.2f}" for name, value in results[photos].items())
            )
        browser.close()
    smallest, largest = min(results), max(results)
    ratio = results[largest]["frame, 95%, ms"] / results[smallest]["frame, 95%, ms"]
    print(f"a frame (95%) over {largest:,} photos takes {ratio:.2f} times as long as over {smallest:,}")
    worst = max(result["first screen, s"] for result in results.values())
    print(
        f"first screen {worst:.2f} s, aim {FIRST_SCREEN_AIM} s: {'reached' if worst <= FIRST_SCREEN_AIM else 'missed'}"
    )


if __name__ == "__main__":
    main()
