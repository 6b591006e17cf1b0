"""ROADMAP: SupAP, which ranks within a batch, and a calibration of the scores between batches.

Ramzi et al., "Robust and Decomposable Average Precision for Image Retrieval", NeurIPS 2021. Another loss that ranks,
such as Smooth-AP, can take the place of SupAP.
"""

from torch import Tensor

from smoothap.functional.indicators import check_range
from smoothap.losses._retrieval_loss import RetrievalLoss
from smoothap.losses.calibration import CalibrationLoss
from smoothap.losses.inputs import Call
from smoothap.losses.sup_ap import SupAP


class Roadmap(RetrievalLoss):
    """(1 - balance) * SupAP + balance * calibration.

    >>> import torch
    >>> embeddings = torch.eye(2).repeat_interleave(2, 0).requires_grad_()
    >>> round(Roadmap()(embeddings, torch.tensor([0, 0, 1, 1])).item(), 6)
    0.0

    balance: lambda of the paper. The parts may be given with settings of their own, and `ranking` may be another loss,
    such as `SmoothAP()`.
    """

    def __init__(
        self, balance: float = 0.5, ranking: RetrievalLoss | None = None, calibration: CalibrationLoss | None = None
    ) -> None:
        super().__init__()
        check_range(balance, "balance", 0, 1, "0.5 for equal shares")
        self.balance = float(balance)
        self.ranking = SupAP() if ranking is None else ranking
        self.calibration = CalibrationLoss() if calibration is None else calibration
        self.tolerated_noise = self.ranking.tolerated_noise

    def loss_of(self, call: Call) -> Tensor:
        return (1 - self.balance) * self.ranking(*call) + self.balance * self.calibration(*call)

    def extra_repr(self) -> str:
        return f"balance={self.balance}"
