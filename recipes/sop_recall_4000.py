"""Past the paper: Stanford Online Products, ResNet-50, the Recall@k surrogate in batches of 4,000, by two passes.

Paper   not Smooth-AP's but "Recall@k Surrogate Loss with Large Batches and Similarity Mixup" (CVPR 2022), which has
        Recall@1 = 82.7 with its mixup of similarities, which is not here, and with GeM pooling
Run     smoothap train recipe:sop-recall-4000 --data PATH --out runs/sop-recall-4000
Data    PATH is the folder with Ebay_train.txt, Ebay_test.txt and the images
Weights ImageNet's (resnet50.tv_in1k), which timm downloads; without a network connection add --weights FILE

                 its released code                 here
batch, |P|       4,000 in pieces of 200, 4         the same
k                1, 2, 4, 8, 16                    the same
temperatures     0.01 of ranks, k of each k        the same
optimiser        Adam, 2e-4, weight decay 4e-4     the same
epochs, drops    55; 25, 50 x 0.3                  the same
views            8 to 100% of the area, flip       the same
classes          by their size                     the same
pooling          GeM, layer norm                   the network's own mean
mixup            of similarities, as an option     none
model            best epoch on the test            the last epoch (--validation-fraction 0.1: best)

To compare Smooth-AP at this size, add --loss smooth-ap: nothing else changes.
"""

from dataclasses import replace

from smoothap.data.datasets.published import sop
from smoothap.losses import RecallAtK
from smoothap.models import Embedder
from smoothap.training.config import TrainingConfig
from smoothap.training.loss import TrainingSetup
from smoothap.training.recipe import Recipe, Weights

CONFIG = TrainingConfig(
    batch_size=4000,
    micro_batch_size=200,
    samples_per_class=4,
    by_size=True,
    tau=0.01,
    validation_fraction=0,
    optimiser="adam",
    learning_rate=2e-4,
    weight_decay=4e-4,
    epochs=55,
    schedule="steps",
    milestones=(25, 50),
    gamma=0.3,
    precision="float32",
)


def model(weights: Weights) -> Embedder:
    network = Embedder("resnet50.tv_in1k", 512, size=224, pretrained=weights)
    network.transform = replace(network.transform, name="released")
    return network


def backbone_alone(weights: Weights) -> Embedder:
    return Embedder("resnet50.tv_in1k", None, size=224, pretrained=weights)


def loss(setup: TrainingSetup) -> RecallAtK:
    return RecallAtK((1, 2, 4, 8, 16), tau1=(1, 2, 4, 8, 16), tau2=setup.config.tau)


recipe = Recipe(data=sop, model=model, loss=loss, config=CONFIG, before=backbone_alone)
