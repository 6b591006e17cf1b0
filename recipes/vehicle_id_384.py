"""Table 3, left, last row: VehicleID, ResNet-50, batch 384, images of 224 x 224.

Paper   Recall@1 / 5 = 94.9 / 97.6 (small), 93.3 / 96.4 (medium), 91.9 / 96.2 (large)
Run     smoothap train recipe:vehicle-id-384 --data PATH --out runs/vehicle-id-384
Data    PATH is the folder with image and train_test_split
Weights ImageNet's (resnet50.tv_in1k), which timm downloads; without a network connection add --weights FILE

Every image of a test list is a query for all others of the list, as in the paper. The re-identification community keeps
one image of each vehicle in the gallery instead, which gives results about 18 points lower. To evaluate that way, use
smoothap evaluate --model runs/vehicle-id-384/model --data vehicle-id-gallery:PATH.

The paper gives the optimiser, the learning rate, the weight decay, tau and |P|. The epochs, those after which the
learning rate drops, and the learning rate of the embedding layer are those of the released code.

The released code trains with another weight decay and other crops than the paper. To train as it does, add the options
--weight-decay 4e-4 --crops released to the command.
"""

from smoothap.data.vehicle_id import vehicle_id
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
    embedding_factor=1,  # as released for this set
    epochs=400,
    schedule="steps",
    drops=(200, 300),
    drop=0.3,
)


def model(weights: Weights) -> Embedder:
    return Embedder("resnet50.tv_in1k", 512, size=224, pretrained=weights)


def backbone_alone(weights: Weights) -> Embedder:
    return Embedder("resnet50.tv_in1k", None, size=224, pretrained=weights)


def loss(settings: Settings) -> SmoothAP:
    return SmoothAP(settings.tau)


recipe = Recipe(data=vehicle_id, model=model, loss=loss, settings=SETTINGS, before=backbone_alone)
