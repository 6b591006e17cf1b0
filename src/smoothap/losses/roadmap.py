"""ROADMAP: SupAP, which ranks within a batch, and a calibration of the scores between batches.

Ramzi et al., "Robust and Decomposable Average Precision for Image Retrieval", NeurIPS 2021. The calibration gives
positives, and negatives, the same scores in every batch: what is learnt in batches then holds for the whole set.
Another loss that ranks, such as Smooth-AP, can replace SupAP.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from smoothap.functional.indicators import check_range
from smoothap.losses.inputs import Call
from smoothap.losses.retrieval_loss import Block, RetrievalLoss
from smoothap.losses.sup_ap import SupAP


@dataclass(frozen=True)
class HingeBlock(Block):
    """Four numbers of each query: by how much its positives, then its negatives, break their margin, and how many do.

    Only the two amounts have a gradient; as `Block`.
    """

    values = (4,)
    needs_positives = False  # negatives break their margin whether or not the query has a positive
    positive_margin: float
    negative_margin: float

    def __call__(
        self, scores: Tensor, positive_scores: Tensor, valid: Tensor, weights: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        too_low = (self.positive_margin - positive_scores).clamp_(min=0).masked_fill_(~valid, 0.0)
        too_high = (scores - self.negative_margin).clamp_(min=0)
        broken = (too_low > 0).to(scores.dtype), (too_high > 0).to(scores.dtype)
        values = torch.stack([too_low.sum(1), broken[0].sum(1), too_high.sum(1), broken[1].sum(1)], 1)
        if weights is None:
            return values, positive_scores[:0]
        torch.mul(broken[1], weights[:, 2, None], out=scores)
        return values, -weights[:, 0, None] * broken[0]


class CalibrationLoss(RetrievalLoss):
    """Pushes the scores of positives above one margin and those of negatives below another, the same in every batch.

    The mean over the pairs that break their margin, positives and negatives apart, as the released code takes it (the
    paper's formula divides by all pairs).

    >>> embeddings = torch.eye(2).repeat_interleave(2, 0).requires_grad_()
    >>> CalibrationLoss()(embeddings, torch.tensor([0, 0, 1, 1])).item()
    0.0
    """

    reduction = "none"

    def __init__(self, positive_margin: float = 0.9, negative_margin: float = 0.6) -> None:
        super().__init__()
        check_range(positive_margin, "positive_margin", -1, 1, "the paper's 0.9")
        check_range(negative_margin, "negative_margin", -1, 1, "the paper's 0.6")
        self.block = HingeBlock(float(positive_margin), float(negative_margin))

    def loss_of(self, call: Call) -> Tensor:
        too_low, low, too_high, high = super().loss_of(call).sum(0).unbind()
        return too_low / low.detach().clamp(min=1) + too_high / high.detach().clamp(min=1)


class Roadmap(RetrievalLoss):
    """(1 - balance) * SupAP + balance * calibration.

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
        self.include_query, self.tolerated_noise = self.ranking.include_query, self.ranking.tolerated_noise

    def loss_of(self, call: Call) -> Tensor:
        return (1 - self.balance) * self.ranking.loss_of(call) + self.balance * self.calibration.loss_of(call)

    def extra_repr(self) -> str:
        return f"balance={self.balance}"
