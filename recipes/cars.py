"""Cars-196, which the paper does not use: ResNet-50, batch 112, images of 160 x 160, Smooth-AP and Proxy NCA beside it.

Paper   none. Recall@1 / 2 / 4 / 8 of others with ResNet-50, 128 numbers and images of 224 x 224, best epoch on the test
        (Confusezius/Deep-Metric-Learning-Baselines): Margin 79.3 87.1 92.1 95.4, Proxy NCA 80.0 87.2 91.8 95.1
Run     smoothap train recipe:cars --data PATH --out runs/cars
Data    PATH is the folder with cars_annos.mat and car_ims, or with devkit, cars_train and cars_test
Weights ImageNet's, as Keras has them: --weights FILE of tools/convert_resnet50.py

                 here
batch, |P|       112, 4 (1); Proxy NCA 98, 1: one image of each class
optimiser        Adam, 1e-5 (1, 2); proxies at the same rate
weight decay     4e-4 (1, 2); proxies 0 (2)
embedding layer  512 numbers, 5 times the rate (1)
epochs, drops    40; 25 x 0.3, as Proxy NCA's on this set (2)
classes          by their size
views            8 to 100% of the area, mirrored half of the time
model            the last epoch (--validation-fraction 0.1: best)
precision        float32 without TF32

(1) src/main.py of Andrew-Brown1/Smooth_AP. (2) sample_training_runs.sh of Confusezius/Deep-Metric-Learning-Baselines,
which has 1 times the rate for the embedding layer.

NOT RUN YET: nobody has trained this at full size here; four epochs were (benchmarks/RESULTS.md). The first 98 classes
train, the other 98 are the test. It is meant for machines without a GPU: an epoch of 8,054 images takes about ten
minutes on two cores. A training that was cut off goes on with --resume.
"""

from dataclasses import replace

from smoothap._core.distributed import Processes
from smoothap.benchmark.methods import METHODS
from smoothap.data.datasets.published import cars
from smoothap.data.image_set import ImageSet
from smoothap.data.samplers import BalancedBatches
from smoothap.models import Embedder
from smoothap.training.config import TrainingConfig
from smoothap.training.recipe import Recipe, Weights

CONFIG = TrainingConfig(
    batch_size=112,
    samples_per_class=4,
    by_size=True,
    validation_fraction=0,  # as all published rows: on all 98 classes
    optimiser="adam",
    learning_rate=1e-5,
    weight_decay=4e-4,
    head_lr_multiplier=5,
    epochs=40,
    schedule="steps",
    milestones=(25,),
    gamma=0.3,
    precision="float32",
)


def model(weights: Weights) -> Embedder:
    network = Embedder("resnet50_keras", 512, size=160, pretrained=weights)
    network.transform = replace(network.transform, name="released")
    return network


def backbone_alone(weights: Weights) -> Embedder:
    return Embedder("resnet50_keras", None, size=160, pretrained=weights)


def one_image_of_a_class(images: ImageSet, config: TrainingConfig, processes: Processes) -> BalancedBatches:
    """Proxy NCA compares with proxies alone; 98 classes fill a batch of 98."""
    return BalancedBatches(
        images.labels, min(config.batch_size, images.classes), 1,
        by_size=True, seed=config.seed, rank=processes.rank, ranks=processes.number,
    )  # fmt: skip


recipe = Recipe(
    data=cars,
    model=model,
    loss={name: METHODS[name] for name in ("smooth-ap", "proxy-nca")},
    config=CONFIG,
    batches={"proxy-nca": one_image_of_a_class},
    before=backbone_alone,
)
