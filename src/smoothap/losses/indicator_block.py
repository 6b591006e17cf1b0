"""Average Precision with any function in the place of the indicator, for the losses that choose one."""

from dataclasses import dataclass

from torch import Tensor

from smoothap.losses.streaming import Block
from smoothap.ranking.block import average_precision_of_ranks, ranked_block
from smoothap.ranking.indicators import Indicator


@dataclass(frozen=True)
class IndicatorBlock(Block):
    """1 - AP, where `among` counts the positives above a positive and `above` the negatives; a `streaming.Block`."""

    among: Indicator
    above: Indicator

    def __call__(
        self, scores: Tensor, positive_scores: Tensor, valid: Tensor, weights: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        pull = None if weights is None else -weights
        average_precision, gradient = ranked_block(
            scores, positive_scores, valid, pull, average_precision_of_ranks, self.among, self.above
        )
        return 1 - average_precision, gradient
