"""The Smooth-AP loss, Eq. 7: one minus the smoothed Average Precision of every query of a batch."""

from typing import Literal

from torch import Tensor

from smoothap.functional.indicators import Indicator, Sigmoid, refuse_tensor
from smoothap.losses._blocks import IndicatorBlock, SmoothAPBlock
from smoothap.losses._retrieval_loss import RetrievalLoss
from smoothap.losses._streaming import streamed_loss
from smoothap.losses.inputs import Call

Reduction = Literal["mean", "none"]


class SmoothAP(RetrievalLoss):
    """The loss of the paper: every item of the batch queries all the others, and the loss is the mean of 1 - AP.

    >>> import torch
    >>> embeddings = torch.eye(4).repeat_interleave(2, 0).requires_grad_()
    >>> loss = SmoothAP()(embeddings, torch.tensor([0, 0, 1, 1, 2, 2, 3, 3]))
    >>> round(loss.item(), 6)
    0.0

    tau: temperature of the sigmoid that stands for the indicator, Eq. 6.
    include_query: count the query among its own positives, as the authors' released code does.
    indicator: takes the place of that sigmoid, and of tau; one of `smoothap.functional.indicators` or your own.
    reduction: "mean" over the queries that have a positive, or "none" for one value per query (0 where there is none).
    """

    def __init__(
        self,
        tau: float = 0.01,
        include_query: bool = False,
        reduction: Reduction = "mean",
        indicator: Indicator | None = None,
    ) -> None:
        super().__init__()
        refuse_tensor(tau, "tau")
        indicator = Sigmoid(tau) if indicator is None else indicator
        if reduction not in ("mean", "none"):
            raise ValueError(f'reduction must be "mean" or "none", not {reduction!r}')
        self.include_query, self.reduction = include_query, reduction
        if isinstance(indicator, Sigmoid):
            self.tau, self.block = float(indicator.tau), SmoothAPBlock(float(indicator.tau))
            self.tolerated_noise, self.one_operator = self.tau / 5, True
        else:
            self.tau, self.block = float(tau), IndicatorBlock(indicator, indicator)

    def loss_of(self, call: Call) -> Tensor:
        return streamed_loss(self.block, call, self.include_query, self.reduction == "mean")

    def extra_repr(self) -> str:
        indicator = self.block.above if isinstance(self.block, IndicatorBlock) else f"tau={self.tau}"
        return f"{indicator}, include_query={self.include_query}, reduction={self.reduction!r}"
