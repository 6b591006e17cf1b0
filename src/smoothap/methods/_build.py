"""How each method is built for a training; the named arguments of its function are its options."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from smoothap.data.image_set import ImageSet
from smoothap.data.samplers import Batches
from smoothap.losses import BlackboxAP, BlackboxRecall, RecallAtK, Roadmap, SmoothAP, SupAP
from smoothap.methods import _wrapped as wrapped
from smoothap.methods._cross_batch_memory import ContrastiveWithMemory
from smoothap.methods._divide_and_conquer import ClusterBatches, SlicedMargin
from smoothap.methods._mic import InterclassMining, released_numbers
from smoothap.models import Embedder
from smoothap.training.loop import Callbacks
from smoothap.training.settings import Settings

_WARM_UP = 1000  # steps without memory, of the 35,000 that the code of cross-batch memory trains for
_WARM_UP_SHARE = 35


@dataclass(frozen=True, eq=False)
class Setup:
    """What a method is built for: the training images, the network, the settings and the batches that all share."""

    images: ImageSet
    model: Embedder
    settings: Settings
    batches: Batches

    @property
    def steps(self) -> int:
        """Of the whole training."""
        return self.settings.total_steps(len(self.batches))


@dataclass(frozen=True, eq=False)
class Parts:
    """What a method brings to the one training loop; `changes` are those of its settings."""

    loss: nn.Module
    changes: Mapping[str, Any] = field(default_factory=dict)
    batches: Batches | None = None  # in the place of those all share
    callbacks: Callbacks | None = None


def smooth_ap(setup: Setup) -> Parts:
    return Parts(SmoothAP(setup.settings.tau, include_query=setup.settings.include_query))


def calibrated_smooth_ap(setup: Setup, *, balance: float = 0.5, tau: float = 0.01) -> Parts:
    return Parts(Roadmap(balance, SmoothAP(tau)))


def fast_ap(setup: Setup, *, bins: int | None = None) -> Parts:
    """`bins` are by default the paper's: 20 for iNaturalist, else 10."""
    return Parts(wrapped.fast_ap(bins or (20 if "inaturalist" in setup.images.name.lower() else 10)))


def blackbox_ap(setup: Setup, *, lambda_: float = 4.0, margin: float = 0.02) -> Parts:
    return Parts(BlackboxAP(lambda_, margin))


def blackbox_recall(setup: Setup, *, lambda_: float = 4.0, margin: float = 0.02) -> Parts:
    return Parts(BlackboxRecall(lambda_, margin))


def contrastive(setup: Setup, *, margin: float = 0.5) -> Parts:
    return Parts(wrapped.contrastive(margin))


def triplet(setup: Setup, *, margin: float = 0.2) -> Parts:
    return Parts(wrapped.triplet(margin))


def margin(setup: Setup, *, margin: float = 0.2, beta: float = 1.2, beta_rate: float = 5e-4) -> Parts:
    return Parts(wrapped.margin(setup.images.classes, margin, beta, beta_rate))


def proxy_nca(setup: Setup, *, factor: float = 1.0) -> Parts:
    """`factor` times the learning rate is that of the proxies."""
    return Parts(wrapped.proxy_nca(setup.images.classes, setup.model.dimension), {"loss_factor": factor})


def xbm(
    setup: Setup, *, margin: float = 0.5, weight: float = 1.0, memory: int | None = None, warm_up: int | None = None
) -> Parts:
    """`memory` is by default as large as the training set; nothing is remembered in the first `warm_up` steps."""
    start = min(_WARM_UP, setup.steps // _WARM_UP_SHARE) if warm_up is None else warm_up
    return Parts(
        ContrastiveWithMemory(margin, weight), {"memory_size": memory or len(setup.images), "memory_after": start}
    )


def divide_and_conquer(setup: Setup, *, clusters: int = 8, sliced: float = 0.4, divided: float = 0.95) -> Parts:
    """A slice learns alone for the share `sliced` of the steps; a batch is of one cluster for the share `divided`."""
    images, settings = setup.images, setup.settings
    loss = SlicedMargin(
        setup.model.dimension, clusters, len(images),
        divided_steps=round(divided * setup.steps), sliced_steps=round(sliced * setup.steps), seed=settings.seed,
    )  # fmt: skip
    batches = ClusterBatches(
        loss, images.labels, setup.batches, settings.batch_size, settings.samples_per_class, seed=settings.seed
    )
    return Parts(loss, batches=batches, callbacks=loss)


def mic(setup: Setup, *, surrogates: int | None = None, reversal: float | None = None) -> Parts:
    """`surrogates` are classes, `reversal` is a weight: by default the released ones of the set."""
    images = setup.images
    released = released_numbers(images.name)
    loss = InterclassMining(
        setup.model, images.classes, len(images),
        surrogates=released[0] if surrogates is None else surrogates,
        reversal=released[1] if reversal is None else reversal, seed=setup.settings.seed,
    )  # fmt: skip
    return Parts(loss, callbacks=loss)


def roadmap(setup: Setup, *, balance: float = 0.5, tau: float = 0.01) -> Parts:
    return Parts(Roadmap(balance, SupAP(tau)))


def recall_at_k(setup: Setup, *, k: tuple[int, ...] = (1, 2, 4, 8), tau1: float = 1.0, tau2: float = 0.01) -> Parts:
    return Parts(RecallAtK(k, tau1, tau2))


def softmax(setup: Setup, *, temperature: float = 0.05, factor: float = 100.0) -> Parts:
    """`factor` times the learning rate is that of the class weights, as in the code of Proxy Anchor."""
    loss = wrapped.softmax(setup.images.classes, setup.model.dimension, temperature)
    return Parts(loss, {"loss_factor": factor})


def arcface(setup: Setup, *, margin: float = 28.6, scale: float = 64.0, factor: float = 100.0) -> Parts:
    """`margin` is an angle in degrees; `factor` as of `softmax`."""
    loss = wrapped.arcface(setup.images.classes, setup.model.dimension, margin, scale)
    return Parts(loss, {"loss_factor": factor})
