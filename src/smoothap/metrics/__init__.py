"""Exact evaluation of a retrieval system."""

from smoothap.metrics.evaluate import evaluate
from smoothap.metrics.report import Report

__all__ = ["Report", "evaluate"]
