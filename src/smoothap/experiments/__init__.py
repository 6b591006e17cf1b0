"""Experiments in one call: open a set of images by its name, fine-tune a network on it, test before and after.

The names are loaded when first used, so that `smoothap --help` need not wait for torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from smoothap.experiments.before_after import BeforeAfter, compare_with_untrained
    from smoothap.experiments.data_sets import open_data
    from smoothap.experiments.demo import Demo, run_demo
    from smoothap.experiments.fine_tuning import FineTuned, Interrupted, fine_tune, run_recipe
    from smoothap.experiments.indexing import Indexed, index_photos
    from smoothap.methods import METHODS, open_methods
    from smoothap.models import open_model

__all__ = [
    "DIMENSION",
    "METHODS",
    "NETWORK",
    "SIZE",
    "BeforeAfter",
    "Demo",
    "FineTuned",
    "Indexed",
    "Interrupted",
    "compare_with_untrained",
    "fine_tune",
    "index_photos",
    "open_data",
    "open_methods",
    "open_model",
    "run_demo",
    "run_recipe",
]

NETWORK, SIZE, DIMENSION = "tf_efficientnet_lite0", 112, 512  # what is fine-tuned unless you say otherwise

_MODULES = {
    "METHODS": "smoothap.methods",
    "BeforeAfter": "smoothap.experiments.before_after",
    "Demo": "smoothap.experiments.demo",
    "FineTuned": "smoothap.experiments.fine_tuning",
    "Indexed": "smoothap.experiments.indexing",
    "Interrupted": "smoothap.experiments.fine_tuning",
    "compare_with_untrained": "smoothap.experiments.before_after",
    "fine_tune": "smoothap.experiments.fine_tuning",
    "index_photos": "smoothap.experiments.indexing",
    "open_data": "smoothap.experiments.data_sets",
    "open_methods": "smoothap.methods",
    "open_model": "smoothap.models",
    "run_demo": "smoothap.experiments.demo",
    "run_recipe": "smoothap.experiments.fine_tuning",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'smoothap.experiments' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
