"""What an album costs where its users wait: a mark, a photo removed, photos added, a filter, the first answer, memory.

    python benchmarks/album_cost.py [--rows 100000 1000000] [--folder FOLDER] [--against OLDER/src]

Albums of random vectors around centres, with labels, cameras, days, folders and two columns of a table, are made block
by block; with --folder they stay there for a second run. Each row is the median of some repetitions, by the clock. The
first answer is that of a process of its own, from opening the album to an exact answer, with the files in the page
cache; memory is what a server process holds for itself above one with an empty album.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from smoothap._core.progress import Progress
from smoothap.album import Album, Filter
from smoothap.album.photos import new_record, packed_columns
from smoothap.album.prepare import Embedded
from smoothap.album.store import Store
from smoothap.album.update import Updater
from smoothap.album.walk import PhotoFile, Walk

DIMENSION, BLOCK, CLUSTER = 512, 1 << 14, 20
KEPT, COLLECTIONS = 80_000, 16
REPEATS = 9
OPEN = (
    "import time, sys, numpy as np\nfrom smoothap.album import Album\n"
    "start = time.perf_counter(); album = Album.open(sys.argv[1], engine='exact')\n"
    "album.search(np.asarray(album.vectors[7]), k=20); print(time.perf_counter() - start)\n"
)
MEMORY = (
    "import sys, numpy as np\nfrom smoothap.album import Album\nimport smoothap.server\n"
    "album = Album.open(sys.argv[1])\n"
    "if len(album): album.searching.warm_up(); album.search(0, k=20)\n"
    "rows = open('/proc/self/smaps_rollup').read().split()\n"
    "print(sum(int(rows[rows.index(name) + 1]) for name in ('Private_Dirty:',)) / 1024)\n"
)


def block(number: int, rows: int) -> np.ndarray:
    """Vectors (rows, d) of length 1 around random centres."""
    random = np.random.default_rng(number)
    centres = random.standard_normal((-(-rows // CLUSTER), DIMENSION), dtype=np.float32).repeat(CLUSTER, 0)[:rows]
    vectors = centres + 0.8 * random.standard_normal((rows, DIMENSION), dtype=np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def record(row: int) -> dict[str, Any]:
    """What is known of a photo; half of all have the same shop, and each product a few hundred."""
    return new_record(
        f"{row % 97:02d}/{row:08d}.jpg", bytes=3_000_000, modified=row, sha256=row.to_bytes(32, "big"), width=4032,
        height=3024, label=f"label {row % 1000}", camera=f"camera {row % 7}", taken=1_300_000_000 + 600 * row,
        columns=packed_columns({"product": f"p{row // 500}", "shop": "one" if row % 2 else f"other {row % 10}"}),
    )  # fmt: skip


def make(folder: Path, rows: int) -> None:
    """An album of that many photos, without files or thumbnails."""
    if (folder / "album.db").exists():
        return
    store = Store.create(folder, DIMENSION)
    with store.writing(), Progress("Making the album", rows, "photos") as line:
        for start in range(0, rows, BLOCK):
            some = range(start, min(start + BLOCK, rows))
            store.add([record(row) for row in some], block(start, len(some)))
            line.advance(len(some))


def median(work: Callable[[int], object], repeats: int = REPEATS) -> float:
    """Milliseconds of work that is given the number of its repetition."""
    taken = []
    for number in range(repeats):
        start = time.perf_counter()
        work(number)
        taken.append(1000 * (time.perf_counter() - start))
    return statistics.median(taken)


def in_a_process(code: str, folder: Path, repeats: int = 5) -> float:
    """The median of the number that a process prints."""
    command = [sys.executable, "-c", code, str(folder)]
    printed = (subprocess.run(command, check=True, capture_output=True, text=True).stdout for _ in range(repeats))
    return statistics.median(float(one.split()[-1]) for one in printed)


def measured(folder: Path, rows: int, empty: Path) -> dict[str, float]:
    """All rows of the table for one album; what is changed is changed back."""
    album = Album.open(folder)
    collections = album.collections
    if not collections.all():
        groups = np.array_split(np.arange(min(KEPT, rows)), COLLECTIONS)
        collections.put([(f"thing {number}", ids.tolist(), []) for number, ids in enumerate(groups)], "kept")
    figures = {
        "one mark with 80,000 kept, ms": median(lambda n: collections.mark("thing 3", right=[rows - 100 - n])),
        "undo of a mark, ms": median(lambda _: collections.undo()),
        "filter, about 500 match, ms": median(lambda n: album.passing(Filter(columns=(("product", f"p{n}"),)))),
        "filter by label, ms": median(lambda n: album.passing(Filter(columns=(("label", f"label {n}"),)))),
        "filter, half match, ms": median(lambda _: album.passing(Filter(columns=(("shop", "one"),)))),
        "filter by folder, ms": median(lambda n: album.passing(Filter(folder=f"{n:02d}"))),
    }
    queries = [np.asarray(album.vectors[rows // 2 + number]) for number in range(40)]
    album.search(queries[0], k=20), album.search(queries[0], k=20)
    figures["an answer by vector, ms"] = median(lambda n: album.search(queries[n], k=20), 40)
    vectors = block(12345, 1000)

    def add(number: int) -> None:
        """All that `Album.add` does but for reading and embedding."""
        files = [PhotoFile(f"new {number}/{row}.jpg", 3_000_000, row) for row in range(1000)]
        records = [{**record(10**8 + row), "path": file.path.encode()} for row, file in enumerate(files)]
        ready = Embedded(records, list(vectors), [bytes(5000)] * len(files))
        with album.store.writing():
            updater = Updater(album.store, lambda _: [ready], "", None, among=[file.path for file in files])
            updater.run(Walk(files), whole=False, remove_missing=False)
        album.reopened().collections.refresh()

    figures["add 1,000 beside embedding, ms"] = median(add, 3)
    album = album.reopened()
    added = album.photos.ids[-3000:].tolist()
    figures["remove 100, ms"] = median(lambda n: album.remove(added[100 * n : 100 * n + 100]), 5)
    album.remove(added[500:])
    figures["open to the first exact answer, ms"] = 1000 * in_a_process(OPEN, folder)
    figures["private memory above an empty album, MB"] = in_a_process(MEMORY, folder) - in_a_process(MEMORY, empty)
    figures["album.db, bytes a photo"] = (folder / "album.db").stat().st_size / rows
    return figures


def main() -> None:
    """Print a table with a column for each size."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        place = options.folder or Path(temporary)
        empty = place / "empty"
        if not empty.exists():
            Store.create(empty, DIMENSION)
        columns: dict[int, dict[str, float]] = {}
        for rows in options.rows:
            make(place / str(rows), rows)
            columns[rows] = measured(place / str(rows), rows, empty)
    for name in columns[options.rows[0]]:
        print(f"{name:45s}", *(f"{columns[rows][name]:10.1f}" for rows in options.rows))
    print(json.dumps(columns))


if __name__ == "__main__":
    main()
