"""Blackbox recall: the loss by which Rolinek et al. reach their results on retrieval sets, 78.6 on Online Products."""

import torch
from torch import Tensor

from smoothap.losses._blackbox import BlackboxBlock, BlackboxLoss


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
    """How many negatives stand above each positive, on a double logarithm, made differentiable as a black box.

    >>> embeddings = torch.eye(2).repeat_interleave(2, 0).requires_grad_()
    >>> BlackboxRecall()(embeddings, torch.tensor([0, 0, 1, 1])).item()
    0.0

    lambda_, margin: as of `BlackboxAP`; 4 and 0.02 are the authors' for Online Products.
    """

    block_of = RecallBlock
