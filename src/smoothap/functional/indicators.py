"""What may stand for the indicator 1{x > 0} when items above a positive are counted: Figure 2, and their slopes.

The paper gives the sigmoid (Eq. 6) and only draws a linear and an exponential relaxation. Ours are the two classical
bounds of the step from above that have those names: the hinge of the triplet loss, and the exponential of boosting.
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

_LEAST_TEMPERATURE = 1e-20  # scores and gradients divided by less may leave float32
_LEAST_EXPONENTIAL = 0.05  # e^(2 / 0.05) of the largest difference of cosines: sums of many stay far from overflow


def check_temperature(value: float, name: str, example: str) -> None:
    """Refuse a number to divide by that is not positive, or so small that nothing finite would be left."""
    refuse_tensor(value, name)
    if not _LEAST_TEMPERATURE <= value < float("inf"):
        raise ValueError(
            f"{name} must be a positive number, {_LEAST_TEMPERATURE} at least, such as {example}, not {value!r}"
        )


def refuse_tensor(setting: object, name: str) -> None:
    """Refuse a tensor as a setting of a loss: the loss has no gradient for it, so a parameter would never change."""
    if isinstance(setting, Tensor):
        raise TypeError(f"{name} must be a plain number: a loss does not learn its settings, use {name}.item()")


def check_range(value: float, name: str, least: float, most: float, example: str) -> None:
    """Refuse a setting that is no number between two others."""
    refuse_tensor(value, name)
    if not least <= value <= most:
        raise ValueError(f"{name} must be a number from {least} to {most}, such as {example}, not {value!r}")


class Indicator(Protocol):
    """A function that counts how far one score is above another; 0, with slope 0, at -inf."""

    def __call__(self, difference: Tensor) -> Tensor:
        """The value at each difference of scores, in the same shape."""
        ...

    def with_slope(self, difference: Tensor) -> tuple[Tensor, Tensor]:
        """The value and the derivative; the difference may be overwritten."""
        ...


@dataclass(frozen=True)
class Sigmoid:
    """1 / (1 + e^(-x / tau)), Eq. 6.

    >>> Sigmoid(0.01)(torch.tensor([-1.0, 0.0, 1.0]))
    tensor([0.0000, 0.5000, 1.0000])
    """

    tau: float = 0.01

    def __post_init__(self) -> None:
        check_temperature(self.tau, "tau", "the paper's 0.01")

    def __call__(self, difference: Tensor) -> Tensor:
        return torch.sigmoid(difference / self.tau)

    def with_slope(self, difference: Tensor) -> tuple[Tensor, Tensor]:
        value = (difference if self.tau == 1 else difference / self.tau).sigmoid_()
        slope = torch.addcmul(value, value, value, value=-1)
        return value, slope if self.tau == 1 else slope.div_(self.tau)


@dataclass(frozen=True)
class Linear:
    """max(0, 1 + x / width): the hinge of a triplet loss with that margin, so that every term above is pushed alike.

    >>> Linear(0.5)(torch.tensor([-1.0, -0.25, 0.0, 1.0]))
    tensor([0.0000, 0.5000, 1.0000, 3.0000])
    """

    width: float = 0.2

    def __post_init__(self) -> None:
        check_temperature(self.width, "width", "a margin of 0.2")

    def __call__(self, difference: Tensor) -> Tensor:
        return (1 + difference / self.width).clamp_(min=0)

    def with_slope(self, difference: Tensor) -> tuple[Tensor, Tensor]:
        value = self(difference)
        return value, (value > 0).to(value.dtype).div_(self.width)


@dataclass(frozen=True)
class Exponential:
    """e^(x / scale): the terms furthest above are pushed most, whatever it does to the ranking.

    >>> Exponential(0.5)(torch.tensor([-1.0, 0.0, 0.5]))
    tensor([0.1353, 1.0000, 2.7183])
    """

    scale: float = 0.2

    def __post_init__(self) -> None:
        refuse_tensor(self.scale, "scale")
        if not _LEAST_EXPONENTIAL <= self.scale < float("inf"):
            raise ValueError(
                f"scale must be at least {_LEAST_EXPONENTIAL}, not {self.scale!r}: cosines differ by up to 2, and the "
                "exponential of that must stay finite"
            )

    def __call__(self, difference: Tensor) -> Tensor:
        return torch.exp(difference / self.scale)

    def with_slope(self, difference: Tensor) -> tuple[Tensor, Tensor]:
        value = self(difference)
        return value, value / self.scale


@dataclass(frozen=True)
class Step:
    """The indicator itself, 1{x > 0}, which is flat: nothing is learnt through it.

    at_zero: its value for equal scores, 1 where ties count against a positive.

    >>> Step()(torch.tensor([-1.0, 0.0, 1.0]))
    tensor([0., 0., 1.])
    """

    at_zero: float = 0.0

    def __call__(self, difference: Tensor) -> Tensor:
        return torch.heaviside(difference, difference.new_tensor(self.at_zero))

    def with_slope(self, difference: Tensor) -> tuple[Tensor, Tensor]:
        return self(difference), torch.zeros_like(difference)
