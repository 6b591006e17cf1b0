"""Table 3, right, the four baselines that the paper trained itself: iNaturalist 2018, ResNet-50, images of 224 x 224.

Paper   Recall@1 / 4 / 16 / 32:
        triplet-softhard  58.1  75.5  86.8  90.7  (the table calls it "Triplet Semi-Hard")
        proxy-nca         61.6  77.4  87.0  90.6
        fast-ap           60.6  77.0  87.2  90.6
        blackbox-ap       62.9  79.0  88.9  92.1
Run     smoothap train recipe:inaturalist-baselines --data PATH --out runs/inaturalist-baselines
Data    PATH is the folder with train_val2018 and the split files Inaturalist_{train,test}_set1.txt
Weights ImageNet's (resnet50.tv_in1k), which timm downloads; without a network connection add --weights FILE

                 paper                       code that the paper ran     here
batch, |P|       224, 4                      112, 4; Proxy NCA 1         224, 4; Proxy NCA 1
triplet          semi-hard                   soft-hard (1), margin 0.2   soft-hard (1), margin 0.2
Proxy NCA        one proxy for each class    randn / 8, rate 1e-5        one for each class, randn / 8, rate 1e-5
FastAP           20 bins                     10 bins by default          20 bins
Blackbox AP      lambda 4, margin 0.02       no defaults                 lambda 4, margin 0.02
optimiser        Adam, 1e-5                  Adam, 1e-5                  Adam, 1e-5
weight decay     4e-5                        4e-4; proxies 0             4e-5; proxies 0
embedding layer  2 times the rate            1 times the rate            2 times the rate
epochs, drops    not said                    not for this set            90; 40, 70 x 0.3, as Smooth-AP (guess)
classes          drawn at random             equally often               equally often
                                             Proxy NCA: by their size    Proxy NCA: by their size
views            256 x 256, crop 224, flip   8 to 100% of the area       256 x 256, crop 224, flip
model            not said                    best epoch on the test      the last epoch
precision        not said                    float32, TF32 as torch      float32 without TF32

(1) Until 16 March 2020 the code in the second column (Confusezius/Deep-Metric-Learning-Baselines, by Roth and Brattoli)
    called this rule semi-hard; since then it has FaceNet's rule under that name, and this one as "softhard" (commit
    ea4549a). The paper went to ECCV, whose deadline was 5 March 2020, so that its row is probably this one. With
    FaceNet's: smoothap train recipe:inaturalist-224 --loss triplet.

This runs four trainings, each in a folder of its own, and prints one table at the end; --loss proxy-nca runs that one
alone. In the code of the second column FastAP's authors trained too. "guess" marks what nobody published. Whether the
paper ran the AP loss or the recall loss of Blackbox's authors is not said either: smoothap train recipe:inaturalist-224
--loss blackbox-recall trains with the other.
"""

from smoothap._core.distributed import Processes
from smoothap.benchmark.methods import METHODS
from smoothap.data.datasets.published import inaturalist
from smoothap.data.image_set import ImageSet
from smoothap.data.samplers import BalancedBatches
from smoothap.models import Embedder
from smoothap.training.config import TrainingConfig
from smoothap.training.recipe import Recipe, Weights

CONFIG = TrainingConfig(
    batch_size=224,
    samples_per_class=4,
    validation_fraction=0,  # the paper trains on all classes
    optimiser="adam",
    learning_rate=1e-5,
    weight_decay=4e-5,
    head_lr_multiplier=2,  # the supplement, for all experiments on this set
    epochs=90,
    schedule="steps",
    milestones=(40, 70),
    gamma=0.3,
    precision="float32",
)


def model(weights: Weights) -> Embedder:
    return Embedder("resnet50.tv_in1k", 512, size=224, pretrained=weights)


def backbone_alone(weights: Weights) -> Embedder:
    return Embedder("resnet50.tv_in1k", None, size=224, pretrained=weights)


def one_image_of_a_class(images: ImageSet, config: TrainingConfig, processes: Processes) -> BalancedBatches:
    """Proxy NCA compares with proxies alone: its batches have one image of each class, drawn image by image."""
    return BalancedBatches(
        images.labels, config.batch_size, 1,
        by_size=True, seed=config.seed, rank=processes.rank, ranks=processes.number,
    )  # fmt: skip


recipe = Recipe(
    data=inaturalist,
    model=model,
    loss={name: METHODS[name] for name in ("triplet-softhard", "proxy-nca", "fast-ap", "blackbox-ap")},
    config=CONFIG,
    batches={"proxy-nca": one_image_of_a_class},
    before=backbone_alone,
)
