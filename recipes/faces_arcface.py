"""Table 4, right, last row: VGGFace2 and IJB-C, ArcFace's ResNet-50 fine-tuned on VGGFace2, batch 224.

Paper   mAP = 0.902 (VGGFace2 test), 0.803 (IJB-C); before training, with ArcFace alone: 0.858, 0.772
Run     smoothap train recipe:faces-arcface --data PATH --test-on ijbc-aligned:DIR --weights FILE --out runs/arcface
Data    PATH is VGGFace2's folder with train, test and bb_landmark; DIR is InsightFace's copy, with loose_crop and meta
Weights FILE is an iresnet50 under InsightFace's names, such as its backbone.pth

The paper's ArcFace network was trained on VGGFace2. InsightFace's public iresnet50 files were trained on other sets, so
the results before and after training will differ from the paper's. The paper aligned the faces with a face detector; we
align them by the landmarks that come with the sets. The paper does not say how long it trained: the number of epochs,
and those after which the learning rate drops, are our choice.
"""

from functools import partial

from smoothap.data.vggface2 import vggface2
from smoothap.losses import SmoothAP
from smoothap.models import Embedder
from smoothap.training.recipe import Recipe, Weights
from smoothap.training.settings import Settings

SETTINGS = Settings(
    batch_size=224,
    per_class=4,
    tau=0.01,
    optimiser="adam",
    learning_rate=1e-5,
    weight_decay=4e-5,
    epochs=5,
    schedule="steps",
    drops=(3, 4),
    drop=0.3,
)


def model(weights: Weights) -> Embedder:
    """The network's own 512 dimensions, aligned crops of 112 x 112."""
    return Embedder("iresnet50", None, pretrained=weights)


def loss(settings: Settings) -> SmoothAP:
    return SmoothAP(settings.tau)


recipe = Recipe(
    data=partial(vggface2, aligned=True),
    model=model,
    loss=loss,
    settings=SETTINGS,
    weights="an iresnet50 under InsightFace's names, such as its backbone.pth; the paper's was trained on VGGFace2",
)
