"""Image retrieval that finds all the right images: the Smooth-AP loss and exact evaluation.

The names are loaded when first used, so that `smoothap --help` need not wait for torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from smoothap.functional import average_precision, smooth_ap
    from smoothap.losses import BlackboxAP, BlackboxRecall, CalibrationLoss, RecallAtK, Roadmap, SmoothAP, SupAP
    from smoothap.metrics import Report, evaluate

__all__ = [
    "BlackboxAP",
    "BlackboxRecall",
    "CalibrationLoss",
    "RecallAtK",
    "Report",
    "Roadmap",
    "SmoothAP",
    "SupAP",
    "average_precision",
    "evaluate",
    "smooth_ap",
]

_ELSEWHERE = {"Report": "metrics", "evaluate": "metrics", "average_precision": "functional", "smooth_ap": "functional"}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("importlib.metadata").version("smoothap")
    if name not in __all__:
        raise AttributeError(f"module 'smoothap' has no attribute {name!r}")
    return getattr(import_module(f"smoothap.{_ELSEWHERE.get(name, 'losses')}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
