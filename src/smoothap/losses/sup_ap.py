"""SupAP: an upper bound of 1 - AP whose gradient does not vanish where a negative stands far above a positive.

Ramzi et al., "Robust and Decomposable Average Precision for Image Retrieval", NeurIPS 2021, with the settings of the
released code for Stanford Online Products.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from smoothap._core.threads import can_fuse, on_threads, parts_for
from smoothap.functional.block import middles_of
from smoothap.functional.indicators import Step, check_range, check_temperature
from smoothap.losses.retrieval_loss import RetrievalLoss
from smoothap.losses.smooth_ap import IndicatorBlock

_LARGEST = 1e12  # ranks are squared, and must stay in float32


@dataclass(frozen=True)
class SupIndicator:
    """How SupAP counts a negative above a positive: at least 1, and ever more the further above it stands.

    sigmoid(x / tau) for x <= 0, step more than that up to delta, and the line rho x + offset beyond. `offset` None
    joins the line to the rest, as the paper's formula does; the released 1.44 leaves a gap that has no gradient.
    """

    tau: float = 0.01
    rho: float = 100.0
    delta: float = 0.05
    offset: float | None = 1.44
    step: float = 0.5

    def __post_init__(self) -> None:
        check_temperature(self.tau, "tau", "the released 0.01")
        for name, example in (("rho", 100), ("delta", 0.05), ("offset", 1.44), ("step", 0.5)):
            value = getattr(self, name)
            if value is not None or name != "offset":
                check_range(value, name, 0, _LARGEST, f"the released {example}")

    def __call__(self, difference: Tensor) -> Tensor:
        return self.with_slope(difference)[0]

    def with_slope(self, difference: Tensor) -> tuple[Tensor, Tensor]:
        sigmoid = torch.sigmoid(difference / self.tau)
        slope = torch.addcmul(sigmoid, sigmoid, sigmoid, value=-1).div_(self.tau)
        beyond = difference > self.delta
        value = sigmoid.add_(difference > 0, alpha=self.step)
        value = torch.where(beyond, self.rho * difference + self._offset(), value)
        return value, slope.masked_fill_(beyond, self.rho)

    def _offset(self) -> float:
        if self.offset is not None:
            return self.offset
        joined = 1 / (1 + math.exp(-self.delta / self.tau))
        return joined + self.step - self.rho * self.delta


_TRUE_RANK = Step(at_zero=1.0)  # ties among positives count, as in the released code


@dataclass(frozen=True)
class SupAPBlock(IndicatorBlock):
    """1 - SupAP, by a compiled loop where there is one; as `Block`."""

    def __call__(
        self, scores: Tensor, positive_scores: Tensor, valid: Tensor, weights: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        sup, middles = self.above, None
        if can_fuse(scores) and isinstance(sup, SupIndicator):
            middles = middles_of(positive_scores / sup.tau, valid)
        if middles is None or not isinstance(sup, SupIndicator):
            return super().__call__(scores, positive_scores, valid, weights)
        from smoothap.losses.kernels import sup_ap_rows

        settings = np.array([1 / sup.tau, sup.rho, sup.delta, sup._offset(), sup.step], np.float32)
        average_precision, positive_gradient = scores.new_empty(len(scores)), torch.empty_like(positive_scores)
        pull = torch.zeros_like(average_precision) if weights is None else -weights.to(scores.dtype)
        read = [tensor.contiguous().numpy() for tensor in (positive_scores, valid, pull, middles * sup.tau)]
        on_threads(
            sup_ap_rows, parts_for(scores.numel() * valid.shape[1]), scores.numpy(), *read, settings,
            average_precision.numpy(), positive_gradient.numpy(), weights is not None,
        )  # fmt: skip
        return 1 - average_precision, positive_gradient if weights is not None else positive_gradient[:0]


class SupAP(RetrievalLoss):
    """One minus an Average Precision in which a negative above a positive counts for more than one place.

    >>> embeddings = torch.eye(2).repeat_interleave(2, 0).requires_grad_()
    >>> round(SupAP()(embeddings, torch.tensor([0, 0, 1, 1])).item(), 6)
    0.0

    tau, rho, delta, offset, step: of `SupIndicator`; the released setting for iNaturalist is offset 1 and step 0.
    """

    def __init__(
        self,
        tau: float = 0.01,
        rho: float = 100.0,
        delta: float = 0.05,
        offset: float | None = 1.44,
        step: float = 0.5,
    ) -> None:
        super().__init__()
        self.block = SupAPBlock(_TRUE_RANK, SupIndicator(tau, rho, delta, offset, step))
        self.tolerated_noise = tau / 5

    def extra_repr(self) -> str:
        return repr(self.block).partition("SupIndicator(")[2].removesuffix("))")
