"""Distance-weighted sampling of triplets (Wu et al., ICCV 2017, Section 4), all anchors of a batch at once.

The weights and the number of triplets are those of pytorch-metric-learning's miner, which draws class by class in a
loop that takes several times as long as the loss itself.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize


class DistanceWeightedMiner(nn.Module):
    """Draws negatives so that all distances come up equally often; called as a miner of the library.

    Distances below `cutoff` count as that, and negatives farther than `farthest`, which no margin reaches, are left
    out. An anchor has as many triplets as its class has images, each with a positive at random.
    """

    def __init__(self, cutoff: float = 0.5, farthest: float = 1.4) -> None:
        super().__init__()
        self.cutoff, self.farthest = cutoff, farthest

    @torch.no_grad()
    def forward(
        self,
        embeddings: Tensor,
        labels: Tensor,
        ref_emb: Tensor | None = None,
        ref_labels: Tensor | None = None,
        self_index: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Rows of anchors, positives and negatives, (t,) each; `self_index` (b,) is each anchor's place among the
        others."""
        if ref_emb is None or ref_labels is None:
            ref_emb, ref_labels, self_index = embeddings, labels, torch.arange(len(labels), device=labels.device)
        same = labels[:, None] == ref_labels
        positive = (
            same
            if self_index is None
            else same & (torch.arange(len(ref_labels), device=self_index.device) != self_index[:, None])
        )
        weights = self.weights(embeddings, ref_emb).masked_fill(same, 0)
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

    def weights(self, embeddings: Tensor, others: Tensor) -> Tensor:
        """How often each of the others (m, d) should be drawn for embeddings (b, d): (b, m), the greatest about 1."""
        dimension = embeddings.shape[1]
        distances = torch.cdist(normalize(embeddings, dim=1), normalize(others, dim=1)).clamp(min=self.cutoff)
        # One over the density of distances between points that are spread evenly over a sphere.
        logarithms = (2 - dimension) * distances.log() - (dimension - 3) / 2 * (1 - distances**2 / 4).log()
        logarithms = logarithms.masked_fill(~logarithms.isfinite() | (distances >= self.farthest), -torch.inf)
        greatest = logarithms.amax()
        return (logarithms - greatest).exp() if greatest.isfinite() else torch.zeros_like(logarithms)
