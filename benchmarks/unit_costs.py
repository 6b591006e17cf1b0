"""What one image, one pair of scores, one step of the loss and one stored vector cost: the units of docs/scale.md.

    python benchmarks/unit_costs.py [--rows 8000] [--images 8] [--batch 384]

Seconds are those of the processor, on one thread, which a busy machine stretches little; medians of a few turns.
Nothing is downloaded: the weights are random, which changes no time.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
import torch
from evaluate_speed import DIMENSION, clustered
from reading_speed import ours, write_photo

from smoothap import SmoothAP, evaluate
from smoothap.models import Embedder

PER_CLASS = 338  # of VGGFace2's test set: 169,396 images of 500 people
NETWORKS = {"tf_efficientnet_lite0": 112, "resnet50": 224}


def core_seconds(call: Callable[[], object], turns: int = 3) -> float:
    """The median time that the processor spends on a call, after one that warms up."""
    call()
    spent = []
    for _ in range(turns):
        start = time.process_time()
        call()
        spent.append(time.process_time() - start)
    return median(spent)


def network_costs(architecture: str, size: int, images: int) -> None:
    """Embedding an image, and training on one."""
    model = Embedder(architecture, DIMENSION, size=size, pretrained=False)
    views = torch.randint(0, 256, (images, 3, size, size), dtype=torch.uint8)

    def embed() -> None:
        with torch.inference_mode():
            model(views)

    def learn() -> None:
        model(views).square().sum().backward()

    forward, both = (core_seconds(call) / images for call in (embed, learn))
    print(
        f"{architecture}, {size} px: embed {1000 * forward:.0f} ms an image, forward and backward {1000 * both:.0f} ms"
    )


def reading_cost(images: int) -> None:
    """Reading a photo of 500 x 375 and making a training view of 224 pixels."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{number}.jpg" for number in range(images)]
        for number, path in enumerate(paths):
            write_photo(path, 500, 375, number)
        seconds = core_seconds(lambda: ours("paper", True, 224)(paths))
    print(f"reading, 500 x 375 to a view of 224 px: {1000 * seconds / images:.1f} ms a photo")


def pair_cost(rows: int) -> None:
    """Exact evaluation: one pair of a query and an item, each of a set against itself."""
    vectors, labels = clustered(rows, PER_CLASS)
    seconds = core_seconds(lambda: evaluate(vectors, labels, progress=False))
    print(f"evaluate, {rows:,} x {DIMENSION}, {PER_CLASS} a class: {1e9 * seconds / rows**2:.1f} ns a pair")


def loss_cost(batch: int) -> None:
    """Forward and backward of the loss for one batch."""
    embeddings = torch.randn(batch, DIMENSION, requires_grad=True)
    labels = torch.arange(batch) // 4
    loss = SmoothAP()
    seconds = core_seconds(lambda: loss(embeddings, labels).backward(), turns=9)
    print(f"SmoothAP, batch {batch}: {1000 * seconds:.1f} ms forward and backward")


def scan_cost(rows: int) -> None:
    """Exact search: one query against one stored vector."""
    vectors = np.random.default_rng(0).standard_normal((rows, DIMENSION), dtype=np.float32)
    query = vectors[0].copy()
    seconds = core_seconds(lambda: vectors @ query, turns=9)
    print(f"exact search: {1e9 * seconds / rows:.0f} ns a stored vector of {4 * DIMENSION:,} bytes")


def main() -> None:
    """Print the units."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=8_000)
    parser.add_argument("--images", type=int, default=8)
    parser.add_argument("--batch", type=int, default=384)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for architecture, size in NETWORKS.items():
        network_costs(architecture, size, arguments.images)
    reading_cost(4 * arguments.images)
    loss_cost(arguments.batch)
    pair_cost(arguments.rows)
    scan_cost(10 * arguments.rows)


if __name__ == "__main__":
    main()
