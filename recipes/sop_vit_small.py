"""Past the paper: Stanford Online Products, a small vision transformer that DINO trained without labels, batch 384.

Paper   none: Smooth-AP's has ResNet-50 alone, so there is no figure to expect
Run     smoothap train recipe:sop-vit-small --data PATH --out runs/sop-vit-small
Data    PATH is the folder with Ebay_train.txt, Ebay_test.txt and the images
Weights DINO's (vit_small_patch16_224.dino), which timm downloads; without a network connection add --weights FILE

                 here
batch, |P|       384, 4, hard negatives as in recipes/sop_384.py
tau              0.01
optimiser        AdamW, 3e-5, weight decay 1e-4, 5 times the rate for the embedding layer (guess)
epochs, drops    20; 10, 15 x 0.3 (guess)
views            8 to 100% of the area, flip
model            the best epoch on a tenth of the training classes

Every number that is not in the paper's recipe is a guess for a start. For DINOv2, change the name to
vit_small_patch14_dinov2 and the size to 224.
"""

from dataclasses import replace

from smoothap._core.distributed import Processes
from smoothap.data.datasets.published import sop
from smoothap.data.image_set import ImageSet
from smoothap.data.samplers import PairBatches
from smoothap.models import Embedder
from smoothap.training.config import TrainingConfig
from smoothap.training.finetune import smooth_ap
from smoothap.training.recipe import Recipe, Weights

NETWORK = "vit_small_patch16_224.dino"
CONFIG = TrainingConfig(
    batch_size=384,
    samples_per_class=4,
    tau=0.01,
    optimiser="adamw",
    learning_rate=3e-5,
    weight_decay=1e-4,
    head_lr_multiplier=5,
    epochs=20,
    schedule="steps",
    milestones=(10, 15),
    gamma=0.3,
    warm_up=200,
    precision="float32",
)


def model(weights: Weights) -> Embedder:
    network = Embedder(NETWORK, 384, size=224, pretrained=weights)
    network.transform = replace(network.transform, name="released")
    return network


def backbone_alone(weights: Weights) -> Embedder:
    return Embedder(NETWORK, None, size=224, pretrained=weights)


def hard_negatives(images: ImageSet, config: TrainingConfig, processes: Processes) -> PairBatches:
    """Half of a batch from each of two of the 12 super-categories, 10 batches of every pair in an epoch."""
    return PairBatches(
        images.labels, images.groups, config.batch_size, config.samples_per_class,
        batches_per_pair=10, seed=config.seed, rank=processes.rank, ranks=processes.number,
    )  # fmt: skip


recipe = Recipe(data=sop, model=model, loss=smooth_ap, config=CONFIG, batches=hard_negatives, before=backbone_alone)
