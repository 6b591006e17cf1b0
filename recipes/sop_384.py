"""Table 2, row "Smooth-AP BS=384": Stanford Online Products, ResNet-50, batch 384, images of 224 x 224.

Paper   Recall@1 / 10 / 100 / 1000 = 80.1 / 91.5 / 96.6 / 99.0
Run     smoothap train recipe:sop-384 --data PATH --out runs/sop-384
Data    PATH is the folder with Ebay_train.txt, Ebay_test.txt and the images
Weights ImageNet's (resnet50.tv_in1k), which timm downloads; without a network connection add --weights FILE

The paper gives the optimiser, the learning rate, the weight decay, tau, |P| and the hard negatives. It does not say how
long it trained, and the released code does not train on this set. We train for 94 epochs of 660 batches: as many
images as in the 400 passes over the set that the released code makes on VehicleID. The learning rate drops after the
same shares of the training, and the embedding layer learns at 5 times the learning rate, the default of that code.

The released code trains with another weight decay and other crops than the paper. To train as it does, add the options
--weight-decay 4e-4 --crops released to the command.
"""

from smoothap.data.image_set import ImageSet
from smoothap.data.samplers import PairBatches
from smoothap.data.sop import sop
from smoothap.distributed import Processes
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
    embedding_factor=5,  # the default of the released code
    epochs=94,
    schedule="steps",
    drops=(47, 70),
    drop=0.3,
)


def model(weights: Weights) -> Embedder:
    return Embedder("resnet50.tv_in1k", 512, size=224, pretrained=weights)


def backbone_alone(weights: Weights) -> Embedder:
    return Embedder("resnet50.tv_in1k", None, size=224, pretrained=weights)


def loss(settings: Settings) -> SmoothAP:
    return SmoothAP(settings.tau)


def hard_negatives(images: ImageSet, settings: Settings, processes: Processes) -> PairBatches:
    """Half of a batch from each of two of the 12 super-categories, 10 batches of every pair in an epoch."""
    return PairBatches(
        images.labels, images.groups, settings.batch_size, settings.per_class,
        batches_per_pair=10, seed=settings.seed, rank=processes.rank, ranks=processes.number,
    )  # fmt: skip


recipe = Recipe(data=sop, model=model, loss=loss, settings=SETTINGS, batches=hard_negatives, before=backbone_alone)
