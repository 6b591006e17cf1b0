"""The losses that the methods build besides our own, and a batch for them: uneven classes in no order."""

from functools import partial
from types import SimpleNamespace

import torch

from smoothap.benchmark.methods import METHODS
from smoothap.training.config import TrainingConfig
from smoothap.training.loss import TrainingSetup

CLASSES, DIMENSION = 6, 8
LABELS = torch.tensor([3, 0, 1, 0, 2, 5, 4, 0, 2, 1, 3, 3, 4, 2, 0, 4, 2, 4, 1, 5])


def built(name, classes=CLASSES, dimension=DIMENSION):
    """The loss of a method for as many classes and dimensions."""
    images, model = SimpleNamespace(name="set", classes=classes), SimpleNamespace(dimension=dimension)
    setup = TrainingSetup(images, model, TrainingConfig(), batches=[])
    return METHODS[name].build(setup, **({"memory": 20, "warm_up": 0} if name == "xbm" else {})).loss


NAMES = ("contrastive", "triplet", "triplet-softhard", "margin", "proxy-nca", "xbm", "fast-ap", "softmax", "arcface")
WRAPPED = {name: partial(built, name) for name in NAMES}
