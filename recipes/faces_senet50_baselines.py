"""Table 4, left, rows "+Pairwise" and "+Triplet": VGGFace2 and IJB-C, SENet-50 fine-tuned on VGGFace2, batch 224.

Paper   mAP on VGGFace2 test and IJB-C:
        softmax           0.828  0.726  (before this training)
        contrastive       0.828  0.728  (+Pairwise)
        triplet-softhard  0.845  0.740  (+Triplet)
Run     smoothap train recipe:faces-senet50-baselines --data PATH --test-on ijbc:DIR --weights FILE --out runs/pairs
Data    PATH is VGGFace2's folder with train, test and bb_landmark; DIR is NIST's with images and protocols
Weights FILE is senet50_256.pth of github.com/ox-vgg/vgg_face2, trained with softmax, finally on VGGFace2

                 paper                    here
batch, |P|       224, 4                   224, 4
pairwise         not said                 on cosines, negatives below 0.5 (guess)
triplet          not said                 soft-hard, margin 0.2 on squared distances (guess), as on iNaturalist
optimiser        Adam, 1e-5               Adam, 1e-5
weight decay     4e-5                     4e-5
embedding layer  rate not said            1 times the rate (guess)
epochs, drops    not said                 5; 3, 4 x 0.3 (guess)
views            box x 1.3, to 224 x 224  box x 1.3, to 224 x 224, mirrored half of the time (guess)
model            not said                 the last epoch (--validation-fraction 0.1: best)
precision        not said                 float32 without TF32

This runs two trainings, each in a folder of its own, and prints one table at the end; --loss contrastive runs that one
alone. The code for faces was not released. "guess" marks what nobody published: recipe:inaturalist-baselines says why
the paper's triplets are probably soft-hard. recipe:faces-arcface-baselines has the rows on the right of the table.
"""

from pathlib import Path

from smoothap.benchmark.methods import METHODS
from smoothap.data.datasets.faces import vggface2
from smoothap.models import Embedder
from smoothap.models.faces.senet import vggface2_senet50
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
    """256 dimensions, box of the face extended by 1.3, 224 x 224."""
    return vggface2_senet50(weights if isinstance(weights, Path) else None, 256)


recipe = Recipe(
    data=vggface2,
    model=model,
    loss={name: METHODS[name] for name in ("contrastive", "triplet-softhard")},
    config=CONFIG,
    weights="senet50_256.pth of github.com/ox-vgg/vgg_face2, trained with softmax, finally on VGGFace2",
)
