"""Start-up: `smoothap --help` against a Python that does nothing, and a search by photo against `import torch`.

Run: python benchmarks/startup_speed.py
The aims: the help within 0.5 s, a search by photo in an album of 2,286 photos within 2.5 s of the processor. On a busy
machine look at the seconds of the processor, which waiting for a core does not lengthen.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

from smoothap.album import Album
from smoothap.models.efficientnet_lite import packaged_weights

HELP_AIM, SEARCH_AIM = 0.5, 2.5  # seconds by the clock, and of the processor
PHOTOS, DIMENSION = 2286, 1280


def seconds(*words: str) -> tuple[float, float]:
    """How long this Python takes with these arguments: by the clock, and of the processor."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, *words], check=True, capture_output=True)
    clock, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return clock, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def make_album(folder: Path) -> tuple[str, str]:
    """An album of the default network with drawn vectors, and a photo to search with."""
    random = np.random.default_rng(0)
    vectors = random.standard_normal((PHOTOS, DIMENSION), dtype=np.float32)
    paths = {"path": [f"{number}.jpg" for number in range(PHOTOS)]}
    Album.from_arrays(vectors, paths, folder / "album", model="tf_efficientnet_lite0@224")
    photo = folder / "photo.jpg"
    Image.fromarray(random.integers(0, 256, (600, 800, 3), dtype=np.uint8)).save(photo)
    return str(folder / "album"), str(photo)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    candidates = {
        "python -c pass": ("-c", "pass"),
        "smoothap --help": ("-m", "smoothap", "--help"),
        "smoothap train --help": ("-m", "smoothap", "train", "--help"),
        "python -c 'import torch'": ("-c", "import torch"),
    }
    with tempfile.TemporaryDirectory() as folder:
        if packaged_weights() is not None:
            album, photo = make_album(Path(folder))
            candidates["smoothap search --id"] = ("-m", "smoothap", "search", album, "--id", "1")
            candidates["smoothap search photo.jpg"] = ("-m", "smoothap", "search", album, photo)
        for words in candidates.values():
            seconds(*words)  # the first run compiles and fills the disk's cache
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in candidates}
        for _ in range(rounds):  # in turn, so that a busy moment hits all
            for name, words in candidates.items():
                times[name].append(seconds(*words))
    clock, processor = ({name: min(run[kind] for run in times[name]) for name in times} for kind in (0, 1))
    for name in candidates:
        print(
            f"{name:<26} {clock[name]:.2f} s by the clock ({clock[name] / clock['python -c pass']:.1f}x pass), "
            f"{processor[name]:.2f} s of the processor ({processor[name] / processor['python -c pass']:.1f}x)"
        )
    under = "under" if clock["smoothap --help"] < HELP_AIM else "over"
    print(f"smoothap --help is {under} {HELP_AIM} s by the clock")
    if (taken := processor.get("smoothap search photo.jpg")) is not None:
        under = "under" if taken < SEARCH_AIM else "over"
        print(f"a search by photo is {under} {SEARCH_AIM} s of the processor")


if __name__ == "__main__":
    main()
