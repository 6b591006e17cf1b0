"""The contrastive loss with cross-batch memory (Wang et al., CVPR 2020): a term of the batch plus one of the memory.

Each is a sum over pairs, divided by the number of queries alone, so that more negatives weigh more. As in the released
code, the memory holds the batch too, and passes no gradient on.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from smoothap.losses.inputs import checked_call
from smoothap.methods._wrapped import as_floats


class ContrastiveWithMemory(nn.Module):
    """Positives up to a cosine of 1, negatives below the margin; `weight` is that of the memory's term."""

    def __init__(self, margin: float = 0.5, weight: float = 1.0) -> None:
        super().__init__()
        self.margin, self.weight = margin, weight

    def forward(
        self,
        embeddings: Tensor,
        labels: Tensor,
        ref_emb: Tensor | None = None,
        ref_labels: Tensor | None = None,
        self_index: Tensor | None = None,
    ) -> Tensor:
        """The loss of embeddings (b, d) with labels (b,); ref_emb (m, d), ref_labels (m,) are batch and memory.

        self_index (b,): each query's own row in `ref_emb`, which is no pair of it; -1 where it has none.
        """
        checked_call(embeddings, labels, None, ref_emb, ref_labels, self_index)
        queries = normalize(as_floats(embeddings, "embeddings"), dim=1)
        here = torch.arange(len(labels), device=labels.device)
        value = self._of_pairs(queries, labels, queries, labels, here)
        if ref_emb is None or ref_labels is None:
            return value
        remembered = normalize(as_floats(ref_emb, "ref_emb").detach(), dim=1)
        return value + self.weight * self._of_pairs(queries, labels, remembered, ref_labels, self_index)

    def _of_pairs(
        self, queries: Tensor, labels: Tensor, items: Tensor, item_labels: Tensor, self_index: Tensor | None
    ) -> Tensor:
        """The sum over pairs: it is linear in their cosines, once it is known which of them count."""
        with torch.no_grad():
            same = labels[:, None] == item_labels
            pushed = (queries @ items.T > self.margin) & ~same
            pulled = (
                same
                if self_index is None
                else same & (torch.arange(len(item_labels), device=self_index.device) != self_index[:, None])
            )
            signs = pushed.to(queries.dtype) - pulled.to(queries.dtype)
            constant = pulled.sum() - self.margin * pushed.sum()
        return ((queries * (signs @ items)).sum() + constant) / len(queries)
