"""Table 4, right, rows "+Pairwise" and "+Triplet": VGGFace2 and IJB-C, ArcFace's ResNet-50 fine-tuned, batch 224.

Paper   mAP on VGGFace2 test and IJB-C:
        arcface           0.858  0.772  (before this training)
        contrastive       0.861  0.775  (+Pairwise)
        triplet-softhard  0.880  0.787  (+Triplet)
Run     smoothap train recipe:faces-arcface-baselines --data PATH --test-on ijbc-aligned:DIR --weights FILE --out RUNS
Data    PATH is VGGFace2's folder with train, test and bb_landmark; DIR is InsightFace's copy, with loose_crop and meta
Weights FILE is an iresnet50: a .pth or .safetensors under InsightFace's names, or its .onnx; see recipe:faces-arcface

                 paper                    here
batch, |P|       224, 4                   224, 4
pairwise         not said                 on cosines, negatives below 0.5 (guess)
triplet          not said                 soft-hard, margin 0.2 on squared distances (guess), as on iNaturalist
optimiser        Adam, 1e-5               Adam, 1e-5
weight decay     4e-5                     4e-5
embedding layer  rate not said            1 times the rate (guess)
epochs, drops    not said                 5; 3, 4 x 0.3 (guess)
views            aligned, 112 x 112       aligned, 112 x 112, mirrored half of the time (guess)
model            not said                 the last epoch (--validation-fraction 0.1: best)
precision        not said                 float32 without TF32

This runs two trainings, each in a folder of its own, and prints one table at the end; --loss contrastive runs that one
alone. The code for faces was not released. "guess" marks what nobody published: recipe:inaturalist-baselines says why
the paper's triplets are probably soft-hard. recipe:faces-senet50-baselines has the rows on the left of the table.
"""

from functools import partial

from smoothap.benchmark.methods import METHODS
from smoothap.data.datasets.faces import vggface2
from smoothap.models import Embedder
from smoothap.training.config import TrainingConfig
from smoothap.training.recipe import Recipe, Weights

CONFIG = TrainingConfig(
    batch_size=224,
    samples_per_class=4,
    validation_fraction=0,  # the paper trains on all classes
    optimiser="adam",
    learning_rate=1e-5,
    weight_decay=4e-5,
    epochs=5,
    schedule="steps",
    milestones=(3, 4),
    gamma=0.3,
    precision="float32",
)


def model(weights: Weights) -> Embedder:
    """The network's own 512 dimensions, aligned crops of 112 x 112."""
    return Embedder("iresnet50", None, pretrained=weights)


recipe = Recipe(
    data=partial(vggface2, aligned=True),
    model=model,
    loss={name: METHODS[name] for name in ("contrastive", "triplet-softhard")},
    config=CONFIG,
    weights="an iresnet50 under InsightFace's names, such as its backbone.pth; the paper's was trained on VGGFace2",
)
