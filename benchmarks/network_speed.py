"""What keeping freed memory and folding frozen batch norm bring on a CPU: the same network in four ways, taking turns.

    python benchmarks/network_speed.py [--rounds 5]

A training step is forward and backward of 256 images of 64 pixels, embedding is the forward pass of 64 images of 224.
Ratios are medians over the rounds, each against the plain way in the same round.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn

from smoothap.memory import freed_memory_kept
from smoothap.models.folding import fold_batch_norm
from smoothap.models.weights import build_backbone

ARCHITECTURE = "tf_efficientnet_lite0"


def network(size: int, folded: bool) -> nn.Module:
    """With batch norm in evaluation mode, as when it is frozen."""
    backbone = build_backbone(ARCHITECTURE, size).to(memory_format=torch.channels_last).eval()  # ty: ignore[no-matching-overload]
    if folded:
        fold_batch_norm(backbone, size)
    return backbone


def train(backbone: nn.Module, images: Tensor) -> None:
    """Forward and backward."""
    backbone.zero_grad()
    backbone(images).square().sum().backward()


def embed(backbone: nn.Module, images: Tensor) -> None:
    """Forward alone."""
    with torch.inference_mode():
        backbone(images)


def seconds(work: Callable[[nn.Module, Tensor], None], backbone: nn.Module, images: Tensor) -> float:
    """The better of two passes, after one to warm up."""
    work(backbone, images)
    taken = []
    for _ in range(2):
        start = time.perf_counter()
        work(backbone, images)
        taken.append(time.perf_counter() - start)
    return min(taken)


def compare(title: str, work: Callable[[nn.Module, Tensor], None], number: int, size: int, rounds: int) -> None:
    """Print the four ways of one kind of work."""
    images = torch.randn(number, 3, size, size).contiguous(memory_format=torch.channels_last)
    networks = {folded: network(size, folded) for folded in (False, True)}
    memory: dict[bool, Callable[[], AbstractContextManager[None]]] = {False: nullcontext, True: freed_memory_kept}
    ways = [(folded, kept) for kept in (False, True) for folded in (False, True)]
    taken: dict[tuple[bool, bool], list[float]] = {way: [] for way in ways}
    for _ in range(rounds):
        for folded, kept in ways:
            with memory[kept]():
                taken[folded, kept].append(seconds(work, networks[folded], images))
    plain = taken[False, False]
    print(f"{title}: plain {number / statistics.median(plain):.0f} images a second")
    for way in ways[1:]:
        names = " and ".join(name for name, on in zip(("folded", "kept"), way, strict=True) if on)
        ratio = statistics.median(before / after for before, after in zip(plain, taken[way], strict=True))
        print(f"    {names:<16} {number / statistics.median(taken[way]):5.0f} images a second, {ratio:.2f} times plain")


def main() -> None:
    """Both kinds of work."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    compare("training, 64 px", train, 256, 64, rounds)
    compare("embedding, 224 px", embed, 64, 224, rounds)


if __name__ == "__main__":
    main()
