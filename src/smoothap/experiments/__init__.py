"""Fine-tuning in one call, the loop behind it, recipes, and the evaluation of a model on a set of images.

The names are loaded when first used, so that `smoothap --help` need not wait for torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from smoothap.experiments.before_after import compare_with_untrained
    from smoothap.experiments.data_sets import open_data
    from smoothap.experiments.finetune import FineTuned, Interrupted, fine_tune, open_recipe, run_recipe, train_and_test
    from smoothap.experiments.named_evaluation import evaluate_files, evaluate_model
    from smoothap.experiments.rehearsal import Rehearsal

__all__ = [
    "FineTuned", "Interrupted", "Rehearsal", "compare_with_untrained", "evaluate_files", "evaluate_model",
    "fine_tune", "open_data", "open_recipe", "run_recipe", "train_and_test",
]  # fmt: skip

_HOMES = {
    "before_after": ("compare_with_untrained",),
    "data_sets": ("open_data",),
    "named_evaluation": ("evaluate_files", "evaluate_model"),
    "finetune": ("FineTuned", "Interrupted", "fine_tune", "open_recipe", "run_recipe", "train_and_test"),
    "rehearsal": ("Rehearsal",),
}


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"smoothap.experiments.{module}"), name)
    raise AttributeError(f"module 'smoothap.experiments' has no attribute {name!r}")
