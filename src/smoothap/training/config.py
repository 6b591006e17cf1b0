"""How to train: every number of the loop in one place, the paper's by default; and how to run it on this machine."""

from dataclasses import asdict, dataclass, replace
from math import cos, pi
from typing import Annotated, Any, Literal, get_args

from smoothap._core.numbers import (
    Count,
    Factor,
    NotNegative,
    Positive,
    Range,
    Rate,
    Seed,
    Share,
    WholeNumber,
    check_numbers,
)

Optimiser = Literal["adam", "adamw", "sgd"]
Schedule = Literal["steps", "cosine"]
Precision = Literal["auto", "float32", "tf32", "bfloat16", "float16"]
HeadInit = Literal["random", "components", "projection"]


@dataclass(frozen=True)
class TrainingConfig:
    """The paper's training of Stanford Online Products, at the step schedule of the released code.

    Parameters
    ----------
    epochs
        How often to go through the training images.
    steps
        Stop after that many steps, whatever the epochs say.
    batch_size
        Images in a batch, over all processes.
    learning_rate
        The learning rate of the backbone.
    samples_per_class
        |P|, the number of images of each class in a batch.
    by_size
        Let classes come up in proportion to their images, and leave out those with fewer than samples_per_class, as the
        authors' released code does; else all classes come up equally often.
    tau
        The temperature of the sigmoid, Eq. 6.
    include_query
        Count a query as one of its own positives, as the authors' released code does.
    validation_fraction
        The share of the training classes that picks the best epoch; 0 trains on all of them and keeps the last model,
        as the paper does.
    optimiser
        Adam; AdamW, whose weight decay is decoupled; or SGD, by which, at a rate of 0.05, the released code says the
        paper's best results came about.
    momentum
        Of SGD; 0 in the released code, 0.9 as usual.
    schedule
        How the learning rate falls: in steps, at the milestones, or as a cosine.
    milestones
        Epochs after which the step schedule multiplies the rate by gamma.
    gamma
        What the step schedule multiplies the rate by.
    warm_up
        Steps over which the learning rate rises from 0.
    weight_decay
        The weight decay.
    head_init
        Of a new embedding layer: a projection of the training images' own features, their principal components, or
        random as in the paper.
    head_lr_multiplier
        The learning rate of the embedding layer, as a multiple of the backbone's (2 for iNaturalist).
    loss_factor
        The learning rate of parameters of the loss itself, as a multiple of the backbone's.
    clip
        The greatest length of the gradient; longer ones are shortened to it.
    micro_batch_size
        Images held at a time, of this process: batches larger than the memory by gradient caching.
    memory_size
        Embeddings of past batches that join the retrieval set.
    memory_after
        Steps before the first of them is kept.
    precision
        Of the network: auto is float16 on a GPU when the loss tolerates the rounding, else float32; tf32 rounds the
        inputs of float32 products to 10 bits on an NVIDIA GPU, float32 itself does not.
    seed
        Chooses the batches, the views, the classes to validate and the new weights.
    checkpoint_every
        Steps between two checkpoints; there is one after every epoch too.
    diagnose_every
        Steps between two measurements of the operating region and of AP_e.
    """

    epochs: Count = 400
    steps: Count | None = None
    batch_size: Count = 384
    learning_rate: Rate = 1e-5
    samples_per_class: Annotated[int, Range(2)] = 4  # with one image of a class a query has nothing to find
    by_size: bool = False
    tau: Positive = 0.01
    include_query: bool = False
    validation_fraction: Share = 0.1
    optimiser: Optimiser = "adam"
    momentum: Annotated[float, Range(0, 0.9999)] = 0.9
    schedule: Schedule = "steps"
    milestones: tuple[WholeNumber, ...] = (200, 300)
    gamma: Rate = 0.3
    warm_up: WholeNumber = 0
    weight_decay: Factor = 4e-5
    head_init: HeadInit = "random"
    head_lr_multiplier: Factor = 1.0
    loss_factor: Factor = 1.0
    clip: Positive | None = None
    micro_batch_size: Count | None = None
    memory_size: WholeNumber = 0
    memory_after: WholeNumber = 0
    precision: Precision = "auto"
    seed: Seed = 0
    checkpoint_every: Count = 200
    diagnose_every: Count = 50

    def __post_init__(self) -> None:
        choices = {"optimiser": Optimiser, "schedule": Schedule, "precision": Precision, "head_init": HeadInit}
        for name, kind in choices.items():
            if getattr(self, name) not in get_args(kind):
                raise ValueError(f"{name} is one of {', '.join(get_args(kind))}, not {getattr(self, name)!r}")
        check_numbers(self)
        if self.validation_fraction == 1:
            raise ValueError("validation_fraction is a share of the classes below 1: some must be left to train on")
        if self.include_query and self.memory_size:
            raise ValueError(
                "include_query is for batches that retrieve from themselves: leave it out, or memory_size, by which "
                "past batches join the retrieval set"
            )
        if self.memory_after and not self.memory_size:
            raise ValueError("memory_after is for past batches: give memory_size too, or leave it out")
        if self.batch_size < 2 * self.samples_per_class:
            raise ValueError(
                f"a batch of {self.batch_size} with {self.samples_per_class} images of each class has one class, "
                f"nothing to rank it against: take at least {2 * self.samples_per_class}"
            )

    def total_steps(self, steps_per_epoch: int) -> int:
        """How many steps the training has."""
        return self.steps or self.epochs * steps_per_epoch

    def rate_factor(self, step: int, steps_per_epoch: int) -> float:
        """What the learning rates are multiplied by at a step, counted from 0."""
        total = self.total_steps(steps_per_epoch)
        if step < self.warm_up:
            return (step + 1) / self.warm_up
        if self.schedule == "cosine":
            return (1 + cos(pi * (step - self.warm_up) / max(1, total - self.warm_up))) / 2
        return self.gamma ** sum(step // steps_per_epoch >= epoch for epoch in self.milestones)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, fit for json."""
        return {**asdict(self), "milestones": list(self.milestones)}


@dataclass(frozen=True)
class RunOptions:
    """How to run a training on this machine; of all this only `minutes` can change what comes out."""

    resume: bool = False  # go on from the checkpoint in the folder, if there is one
    minutes: NotNegative | None = None  # end the training after as many, also if it has steps left; 0: after one step
    device: str | None = None  # such as cpu or cuda; None: the accelerator where there is one
    workers: WholeNumber = 0  # processes that read images; 0: this one
    tensorboard: bool = False  # write the metrics for TensorBoard too

    def __post_init__(self) -> None:
        check_numbers(self)


HERE = RunOptions()
NETWORK, SIZE, DIMENSION = "tf_efficientnet_lite0", 112, 512  # what is fine-tuned unless you say otherwise
PAPER = TrainingConfig()
# A small set of images and a pretrained network, in minutes. A higher rate makes photos of things that the network
# knows already rank worse than before; the new layer may learn faster.
QUICK = TrainingConfig(
    batch_size=128, epochs=3, optimiser="adamw", learning_rate=2e-4, head_lr_multiplier=5.0, schedule="cosine",
    warm_up=5, head_init="projection",
)  # fmt: skip
# The embedding layer alone, behind a frozen backbone. On validation classes of photos and emoji no other rate, number
# of steps or batch was better on all: emoji want more of each, photos do not.
FEATURE_VIEWS = 4  # random ones of each training image, besides the test view
FROZEN = replace(QUICK, batch_size=256, steps=300, learning_rate=5e-4, head_lr_multiplier=1.0)
# The emoji at 80 pixels in five minutes on two cores, tuned on validation classes.
DEMO = replace(QUICK, batch_size=256, learning_rate=1e-3, head_lr_multiplier=1.0)
