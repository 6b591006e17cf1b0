"""The numbers of a method that a comparison tunes besides the learning rate: where each is drawn from at first."""

from dataclasses import dataclass
from math import inf


@dataclass(frozen=True)
class Parameter:
    """A number that a method is built with, by the name of its option, or a setting of the training such as tau.

    Trials draw it between `low` and `high`, evenly or, where it is `logarithmic`, evenly in its logarithm. A range that
    turns out too narrow is moved, but never below `least` or above `most`, beyond which the number has no meaning.
    """

    name: str
    low: float
    high: float
    logarithmic: bool = True
    whole: bool = False
    least: float = 0.0
    most: float = inf

    @property
    def title(self) -> str:
        return self.name.replace("_", " ")


# Around the published values, which lie in the middle of each range where nothing limits it.
TAU = Parameter("tau", 0.002, 0.05)
MARGIN = Parameter("margin", 0.04, 1.0, most=2.0)  # between distances of unit vectors
RANK_MARGIN = Parameter("margin", 0.004, 0.1, most=2.0)  # between scores that are ranked
COSINE_MARGIN = Parameter("margin", 0.1, 0.9, logarithmic=False, least=-1.0, most=1.0)
