"""The protocol of albums in parts, run for real with workers that die; only the network is replaced by a wait.

    python benchmarks/parts_simulation.py [--parts 10000] [--photos 20] [--workers 16] [--seconds 0.008]
                                          [--dying 0.01] [--folder FOLDER]

Each worker is a process that computes one part after the other: it reads small JPEGs, waits as long as the network
would take for them (`benchmarks/index_speed.py` prints that), and counts the part in. With a probability of --dying a
worker is killed at some moment of a part, and the part is given to another. At the end the album is opened: every photo
has to be there once, with its own vector. "waste" are photos that went through the network more than once, over all.
"""

import argparse
import multiprocessing
import os
import random
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from smoothap._core.progress import Progress
from smoothap.album import Album
from smoothap.album.description import Description, write_description
from smoothap.album.parts import PartUpdate, Share
from smoothap.album.walking import PhotoFile, Walk
from smoothap.data.transforms import Transform

DIMENSION = 64


def vector_of(path: str) -> np.ndarray:
    """What the network would say of a photo. (d,)"""
    values = np.random.default_rng(list(path.encode())).normal(size=DIMENSION)
    return (values / np.linalg.norm(values)).astype(np.float32)


class WaitingModel:
    """Takes its time, and counts the photos that it was given."""

    transform = Transform("whole", 8)

    def __init__(self, seconds: float, seen: Any, slot: int) -> None:
        self.seconds, self.seen, self.slot = seconds, seen, slot

    def embed_batches(self, batches: Any) -> Iterator[tuple[np.ndarray, Any]]:
        """The vectors of each batch, after a while."""
        for _, photos in batches:
            self.seen[self.slot] += len(photos)
            time.sleep(self.seconds * len(photos))
            yield np.stack([vector_of(photo.file.path) for photo in photos]), photos


def work(
    folder: Path,
    shares: list[list[PhotoFile]],
    jpeg: bytes,
    options: argparse.Namespace,
    calls: Connection,
    *count: Any,
) -> None:
    """A worker: computes the parts that it is told to, until it dies or is told that there are no more."""
    model: Any = WaitingModel(options.seconds, *count)
    while (order := calls.recv()) is not None:
        (number, dies_after), begun = order, time.process_time()
        if dies_after is not None:
            threading.Timer(dies_after, os.kill, (os.getpid(), signal.SIGKILL)).start()
        PartUpdate(
            folder, lambda: model, None, Share(number, len(shares)), Walk(shares[number - 1], {}, {}), readers=1,
            progress=False, read=lambda file: jpeg + file.path.encode(),
        ).run()  # fmt: skip
        calls.send(time.process_time() - begun)


def simulate(
    folder: Path, shares: list[list[PhotoFile]], jpeg: bytes, options: argparse.Namespace
) -> tuple[int, int, list[float]]:
    """Have all parts computed; photos that went through the network, workers that died, and each part's own cost."""
    context = multiprocessing.get_context("fork")
    seen, chance = context.RawArray("q", options.workers), random.Random(0)
    waiting, deaths, costs = list(range(len(shares), 0, -1)), 0, list[float]()
    running: dict[Any, tuple[Any, Connection, int, int]] = {}  # by what tells of them: process, pipe, slot, part

    def start(slot: int) -> None:
        calls, theirs = context.Pipe()
        process = context.Process(target=work, args=(folder, shares, jpeg, options, theirs, seen, slot), daemon=True)
        process.start()
        theirs.close()  # so that a worker that is dead is heard of
        give(process, calls, slot)

    def give(process: Any, calls: Connection, slot: int) -> None:
        if not waiting:
            calls.send(None)
            return
        number = waiting.pop()
        span = 2 * options.seconds * len(shares[number - 1]) + 0.2
        calls.send((number, chance.uniform(0, span) if chance.random() < options.dying else None))
        running[calls] = process, calls, slot, number

    with Progress("Parts", len(shares), "parts") as line:
        for slot in range(min(options.workers, len(shares))):
            start(slot)
        while running:
            for ready in wait(list(running)):
                process, calls, slot, number = running.pop(ready)
                try:
                    costs.append(calls.recv())
                except EOFError:
                    deaths += 1
                    waiting.append(number)
                    start(slot)
                else:
                    line.advance()
                    give(process, calls, slot)
    return sum(seen), deaths, costs


def check(folder: Path, shares: list[list[PhotoFile]]) -> None:
    """Every photo is there, once, with its own vector; all parts are whole."""
    album, given = Album.open(folder, engine="exact"), sorted(file.path for files in shares for file in files)
    paths = list(album.photos.paths())
    assert sorted(paths) == given, "photos are lost or there twice"
    assert len(set(album.photos.ids.tolist())) == len(given)
    assert [(part.number, part.given, part.indexed) for part in album.parts] == [
        (number, len(files), len(files)) for number, files in enumerate(shares, start=1)
    ]
    for start in range(0, len(paths), 1 << 14):
        wanted = np.stack([vector_of(path) for path in paths[start : start + (1 << 14)]])
        assert np.array_equal(album.vectors[start : start + (1 << 14)], wanted), "a photo has another's vector"


def main() -> None:
    """Simulate, check, and print what it took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", type=int, default=10_000)
    parser.add_argument("--photos", type=int, default=20, help="in a part, on average")
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=0.008, help="that the network takes for a photo")
    parser.add_argument("--dying", type=float, default=0.01)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    shares: list[list[PhotoFile]] = [[] for _ in range(options.parts)]
    for number in range(options.parts * options.photos):
        file = PhotoFile(f"{number:08d}.jpg", 1_000, 1)
        shares[Share(1, options.parts).place(file.path)].append(file)
    with tempfile.TemporaryDirectory() as temporary:
        folder = (options.folder or Path(temporary)) / "album"
        folder.mkdir(parents=True)
        picture = Path(temporary) / "photo.jpg"
        Image.new("RGB", (16, 16), "grey").save(picture)
        write_description(folder, Description(DIMENSION))
        begun = time.perf_counter()
        seen, deaths, costs = simulate(folder, shares, picture.read_bytes(), options)
        taken = time.perf_counter() - begun
        check(folder, shares)
        photos, tenth = sum(map(len, shares)), max(1, len(costs) // 10)
        ideal = photos * options.seconds / options.workers
        print(
            f"{options.parts:,} parts of {photos:,} photos by {options.workers} workers, of whom {deaths} were killed: "
            f"{taken:.0f} s, {taken / ideal:.2f} times the network's wait alone; waste {(seen - photos) / photos:.2%}; "
            f"each photo is there once, with its own vector; a part takes {1000 * np.median(costs[:tenth]):.0f} ms of "
            f"the processor in the first tenth, {1000 * np.median(costs[-tenth:]):.0f} ms in the last"
        )


if __name__ == "__main__":
    main()
