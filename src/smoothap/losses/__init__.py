"""The losses we own, one file each."""

from smoothap.losses.smooth_ap import SmoothAP

__all__ = ["SmoothAP"]
