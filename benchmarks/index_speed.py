"""Indexing against what its parts cost: the network, and reading, hashing and thumbnails. The aim: at most 1.05 times.

    python benchmarks/index_speed.py [--photos FOLDER] [--megapixels 0.3 12] [--model NAME]
                                     [--size 224] [--most 192] [--rounds 9] [--workers N] [--processes 1 2]

With --processes, the photos are indexed once more in parts by that many processes, start-up and counting in included.
The parts are measured one after the other, by the seconds of all cores together; with every core busy all the time,
indexing would take their sum divided by the cores. Without --photos, photos of that many megapixels are drawn.
"""

import argparse
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as the smoothap command has it: waiting costs no processor time

import numpy as np
import torch
from PIL import Image

from smoothap._core.memory import freed_memory_kept
from smoothap.album import Album
from smoothap.album.identity import load_model
from smoothap.album.ingest import index_photos
from smoothap.album.prepare import BATCH, PreparedPhoto, files_below, in_order
from smoothap.album.prepare import prepare as prepare_file
from smoothap.album.walk import walk
from smoothap.models import Embedder

AIM = 1.05


def draw_photos(folder: Path, number: int, megapixels: float) -> None:
    """Photos as JPEG: soft shapes with some grain; 16 different ones, each under many names."""
    random = np.random.default_rng(0)
    width, height = round((megapixels * 1e6 * 4 / 3) ** 0.5), round((megapixels * 1e6 * 3 / 4) ** 0.5)
    grain = random.normal(0, 6, (height, width, 1))
    for photo in range(min(number, 16)):
        shapes = Image.fromarray(random.integers(0, 256, (12, 16, 3), dtype=np.uint8))
        pixels = np.asarray(shapes.resize((width, height), Image.Resampling.BICUBIC)) + grain
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(folder / f"{photo:04}.jpg", quality=90)
    for photo in range(16, number):
        shutil.copyfile(folder / f"{photo % 16:04}.jpg", folder / f"{photo:04}.jpg")


def processor_seconds(work: Callable[[], object]) -> float:
    """What some work takes of all cores together."""
    start = time.process_time()
    work()
    return time.process_time() - start


def measure(photos: Path, title: str, model: Embedder, options: argparse.Namespace) -> None:
    """Print the parts, the whole, and their ratio."""
    files = walk(photos).files
    files = files[:: max(1, len(files) // options.most)][: options.most]

    def prepare() -> list[PreparedPhoto]:
        read = files_below(photos)
        outcomes = in_order(lambda file: prepare_file(read, file, None, model.transform), files, options.workers)
        return [outcome for outcome in outcomes if isinstance(outcome, PreparedPhoto)]

    views = torch.stack([photo.view for photo in prepare() if photo.view is not None])

    def forward() -> None:
        with torch.inference_mode(), freed_memory_kept():  # as indexing does
            for start in range(0, len(views), BATCH):
                model(views[start : start + BATCH])

    forward()
    cores = os.cpu_count() or 1
    rows: list[tuple[float, float, float, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(options.rounds):
            network, reading = processor_seconds(forward), processor_seconds(prepare)
            album = Album.create(Path(folder) / str(turn), model, photos)
            start, busy = time.perf_counter(), time.process_time()
            album.add([file.path for file in files], workers=options.workers, progress=False)
            rows.append((network, reading, time.perf_counter() - start, time.process_time() - busy))
            shutil.rmtree(Path(folder) / str(turn))
    network, reading, whole, spent = (statistics.median(column) for column in zip(*rows, strict=True))
    ratio = statistics.median(row[2] * cores / (row[0] + row[1]) for row in rows)
    print(
        f"{len(views):,} {title} at {model.transform.size} px: network {network:.1f} s and reading {reading:.1f} s of "
        f"the processor, indexing {spent:.1f} s; indexed in {whole:.1f} s by the clock on {cores} cores, {ratio:.2f} "
        f"of the parts (aim: at most {AIM})",
        flush=True,
    )


def measure_processes(photos: Path, model: Embedder, options: argparse.Namespace) -> None:
    """Print how many photos a second that many processes index in parts, against the network alone."""
    files = walk(photos).files
    view = torch.zeros(BATCH, 3, model.transform.size, model.transform.size)
    with torch.inference_mode(), freed_memory_kept():
        model(view)
        start = time.perf_counter()
        for _ in range(max(1, len(files) // BATCH)):
            model(view)
        alone = max(1, len(files) // BATCH) * BATCH / (time.perf_counter() - start)
    with tempfile.TemporaryDirectory() as folder:
        saved = model.save(Path(folder) / "model")
        for processes in options.processes:
            start = time.perf_counter()
            index_photos(photos, Path(folder) / str(processes), model=str(saved), processes=processes, progress=False)
            speed = len(files) / (time.perf_counter() - start)
            print(
                f"  {processes} process(es), start-up included: {speed:.1f} photos a second, {speed / alone:.2f} of "
                f"the network alone ({alone:.1f}) on {os.cpu_count()} cores",
                flush=True,
            )


def main() -> None:
    """Small and large photos."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photos", type=Path)
    parser.add_argument("--megapixels", type=float, nargs="+", default=[0.3, 12.0])
    parser.add_argument("--model", default="tf_efficientnet_lite0")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--most", type=int, default=192)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--workers", type=int)
    parser.add_argument("--processes", type=int, nargs="*", default=[])
    options = parser.parse_args()
    model = load_model(options.model if Path(options.model).is_dir() else f"{options.model}@{options.size}").eval()
    if options.photos is not None:
        measure(options.photos, "photos", model, options)
        measure_processes(options.photos, model, options)
        return
    for megapixels in options.megapixels:
        with tempfile.TemporaryDirectory() as folder:
            draw_photos(Path(folder), options.most, megapixels)
            measure(Path(folder), f"photos of {megapixels:g} megapixels", model, options)
            measure_processes(Path(folder), model, options)


if __name__ == "__main__":
    main()
