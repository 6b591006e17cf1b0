"""Blackbox AP: exact Average Precision forward, and the slope of an interpolation of the ranks backward."""

from torch import Tensor

from smoothap.losses._blackbox import BlackboxBlock, BlackboxLoss


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

    >>> import torch
    >>> embeddings = torch.eye(2).repeat_interleave(2, 0).requires_grad_()
    >>> BlackboxAP()(embeddings, torch.tensor([0, 0, 1, 1])).item()
    0.0

    lambda_: how far the interpolation reaches; the step is taken on the mean over the queries, before any weight that
    the result is given later (so that a loss scaler or several processes change nothing).
    margin: what a negative must stay below a positive to count as below it.
    """

    block_of = APBlock
