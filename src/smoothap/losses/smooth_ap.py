"""The Smooth-AP loss, Eq. 7: one minus the smoothed Average Precision of every query of a batch."""

from typing import Literal

import torch
from torch import Tensor, nn

from smoothap.losses.inputs import as_pairs, check_inputs
from smoothap.losses.streaming import smooth_ap_loss

Reduction = Literal["mean", "none"]


class SmoothAP(nn.Module):
    """The loss of the paper: every item of the batch queries all the others, and the loss is the mean of 1 - AP.

    >>> embeddings = torch.eye(4).repeat_interleave(2, 0).requires_grad_()
    >>> loss = SmoothAP()(embeddings, torch.tensor([0, 0, 1, 1, 2, 2, 3, 3]))
    >>> round(loss.item(), 6)
    0.0

    tau: temperature of the sigmoid that stands for the indicator, Eq. 6.
    include_query: count the query among its own positives, as the authors' released code does.
    reduction: "mean" over the queries that have a positive, or "none" for one value per query (0 where there is none).
    """

    def __init__(self, tau: float = 0.01, include_query: bool = False, reduction: Reduction = "mean") -> None:
        super().__init__()
        if not 0 < tau < float("inf"):
            raise ValueError(f"tau must be a positive number, such as the paper's 0.01, not {tau!r}")
        if reduction not in ("mean", "none"):
            raise ValueError(f'reduction must be "mean" or "none", not {reduction!r}')
        self.tau, self.include_query, self.reduction = float(tau), include_query, reduction

    def forward(
        self,
        embeddings: Tensor,
        labels: Tensor | None,
        indices_tuple: tuple[Tensor, ...] | None = None,
        ref_emb: Tensor | None = None,
        ref_labels: Tensor | None = None,
        own: Tensor | None = None,
    ) -> Tensor:
        """The loss of embeddings (b, d) with labels (b,), whatever their order, length or device.

        ref_emb (m, d), ref_labels (m,): take the place of the batch as the retrieval set.
        own (b,): each query's own column in `ref_emb`, which is left out; -1 where it has none.
        indices_tuple: pairs (a, p, a, n) or triplets (a, p, n) that are P_q and N_q; labels then play no part.
        """
        check_inputs(embeddings, labels, indices_tuple, ref_emb, ref_labels, own, self.include_query)
        positive_pairs, negative_pairs = as_pairs(indices_tuple, embeddings.device)
        learning = torch.is_grad_enabled()
        return smooth_ap_loss(
            embeddings, ref_emb, labels, ref_labels, own, positive_pairs, negative_pairs, None,
            self.tau, self.include_query, self.reduction == "mean",
            learning and embeddings.requires_grad, learning and ref_emb is not None and ref_emb.requires_grad,
        )  # fmt: skip

    def extra_repr(self) -> str:
        return f"tau={self.tau}, include_query={self.include_query}, reduction={self.reduction!r}"
