"""The losses that the methods build besides our own, and a batch for them: uneven classes in no order."""

import torch

from smoothap.benchmark.methods import wrapped
from smoothap.benchmark.methods.wrapped import ContrastiveWithMemory

CLASSES, DIMENSION = 6, 8
LABELS = torch.tensor([3, 0, 1, 0, 2, 5, 4, 0, 2, 1, 3, 3, 4, 2, 0, 4, 2, 4, 1, 5])
WRAPPED = {
    "contrastive": wrapped.contrastive,
    "triplet": wrapped.triplet,
    "margin": lambda: wrapped.margin(CLASSES),
    "proxy-nca": lambda: wrapped.proxy_nca(CLASSES, DIMENSION),
    "xbm": ContrastiveWithMemory,
    "fast-ap": wrapped.fast_ap,
    "softmax": lambda: wrapped.softmax(CLASSES, DIMENSION),
    "arcface": lambda: wrapped.arcface(CLASSES, DIMENSION),
}
