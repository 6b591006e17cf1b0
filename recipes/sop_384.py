"""Table 2, row "Smooth-AP BS=384": Stanford Online Products, ResNet-50, batch 384, images of 224 x 224.

Paper   Recall@1 / 10 / 100 / 1000 = 80.1 / 91.5 / 96.6 / 99.0
Run     smoothap train recipe:sop-384 --data PATH --out runs/sop-384
Data    PATH is the folder with Ebay_train.txt, Ebay_test.txt and the images
Weights ImageNet's (resnet50.tv_in1k), which timm downloads; without a network connection add --weights FILE

                 paper                      released code           here
batch, |P|       384, 4                     112, 4 by default       384, 4
tau              0.01                       0.01                    0.01
optimiser        Adam, 1e-5                 Adam, 1e-5              Adam, 1e-5
weight decay     4e-5                       4e-4                    4e-5
embedding layer  rate not said              5 times the rate        5 times the rate
epochs, drops    not said                   not for this set        94; 47, 70 x 0.3 (guess)
batches          pairs of categories        not for this set        10 of each of the 66 pairs in an epoch
views            256 x 256, crop 224, flip  8 to 100% of the area   256 x 256, crop 224, flip
query            not in its own ranking     one of its positives    not in its own ranking (--include-query)
model            not said                   best epoch on the test  the last epoch (--validation-fraction 0.1: best)
precision        not said                   float32, TF32 as torch  float32 without TF32

Options in brackets do it the other way; "guess" marks what nobody published. To train as the released code does, add
--weight-decay 4e-4 --crops released --include-query.
A remark in the released code says that the paper's best results need SGD at a rate of 0.05; it has SGD without
momentum: --optimiser sgd --learning-rate 0.05 --momentum 0.
The 94 epochs of 660 batches show as many images as the 400 passes that the released code makes on VehicleID, and the
rate drops after the same shares of them.
"""

from smoothap._core.distributed import Processes
from smoothap.data.datasets.published import sop
from smoothap.data.image_set import ImageSet
from smoothap.data.samplers import PairBatches
from smoothap.models import Embedder
from smoothap.training.config import TrainingConfig
from smoothap.training.finetune import smooth_ap
from smoothap.training.recipe import Recipe, Weights

CONFIG = TrainingConfig(
    batch_size=384,
    samples_per_class=4,
    tau=0.01,
    validation_fraction=0,  # the paper trains on all classes
    optimiser="adam",
    learning_rate=1e-5,
    weight_decay=4e-5,
    head_lr_multiplier=5,  # the default of the released code
    epochs=94,
    schedule="steps",
    milestones=(47, 70),
    gamma=0.3,
    precision="float32",
)


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


recipe = Recipe(data=sop, model=model, loss=smooth_ap, config=CONFIG, batches=hard_negatives, before=backbone_alone)
