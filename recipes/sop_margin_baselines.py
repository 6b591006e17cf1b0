"""Table 2, rows of 128 numbers: Margin, Divide and Conquer and MIC; Stanford Online Products, ResNet-50.

Paper   Recall@1 / 10 / 100 / 1000, each as its own authors report it:
        margin              72.7  86.2  93.8  98.0
        divide-and-conquer  75.9  88.4  94.9  98.1
        mic                 77.2  89.4  95.6     -
Run     smoothap train recipe:sop-margin-baselines --data PATH --out runs/sop-margin-baselines
Data    PATH is the folder with Ebay_train.txt, Ebay_test.txt and the images
Weights ImageNet's (resnet50.tv_in1k), which timm downloads; without a network connection add --weights FILE

                 margin (1)                 divide-and-conquer (2)      mic (3)
batch, |P|       112, 4                     80, 4                       112, 4
loss             margin 0.2, beta from 1.2  beta 1.2, 8 clusters        50 surrogate classes, reversal 250
triplets         one for each anchor        nearest from 0.5 on         one for each anchor
second head      none                       none                        in half of the steps, 20% at random
clusters         none                       every 2nd epoch             every 4th epoch
optimiser        Adam, 1e-5; beta 5e-4      Adam, 1e-5                  Adam, 1e-5; beta 5e-4
weight decay     4e-4; beta 0               1e-4                        4e-4; beta 0
embedding layer  1 times the rate           1 times the rate            1 times the rate
epochs, drops    40; 30 x 0.3               200, none                   45; 20, 35 x 0.3
batches          classes equally often      one cluster until 190       classes equally often
views            there 8 to 100% of area    there 8 to 100% of area     there 8 to 100% of the area
model            the last epoch             the last epoch              the last epoch
precision        float32 without TF32       float32 without TF32        float32 without TF32

(1) sample_training_runs.sh and losses.py of Confusezius/Deep-Metric-Learning-Baselines, by Roth and Brattoli:
    --n_epochs 40 --tau 30. Its distance-weighted sampling leaves out the cut at 1.4 of the method's paper; its README
    has 76.1.
(2) README.md and lib/loss/sampler.py of CompVis/metric-learning-divide-and-conquer. There each slice of a vector is
    normalised by itself, in the test too; here the whole vector is.
(3) Result_Runs.sh of Confusezius/ICCV2019_MIC: --shared_num_classes 50 --adv_weights 250 --task_p 1 0.5 --tau 20 35
    --random_cluster_pick_p 0.2 --cluster_update_freq 3, which counts the epochs between two updates. There the second
    head has the weight decay of the network and the predictor between the heads 1e-6; here both have none.

This runs three trainings, each in a folder of its own; --loss mic runs that one alone, and with --crops released it has
the views of the released code. Two of them cluster the training images, for which one process is needed.
"""

from dataclasses import replace

from smoothap.benchmark.methods import METHODS
from smoothap.data.datasets.published import sop
from smoothap.models import Embedder
from smoothap.training.config import TrainingConfig
from smoothap.training.recipe import Recipe, Weights

CONFIG = TrainingConfig(
    samples_per_class=4,
    validation_fraction=0,  # all of these train on all classes
    optimiser="adam",
    learning_rate=1e-5,
    schedule="steps",
    gamma=0.3,
    precision="float32",
)
TRAININGS = {
    "margin": replace(CONFIG, batch_size=112, weight_decay=4e-4, epochs=40, milestones=(30,)),
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
