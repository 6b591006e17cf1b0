"""Fine-tuning in one call, the loop behind it, recipes, and the evaluation of a model on a set of images.

The names are loaded when first used, so that `smoothap --help` need not wait for torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from smoothap.training.before_after import compare_with_untrained
    from smoothap.training.config import RunOptions, TrainingConfig
    from smoothap.training.dry_run import DryRun, run_dry
    from smoothap.training.evaluation import evaluate_model
    from smoothap.training.finetune import FineTuned, Interrupted, fine_tune, train_and_test
    from smoothap.training.frozen import Frozen, freeze
    from smoothap.training.loop import train
    from smoothap.training.recipe import Recipe, open_recipe, run_recipe
    from smoothap.training.vector_files import evaluate_files

_HOMES = {
    "before_after": ("compare_with_untrained",),
    "config": ("RunOptions", "TrainingConfig"),
    "dry_run": ("DryRun", "run_dry"),
    "evaluation": ("evaluate_model",),
    "finetune": ("FineTuned", "Interrupted", "fine_tune", "train_and_test"),
    "frozen": ("Frozen", "freeze"),
    "loop": ("train",),
    "recipe": ("Recipe", "open_recipe", "run_recipe"),
    "vector_files": ("evaluate_files",),
}

__all__ = [
    "DryRun", "FineTuned", "Frozen", "Interrupted", "Recipe", "RunOptions", "TrainingConfig", "compare_with_untrained",
    "evaluate_files", "evaluate_model", "fine_tune", "freeze", "open_recipe", "run_dry", "run_recipe", "train",
    "train_and_test",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"smoothap.training.{module}"), name)
    raise AttributeError(f"module 'smoothap.training' has no attribute {name!r}")
