"""Read + transform, images per second on one core, against plain Pillow + torchvision v2.

    python benchmarks/reading_speed.py [--folder PHOTOS] [--images 60] [--repeats 7]

Both ways end with a normalised float batch. They take turns, so that whatever else the machine does hits both alike;
rates are medians over the turns. Photos are generated at the sizes that data sets come in; those of --folder, or of
the grocery set where it is beside the project, are timed too.
"""

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from smoothap._core.extras import ensure_torchvision
from smoothap.data.reading import read_image
from smoothap.data.transforms import IMAGENET_MEAN, IMAGENET_STD, Transform

ensure_torchvision()
from torchvision.transforms import v2  # noqa: E402

GROCERY = Path(__file__).parents[2] / "shared" / "data" / "grocery"
SHAPES = {"500 x 375": (500, 375), "800 x 600": (800, 600), "1600 x 1200": (1600, 1200)}


def write_photo(path: Path, width: int, height: int, seed: int) -> None:
    """Blobs of every scale and some grain, which compress about as photographs do."""
    chance = np.random.default_rng(seed)
    pixels = np.zeros((height, width, 3))
    for cells in (3, 6, 12, 25, 50, 100):
        noise = Image.fromarray(chance.integers(0, 256, (cells, cells, 3), dtype=np.uint8))
        pixels += (np.asarray(noise.resize((width, height), Image.Resampling.BICUBIC)) - 128.0) / cells**0.5
    pixels += chance.normal(0, 3, (height, width, 1))
    Image.fromarray((pixels + 128).clip(0, 255).astype(np.uint8)).save(path, quality=90)


def plain(name: str, train: bool, size: int) -> Callable[[list[Path]], torch.Tensor]:
    """What one writes with Pillow and torchvision v2."""
    resized = round(size * 256 / 224)
    if name == "paper":
        steps = [v2.Resize((resized, resized)), v2.RandomCrop(size) if train else v2.CenterCrop(size)]
    else:
        steps = [v2.RandomResizedCrop(size)] if train else [v2.Resize(resized), v2.CenterCrop(size)]
    flip = [v2.RandomHorizontalFlip()] if train else []
    to_numbers = [v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(IMAGENET_MEAN, IMAGENET_STD)]
    transform = v2.Compose([*steps, *flip, *to_numbers])

    def run(paths: list[Path]) -> torch.Tensor:
        views = []
        for path in paths:
            with Image.open(path) as image:
                views.append(transform(image.convert("RGB")))
        return torch.stack(views)

    return run


def ours(name: str, train: bool, size: int) -> Callable[[list[Path]], torch.Tensor]:
    """The reader and the transform of this package."""
    transform = Transform(name, size)

    def run(paths: list[Path]) -> torch.Tensor:
        views = []
        for position, path in enumerate(paths):
            seed = (0, 0, position)
            image = read_image(path, shorter_side=transform.enough_pixels(train, seed))
            views.append(transform.train(image, seed) if train else transform.test(image))
        return transform.normalise(torch.stack(views))

    return run


def seconds(run: Callable[[list[Path]], torch.Tensor], paths: list[Path]) -> float:
    """How long one pass over the photos takes."""
    start = time.perf_counter()
    run(paths)
    return time.perf_counter() - start


def compare(title: str, paths: list[Path], size: int, repeats: int) -> None:
    """One line for each transform: images per second of both ways, and how far ahead ours is."""
    for name in ("paper", "released"):
        for train in (True, False):
            ways = ours(name, train, size), plain(name, train, size)
            turns = [[seconds(way, paths) for way in ways] for _ in range(repeats + 1)][1:]  # the first warms up
            own, other = (len(paths) / statistics.median(column) for column in zip(*turns, strict=True))
            ratio = statistics.median(theirs / mine for mine, theirs in turns)
            print(
                f"{title:<24} {size:>4} px  {name:<9} {'train' if train else 'test':<6}"
                f"{own:>7.0f}/s {other:>7.0f}/s  {ratio:.2f}x"
            )


def main() -> None:
    """Time both ways on generated and on real photos."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=GROCERY)
    parser.add_argument("--images", type=int, default=60)
    parser.add_argument("--repeats", type=int, default=7)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{'photos':<24} {'view':>7}  {'transform':<16}{'ours':>8} {'plain':>9}  ahead")
    with tempfile.TemporaryDirectory() as folder:
        for title, (width, height) in SHAPES.items():
            paths = [Path(folder) / f"{width}_{number}.jpg" for number in range(arguments.images)]
            for number, path in enumerate(paths):
                write_photo(path, width, height, number)
            compare(title, paths, 224, arguments.repeats)
            if title == "800 x 600":
                compare(title, paths, 64, arguments.repeats)
    photos = sorted(arguments.folder.rglob("*.jpg"))
    if photos:
        sample = random.Random(0).sample(photos, min(len(photos), arguments.images))
        for size in (112, 64):
            compare(f"{arguments.folder.name} ({len(photos):,})", sample, size, arguments.repeats)


if __name__ == "__main__":
    main()
