"""The compared methods in one table, and lists of them as words."""

import difflib
from collections.abc import Sequence
from dataclasses import replace

from smoothap.benchmark.methods import builders
from smoothap.benchmark.methods.method import Method, PaperResult, Parameter

# Around the published values, which are in the middle of each range where nothing limits it.
TAU = Parameter("tau", 0.002, 0.05)
MARGIN = Parameter("margin", 0.04, 1.0, most=2.0)  # between distances of unit vectors
RANK_MARGIN = Parameter("margin", 0.004, 0.1, most=2.0)  # between scores that are ranked
COSINE_MARGIN = Parameter("margin", 0.1, 0.9, logarithmic=False, least=-1.0, most=1.0)


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


_METHODS = (
    Method(
        "smooth-ap", "Smooth-AP", "tau 0.01", builders.smooth_ap,
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
        "fast-ap", "FastAP", "10 bins (20 on iNaturalist)", builders.fast_ap,
        (Parameter("bins", 3, 33, whole=True, least=2),),
        (
            _sop(76.4, 89.0, 95.1, 98.2),
            *_vehicle_id((91.9, 96.8), (90.6, 95.9), (87.5, 95.1)),
            _inaturalist(60.6, 77.0, 87.2, 90.6),
        ),
    ),
    Method(
        "blackbox-ap", "Blackbox AP", "lambda 4, margin 0.02", builders.blackbox_ap,
        (Parameter("lambda", 0.4, 40), RANK_MARGIN),
        (_inaturalist(62.9, 79.0, 88.9, 92.1),),
    ),
    Method(
        "blackbox-recall", "Blackbox recall", "lambda 4, margin 0.02, double logarithm", builders.blackbox_recall,
        (Parameter("lambda", 0.4, 40), RANK_MARGIN),
        (_sop(78.6, 90.5, 96.0, 98.7, note='in the table as "Blackbox AP"'),),
    ),
    Method(
        "contrastive", "Contrastive (pairwise)", "on cosines, negatives below 0.5", builders.contrastive,
        (COSINE_MARGIN,),
    ),
    Method(
        "triplet", "Triplet, semi-hard", "margin 0.2 on squared distances, one triplet for each anchor",
        builders.triplet,
        (replace(MARGIN, most=4),),
        (_inaturalist(58.1, 75.5, 86.8, 90.7),),
    ),
    Method(
        "margin", "Margin", "margin 0.2, beta from 1.2 for each class at a rate of 5e-4, distance-weighted sampling",
        builders.margin,
        (MARGIN, Parameter("beta", 0.7, 1.4, logarithmic=False, most=2)),
        (_sop(72.7, 86.2, 93.8, 98.0),),
    ),
    Method(
        "proxy-nca", "Proxy NCA", "one proxy for each class at the network's learning rate, vectors of length 3",
        builders.proxy_nca,
        (Parameter("factor", 0.1, 1000),),
        (_inaturalist(61.6, 77.4, 87.0, 90.6),),
    ),
    Method(
        "xbm", "Contrastive with memory", "on cosines, negatives below 0.5, a term of the batch and one of the "
        "memory, which is as large as the training set and begins after a 35th of the steps, at most 1,000",
        builders.xbm,
        (COSINE_MARGIN, Parameter("weight", 0.1, 10)),
        (_sop(80.6, 91.6, 96.2, 98.7), *_vehicle_id((94.7, 96.8), (93.7, 95.8), (93.0, 95.8))),
    ),
    Method(
        "divide-and-conquer", "Divide and Conquer", "8 clusters and slices, clustered again every second epoch; slices "
        "alone for 40% of the steps, batches of one cluster for 95%", builders.divide_and_conquer,
        (Parameter("clusters", 2, 16, whole=True, least=2), Parameter("sliced", 0, 0.9, logarithmic=False, most=0.9)),
        (_sop(75.9, 88.4, 94.9, 98.1), *_vehicle_id((87.7, 92.9), (85.7, 90.4), (82.9, 90.2))),
    ),
    Method(
        "mic", "MIC", "30 surrogate classes (50 on SOP and VehicleID), second head of 128 numbers, margin loss for "
        "both heads", builders.mic,
        (Parameter("surrogates", 9, 100, whole=True, least=2), Parameter("reversal", 100, 10_000)),
        (_sop(77.2, 89.4, 95.6, None), *_vehicle_id((86.9, 93.4), None, (82.0, 91.0))),
    ),
    Method(
        "roadmap", "SupAP + calibration (ROADMAP)", "tau 0.01, rho 100, calibration 0.9 / 0.6, balance 0.5",
        builders.roadmap,
        (Parameter("balance", 0, 1, logarithmic=False, most=1), TAU),
    ),
    Method(
        "calibrated-smooth-ap", "Smooth-AP + calibration", "tau 0.01, calibration 0.9 / 0.6, balance 0.5: ROADMAP with "
        "Smooth-AP instead of SupAP", builders.calibrated_smooth_ap,
        (Parameter("balance", 0, 1, logarithmic=False, most=1), TAU),
    ),
    Method(
        "recall-at-k", "Recall@k surrogate", "k 1, 2, 4, 8; temperatures 1 and 0.01",
        builders.recall_at_k,
        (Parameter("tau1", 0.2, 5), replace(TAU, name="tau2")),
    ),
    Method(
        "softmax", "Softmax, normalised", "temperature 0.05, class weights at 100 times the learning rate",
        builders.softmax,
        (Parameter("temperature", 0.01, 0.25), Parameter("factor", 10, 1000)),
        _faces(82.8, 72.6),
    ),
    Method(
        "arcface", "ArcFace", "margin 0.5, scale 64, class weights at 100 times the learning rate",
        builders.arcface,
        (Parameter("margin", 5, 50, logarithmic=False, most=90), Parameter("scale", 8, 512)),
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
