"""The compared methods in one table: how each is built, what of it is tuned, and the paper's own results for it."""

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from torch import nn

from smoothap.data.image_set import ImageSet
from smoothap.data.samplers import Batches
from smoothap.losses import BlackboxAP, RecallAtK, Roadmap, SmoothAP, SupAP
from smoothap.methods._divide_and_conquer import ClusterBatches, SlicedMargin
from smoothap.methods._mic import InterclassMining
from smoothap.methods._wrapped import Wrapped, arcface, contrastive, fast_ap, margin, proxy_nca, softmax, triplet
from smoothap.methods.parameters import CLASS_WEIGHT_RATE, COSINE_MARGIN, MARGIN, TAU, Parameter
from smoothap.models import Embedder
from smoothap.training.loop import Callbacks
from smoothap.training.settings import Settings

_CLASS_WEIGHT_RATE = 100.0  # times the learning rate: proxies learn faster, as in the code of Proxy Anchor
_DIVIDED = 0.75  # of the steps of Divide and Conquer, in which slices learn apart


@dataclass(frozen=True, eq=False)
class Setup:
    """What a method is built for: the training images, the network, the settings and the batches that all share."""

    images: ImageSet
    model: Embedder
    settings: Settings
    batches: Batches


@dataclass(frozen=True, eq=False)
class Parts:
    """What a method brings to the one training loop; `changes` are those of its settings."""

    loss: nn.Module
    changes: Mapping[str, Any] = field(default_factory=dict)
    batches: Batches | None = None  # in the place of those all share
    callbacks: Callbacks | None = None


@dataclass(frozen=True)
class PaperResult:
    """A row of the paper: metrics by name, in per cent, on the paper's own data set."""

    table: int
    data_set: str
    metrics: Mapping[str, float]
    note: str = ""


@dataclass(frozen=True)
class Method:
    """One row of the comparison; `start` is the method whose trained weights it is fine-tuned from, if any.

    `build(setup)` has the published numbers; those of `tuned` can be given by name: `build(setup, tau=0.02)`.
    """

    name: str
    title: str
    settings: str  # the published ones in words, for the page
    build: Callable[..., Parts]
    tuned: tuple[Parameter, ...]
    paper: tuple[PaperResult, ...] = ()
    start: "Method | None" = None

    @property
    def stages(self) -> "tuple[Method, ...]":
        """The methods that are trained one after the other, this one last; each starts from the one before it."""
        return (self,) if self.start is None else (*self.start.stages, self)

    def after(self, first: "Method") -> "Method":
        """This method as fine-tuning of a network that `first` has trained, the "+" of Table 4."""
        name = f"{first.name}+{self.name}"
        return replace(
            self,
            name=name,
            title=f"{first.title} + {self.title}",
            settings=f"from the weights trained with {first.title}; {self.settings}",
            paper=TWO_STAGES.get(name, ()),
            start=first,
        )


def with_controls(methods: Sequence[Method]) -> tuple[Method, ...]:
    """The methods, and for each of several stages its last loss in all of them: as many steps, started as often."""
    controls = [
        "+".join([method.name.rpartition("+")[2]] * len(method.stages))
        for method in methods
        if method.start is not None
    ]
    names = [method.name for method in methods]
    return tuple(map(_open_method, dict.fromkeys([*names, *controls])))


def open_methods(spec: str) -> tuple[Method, ...]:
    """The compared methods that a list such as `smooth-ap,fast-ap,softmax+triplet` stands for, or `all`.

    NAME+NAME has two stages: the second starts from the weights of the first.
    """
    names = [*METHODS, *TWO_STAGES] if spec == "all" else [name.strip() for name in spec.split(",") if name.strip()]
    if not names:
        raise ValueError(f"Name at least one method, such as --methods smooth-ap,fast-ap. Known: {', '.join(METHODS)}.")
    return tuple(_open_method(name) for name in dict.fromkeys(names))


def _open_method(name: str) -> Method:
    first, plus, last = name.rpartition("+")
    if plus:
        return _open_method(last).after(_open_method(first))
    if name not in METHODS:
        near = difflib.get_close_matches(name, METHODS, 1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise ValueError(f"There is no method called {name!r}.{hint} Known: all, {', '.join(METHODS)}, or NAME+NAME.")
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


def _fast_ap(setup: Setup, bins: int | None = None) -> Parts:
    return Parts(fast_ap(bins or (20 if "inaturalist" in setup.images.name.lower() else 10)))


def _xbm(setup: Setup, margin: float = 0.5, memory: float = 1.0) -> Parts:
    return Parts(contrastive(margin), {"queue": max(1, round(memory * len(setup.images)))})


def _with_class_weights(
    setup: Setup, loss: Callable[..., Wrapped], class_weight_rate: float = _CLASS_WEIGHT_RATE, **numbers: float
) -> Parts:
    built = loss(setup.images.classes, setup.model.dimension, **numbers)
    return Parts(built, {"loss_factor": class_weight_rate})


def _divide_and_conquer(setup: Setup, margin: float = 0.2, clusters: int = 8) -> Parts:
    images, settings = setup.images, setup.settings
    loss = SlicedMargin(
        images.classes, setup.model.dimension, clusters, len(images), boundary=margin, seed=settings.seed,
        divided_steps=round(_DIVIDED * settings.total_steps(len(setup.batches))),
    )  # fmt: skip
    batches = ClusterBatches(
        loss, images.labels, setup.batches, settings.batch_size, settings.per_class, seed=settings.seed
    )
    return Parts(loss, batches=batches, callbacks=loss)


def _mic(setup: Setup, margin: float = 0.2, surrogates: int = 30) -> Parts:
    loss = InterclassMining(
        setup.model, setup.images.classes, len(setup.images), setup.settings.seed, surrogates, margin
    )
    return Parts(loss, callbacks=loss)


_METHODS = (
    Method(
        "smooth-ap", "Smooth-AP", "tau 0.01",
        lambda setup, tau=None: Parts(SmoothAP(tau or setup.settings.tau)),
        (TAU,),
        (
            _sop(79.2, 91.0, 96.5, 98.9, note="batch 224"),
            _sop(80.1, 91.5, 96.6, 99.0, note="batch 384"),
            *_vehicle_id((94.9, 97.6), (93.3, 96.4), (91.9, 96.2)),
            _inaturalist(65.9, 80.9, 89.8, 92.7, note="batch 224"),
            _inaturalist(67.2, 81.8, 90.3, 93.1, note="batch 384"),
        ),
    ),
    Method(
        "fast-ap", "FastAP", "10 bins (20 on iNaturalist)", _fast_ap,
        (Parameter("bins", 3, 33, whole=True, least=2),),
        (
            _sop(76.4, 89.0, 95.1, 98.2),
            *_vehicle_id((91.9, 96.8), (90.6, 95.9), (87.5, 95.1)),
            _inaturalist(60.6, 77.0, 87.2, 90.6),
        ),
    ),
    Method(
        "blackbox-ap", "Blackbox AP", "lambda 4, margin 0.02",
        lambda setup, lambda_=4.0, margin=0.02: Parts(BlackboxAP(lambda_, margin)),
        (Parameter("lambda_", 0.4, 40), Parameter("margin", 0.004, 0.1, most=2)),
        (_sop(78.6, 90.5, 96.0, 98.7), _inaturalist(62.9, 79.0, 88.9, 92.1)),
    ),
    Method(
        "contrastive", "Contrastive (pairwise)", "on cosines, negatives below 0.5",
        lambda setup, margin=0.5: Parts(contrastive(margin)),
        (COSINE_MARGIN,),
    ),
    Method(
        "triplet", "Triplet, semi-hard", "margin 0.2, semi-hard mining",
        lambda setup, margin=0.2: Parts(triplet(margin)),
        (MARGIN,),
        (_inaturalist(58.1, 75.5, 86.8, 90.7),),
    ),
    Method(
        "margin", "Margin", "margin 0.2, beta from 1.2 for each class, distance-weighted sampling",
        lambda setup, **numbers: Parts(margin(setup.images.classes, **numbers)),
        (MARGIN, Parameter("beta", 0.7, 1.4, logarithmic=False, most=2)),
        (_sop(72.7, 86.2, 93.8, 98.0),),
    ),
    Method(
        "proxy-nca", "Proxy NCA", "one proxy for each class at 100 times the learning rate, vectors of length 3",
        partial(_with_class_weights, loss=proxy_nca),
        (Parameter("scale", 2, 40), CLASS_WEIGHT_RATE),
        (_inaturalist(61.6, 77.4, 87.0, 90.6),),
    ),
    Method(
        "xbm", "Contrastive with memory", "on cosines, negatives below 0.5; a memory as large as the training set",
        _xbm,
        (COSINE_MARGIN, Parameter("memory", 0.1, 1, most=1)),
        (_sop(80.6, 91.6, 96.2, 98.7), *_vehicle_id((94.7, 96.8), (93.7, 95.8), (93.0, 95.8))),
    ),
    Method(
        "divide-and-conquer", "Divide and Conquer", "margin 0.2, 8 clusters and slices, clustered anew every second "
        "epoch, batches of one cluster; all slices together in the last quarter",
        _divide_and_conquer,
        (MARGIN, Parameter("clusters", 2, 16, whole=True, least=2)),
        (_sop(75.9, 88.4, 94.9, 98.1), *_vehicle_id((87.7, 92.9), (85.7, 90.4), (82.9, 90.2))),
    ),
    Method(
        "mic", "MIC", "margin 0.2 for both heads, 30 surrogate classes, second head of 128 numbers",
        _mic,
        (MARGIN, Parameter("surrogates", 9, 100, whole=True, least=2)),
        (_sop(77.2, 89.4, 95.6, None), *_vehicle_id((86.9, 93.4), None, (82.0, 91.0))),
    ),
    Method(
        "roadmap", "SupAP + calibration (ROADMAP)", "tau 0.01, rho 100, calibration 0.9 / 0.6, balance 0.5",
        lambda setup, tau=0.01, balance=0.5: Parts(Roadmap(balance, SupAP(tau))),
        (TAU, Parameter("balance", 0, 1, logarithmic=False, most=1)),
    ),
    Method(
        "recall-at-k", "Recall@k surrogate", "k 1, 2, 4, 8; temperatures 1 and 0.01",
        lambda setup, tau1=1.0, tau2=0.01: Parts(RecallAtK(tau1=tau1, tau2=tau2)),
        (Parameter("tau1", 0.2, 5), replace(TAU, name="tau2")),
    ),
    Method(
        "softmax", "Softmax, normalised", "temperature 0.05, class weights at 100 times the learning rate",
        partial(_with_class_weights, loss=softmax),
        (Parameter("temperature", 0.01, 0.25), CLASS_WEIGHT_RATE),
        _faces(82.8, 72.6),
    ),
    Method(
        "arcface", "ArcFace", "margin 0.5, scale 64, class weights at 100 times the learning rate",
        partial(_with_class_weights, loss=arcface),
        (Parameter("margin", 0.1, 0.9, logarithmic=False, most=1.5), Parameter("scale", 8, 512)),
        _faces(85.8, 77.2),
    ),
)  # fmt: skip
METHODS = {method.name: method for method in _METHODS}
TWO_STAGES = {  # Table 4; any other NAME+NAME works too
    "softmax+contrastive": _faces(82.8, 72.8),
    "softmax+triplet": _faces(84.5, 74.0),
    "softmax+smooth-ap": _faces(85.0, 75.4),
    "arcface+contrastive": _faces(86.1, 77.5),
    "arcface+triplet": _faces(88.0, 78.7),
    "arcface+smooth-ap": _faces(90.2, 80.3),
}
