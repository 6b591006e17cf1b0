"""Experiments in one call: open a set of images by its name, fine-tune a network on it, test before and after.

The names are loaded when first used, so that `smoothap --help` need not wait for torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from smoothap.experiments.before_after import compare_with_untrained
    from smoothap.experiments.data_sets import open_data
    from smoothap.experiments.demo import Demo, run_demo
    from smoothap.experiments.evaluation import evaluate_files, evaluate_model
    from smoothap.experiments.fine_tuning import (
        FineTuned,
        Interrupted,
        fine_tune,
        open_recipe,
        run_recipe,
        train_and_test,
    )
    from smoothap.experiments.indexing import Indexed, album_place, index_photos
    from smoothap.experiments.rehearsal import Rehearsal
    from smoothap.experiments.self_check import Check, check_device
    from smoothap.methods import METHODS, open_methods
    from smoothap.models import open_model
    from smoothap.report.before_after import BeforeAfter
    from smoothap.training.frozen import Frozen, freeze

__all__ = [
    "DIMENSION", "METHODS", "NETWORK", "SIZE", "BeforeAfter", "Check", "Demo", "FineTuned", "Frozen", "Indexed",
    "Interrupted", "Rehearsal", "album_place", "check_device", "compare_with_untrained", "evaluate_files",
    "evaluate_model", "fine_tune", "freeze", "index_photos", "open_data", "open_methods", "open_model", "open_recipe",
    "run_demo", "run_recipe", "train_and_test",
]  # fmt: skip

NETWORK, SIZE, DIMENSION = "tf_efficientnet_lite0", 112, 512  # what is fine-tuned unless you say otherwise

_HOMES = {
    "smoothap.experiments.before_after": ("compare_with_untrained",),
    "smoothap.experiments.data_sets": ("open_data",),
    "smoothap.experiments.demo": ("Demo", "run_demo"),
    "smoothap.experiments.evaluation": ("evaluate_files", "evaluate_model"),
    "smoothap.experiments.fine_tuning": (
        "FineTuned", "Interrupted", "fine_tune", "open_recipe", "run_recipe", "train_and_test",
    ),
    "smoothap.experiments.indexing": ("Indexed", "album_place", "index_photos"),
    "smoothap.experiments.rehearsal": ("Rehearsal",),
    "smoothap.experiments.self_check": ("Check", "check_device"),
    "smoothap.methods": ("METHODS", "open_methods"),
    "smoothap.models": ("open_model",),
    "smoothap.report.before_after": ("BeforeAfter",),
    "smoothap.training.frozen": ("Frozen", "freeze"),
}  # fmt: skip


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module 'smoothap.experiments' has no attribute {name!r}")
