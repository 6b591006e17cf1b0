"""Experiments in one call: open a set of images by its name, fine-tune a network on it, test before and after.

The names are loaded when first used, so that `smoothap --help` need not wait for torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from smoothap.experiments.data_sets import open_data
    from smoothap.models import open_model

__all__ = ["open_data", "open_model"]

_MODULES = {
    "open_data": "smoothap.experiments.data_sets",
    "open_model": "smoothap.models",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'smoothap.experiments' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
