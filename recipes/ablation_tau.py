"""Table 5, left: the temperature tau; SENet-50 fine-tuned on VGGFace2, batch 128, |P| = 4.

Paper   mAP on VGGFace2 test and IJB-C:
        0.1    0.824  0.726
        0.01   0.844  0.736
        0.001  0.839  0.733
Run     smoothap train recipe:ablation-tau --data PATH --test-on ijbc:DIR --weights FILE --out runs/tau
Data    PATH is VGGFace2's folder with train, test and bb_landmark; DIR is NIST's with images and protocols
Weights FILE is senet50_256.pth of github.com/ox-vgg/vgg_face2, trained with softmax, finally on VGGFace2

                 paper                    here
batch, |P|       128, 4                   128, 4
tau              0.1, 0.01, 0.001         0.1, 0.01, 0.001
optimiser        Adam, 1e-5               Adam, 1e-5
weight decay     4e-5                     4e-5
embedding layer  rate not said            1 times the rate (guess)
epochs, drops    not said                 5; 3, 4 x 0.3 (guess)
views            box x 1.3, to 224 x 224  box x 1.3, to 224 x 224, mirrored half of the time (guess)
query            not in its own ranking   not in its own ranking (--include-query)
model            not said                 the last epoch (--validation-fraction 0.1: best)
precision        not said                 float32 without TF32

The code for faces was not released. "guess" marks what nobody published; what is in brackets is an option.

This runs three trainings, each in a folder of its own, and prints one table at the end. If you interrupt it, --resume
continues where it stopped.
"""

from dataclasses import replace
from pathlib import Path

from smoothap.data.datasets.faces import vggface2
from smoothap.models import Embedder
from smoothap.models.faces.senet import vggface2_senet50
from smoothap.training.config import TrainingConfig
from smoothap.training.finetune import smooth_ap
from smoothap.training.recipe import Recipe, Weights

CONFIG = TrainingConfig(
    batch_size=128,
    samples_per_class=4,
    tau=0.01,
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
    loss=smooth_ap,
    config={f"tau-{tau}": replace(CONFIG, tau=tau) for tau in (0.1, 0.01, 0.001)},
    weights="senet50_256.pth of github.com/ox-vgg/vgg_face2, trained with softmax, finally on VGGFace2",
)
