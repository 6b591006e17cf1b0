"""The methods of the paper's tables side by side: tuned alike, trained alike, one table with intervals out."""

from smoothap.benchmark.methods import METHODS, Method, open_methods
from smoothap.benchmark.plan import Plan, read_plan
from smoothap.benchmark.runner import Comparison, Outcome, compare

__all__ = ["METHODS", "Comparison", "Method", "Outcome", "Plan", "compare", "open_methods", "read_plan"]
