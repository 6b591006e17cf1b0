"""Exact and smoothed Average Precision of scores."""

from smoothap.functional.scores import average_precision, smooth_ap

__all__ = ["average_precision", "smooth_ap"]
