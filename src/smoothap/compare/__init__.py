"""The methods of the paper's tables side by side: trained alike, one table out."""

from smoothap.compare.plan import Plan
from smoothap.compare.runner import Outcome, compare

__all__ = ["Outcome", "Plan", "compare"]
