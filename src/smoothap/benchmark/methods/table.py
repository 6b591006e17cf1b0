"""The compared methods: what is tuned of each, the paper's results, and how it is built; and lists of them as words.

The named arguments of the function below a row are the options of that method.
"""

import difflib
from collections.abc import Callable, Sequence
from dataclasses import replace

from pytorch_metric_learning import distances, losses, reducers

from smoothap.benchmark.methods.baselines import (
    ContrastiveWithMemory,
    ProxyNCA,
    SemiHardMiner,
    SoftHardMiner,
    TripletMiner,
    Wrapped,
    margin_loss,
)
from smoothap.benchmark.methods.divide_and_conquer import ClusterBatches, SlicedMargin
from smoothap.benchmark.methods.method import Method, PaperResult, Parameter
from smoothap.benchmark.methods.mic import InterclassMining, released_numbers
from smoothap.losses import BlackboxAP, BlackboxRecall, RecallAtK, Roadmap, SmoothAP, SupAP
from smoothap.training.loss import LossParts, TrainingSetup

METHODS: dict[str, Method] = {}

# Around the published values, which are in the middle of each range where nothing limits it.
TAU = Parameter("tau", 0.002, 0.05)
MARGIN = Parameter("margin", 0.04, 1.0, most=2.0)  # between distances of unit vectors
RANK_MARGIN = Parameter("margin", 0.004, 0.1, most=2.0)  # between scores that are ranked
COSINE_MARGIN = Parameter("margin", 0.1, 0.9, logarithmic=False, least=-1.0, most=1.0)
BALANCE = Parameter("balance", 0, 1, logarithmic=False, most=1)
_MEMORY = 55_000  # vectors, of 59,551 images of SOP, in the code of cross-batch memory
_WARM_UP = 1000  # steps without memory, of the 35,000 that the code of cross-batch memory trains for
_WARM_UP_SHARE = 35


def with_controls(methods: Sequence[Method]) -> tuple[Method, ...]:
    """The methods, and for each of several stages its last loss in all of them: as many steps, started as often."""
    controls = [method.control() for method in methods if method.start is not None]
    return tuple({method.name: method for method in [*methods, *controls]}.values())


def open_methods(spec: str) -> tuple[Method, ...]:
    """The compared methods that a list such as `smooth-ap,fast-ap,softmax+triplet` stands for.

    NAME+NAME has two stages: the second starts from the weights of the first. NAME:KEY=VALUE is a method with a number
    of its own fixed, such as smooth-ap:tau=0.1. `all` stands for all with one stage, `two-stages` for those of Table 4.
    """
    groups: dict[str, Sequence[str]] = {"all": list(METHODS), "two-stages": list(TWO_STAGES)}
    given = [name.strip() for name in spec.split(",") if name.strip()]
    names = [name for each in given for name in groups.get(each, [each])]
    if not names:
        raise ValueError(f"Name at least one method, such as --methods smooth-ap,fast-ap. Known: {', '.join(METHODS)}.")
    return tuple(_open_method(name) for name in dict.fromkeys(names))


def _open_method(name: str) -> Method:
    first, plus, last = name.rpartition("+")
    if plus:
        return _open_method(last).after(_open_method(first), TWO_STAGES.get(name, ()))
    name, *given = name.split(":")
    if given:
        return _open_method(name).with_options(**dict(each.partition("=")[::2] for each in given))
    if name not in METHODS:
        near = difflib.get_close_matches(name, METHODS, 1)
        hint = f" Did you mean {near[0]}?" if near else ""
        known = ", ".join(("all", "two-stages", *METHODS))
        raise ValueError(f"There is no method called {name!r}.{hint} Known: {known}, or NAME+NAME.")
    return METHODS[name]


def _recall(table: int, data_set: str, ks: tuple[int, ...], *values: float | None, note: str = "") -> PaperResult:
    known = {f"Recall@{k}": value for k, value in zip(ks, values, strict=True) if value is not None}
    return PaperResult(table, data_set, known, note)


def _sop(*values: float | None, note: str = "") -> PaperResult:
    return _recall(2, "SOP", (1, 10, 100, 1000), *values, note=note)


def _vehicle_id(
    small: tuple[float, float], medium: tuple[float, float] | None, large: tuple[float, float]
) -> tuple[PaperResult, ...]:
    parts = {"small": small, "medium": medium, "large": large}
    return tuple(_recall(3, f"VehicleID {name}", (1, 5), *both) for name, both in parts.items() if both is not None)


def _inaturalist(*values: float, note: str = "") -> PaperResult:
    return _recall(3, "iNaturalist", (1, 4, 16, 32), *values, note=note)


def _faces(vggface2: float, ijbc: float) -> tuple[PaperResult, ...]:
    return PaperResult(4, "VGGFace2", {"mAP": vggface2}), PaperResult(4, "IJB-C", {"mAP": ijbc})


def _method(
    name: str, title: str, settings: str, tuned: tuple[Parameter, ...], paper: tuple[PaperResult, ...] = ()
) -> Callable[[Callable[..., LossParts]], Callable[..., LossParts]]:
    """A row of the table, which the function below it builds."""

    def entered(build: Callable[..., LossParts]) -> Callable[..., LossParts]:
        METHODS[name] = Method(name, title, settings, build, tuned, paper)
        return build

    return entered


@_method(
    "smooth-ap", "Smooth-AP", "tau 0.01",
    (TAU,),
    (
        _sop(79.2, 91.0, 96.5, 98.9, note="batch 224"),
        _sop(80.1, 91.5, 96.6, 99.0, note="batch 384"),
        *_vehicle_id((94.9, 97.6), (93.3, 96.4), (91.9, 96.2)),
        _inaturalist(65.9, 80.9, 89.8, 92.7, note="batch 224"),
        _inaturalist(67.2, 81.8, 90.3, 93.1, note="batch 384"),
    ),
)  # fmt: skip
def smooth_ap(setup: TrainingSetup, *, tau: float | None = None) -> LossParts:
    """`tau` is by default that of the config."""
    tau = setup.config.tau if tau is None else tau
    return LossParts(SmoothAP(tau, include_query=setup.config.include_query), {"tau": tau})


@_method(
    "fast-ap", "FastAP", "10 bins (20 on iNaturalist)",
    (Parameter("bins", 3, 33, whole=True, least=2),),
    (
        _sop(76.4, 89.0, 95.1, 98.2),
        *_vehicle_id((91.9, 96.8), (90.6, 95.9), (87.5, 95.1)),
        _inaturalist(60.6, 77.0, 87.2, 90.6),
    ),
)  # fmt: skip
def fast_ap(setup: TrainingSetup, *, bins: int | None = None) -> LossParts:
    """`bins` are by default the paper's: 20 for iNaturalist, else 10."""
    number = bins or (20 if "inaturalist" in setup.images.name.lower() else 10)
    return LossParts(Wrapped(losses.FastAPLoss(num_bins=number)))


@_method(
    "blackbox-ap", "Blackbox AP", "lambda 4, margin 0.02",
    (Parameter("lambda", 0.4, 40), RANK_MARGIN),
    (_inaturalist(62.9, 79.0, 88.9, 92.1),),
)  # fmt: skip
def blackbox_ap(setup: TrainingSetup, *, lambda_: float = 4.0, margin: float = 0.02) -> LossParts:
    return LossParts(BlackboxAP(lambda_, margin))


@_method(
    "blackbox-recall", "Blackbox recall", "lambda 4, margin 0.02, double logarithm",
    (Parameter("lambda", 0.4, 40), RANK_MARGIN),
    (_sop(78.6, 90.5, 96.0, 98.7, note='in the table as "Blackbox AP"'),),
)  # fmt: skip
def blackbox_recall(setup: TrainingSetup, *, lambda_: float = 4.0, margin: float = 0.02) -> LossParts:
    return LossParts(BlackboxRecall(lambda_, margin))


@_method(
    "contrastive", "Contrastive (pairwise)", "on cosines, negatives below 0.5",
    (COSINE_MARGIN,),
)  # fmt: skip
def contrastive(setup: TrainingSetup, *, margin: float = 0.5) -> LossParts:
    """Pairwise, on cosines: positives up to 1, negatives below the margin (that of cross-batch memory)."""
    loss = losses.ContrastiveLoss(pos_margin=1, neg_margin=margin, distance=distances.CosineSimilarity())
    return LossParts(Wrapped(loss))


@_method(
    "triplet", "Triplet, semi-hard", "margin 0.2 on squared distances, one triplet for each anchor, its negative "
    "beyond the positive by less than the margin",
    (replace(MARGIN, most=4),),
)  # fmt: skip
def triplet(setup: TrainingSetup, *, margin: float = 0.2) -> LossParts:
    """Semi-hard as FaceNet has it."""
    return LossParts(_triplet_loss(margin, SemiHardMiner(margin)))


# The paper's "Triplet Semi-Hard" is from before 16 March 2020, when the code it ran got what FaceNet calls so: ECCV's
# deadline was 5 March.
@_method(
    "triplet-softhard", "Triplet, soft-hard", "margin 0.2 on squared distances, one triplet for each anchor, its "
    "negative nearer than the farthest positive",
    (replace(MARGIN, most=4),),
    (_inaturalist(58.1, 75.5, 86.8, 90.7, note='in the table as "Triplet Semi-Hard"'),),
)  # fmt: skip
def triplet_softhard(setup: TrainingSetup, *, margin: float = 0.2) -> LossParts:
    """What the code that the paper ran called semi-hard then."""
    return LossParts(_triplet_loss(margin, SoftHardMiner()))


def _triplet_loss(margin: float, miner: TripletMiner) -> Wrapped:
    """On squared distances, the mean over all triplets."""
    loss = losses.TripletMarginLoss(margin, distance=distances.LpDistance(power=2), reducer=reducers.MeanReducer())
    return Wrapped(loss, miner)


@_method(
    "margin", "Margin", "margin 0.2, beta from 1.2 for each class at a rate of 5e-4, one triplet for each "
    "anchor by distance-weighted sampling",
    (MARGIN, Parameter("beta", 0.7, 1.4, logarithmic=False, most=2)),
    (_sop(72.7, 86.2, 93.8, 98.0),),
)  # fmt: skip
def margin(setup: TrainingSetup, *, margin: float = 0.2, beta: float = 1.2, beta_rate: float = 5e-4) -> LossParts:
    return LossParts(margin_loss(setup.images.classes, margin, beta, beta_rate))


@_method(
    "proxy-nca", "Proxy NCA", "one proxy for each class, from randn / 8 at the network's learning rate, vectors "
    "of length 3",
    (Parameter("factor", 0.1, 1000),),
    (_inaturalist(61.6, 77.4, 87.0, 90.6),),
)  # fmt: skip
def proxy_nca(setup: TrainingSetup, *, factor: float = 1.0) -> LossParts:
    """One proxy for each class, the paper's choice; `factor` times the learning rate is that of the proxies."""
    classes = setup.images.classes
    return LossParts(Wrapped(ProxyNCA(classes, setup.model.dimension), classes=classes), {"loss_factor": factor})


@_method(
    "xbm", "Contrastive with memory", "on cosines, negatives below 0.5, a term of the batch and one of the "
    "memory of 55,000 vectors, or as many as there are images, which begins after a 35th of the steps (1,000 at "
    "most)",
    (COSINE_MARGIN, Parameter("weight", 0.1, 10)),
    (_sop(80.6, 91.6, 96.2, 98.7), *_vehicle_id((94.7, 96.8), (93.7, 95.8), (93.0, 95.8))),
)  # fmt: skip
def xbm(
    setup: TrainingSetup,
    *,
    margin: float = 0.5,
    weight: float = 1.0,
    memory: int | None = None,
    warm_up: int | None = None,
) -> LossParts:
    """`memory` is by default the released one, or the training set; none is kept in the first `warm_up` steps."""
    start = min(_WARM_UP, setup.steps // _WARM_UP_SHARE) if warm_up is None else warm_up
    return LossParts(
        ContrastiveWithMemory(margin, weight),
        {"memory_size": memory or min(_MEMORY, len(setup.images)), "memory_after": start},
    )


@_method(
    "divide-and-conquer", "Divide and Conquer", "8 clusters and slices, clustered again every second epoch; slices "
    "alone for 40% of the steps, batches of one cluster for 95%; the nearest negatives from a distance of 0.5",
    (Parameter("clusters", 2, 16, whole=True, least=2), Parameter("sliced", 0, 0.9, logarithmic=False, most=0.9)),
    (_sop(75.9, 88.4, 94.9, 98.1), *_vehicle_id((87.7, 92.9), (85.7, 90.4), (82.9, 90.2))),
)  # fmt: skip
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


@_method(
    "mic", "MIC", "30 surrogate classes (50 on SOP and VehicleID), second head of 128 numbers, which learns in 80% "
    "(50%) of the steps, margin loss for both heads",
    (Parameter("surrogates", 9, 100, whole=True, least=2), Parameter("reversal", 100, 10_000)),
    (_sop(77.2, 89.4, 95.6, None), *_vehicle_id((86.9, 93.4), None, (82.0, 91.0))),
)  # fmt: skip
def mic(setup: TrainingSetup, *, surrogates: int | None = None, reversal: float | None = None) -> LossParts:
    """`surrogates` are classes, `reversal` is a weight: by default the released ones of the set."""
    images = setup.images
    released = released_numbers(images.name)
    loss = InterclassMining(
        setup.model, images.classes, len(images),
        surrogates=released[0] if surrogates is None else surrogates,
        reversal=released[1] if reversal is None else reversal, second_steps=released[2], seed=setup.config.seed,
    )  # fmt: skip
    return LossParts(loss, callbacks=loss)


@_method(
    "roadmap", "SupAP + calibration (ROADMAP)", "tau 0.01, rho 100, calibration 0.9 / 0.6, balance 0.5",
    (BALANCE, TAU),
)  # fmt: skip
def roadmap(setup: TrainingSetup, *, balance: float = 0.5, tau: float = 0.01) -> LossParts:
    return LossParts(Roadmap(balance, SupAP(tau)))


@_method(
    "calibrated-smooth-ap", "Smooth-AP + calibration", "tau 0.01, calibration 0.9 / 0.6, balance 0.5: ROADMAP with "
    "Smooth-AP instead of SupAP",
    (BALANCE, TAU),
)  # fmt: skip
def calibrated_smooth_ap(setup: TrainingSetup, *, balance: float = 0.5, tau: float = 0.01) -> LossParts:
    return LossParts(Roadmap(balance, SmoothAP(tau)))


@_method(
    "recall-at-k", "Recall@k surrogate", "k 1, 2, 4, 8; temperatures 1 and 0.01",
    (Parameter("tau1", 0.2, 5), replace(TAU, name="tau2")),
)  # fmt: skip
def recall_at_k(
    setup: TrainingSetup, *, k: tuple[int, ...] = (1, 2, 4, 8), tau1: float = 1.0, tau2: float = 0.01
) -> LossParts:
    return LossParts(RecallAtK(k, tau1, tau2))


@_method(
    "softmax", "Softmax, normalised", "temperature 0.05, class weights at 100 times the learning rate",
    (Parameter("temperature", 0.01, 0.25), Parameter("factor", 10, 1000)),
    _faces(82.8, 72.6),
)  # fmt: skip
def softmax(setup: TrainingSetup, *, temperature: float = 0.05, factor: float = 100.0) -> LossParts:
    """`factor` times the learning rate is that of the class weights, as in the code of Proxy Anchor."""
    classes = setup.images.classes
    loss = losses.NormalizedSoftmaxLoss(classes, setup.model.dimension, temperature=temperature)
    return LossParts(Wrapped(loss, classes=classes), {"loss_factor": factor})


@_method(
    "arcface", "ArcFace", "margin 0.5, scale 64, class weights at 100 times the learning rate",
    (Parameter("margin", 5, 50, logarithmic=False, most=90), Parameter("scale", 8, 512)),
    _faces(85.8, 77.2),
)  # fmt: skip
def arcface(setup: TrainingSetup, *, margin: float = 28.6, scale: float = 64.0, factor: float = 100.0) -> LossParts:
    """`margin` is an angle in degrees; `factor` as of `softmax`."""
    classes = setup.images.classes
    loss = losses.ArcFaceLoss(classes, setup.model.dimension, margin=margin, scale=scale)
    return LossParts(Wrapped(loss, classes=classes), {"loss_factor": factor})


TWO_STAGES = {  # Table 4; any other NAME+NAME works too
    "softmax+contrastive": _faces(82.8, 72.8),
    "softmax+triplet-softhard": _faces(84.5, 74.0),
    "softmax+smooth-ap": _faces(85.0, 75.4),
    "arcface+contrastive": _faces(86.1, 77.5),
    "arcface+triplet-softhard": _faces(88.0, 78.7),
    "arcface+smooth-ap": _faces(90.2, 80.3),
}
