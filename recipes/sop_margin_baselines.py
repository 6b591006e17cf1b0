"""Table 2, rows of 128 numbers: Margin, Divide and Conquer and MIC; Stanford Online Products, ResNet-50.

Paper   Recall@1 / 10 / 100 / 1000, each as its own authors report it:
        margin              72.7  86.2  93.8  98.0
        divide-and-conquer  75.9  88.4  94.9  98.1
        mic                 77.2  89.4  95.6     -
Run     smoothap train recipe:sop-margin-baselines --data PATH --out runs/sop-margin-baselines
Data    PATH is the folder with Ebay_train.txt, Ebay_test.txt and the images
Weights ImageNet's (resnet50.tv_in1k), which timm downloads; without a network connection add --weights FILE

                 margin                     divide-and-conquer          mic
batch, |P|       112, 4                     80, 4                       112, 4
loss             margin 0.2, beta from 1.2  beta 1.2, 8 clusters        50 surrogate classes, reversal 250
optimiser        Adam, 1e-5; beta 5e-4      Adam, 1e-5                  Adam, 1e-5; beta 5e-4
weight decay     4e-4; beta 0               1e-4                        4e-4; beta 0
embedding layer  1 times the rate           1 times the rate            1 times the rate
epochs, drops    40; 25 x 0.3               200, none                   45; 20, 35 x 0.3
batches          classes by their size      one cluster until 190       classes by their size
views            256 x 256, crop 224, flip  there 8 to 100% of area     there 8 to 100% of the area
model            the last epoch             the last epoch              the last epoch
precision        float32 without TF32       float32 without TF32        float32 without TF32

Settings are those of each method's released code; for Margin, of the re-implementation by Roth and Brattoli. This runs
three trainings, each in a folder of its own; --loss mic runs that one alone, and with --crops released it has the views
of the released code. Two of them cluster the training images, for which one process is needed.
"""

from dataclasses import replace

from smoothap.benchmark.methods import METHODS
from smoothap.data.datasets.published import sop
from smoothap.models import Embedder
from smoothap.training.config import TrainingConfig
from smoothap.training.recipe import Recipe, Weights

CONFIG = TrainingConfig(
    samples_per_class=4,
    by_size=True,
    validation_fraction=0,  # all of these train on all classes
    optimiser="adam",
    learning_rate=1e-5,
    schedule="steps",
    gamma=0.3,
    precision="float32",
)
TRAININGS = {
    "margin": replace(CONFIG, batch_size=112, weight_decay=4e-4, epochs=40, milestones=(25,)),
    "divide-and-conquer": replace(CONFIG, batch_size=80, weight_decay=1e-4, epochs=200, milestones=()),
    "mic": replace(CONFIG, batch_size=112, weight_decay=4e-4, epochs=45, milestones=(20, 35)),
}


def model(weights: Weights) -> Embedder:
    return Embedder("resnet50.tv_in1k", 128, size=224, pretrained=weights)


def backbone_alone(weights: Weights) -> Embedder:
    return Embedder("resnet50.tv_in1k", None, size=224, pretrained=weights)


recipe = Recipe(
    data=sop,
    model=model,
    loss={name: METHODS[name] for name in TRAININGS},
    config=TRAININGS,
    before=backbone_alone,
)
