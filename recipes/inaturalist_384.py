"""Table 3, right, row "Smooth-AP BS=384": iNaturalist 2018, ResNet-50, images of 224 x 224.

Paper   Recall@1 / 4 / 16 / 32 = 67.2 / 81.8 / 90.3 / 93.1 (the paper's text says 66.6 for Recall@1)
Run     smoothap train recipe:inaturalist-384 --data PATH --out runs/inaturalist-384
Data    PATH is the folder with train_val2018 and the split files Inaturalist_{train,test}_set1.txt
Weights ImageNet's (resnet50.tv_in1k), which timm downloads; without a network connection add --weights FILE

The paper gives the optimiser, the learning rate of the backbone and of the embedding layer, the weight decay, tau and
|P|. The epochs, and those after which the learning rate drops, are those of the released code.

The released code trains with another weight decay and other crops than the paper. To train as it does, add the options
--weight-decay 4e-4 --crops released to the command.
"""

from smoothap.data.inaturalist import inaturalist
from smoothap.losses import SmoothAP
from smoothap.models import Embedder
from smoothap.training.recipe import Recipe, Weights
from smoothap.training.settings import Settings

SETTINGS = Settings(
    batch_size=384,
    per_class=4,
    tau=0.01,
    optimiser="adam",
    learning_rate=1e-5,
    weight_decay=4e-5,
    embedding_factor=2,  # the supplement
    epochs=90,
    schedule="steps",
    drops=(40, 70),
    drop=0.3,
)


def model(weights: Weights) -> Embedder:
    return Embedder("resnet50.tv_in1k", 512, size=224, pretrained=weights)


def backbone_alone(weights: Weights) -> Embedder:
    return Embedder("resnet50.tv_in1k", None, size=224, pretrained=weights)


def loss(settings: Settings) -> SmoothAP:
    return SmoothAP(settings.tau)


recipe = Recipe(data=inaturalist, model=model, loss=loss, settings=SETTINGS, before=backbone_alone)
