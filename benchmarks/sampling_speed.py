"""One epoch of batches for a set as large as VGGFace2: 3.3 million images of 8,631 classes; and for one like SOP.

    python benchmarks/sampling_speed.py [--images 3310000] [--classes 8631] [--repeats 3]

Beside it, the same balanced epoch drawn the plain way: a list of rows for each class, shuffled, one class at a time.
The two take turns; times are medians.
"""

import argparse
import random
import resource
import statistics
import time
from collections.abc import Callable

import numpy as np

from smoothap.data.samplers import BalancedBatches, PairBatches

BATCH, PER_CLASS = 384, 4


def plain_epoch(labels: np.ndarray, steps: int) -> list[list[int]]:
    """Classes in shuffled rounds, `PER_CLASS` images of each off a shuffled list, in plain Python."""
    chance = random.Random(0)
    rows_of: dict[int, list[int]] = {}
    for row, label in enumerate(labels.tolist()):
        rows_of.setdefault(label, []).append(row)
    left = {label: chance.sample(rows, len(rows)) for label, rows in rows_of.items()}
    waiting: list[int] = []
    batches = []
    for _ in range(steps):
        if len(waiting) < BATCH // PER_CLASS:
            waiting = chance.sample(list(rows_of), len(rows_of))
        batch: list[int] = []
        for label in waiting[-(BATCH // PER_CLASS) :]:
            if len(left[label]) < PER_CLASS:
                left[label] = chance.sample(rows_of[label], len(rows_of[label]))
            batch += left[label][-PER_CLASS:]
            del left[label][-PER_CLASS:]
        del waiting[-(BATCH // PER_CLASS) :]
        batches.append(batch)
    return batches


def seconds(run: Callable[[], object]) -> float:
    """How long one call takes."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def main() -> None:
    """Time both, and say how much memory the process came to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=3_310_000)
    parser.add_argument("--classes", type=int, default=8_631)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    chance = np.random.default_rng(0)

    labels = chance.integers(0, arguments.classes, arguments.images)
    start = time.perf_counter()
    batches = BalancedBatches(labels, BATCH, PER_CLASS)
    print(f"balanced, {arguments.images:,} images: {time.perf_counter() - start:.2f} s to set up, once")
    batches.rows(0)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    turns = [
        (seconds(lambda epoch=epoch: batches.rows(epoch)), seconds(lambda: plain_epoch(labels, len(batches))))
        for epoch in range(arguments.repeats)
    ]
    own, plain = (statistics.median(column) for column in zip(*turns, strict=True))
    ratio = statistics.median(theirs / mine for mine, theirs in turns)
    print(f"  an epoch of {len(batches):,} batches: {own:.2f} s, plain Python {plain:.2f} s, {ratio:.1f}x")
    print(f"  memory of the process with an epoch drawn: {memory:,.0f} MB")

    labels = np.sort(chance.integers(0, 11_318, 59_551))
    paired = PairBatches(labels, chance.integers(0, 12, 11_318)[labels], BATCH, PER_CLASS)
    times = [seconds(lambda epoch=epoch: paired.rows(epoch)) for epoch in range(arguments.repeats)]
    print(f"pairs of 12 groups, 59,551 images: an epoch of {len(paired):,} batches: {statistics.median(times):.2f} s")


if __name__ == "__main__":
    main()
