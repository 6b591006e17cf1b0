"""How every loss of this room is called."""

from torch import Tensor, nn

from smoothap.losses.inputs import Call


class RetrievalLoss(nn.Module):
    """A loss of queries against a retrieval set; a loss says what it makes of a call in `loss_of`."""

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
        return self.loss_of(Call(embeddings, labels, indices_tuple, ref_emb, ref_labels, own))

    def loss_of(self, call: Call) -> Tensor:
        raise NotImplementedError
