"""The compared methods: how each is built, its settings, and the paper's own figures for it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from torch import nn

from smoothap.data.image_set import ImageSet
from smoothap.data.samplers import Batches
from smoothap.losses import BlackboxAP, RecallAtK, Roadmap, SmoothAP
from smoothap.models import Embedder
from smoothap.training.loop import Callbacks
from smoothap.training.settings import Settings

_PROXIES = 100.0  # times the learning rate, for proxies and class weights, as the code of Proxy Anchor trains them


@dataclass(frozen=True, eq=False)
class Problem:
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
class PaperFigure:
    """A row of the paper: figures in per cent on the paper's own data set."""

    table: int
    data_set: str
    figures: Mapping[str, float]
    note: str = ""


@dataclass(frozen=True)
class Method:
    """One row of the comparison; `start` is the method whose trained weights it is fine-tuned from, if any."""

    name: str
    title: str
    settings: str  # in words, for the page
    build: Callable[[Problem], Parts]
    paper: tuple[PaperFigure, ...] = ()
    start: "Method | None" = None

    def after(self, first: "Method") -> "Method":
        """This method as fine-tuning of a network that `first` has trained, the "+" of Table 4."""
        return replace(
            self,
            name=f"{first.name}+{self.name}",
            title=f"{first.title} + {self.title}",
            settings=f"from the weights trained with {first.title}; {self.settings}",
            paper=_TABLE_4.get((first.name, self.name), ()),
            start=first,
        )


def _recall(table: int, data_set: str, ks: tuple[int, ...], *values: float | None, note: str = "") -> PaperFigure:
    known = {f"Recall@{k}": value for k, value in zip(ks, values, strict=True) if value is not None}
    return PaperFigure(table, data_set, known, note)


def _sop(*values: float | None, note: str = "") -> PaperFigure:
    return _recall(2, "SOP", (1, 10, 100, 1000), *values, note=note)


def _vehicle_id(
    small: tuple[float, float], medium: tuple[float, float] | None, large: tuple[float, float]
) -> tuple[PaperFigure, ...]:
    parts = {"small": small, "medium": medium, "large": large}
    return tuple(_recall(3, f"VehicleID {name}", (1, 5), *both) for name, both in parts.items() if both is not None)


def _inaturalist(*values: float, note: str = "") -> PaperFigure:
    return _recall(3, "iNaturalist", (1, 4, 16, 32), *values, note=note)


def _faces(vggface2: float, ijbc: float) -> tuple[PaperFigure, ...]:
    return PaperFigure(4, "VGGFace2", {"mAP": vggface2}), PaperFigure(4, "IJB-C", {"mAP": ijbc})


_TABLE_4 = {
    ("softmax", "contrastive"): _faces(82.8, 72.8),
    ("softmax", "triplet"): _faces(84.5, 74.0),
    ("softmax", "smooth-ap"): _faces(85.0, 75.4),
    ("arcface", "contrastive"): _faces(86.1, 77.5),
    ("arcface", "triplet"): _faces(88.0, 78.7),
    ("arcface", "smooth-ap"): _faces(90.2, 80.3),
}


def _smooth_ap(problem: Problem) -> Parts:
    return Parts(SmoothAP(problem.settings.tau))


def _blackbox_ap(problem: Problem) -> Parts:
    return Parts(BlackboxAP())


def _roadmap(problem: Problem) -> Parts:
    return Parts(Roadmap())


def _recall_at_k(problem: Problem) -> Parts:
    return Parts(RecallAtK())


def _contrastive(problem: Problem) -> Parts:
    from smoothap.compare import wrapped

    return Parts(wrapped.contrastive())


def _triplet(problem: Problem) -> Parts:
    from smoothap.compare import wrapped

    return Parts(wrapped.triplet())


def _margin(problem: Problem) -> Parts:
    from smoothap.compare import wrapped

    return Parts(wrapped.margin(problem.images.classes))


def _proxy_nca(problem: Problem) -> Parts:
    from smoothap.compare import wrapped

    return Parts(wrapped.proxy_nca(problem.images.classes, problem.model.dimension), {"loss_factor": _PROXIES})


def _fast_ap(problem: Problem) -> Parts:
    from smoothap.compare import wrapped

    return Parts(wrapped.fast_ap(bins=20 if "inaturalist" in problem.images.name.lower() else 10))


def _softmax(problem: Problem) -> Parts:
    from smoothap.compare import wrapped

    return Parts(wrapped.softmax(problem.images.classes, problem.model.dimension), {"loss_factor": _PROXIES})


def _arcface(problem: Problem) -> Parts:
    from smoothap.compare import wrapped

    return Parts(wrapped.arcface(problem.images.classes, problem.model.dimension), {"loss_factor": _PROXIES})


def _cross_batch_memory(problem: Problem) -> Parts:
    from smoothap.compare import wrapped

    return Parts(wrapped.contrastive(), {"queue": len(problem.images)})


def _divide_and_conquer(problem: Problem) -> Parts:
    from smoothap.compare.divide_and_conquer import divide_and_conquer

    return divide_and_conquer(problem)


def _mic(problem: Problem) -> Parts:
    from smoothap.compare.mic import mic

    return mic(problem)


SMOOTH_AP = Method(
    "smooth-ap", "Smooth-AP", "tau 0.01", _smooth_ap,
    (
        _sop(79.2, 91.0, 96.5, 98.9, note="batch 224"),
        _sop(80.1, 91.5, 96.6, 99.0, note="batch 384"),
        *_vehicle_id((94.9, 97.6), (93.3, 96.4), (91.9, 96.2)),
        _inaturalist(65.9, 80.9, 89.8, 92.7, note="batch 224"),
        _inaturalist(67.2, 81.8, 90.3, 93.1, note="batch 384"),
    ),
)  # fmt: skip
FAST_AP = Method(
    "fast-ap", "FastAP", "10 bins (20 on iNaturalist)", _fast_ap,
    (
        _sop(76.4, 89.0, 95.1, 98.2),
        *_vehicle_id((91.9, 96.8), (90.6, 95.9), (87.5, 95.1)),
        _inaturalist(60.6, 77.0, 87.2, 90.6),
    ),
)  # fmt: skip
CONTRASTIVE = Method("contrastive", "Contrastive (pairwise)", "on cosines, negatives below 0.5", _contrastive)
TRIPLET = Method(
    "triplet", "Triplet, semi-hard", "margin 0.2, semi-hard mining", _triplet,
    (_inaturalist(58.1, 75.5, 86.8, 90.7),),
)  # fmt: skip
MARGIN = Method(
    "margin", "Margin", "margin 0.2, beta from 1.2 for each class, distance-weighted sampling", _margin,
    (_sop(72.7, 86.2, 93.8, 98.0),),
)  # fmt: skip
PROXY_NCA = Method(
    "proxy-nca", "Proxy NCA", "one proxy for each class at 100 times the learning rate, vectors of length 3",
    _proxy_nca,
    (_inaturalist(61.6, 77.4, 87.0, 90.6),),
)  # fmt: skip
SOFTMAX = Method(
    "softmax", "Softmax, normalised", "temperature 0.05, class weights at 100 times the learning rate", _softmax,
    _faces(82.8, 72.6),
)  # fmt: skip
ARCFACE = Method(
    "arcface", "ArcFace", "margin 0.5, scale 64, class weights at 100 times the learning rate", _arcface,
    _faces(85.8, 77.2),
)  # fmt: skip
CROSS_BATCH_MEMORY = Method(
    "xbm", "Contrastive with memory", "on cosines, negatives below 0.5; a memory as large as the training set",
    _cross_batch_memory,
    (_sop(80.6, 91.6, 96.2, 98.7), *_vehicle_id((94.7, 96.8), (93.7, 95.8), (93.0, 95.8))),
)  # fmt: skip
BLACKBOX_AP = Method(
    "blackbox-ap", "Blackbox AP", "lambda 4, margin 0.02", _blackbox_ap,
    (_sop(78.6, 90.5, 96.0, 98.7), _inaturalist(62.9, 79.0, 88.9, 92.1)),
)  # fmt: skip
DIVIDE_AND_CONQUER = Method(
    "divide-and-conquer", "Divide and Conquer", "8 clusters and slices, clustered anew every second epoch, batches of "
    "one cluster; all slices together in the last quarter", _divide_and_conquer,
    (_sop(75.9, 88.4, 94.9, 98.1), *_vehicle_id((87.7, 92.9), (85.7, 90.4), (82.9, 90.2))),
)  # fmt: skip
MIC = Method(
    "mic", "MIC", "30 surrogate classes, second head of 128 numbers, margin loss for both heads", _mic,
    (_sop(77.2, 89.4, 95.6, None), *_vehicle_id((86.9, 93.4), None, (82.0, 91.0))),
)  # fmt: skip
ROADMAP = Method(
    "roadmap", "SupAP + calibration (ROADMAP)", "tau 0.01, rho 100, calibration 0.9 / 0.6, balance 0.5", _roadmap
)
RECALL_AT_K = Method("recall-at-k", "Recall@k surrogate", "k 1, 2, 4, 8; temperatures 1 and 0.01", _recall_at_k)
