"""Our networks on a CPU against plain torch: forward alone, and forward with backward, in processes that take turns.

    python benchmarks/network_speed.py [--networks tf_efficientnet_lite0 resnet50] [--sizes 64 112 224] [--rounds 5]
                                       [--compile] [--processor]

Plain is timm's network, channels last, with frozen batch norm. Ours is the same network as `Embedder` has it: folded,
with the layers of `models/cpu`, freed memory kept. With --compile, torch.compile of the plain network takes
part too, where there is a C++ compiler. "of the product" is the time that the machine's matrix product would need for
the same arithmetic, as a share of ours. Ratios are medians over the rounds, each against plain in the same round. With
--processor the seconds are those of the processor, which waiting for a core does not lengthen: for a busy machine.
"""

import argparse
import multiprocessing
import os
import shutil
import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext
from multiprocessing.connection import Connection

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # for all sides alike, as the smoothap command has it

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from smoothap._core.memory import freed_memory_kept
from smoothap.models import Embedder
from smoothap.models.timm_networks import timm_backbone

NETWORKS = ("tf_efficientnet_lite0", "mobilenetv3_large_100", "convnext_tiny", "resnet50", "vit_small_patch16_224")
IMAGES = {64: 128, 112: 64, 224: 16}  # in a batch
Work = Callable[[nn.Module, Tensor], None]
Clock = Callable[[], float]


def train(network: nn.Module, images: Tensor) -> None:
    """Forward and backward."""
    network.zero_grad()
    network(images).square().sum().backward()


def embed(network: nn.Module, images: Tensor) -> None:
    """Forward alone."""
    with torch.inference_mode():
        network(images)


WORKS: dict[str, Work] = {"embedding": embed, "training": train}


def seconds(work: Work, network: nn.Module, images: Tensor, clock: Clock) -> float:
    start = clock()
    work(network, images)
    return clock() - start


def product_speed(clock: Clock) -> float:
    """Floating-point operations a second of a matrix product, at its best."""
    left, right = torch.randn(2, 1536, 1536)
    taken = []
    for _ in range(8):
        start = clock()
        torch.mm(left, right)
        taken.append(clock() - start)
    return 2 * 1536**3 / min(taken)


def operations(network: nn.Module, images: Tensor, work: Work) -> float:
    """Floating-point operations of one pass; a backward pass has two products for each of the forward pass."""
    with FlopCounterMode(display=False) as counter:
        embed(network, images)
    return counter.get_total_flops() * (3 if work is train else 1)


def built(way: str, name: str, size: int) -> nn.Module:
    """The network, plain, compiled or ours."""
    if way == "ours":
        return Embedder(name, None, size=size, pretrained=False).eval().backbone
    plain = timm_backbone(name, size).to(memory_format=torch.channels_last).eval()  # ty: ignore[no-matching-overload]
    return torch.compile(plain) if way == "compiled" else plain


def images_of(size: int) -> Tensor:
    """A batch."""
    return torch.randn(IMAGES[size], 3, size, size).contiguous(memory_format=torch.channels_last)


def serve(way: str, name: str, size: int, clock: Clock, calls: Connection) -> None:
    """One way in a process of its own, since freed memory that is kept would help or hinder the others."""
    network, images = built(way, name, size), images_of(size)
    with freed_memory_kept() if way == "ours" else nullcontext():
        while (title := calls.recv()) is not None:
            WORKS[title](network, images)  # as in the midst of long work: memory is there, and everything compiled
            calls.send(seconds(WORKS[title], network, images, clock))


def compare(name: str, size: int, rounds: int, compiled: bool, clock: Clock) -> None:
    """Print what one network does at one size."""
    context = multiprocessing.get_context("spawn")
    ways: dict[str, Connection] = {}
    for way in ("plain", "ours", "compiled") if compiled else ("plain", "ours"):
        ways[way], theirs = context.Pipe()
        context.Process(target=serve, args=(way, name, size, clock, theirs), daemon=True).start()
    for title, work in WORKS.items():
        taken: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(rounds):
            for way, calls in ways.items():
                calls.send(title)
                taken[way].append(calls.recv())
        ratios = {
            way: statistics.median(other / mine for other, mine in zip(taken[way], taken["ours"], strict=True))
            for way in ways
        }
        needed = operations(built("plain", name, size), images_of(size), work) / product_speed(clock)
        share = needed / statistics.median(taken["ours"])
        against = "".join(f", {ratio:.2f}x {way}" for way, ratio in ratios.items() if way != "ours")
        print(
            f"{name:<24} {size:>3} px  {title:<10} {1000 * statistics.median(taken['ours']):6.0f} ms for "
            f"{IMAGES[size]} images{against}; {100 * share:.0f}% of the product",
            flush=True,
        )
    for calls in ways.values():
        calls.send(None)


def main() -> None:
    """Every network at every size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", nargs="+", default=NETWORKS)
    parser.add_argument("--sizes", nargs="+", type=int, default=tuple(IMAGES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--processor", action="store_true")
    options = parser.parse_args()
    if options.compile and not shutil.which(os.environ.get("CXX", "g++")):
        raise SystemExit("--compile needs a C++ compiler, and there is none here")
    for name in options.networks:
        for size in options.sizes:
            clock = time.process_time if options.processor else time.perf_counter
            compare(name, size, options.rounds, options.compile, clock)


if __name__ == "__main__":
    main()
