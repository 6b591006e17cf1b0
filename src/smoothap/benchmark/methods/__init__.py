"""The compared methods: how each is built, what of it is tuned, and the paper's own results for it."""

from smoothap.benchmark.methods.method import Method, PaperResult, Parameter
from smoothap.benchmark.methods.table import METHODS, TWO_STAGES, open_methods, with_controls

__all__ = ["METHODS", "TWO_STAGES", "Method", "PaperResult", "Parameter", "open_methods", "with_controls"]
