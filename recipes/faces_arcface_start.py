"""Table 4, right, first row: VGGFace2 and IJB-C, ArcFace's ResNet-50 trained with ArcFace on VGGFace2, from nothing.

Paper   mAP = 0.858 (VGGFace2 test), 0.772 (IJB-C), for the network that Smooth-AP then raises to 0.902 on the first
Run     smoothap train recipe:faces-arcface-start --data PATH --test-on ijbc-aligned:DIR --out runs/arcface-start
Data    PATH is VGGFace2's folder with train, test and bb_landmark; DIR is InsightFace's copy, with loose_crop and meta
Weights none: the network starts at random

                 paper, InsightFace                      here
batch, |P|       512 (InsightFace), at random            512, 2: faces are drawn by identity
loss             ArcFace, margin 0.5, scale 64           the same
optimiser        SGD, 0.1, momentum 0.9 (InsightFace)    the same, over 1,000 steps from 0 (guess)
weight decay     5e-4 (InsightFace)                      5e-4
class weights    the network's rate                      the network's rate
epochs, drops    about 16 (InsightFace)                  16; 8, 12, 14 x 0.1 (guess)
views            aligned, 112 x 112, mirrored            the same
batch norm       learns its statistics                   learns its statistics
model            not said                                the last epoch (--validation-fraction 0.1: best)

The paper took such a network as it found it. This recipe is for those who have no such weights, or may not use those
that are published: it gives recipe:faces-arcface its start, --weights runs/arcface-start/model/model.safetensors.
"""

from functools import partial
from pathlib import Path

from smoothap.benchmark.methods import METHODS
from smoothap.data.datasets.faces import vggface2
from smoothap.models import Embedder
from smoothap.training.config import TrainingConfig
from smoothap.training.recipe import Recipe, Weights

CONFIG = TrainingConfig(
    batch_size=512,
    samples_per_class=2,
    by_size=True,
    validation_fraction=0,
    optimiser="sgd",
    learning_rate=0.1,
    momentum=0.9,
    weight_decay=5e-4,
    epochs=16,
    schedule="steps",
    milestones=(8, 12, 14),
    gamma=0.1,
    warm_up=1000,
    precision="float32",
)


def model(weights: Weights) -> Embedder:
    """512 dimensions, aligned crops of 112 x 112; from nothing, batch norm has statistics to learn."""
    start = weights if isinstance(weights, Path) else False
    return Embedder("iresnet50", None, pretrained=start, freeze_batch_norm=False)


recipe = Recipe(
    data=partial(vggface2, aligned=True), model=model, loss=METHODS["arcface"].with_options(factor=1.0), config=CONFIG
)
