"""The Recall@k surrogate: one minus a smoothed Recall@k, averaged over several k.

Patel et al., "Recall@k Surrogate Loss with Large Batches and Similarity Mixup", CVPR 2022. The mixup of embeddings
(SiMix) is left out. As everywhere here, the query is no part of its own retrieval set (in the authors' code it is).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from smoothap.functional.block import ranked_block
from smoothap.functional.indicators import check_temperature, refuse_tensor
from smoothap.losses.retrieval_loss import Block, RetrievalLoss


@dataclass(frozen=True)
class RecallBlock(Block):
    """1 - the mean over k of smoothed Recall@k; as `Block`."""

    k: tuple[int, ...]
    tau1: tuple[float, ...]
    tau2: float

    @property
    def scale(self) -> float:
        return 1 / self.tau2

    def __call__(
        self, scores: Tensor, positive_scores: Tensor, valid: Tensor, weights: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """As `Block`: the sigmoid of tau2 counts who is above a positive."""
        pull = None if weights is None else -weights / self.tau2
        recall, gradient = ranked_block(scores, positive_scores, valid, pull, self.recall_of_ranks)
        return 1 - recall, gradient

    def recall_of_ranks(self, among: Tensor, above: Tensor, valid: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Recall@k of each query, where a sigmoid of tau1 says whether a rank is within k; a `Measure` of a block.

        No more than k positives can be found in k places: the sum is cut at k, and divided by min(k, |P|).
        """
        rank = 1 + among + above  # R(i, S_Omega)
        count = valid.sum(1, keepdim=True)
        recall, slope = rank.new_zeros(len(rank)), torch.zeros_like(rank)
        for k, tau in zip(self.k, self.tau1, strict=True):
            within = torch.sigmoid((k - rank) / tau) * valid
            hits = within.sum(1, keepdim=True)
            possible = count.clamp(min=1, max=k) * len(self.k)
            recall += (hits.clamp(max=k) / possible)[:, 0]
            slope -= within * (1 - within) / tau * (hits < k) / possible
        return recall, slope, slope


class RecallAtK(RetrievalLoss):
    """One minus the smoothed Recall@k of every query.

    >>> embeddings = torch.eye(2).repeat_interleave(2, 0).requires_grad_()
    >>> loss = RecallAtK(k=(1,), tau1=0.1)(embeddings, torch.tensor([0, 0, 1, 1]))
    >>> round(loss.item(), 4)  # a positive of rank 1 is on the edge of Recall@1
    0.5

    k: the cut-offs, whose recalls are averaged.
    tau1: temperature of the sigmoid that compares a rank with k, one for all or one for each k.
    tau2: temperature of the sigmoid that compares scores, as tau of `SmoothAP`.
    """

    def __init__(
        self, k: Sequence[int] = (1, 2, 4, 8), tau1: float | Sequence[float] = 1.0, tau2: float = 0.01
    ) -> None:
        super().__init__()
        refuse_tensor(tau1, "tau1")
        k = tuple(k)
        temperatures = (float(tau1),) * len(k) if isinstance(tau1, int | float) else tuple(float(tau) for tau in tau1)
        if not k or not all(type(cut) is int and cut >= 1 for cut in k):
            raise ValueError(f"k must be whole numbers from 1, such as (1, 2, 4, 8), not {k!r}")
        if len(temperatures) != len(k):
            raise ValueError(f"tau1 must be one number, or one for each of the {len(k)} k, not {tau1!r}")
        for tau in temperatures:
            check_temperature(tau, "tau1", "the paper's 1")
        check_temperature(tau2, "tau2", "the paper's 0.01")
        self.block = RecallBlock(k, temperatures, float(tau2))
        self.tolerated_noise = tau2 / 5
