"""What the loop costs beside the network: time per step less the backbone's own forward and backward pass.

    python benchmarks/loop_speed.py [--steps 30] [--grocery FOLDER]

On emoji at 64 pixels, and on grocery photos at 112 where `../shared/data/grocery/images` is beside the project.
Both are measured in the same steps, so other work on the machine slows both; times are medians.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_pre_hook

from smoothap.data.benchmark import Benchmark
from smoothap.data.datasets.emoji import emoji
from smoothap.data.datasets.own import folder
from smoothap.losses import SmoothAP
from smoothap.models import Embedder
from smoothap.training.config import QUICK
from smoothap.training.loop import train

_FIRST = 5  # steps that warm up
GROCERY = Path(__file__).parents[2] / "shared" / "data" / "grocery" / "images"


class Stopwatch:
    """The moments of each step: forward begins and ends, backward begins, and ends where the optimiser takes over."""

    def __init__(self, model: Embedder) -> None:
        self.steps: list[tuple[float, float]] = []  # (seconds of the step, of them in the backbone)
        self._forward = self._began = self._gradient = self._last = 0.0
        model.register_forward_pre_hook(self._before)
        model.register_forward_hook(self._after)
        self.handle = register_optimizer_step_pre_hook(self._step)

    def _before(self, *_: Any) -> None:
        self._began = time.perf_counter()

    def _after(self, _module: Any, _inputs: Any, output: Tensor) -> None:
        self._forward = time.perf_counter() - self._began
        if output.requires_grad:
            output.register_hook(self._arrived)

    def _arrived(self, _gradient: Tensor) -> None:
        self._gradient = time.perf_counter()

    def _step(self, *_: Any) -> None:
        now = time.perf_counter()
        self.steps.append((now - self._last, self._forward + now - self._gradient))
        self._last = now


def measure(open_set: Callable[[], Benchmark], size: int, steps: int) -> None:
    """Train for some steps and print the share that is not the backbone's."""
    benchmark = open_set()
    training, validation = benchmark.train_and_validation()
    model = Embedder(size=size)
    watch = Stopwatch(model)
    settings = replace(QUICK, steps=_FIRST + steps)
    with tempfile.TemporaryDirectory() as out:
        train(model, SmoothAP(), training, validation, settings, out)
    watch.handle.remove()
    taken = watch.steps[_FIRST:]
    step, backbone = (statistics.median(each[place] for each in taken) for place in (0, 1))
    beside = statistics.median(whole - network for whole, network in taken)
    print(
        f"{benchmark.name:<10} {size} px, batch {settings.batch_size}: step {1000 * step:7.1f} ms, backbone "
        f"{1000 * backbone:7.1f} ms, beside it {1000 * beside:6.1f} ms = {beside / step:.1%} of the step (at most 10%)"
    )


def main() -> None:
    """Measure both sets."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--grocery", type=Path, default=GROCERY)
    arguments = parser.parse_args()
    measure(emoji, 64, arguments.steps)
    if arguments.grocery.is_dir():
        measure(lambda: folder(arguments.grocery, name="grocery"), 112, max(5, arguments.steps // 3))


if __name__ == "__main__":
    main()
