"""Table 4, right, last row: VGGFace2 and IJB-C, ArcFace's ResNet-50 fine-tuned on VGGFace2, batch 224.

Paper   mAP = 0.902 (VGGFace2 test), 0.803 (IJB-C); before training, with ArcFace alone: 0.858, 0.772
Run     smoothap train recipe:faces-arcface --data PATH --test-on ijbc-aligned:DIR --weights FILE --out runs/arcface
Data    PATH is VGGFace2's folder with train, test and bb_landmark; DIR is InsightFace's copy, with loose_crop and meta
Weights FILE is an iresnet50: a .pth or .safetensors under InsightFace's names, or its .onnx

                 paper                   here
batch, |P|       224, 4                  224, 4
tau              0.01                    0.01
optimiser        Adam, 1e-5              Adam, 1e-5
weight decay     4e-5                    4e-5
embedding layer  rate not said           1 times the rate (guess)
epochs, drops    not said                5; 3, 4 x 0.3 (guess)
views            aligned, 112 x 112      aligned, 112 x 112, mirrored half of the time (guess)
query            not in its own ranking  not in its own ranking (--include-query)
model            not said                the last epoch (--validation-fraction 0.1: best)
precision        not said                float32 without TF32

The code for faces was not released. "guess" marks what nobody published; what is in brackets is an option.

The paper's ArcFace network was trained on VGGFace2. Of the public ones, two were: an ONNX file of an iresnet50 in
InsightFace's model zoo (partial FC), which FILE may be, and the VGG2-ResNet50-Arcface of its IJB pack, in MXNet's
format, which tools/convert_arcface.py turns into one. InsightFace gives its weights away for research that is not
commercial. Files that were trained on other sets load too, with other results. recipe:faces-arcface-start trains such a
network from nothing. The paper aligned the faces with a face detector; we align them by the landmarks that come with
the sets.
"""

from functools import partial

from smoothap.data.datasets.faces import vggface2
from smoothap.models import Embedder
from smoothap.training.config import TrainingConfig
from smoothap.training.finetune import smooth_ap
from smoothap.training.recipe import Recipe, Weights

CONFIG = TrainingConfig(
    batch_size=224,
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
    """The network's own 512 dimensions, aligned crops of 112 x 112."""
    return Embedder("iresnet50", None, pretrained=weights)


recipe = Recipe(
    data=partial(vggface2, aligned=True),
    model=model,
    loss=smooth_ap,
    config=CONFIG,
    weights="an iresnet50 under InsightFace's names, such as its backbone.pth; the paper's was trained on VGGFace2",
)
