"""Semi-hard triplets as the re-implementation of Roth and Brattoli draws them, which the paper ran.

One triplet for each anchor: a positive that is farther than the nearest negative, and a negative that is nearer than
the farthest positive, each at random; any positive or negative where there is none such.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize


class SemiHardMiner(nn.Module):
    """Draws one triplet for each row that has a positive and a negative; called as a miner of the library."""

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
        cosines = normalize(embeddings, dim=1) @ normalize(ref_emb, dim=1).T  # falls with the distance
        same = labels[:, None] == ref_labels
        positive = (
            same
            if self_index is None
            else same & (torch.arange(len(ref_labels), device=self_index.device) != self_index[:, None])
        )
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
