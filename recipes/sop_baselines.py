"""Table 2, rows of 512 numbers: FastAP, Blackbox and contrastive with memory; Stanford Online Products, ResNet-50.

Paper   Recall@1 / 10 / 100 / 1000, each as its own authors report it:
        fast-ap          76.4  89.0  95.1  98.2
        blackbox-recall  78.6  90.5  96.0  98.7  (the table calls it "Blackbox AP")
        xbm              80.6  91.6  96.2  98.7  (the table calls it "Cont. w/M")
Run     smoothap train recipe:sop-baselines --data PATH --out runs/sop-baselines
Data    PATH is the folder with Ebay_train.txt, Ebay_test.txt and the images
Weights ImageNet's (resnet50.tv_in1k), which timm downloads; without a network connection add --weights FILE

                 fast-ap                    blackbox-recall                   xbm
batch, |P|       256, 4                     224, 4 (guess)                    64, 4
loss             10 bins                    lambda 4, margin 0.02             negatives below 0.5, memory of all images
optimiser        Adam, 1e-5                 Adam, 1e-5 (guess)                Adam, 1e-4
weight decay     0                          4e-5 (guess)                      5e-4
embedding layer  10 times the rate          5 times the rate (guess)          1 times the rate
epochs, drops    30, none                   161; 81, 121 x 0.3 (guess)        35,000 steps; 19, 28 x 0.1 (guess)
batches          pairs of categories        pairs of categories               classes drawn evenly
views            256 x 256, crop 224, flip  256 x 256, crop 224, flip         there 20 to 100% of the area
model            the last epoch             the last epoch                    the last epoch
precision        float32 without TF32       float32 without TF32              float32 without TF32

Settings are those of each method's released code; "guess" marks what is not in it: Blackbox has those of Smooth-AP at
batch 224, and the memory's code lowers the rate when Recall@1 stands still. This runs three trainings, each in a folder
of its own; --loss xbm runs that one alone, and with --crops released --min-crop-area 0.2 it has its own views.
"""

from dataclasses import replace

from smoothap._core.distributed import Processes
from smoothap.benchmark.methods import METHODS
from smoothap.data.datasets.published import sop
from smoothap.data.image_set import ImageSet
from smoothap.data.samplers import PairBatches
from smoothap.models import Embedder
from smoothap.training.config import TrainingConfig
from smoothap.training.recipe import Recipe, Weights

CONFIG = TrainingConfig(
    samples_per_class=4,
    validation_fraction=0,  # all of these train on all classes
    optimiser="adam",
    learning_rate=1e-5,
    schedule="steps",
    precision="float32",
)
TRAININGS = {
    "fast-ap": replace(CONFIG, batch_size=256, weight_decay=0, head_lr_multiplier=10, epochs=30, milestones=()),
    "blackbox-recall": replace(
        CONFIG, batch_size=224, weight_decay=4e-5, head_lr_multiplier=5, epochs=161, milestones=(81, 121)
    ),
    "xbm": replace(
        CONFIG, batch_size=64, learning_rate=1e-4, weight_decay=5e-4, steps=35_000, milestones=(19, 28), gamma=0.1
    ),
}


def model(weights: Weights) -> Embedder:
    return Embedder("resnet50.tv_in1k", 512, size=224, pretrained=weights)


def backbone_alone(weights: Weights) -> Embedder:
    return Embedder("resnet50.tv_in1k", None, size=224, pretrained=weights)


def hard_negatives(images: ImageSet, config: TrainingConfig, processes: Processes) -> PairBatches:
    """Half of a batch from each of two of the 12 super-categories, 10 batches of every pair in an epoch."""
    return PairBatches(
        images.labels, images.groups, config.batch_size, config.samples_per_class,
        batches_per_pair=10, seed=config.seed, rank=processes.rank, ranks=processes.number,
    )  # fmt: skip


recipe = Recipe(
    data=sop,
    model=model,
    loss={name: METHODS[name] for name in TRAININGS},
    config=TRAININGS,
    batches={"fast-ap": hard_negatives, "blackbox-recall": hard_negatives},  # memory brings hard negatives itself
    before=backbone_alone,
)
