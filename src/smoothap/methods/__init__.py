"""The compared methods: how each is built, its settings, and the paper's own results for it."""

from smoothap.methods.methods import (
    METHODS,
    TWO_STAGES,
    Method,
    PaperResult,
    Parts,
    Setup,
    open_methods,
    with_controls,
)
from smoothap.methods.parameters import Parameter

__all__ = [
    "METHODS",
    "TWO_STAGES",
    "Method",
    "PaperResult",
    "Parameter",
    "Parts",
    "Setup",
    "open_methods",
    "with_controls",
]
