"""The methods of the paper's tables side by side: tuned alike, trained alike, one table with intervals out.

The names are loaded when first used, so that the help of `smoothap compare` need not wait for torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from smoothap.benchmark.plan import Plan, read_plan

if TYPE_CHECKING:
    from smoothap.benchmark.methods import METHODS, Method, open_methods
    from smoothap.benchmark.runner import Comparison, Outcome, compare

__all__ = ["METHODS", "Comparison", "Method", "Outcome", "Plan", "compare", "open_methods", "read_plan"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'smoothap.benchmark' has no attribute {name!r}")
    home = "runner" if name in ("Comparison", "Outcome", "compare") else "methods"
    return getattr(import_module(f"smoothap.benchmark.{home}"), name)
