"""Triplets of a batch, drawn for all anchors at once, as pytorch-metric-learning calls its miners."""

from abc import abstractmethod

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

Triplets = tuple[Tensor, Tensor, Tensor]  # rows of anchors, positives and negatives, (t,) each


class TripletMiner(nn.Module):
    """Knows which items are positives of which anchors; a miner says which of them it draws."""

    @torch.no_grad()
    def forward(
        self,
        embeddings: Tensor,
        labels: Tensor,
        ref_emb: Tensor | None = None,
        ref_labels: Tensor | None = None,
        self_index: Tensor | None = None,
    ) -> Triplets:
        """Triplets of a batch, or of a batch and other items; `self_index` (b,) is each anchor's place among these."""
        if ref_emb is None or ref_labels is None:
            ref_emb, ref_labels, self_index = embeddings, labels, torch.arange(len(labels), device=labels.device)
        same = labels[:, None] == ref_labels
        return self.draw(normalize(embeddings, dim=1), normalize(ref_emb, dim=1), same, positives(same, self_index))

    @abstractmethod
    def draw(self, queries: Tensor, items: Tensor, same: Tensor, positive: Tensor) -> Triplets:
        """Triplets of unit vectors queries (b, d), items (m, d); same, positive (b, m): of one class, not itself."""


def positives(same: Tensor, self_index: Tensor | None) -> Tensor:
    """Pairs of one class (b, m) without those of an item and itself; `self_index` (b,), -1 where it is not there."""
    if self_index is None:
        return same
    return same & (torch.arange(same.shape[1], device=same.device) != self_index[:, None])


class SemiHardMiner(TripletMiner):
    """One triplet for each anchor, as the re-implementation of Roth and Brattoli draws them, which the paper ran.

    A positive that is farther than the nearest negative, and a negative that is nearer than the farthest positive, each
    at random; any positive or negative where there is none such.
    """

    def draw(self, queries: Tensor, items: Tensor, same: Tensor, positive: Tensor) -> Triplets:
        cosines = queries @ items.T  # falls with the distance
        anchors = (positive.any(1) & ~same.all(1)).nonzero()[:, 0]
        if not len(anchors):
            return anchors, anchors, anchors
        cosines, positive, negative = cosines[anchors], positive[anchors], ~same[anchors]
        farthest = cosines.masked_fill(~positive, 2).amin(1, keepdim=True)
        nearest = cosines.masked_fill(~negative, -2).amax(1, keepdim=True)
        return anchors, _drawn(positive, cosines < nearest), _drawn(negative, cosines > farthest)


def _drawn(possible: Tensor, preferred: Tensor) -> Tensor:
    """One of the possible columns of each row, (t, m) -> (t,): a preferred one where there is any."""
    chosen = possible & preferred
    chosen = torch.where(chosen.any(1, keepdim=True), chosen, possible)
    return torch.multinomial(chosen.float(), 1)[:, 0]


class DistanceWeightedMiner(TripletMiner):
    """Draws negatives so that all distances come up equally often (Wu et al., ICCV 2017, Section 4).

    Distances below `cutoff` count as that, and negatives farther than `farthest`, which no margin reaches, are left
    out. An anchor has as many triplets as its class has images, each with a positive at random. Weights and numbers are
    those of the library's miner, which draws class by class in a loop that takes several times as long as the loss.
    """

    def __init__(self, cutoff: float = 0.5, farthest: float = 1.4) -> None:
        super().__init__()
        self.cutoff, self.farthest = cutoff, farthest

    def draw(self, queries: Tensor, items: Tensor, same: Tensor, positive: Tensor) -> Triplets:
        weights = self.weights(queries, items).masked_fill(same, 0)
        anchors = (positive.any(1) & weights.any(1)).nonzero()[:, 0]
        if not len(anchors):
            return anchors, anchors, anchors
        wanted = same[anchors].sum(1)
        most = int(wanted.max())
        drawn = [
            torch.multinomial(each[anchors], most, replacement=True) for each in (positive.to(weights.dtype), weights)
        ]
        kept = torch.arange(most, device=wanted.device) < wanted[:, None]
        return anchors.repeat_interleave(wanted), drawn[0][kept], drawn[1][kept]

    def weights(self, queries: Tensor, items: Tensor) -> Tensor:
        """How often each of the items (m, d) should be drawn for queries (b, d): (b, m), the greatest about 1."""
        dimension = queries.shape[1]
        distances = torch.cdist(queries, items).clamp(min=self.cutoff)
        # One over the density of distances between points that are spread evenly over a sphere.
        logarithms = (2 - dimension) * distances.log() - (dimension - 3) / 2 * (1 - distances**2 / 4).log()
        logarithms = logarithms.masked_fill(~logarithms.isfinite() | (distances >= self.farthest), -torch.inf)
        greatest = logarithms.amax()
        return (logarithms - greatest).exp() if greatest.isfinite() else torch.zeros_like(logarithms)
