"""Table 2, FastAP, Blackbox (512 numbers) and contrastive with memory (128): Stanford Online Products, ResNet-50.

Paper   Recall@1 / 10 / 100 / 1000, each as its own authors report it:
        fast-ap          76.4  89.0  95.1  98.2
        blackbox-recall  78.6  90.5  96.0  98.7  (the table calls it "Blackbox AP")
        xbm              80.6  91.6  96.2  98.7  (the table calls it "Cont. w/M")
Run     smoothap train recipe:sop-baselines --data PATH --out runs/sop-baselines
Data    PATH is the folder with Ebay_train.txt, Ebay_test.txt and the images
Weights ImageNet's (resnet50.tv_in1k), which timm downloads; without a network connection add --weights FILE

                 fast-ap (1)                blackbox-recall (2)               xbm (3)
numbers          512                        512                               128
batch, |P|       256, whole classes         128, 4 (4 is a guess)             64, 4
loss             10 bins                    lambda 4, margin 0.02             negatives below 0.5
memory           none                       3 batches                         55,000, after 1,000 steps
optimiser        Adam, 1e-5                 Adam, 1e-5 (guess)                Adam, 1e-4
weight decay     0                          4e-4                              5e-4
embedding layer  10 times the rate          3 times the rate                  1 times the rate
epochs, drops    30, none                   80; 35 x 0.3                      35,000 steps; 19 x 0.1 (guess)
batches          5 of each pair of groups   10 of each pair of groups         classes by their size
views            256 x 256, crop 224, flip  256 x 256, crop 224, flip         there 20 to 100% of the area
batch norm       frozen; there live         frozen (guess)                    learns its statistics
pooling          mean                       mean                              mean; there the maximum
model            the last epoch             the last epoch                    the last epoch
precision        float32 without TF32       float32 without TF32              float32 without TF32

(1) run_demo.m, get_opts.m and train_hard.m of kunhe/FastAP-metric-learning, MATLAB, which its authors name "for
    reproducibility"; their model of 76.4 is that of epoch 12, picked on the test. There the gradients of a batch come
    in chunks of at most 90 images, each with a step of Adam and with live batch norm; here a batch is one step. How
    it crops is not in the repository: crop and flip are a guess.
(2) martius-lab/blackbox-backprop has the loss alone. Sahoo et al. (ICLR 2023, partly the same authors) say that they
    follow its training closely: batch, memory, weight decay, drop and the rate of the embedding layer are theirs. Their
    rate is 5e-7, searched for birds.
(3) configs/sample_config.yaml of MalongTech/research-xbm. Its rate falls when Recall@1 of the test stands still, to
    5e-6 at the least. A class with fewer than 4 images repeats them.

"guess" marks what is in none of these. This runs three trainings, each in a folder of its own; --loss xbm runs that one
alone, and with --crops released --min-crop-area 0.2 it has its own views.
"""

from dataclasses import replace

from smoothap._core.distributed import Processes
from smoothap.benchmark.methods import METHODS
from smoothap.data.datasets.published import sop
from smoothap.data.image_set import ImageSet
from smoothap.data.samplers import BalancedBatches, PairBatches, WholeClassPairs
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
        CONFIG, batch_size=128, memory_size=384, weight_decay=4e-4, head_lr_multiplier=3, epochs=80, milestones=(35,)
    ),
    "xbm": replace(
        CONFIG, batch_size=64, learning_rate=1e-4, weight_decay=5e-4, steps=35_000, milestones=(19,), gamma=0.1
    ),
}


def model(weights: Weights) -> Embedder:
    return Embedder("resnet50.tv_in1k", 512, size=224, pretrained=weights)


def model_of_memory(weights: Weights) -> Embedder:
    return Embedder("resnet50.tv_in1k", 128, size=224, pretrained=weights, freeze_batch_norm=False)


def backbone_alone(weights: Weights) -> Embedder:
    return Embedder("resnet50.tv_in1k", None, size=224, pretrained=weights)


def whole_classes(images: ImageSet, config: TrainingConfig, processes: Processes) -> WholeClassPairs:
    """Half of a batch from each of two of the 12 super-categories, class after class, 5 batches of every pair."""
    return WholeClassPairs(
        images.labels, images.groups, config.batch_size,
        batches_per_pair=5, seed=config.seed, rank=processes.rank, ranks=processes.number,
    )  # fmt: skip


def hard_negatives(images: ImageSet, config: TrainingConfig, processes: Processes) -> PairBatches:
    """Half of a batch from each of two of the 12 super-categories, 10 batches of every pair in an epoch."""
    return PairBatches(
        images.labels, images.groups, config.batch_size, config.samples_per_class,
        batches_per_pair=10, seed=config.seed, rank=processes.rank, ranks=processes.number,
    )  # fmt: skip


def by_size(images: ImageSet, config: TrainingConfig, processes: Processes) -> BalancedBatches:
    """Classes by their size, none left out."""
    return BalancedBatches(
        images.labels, config.batch_size, config.samples_per_class,
        by_size=True, fill=True, seed=config.seed, rank=processes.rank, ranks=processes.number,
    )  # fmt: skip


recipe = Recipe(
    data=sop,
    model={"fast-ap": model, "blackbox-recall": model, "xbm": model_of_memory},
    loss={name: METHODS[name] for name in TRAININGS},
    config=TRAININGS,
    batches={"fast-ap": whole_classes, "blackbox-recall": hard_negatives, "xbm": by_size},
    before=backbone_alone,
)
