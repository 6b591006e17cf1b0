"""Blackbox differentiation of ranks: exact ranks forward, the slope of a piecewise-affine interpolation backward.

Rolinek et al., "Optimizing Rank-Based Metrics with Blackbox Differentiation", CVPR 2020: AP, and the recall loss by
which they reach their results on retrieval sets, 78.6 on Online Products.
"""

from abc import abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from smoothap.functional.block import OUTSIDE
from smoothap.functional.indicators import check_range, check_temperature
from smoothap.losses.retrieval_loss import Block, RetrievalLoss


@dataclass(frozen=True)
class BlackboxBlock(Block):
    """What exact ranks cost, divided by the size of the retrieval set as in the authors' code; as `Block`."""

    lambda_: float
    margin: float

    @abstractmethod
    def cost_of_ranks(
        self, among: Tensor, rank: Tensor, valid: Tensor, pull: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """The cost (b,) of each query, and its derivative (b, p) in the ranks times pull (b, 1), if that is given.

        among (b, p) is R(i, S_P), which is held fixed; rank (b, p) is R(i, S_Omega); valid (b, p) says which slots hold
        a positive.
        """
        ...

    def __call__(
        self, scores: Tensor, positive_scores: Tensor, valid: Tensor, weights: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Rank, let the ranks' gradient move the scores by lambda, rank again: the difference is the gradient."""
        negatives = scores + self.margin / 2
        positives = (positive_scores - self.margin / 2).masked_fill_(~valid, OUTSIDE)
        size = (valid.sum(1, keepdim=True) + (negatives > OUTSIDE).sum(1, keepdim=True)).to(scores.dtype)
        among_positives = _ranks(positives)  # R(i, S_P)
        rank = among_positives + _negatives_above(negatives, positives)  # R(i, S_Omega)
        pull = None if weights is None else weights[:, None] * size  # the derivative is that in rank / size
        losses, slope = self.cost_of_ranks(among_positives, rank, valid, pull)
        if slope is None:
            return losses, positive_scores[:0]
        raised = positives + self.lambda_ * slope
        new_rank = _ranks(raised) + _negatives_above(negatives, raised)
        scores.zero_()
        flags = torch.empty_like(scores)
        for before, after in zip(positives.unbind(1), raised.unbind(1), strict=True):
            # a positive that has risen past a negative puts it one rank down
            scores += torch.ge(after[:, None], negatives, out=flags)
            scores -= torch.ge(before[:, None], negatives, out=flags)
        scores /= size * self.lambda_
        return losses, (new_rank - rank).masked_fill_(~valid, 0.0) / size / self.lambda_


def _ranks(scores: Tensor) -> Tensor:
    """How many items score at least as high, itself included; ties count against each. (b, p) -> (b, p)"""
    ascending = scores.sort(1).values
    return (scores.shape[1] - torch.searchsorted(ascending, scores)).to(scores.dtype)


def _negatives_above(negatives: Tensor, positives: Tensor) -> Tensor:
    """How many negatives score at least as high as each positive. (b, m), (b, p) -> (b, p)"""
    flags = torch.empty_like(negatives)  # numbers, whose sum is five times as fast as that of booleans
    return torch.stack([torch.ge(negatives, slot[:, None], out=flags).sum(1) for slot in positives.unbind(1)], 1)


class BlackboxLoss(RetrievalLoss):
    """A loss of ranks; its class says by which block they are counted."""

    block_of: type[BlackboxBlock]

    def __init__(self, lambda_: float = 4.0, margin: float = 0.02) -> None:
        super().__init__()
        check_temperature(lambda_, "lambda_", "the paper's 4")
        check_range(margin, "margin", 0, 2, "the paper's 0.02")
        self.block = self.block_of(float(lambda_), float(margin))


class APBlock(BlackboxBlock):
    """1 - AP of exact ranks."""

    def cost_of_ranks(
        self, among: Tensor, rank: Tensor, valid: Tensor, pull: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        count = valid.sum(1, keepdim=True).to(rank.dtype)
        precision = (among / rank).masked_fill_(~valid, 0.0)
        losses = 1 - precision.sum(1) / count[:, 0]
        return losses, None if pull is None else pull * precision / rank / count


class BlackboxAP(BlackboxLoss):
    """One minus the exact Average Precision of every query, made differentiable as a black box (Rolinek et al. 2020).

    >>> embeddings = torch.eye(2).repeat_interleave(2, 0).requires_grad_()
    >>> BlackboxAP()(embeddings, torch.tensor([0, 0, 1, 1])).item()
    0.0

    lambda_: how far the interpolation reaches; the step is taken on the mean over the queries, before any weight that
    the result is given later (so that a loss scaler or several processes change nothing).
    margin: what a negative must stay below a positive to count as below it.
    """

    block_of = APBlock


class RecallBlock(BlackboxBlock):
    """The mean over the positives of log(1 + log(1 + r)), with r negatives above the positive.

    A mean of 1 - Recall@K over all K with weights that fall with K; the authors' code leaves the choice between this
    and log(1 + r) open.
    """

    def cost_of_ranks(
        self, among: Tensor, rank: Tensor, valid: Tensor, pull: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        count = valid.sum(1, keepdim=True).to(rank.dtype)
        above = (rank - among).masked_fill_(~valid, 0.0)
        inner = torch.log1p(above)
        losses = torch.log1p(inner).sum(1) / count[:, 0]
        return losses, None if pull is None else pull * valid / ((1 + inner) * (1 + above)) / count


class BlackboxRecall(BlackboxLoss):
    """How many negatives are above each positive, on a double logarithm, made differentiable as a black box.

    >>> embeddings = torch.eye(2).repeat_interleave(2, 0).requires_grad_()
    >>> BlackboxRecall()(embeddings, torch.tensor([0, 0, 1, 1])).item()
    0.0

    lambda_, margin: as of `BlackboxAP`; 4 and 0.02 are the authors' for Online Products.
    """

    block_of = RecallBlock
