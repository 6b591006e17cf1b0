"""How each method is built for a training; the named arguments of its function are its options."""

from pytorch_metric_learning import distances, losses, reducers

from smoothap.benchmark.methods.divide_and_conquer import ClusterBatches, SlicedMargin
from smoothap.benchmark.methods.mic import InterclassMining, released_numbers
from smoothap.benchmark.methods.miners import SemiHardMiner
from smoothap.benchmark.methods.wrapped import ContrastiveWithMemory, ProxyNCA, Wrapped, margin_loss
from smoothap.losses import BlackboxAP, BlackboxRecall, RecallAtK, Roadmap, SmoothAP, SupAP
from smoothap.training.loss import LossParts, TrainingSetup

_WARM_UP = 1000  # steps without memory, of the 35,000 that the code of cross-batch memory trains for
_WARM_UP_SHARE = 35


def smooth_ap(setup: TrainingSetup, *, tau: float | None = None) -> LossParts:
    """`tau` is by default that of the config."""
    tau = setup.config.tau if tau is None else tau
    return LossParts(SmoothAP(tau, include_query=setup.config.include_query), {"tau": tau})


def calibrated_smooth_ap(setup: TrainingSetup, *, balance: float = 0.5, tau: float = 0.01) -> LossParts:
    return LossParts(Roadmap(balance, SmoothAP(tau)))


def fast_ap(setup: TrainingSetup, *, bins: int | None = None) -> LossParts:
    """`bins` are by default the paper's: 20 for iNaturalist, else 10."""
    number = bins or (20 if "inaturalist" in setup.images.name.lower() else 10)
    return LossParts(Wrapped(losses.FastAPLoss(num_bins=number)))


def blackbox_ap(setup: TrainingSetup, *, lambda_: float = 4.0, margin: float = 0.02) -> LossParts:
    return LossParts(BlackboxAP(lambda_, margin))


def blackbox_recall(setup: TrainingSetup, *, lambda_: float = 4.0, margin: float = 0.02) -> LossParts:
    return LossParts(BlackboxRecall(lambda_, margin))


def contrastive(setup: TrainingSetup, *, margin: float = 0.5) -> LossParts:
    """Pairwise, on cosines: positives up to 1, negatives below the margin (that of cross-batch memory)."""
    loss = losses.ContrastiveLoss(pos_margin=1, neg_margin=margin, distance=distances.CosineSimilarity())
    return LossParts(Wrapped(loss))


def triplet(setup: TrainingSetup, *, margin: float = 0.2) -> LossParts:
    """On squared distances, one semi-hard triplet for each anchor, the mean over all of them."""
    loss = losses.TripletMarginLoss(margin, distance=distances.LpDistance(power=2), reducer=reducers.MeanReducer())
    return LossParts(Wrapped(loss, SemiHardMiner()))


def margin(setup: TrainingSetup, *, margin: float = 0.2, beta: float = 1.2, beta_rate: float = 5e-4) -> LossParts:
    return LossParts(margin_loss(setup.images.classes, margin, beta, beta_rate))


def proxy_nca(setup: TrainingSetup, *, factor: float = 1.0) -> LossParts:
    """One proxy for each class, the paper's choice; `factor` times the learning rate is that of the proxies."""
    classes = setup.images.classes
    return LossParts(Wrapped(ProxyNCA(classes, setup.model.dimension), classes=classes), {"loss_factor": factor})


def xbm(
    setup: TrainingSetup,
    *,
    margin: float = 0.5,
    weight: float = 1.0,
    memory: int | None = None,
    warm_up: int | None = None,
) -> LossParts:
    """`memory` is by default as large as the training set; nothing is remembered in the first `warm_up` steps."""
    start = min(_WARM_UP, setup.steps // _WARM_UP_SHARE) if warm_up is None else warm_up
    return LossParts(
        ContrastiveWithMemory(margin, weight),
        {"memory_size": memory or len(setup.images), "memory_after": start},
    )


def divide_and_conquer(
    setup: TrainingSetup, *, clusters: int = 8, sliced: float = 0.4, divided: float = 0.95
) -> LossParts:
    """A slice learns alone for the share `sliced` of the steps; a batch is of one cluster for the share `divided`."""
    images, config = setup.images, setup.config
    loss = SlicedMargin(
        setup.model.dimension, clusters, len(images),
        divided_steps=round(divided * setup.steps), sliced_steps=round(sliced * setup.steps), seed=config.seed,
    )  # fmt: skip
    batches = ClusterBatches(
        loss, images.labels, setup.batches, config.batch_size, config.samples_per_class, seed=config.seed
    )
    return LossParts(loss, batches=batches, callbacks=loss)


def mic(setup: TrainingSetup, *, surrogates: int | None = None, reversal: float | None = None) -> LossParts:
    """`surrogates` are classes, `reversal` is a weight: by default the released ones of the set."""
    images = setup.images
    released = released_numbers(images.name)
    loss = InterclassMining(
        setup.model, images.classes, len(images),
        surrogates=released[0] if surrogates is None else surrogates,
        reversal=released[1] if reversal is None else reversal, seed=setup.config.seed,
    )  # fmt: skip
    return LossParts(loss, callbacks=loss)


def roadmap(setup: TrainingSetup, *, balance: float = 0.5, tau: float = 0.01) -> LossParts:
    return LossParts(Roadmap(balance, SupAP(tau)))


def recall_at_k(
    setup: TrainingSetup, *, k: tuple[int, ...] = (1, 2, 4, 8), tau1: float = 1.0, tau2: float = 0.01
) -> LossParts:
    return LossParts(RecallAtK(k, tau1, tau2))


def softmax(setup: TrainingSetup, *, temperature: float = 0.05, factor: float = 100.0) -> LossParts:
    """`factor` times the learning rate is that of the class weights, as in the code of Proxy Anchor."""
    classes = setup.images.classes
    loss = losses.NormalizedSoftmaxLoss(classes, setup.model.dimension, temperature=temperature)
    return LossParts(Wrapped(loss, classes=classes), {"loss_factor": factor})


def arcface(setup: TrainingSetup, *, margin: float = 28.6, scale: float = 64.0, factor: float = 100.0) -> LossParts:
    """`margin` is an angle in degrees; `factor` as of `softmax`."""
    classes = setup.images.classes
    loss = losses.ArcFaceLoss(classes, setup.model.dimension, margin=margin, scale=scale)
    return LossParts(Wrapped(loss, classes=classes), {"loss_factor": factor})
