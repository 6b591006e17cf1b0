"""Large batches on small memory: what two passes cost in time, and what they save in memory.

    python benchmarks/two_pass_speed.py [--batch 4096] [--piece 128] [--size 64] [--repeats 3]

Linux only.

Time: the same batch in one pass and in two, taking turns, medians. Memory: the greatest resident size of a process of
its own for one step, less that of the process before the step: a batch of one piece in one pass, and the large batch.
"""

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from smoothap._core.memory import freed_memory_kept
from smoothap.losses import SmoothAP
from smoothap.models import Embedder
from smoothap.training.gradients import cached_gradient

PER_CLASS = 4


def step(batch: int, size: int, piece: int | None) -> Callable[[], object]:
    """One step with random images, in two passes if there is a piece size."""
    torch.manual_seed(0)
    model, loss = Embedder(size=size), SmoothAP()
    labels = torch.arange(batch) // PER_CLASS
    images = torch.randint(0, 256, (batch, 3, size, size), dtype=torch.uint8)

    def backward(embeddings: Tensor) -> Tensor:
        value = loss(embeddings, labels)
        value.backward()
        return value

    def run() -> object:
        model.zero_grad()
        if piece is None:
            return backward(model(images))
        return cached_gradient(model, model, images, backward, piece)

    return run


def seconds(run: Callable[[], object]) -> float:
    """How long one call takes."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def megabytes(batch: int, size: int, piece: int | None) -> float:
    """What one step adds to the memory of a fresh process."""
    command = [sys.executable, __file__, "--measure", f"{batch},{size},{piece or 0}"]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def measure(batch: int, size: int, piece: int) -> None:
    """In the fresh process: one small step to load everything, then the step itself."""
    step(8, size, None)()
    run = step(batch, size, piece or None)
    before = peak()
    run()
    print(peak() - before)


def peak() -> float:
    """The greatest resident size of this process so far, in MB; getrusage would count its parent's too."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


@freed_memory_kept()  # as a training does
def main() -> None:
    """Print both ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--piece", type=int, default=128)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        measure(*map(int, arguments.measure.split(",")))
        return
    batch = 4 * arguments.piece
    one, two = step(batch, arguments.size, None), step(batch, arguments.size, arguments.piece)
    one(), two()
    turns = [(seconds(one), seconds(two)) for _ in range(arguments.repeats)]
    alone, twice = (statistics.median(turn[place] for turn in turns) for place in (0, 1))
    print(f"batch {batch}: one pass {alone:.2f} s, two passes {twice:.2f} s, ratio {twice / alone:.2f}")
    small = megabytes(arguments.piece, arguments.size, None)
    large = megabytes(arguments.batch, arguments.size, arguments.piece)
    images = arguments.batch * 3 * arguments.size**2 / 2**20
    print(
        f"batch {arguments.piece} in one pass adds {small:.0f} MB, batch {arguments.batch} in pieces of "
        f"{arguments.piece} adds {large:.0f} MB (its images, {images:.0f} MB, are there before); ratio "
        f"{large / small:.2f}"
    )


if __name__ == "__main__":
    main()
