"""How far off score differences are when the network computes in 16 bits, network by network.

    python benchmarks/precision_noise.py [--images 64]

Run on the CPU's autocast, which rounds where a GPU's does. A loss with tau = 0.01 bears 0.002. Networks without weights
on this machine have random ones, and say so.
"""

import argparse

import torch

from smoothap.data.image_set import ImageSet
from smoothap.data.names import open_data
from smoothap.models import Embedder
from smoothap.plots.text import text_table
from smoothap.training.precision import score_noise

NETWORKS = (
    ("tf_efficientnet_lite0", 64, True),
    ("tf_efficientnet_lite0", 112, True),
    ("tf_efficientnet_lite0", 224, True),
    ("mobilenetv3_large_100", 112, False),
    ("resnet50", 112, False),
    ("convnext_tiny", 112, False),
    ("vit_small_patch16_224", 224, False),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="emoji")
    parser.add_argument("--images", type=int, default=64)
    options = parser.parse_args()
    (images,) = open_data(options.data).tests.values()
    rows = []
    for name, size, trained in NETWORKS:
        torch.manual_seed(0)
        model = Embedder(name, None, size=size, pretrained=trained).eval()
        batch = _batch(images, model, options.images)
        exact = _embedded(model, batch, torch.float32)
        spread = _score_spread(exact)
        noise = {dtype: score_noise(exact, _embedded(model, batch, dtype)) for dtype in (torch.float16, torch.bfloat16)}
        rows.append({
            "network": name, "pixels": size, "weights": "ImageNet" if trained else "random",
            **{str(dtype).removeprefix("torch."): f"{value:.4f}" for dtype, value in noise.items()},
            "scores' own spread": f"{spread:.3f}",
        })  # fmt: skip
    print(text_table(rows))


def _batch(images: ImageSet, model: Embedder, number: int) -> torch.Tensor:
    step = len(images) // number
    return torch.stack([model.transform.test(images.read(row * step)) for row in range(number)])


def _embedded(model: Embedder, images: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    with torch.no_grad(), torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
        return torch.cat([model(part) for part in images.split(16)])


def _score_spread(rows: torch.Tensor) -> float:
    scores = rows @ rows.T
    return float(scores[~torch.eye(len(rows), dtype=torch.bool)].std())


if __name__ == "__main__":
    main()
