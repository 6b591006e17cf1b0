"""The losses we own, one file each."""

from smoothap.losses.blackbox_ap import BlackboxAP
from smoothap.losses.blackbox_recall import BlackboxRecall
from smoothap.losses.calibration import CalibrationLoss
from smoothap.losses.recall_at_k import RecallAtK
from smoothap.losses.roadmap import Roadmap
from smoothap.losses.smooth_ap import SmoothAP
from smoothap.losses.sup_ap import SupAP

__all__ = ["BlackboxAP", "BlackboxRecall", "CalibrationLoss", "RecallAtK", "Roadmap", "SmoothAP", "SupAP"]
