"""Exact and smoothed Average Precision of scores."""

from smoothap.functional.exact import average_precision
from smoothap.functional.smooth import smooth_ap

__all__ = ["average_precision", "smooth_ap"]
