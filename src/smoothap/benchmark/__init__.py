"""The methods of the paper's tables side by side: tuned alike, trained alike, one table with intervals out."""

from smoothap.benchmark.plan import Plan, read_plan
from smoothap.benchmark.runner import Comparison, Outcome, compare

__all__ = ["Comparison", "Outcome", "Plan", "compare", "read_plan"]
