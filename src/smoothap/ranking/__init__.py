"""Exact and smoothed Average Precision of scores."""

from smoothap.ranking.exact import average_precision
from smoothap.ranking.smooth import smooth_ap

__all__ = ["average_precision", "smooth_ap"]
