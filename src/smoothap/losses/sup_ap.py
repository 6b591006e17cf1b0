"""SupAP: an upper bound of 1 - AP whose gradient does not vanish where a negative stands far above a positive.

Ramzi et al., "Robust and Decomposable Average Precision for Image Retrieval", NeurIPS 2021, with the settings of the
released code for Stanford Online Products.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

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
        self.block = IndicatorBlock(_TRUE_RANK, SupIndicator(tau, rho, delta, offset, step))
        self.tolerated_noise = tau / 5

    def extra_repr(self) -> str:
        return repr(self.block).partition("SupIndicator(")[2].removesuffix("))")
