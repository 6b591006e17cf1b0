"""The losses we own, one file each."""

from smoothap.losses.blackbox import BlackboxAP, BlackboxRecall
from smoothap.losses.recall_at_k import RecallAtK
from smoothap.losses.roadmap import CalibrationLoss, Roadmap
from smoothap.losses.smooth_ap import SmoothAP
from smoothap.losses.sup_ap import SupAP

__all__ = ["BlackboxAP", "BlackboxRecall", "CalibrationLoss", "RecallAtK", "Roadmap", "SmoothAP", "SupAP"]
