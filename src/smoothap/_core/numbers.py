"""Numbers of options classes: the type of a field says what it may be, and `check_numbers` refuses the rest."""

import math
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Annotated, Any, get_args, get_type_hints


@dataclass(frozen=True)
class Range:
    """The numbers from `least` to `most`; without `least` itself where it is `open`."""

    least: float = 0
    most: float = math.inf
    open: bool = False

    def __contains__(self, value: float) -> bool:
        return (self.least < value if self.open else self.least <= value) and value <= self.most

    def __str__(self) -> str:
        end = "" if self.most == math.inf else f" to {self.most:,}"
        return f"above {self.least:,}{end and f', up{end}'}" if self.open else f"from {self.least:,}{end or ' on'}"


Count = Annotated[int, Range(1)]
WholeNumber = Annotated[int, Range(0)]
Seed = Annotated[int, Range(0, 2**63 - 1)]
Positive = Annotated[float, Range(0, open=True)]
NotNegative = Annotated[float, Range(0)]
Rate = Annotated[float, Range(0, 1_000_000, open=True)]  # far above any that learns, and products stay finite
Factor = Annotated[float, Range(0, 1_000_000)]
Share = Annotated[float, Range(0, 1)]


def check_numbers(options: Any) -> None:
    """Refuse a number of a dataclass that is not of its field's kind, or outside of its range; infinity and NaN too."""
    for name, hint in get_type_hints(type(options), include_extras=True).items():
        value = getattr(options, name)
        kinds = [each for each in (hint, *get_args(hint)) if hasattr(each, "__metadata__")]  # itself, or in a union
        if not kinds or (value is None and kinds[0] is not hint):
            continue
        kind, limits = get_args(kinds[0])
        for number in value if isinstance(value, tuple) else (value,):
            is_number = isinstance(number, Integral if kind is int else Real) and not isinstance(number, bool)
            if not (is_number and -math.inf < number < math.inf and number in limits):
                whole = "whole number" if kind is int else "number"
                raise ValueError(f"{name} must be a {whole} {limits}, not {number!r}")
