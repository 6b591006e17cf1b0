"""How every loss of this room is called."""

from functools import update_wrapper
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn

from smoothap.losses._streaming import Block, streamed_loss
from smoothap.losses.inputs import Call


class RetrievalLoss(nn.Module):
    """A loss of queries against a retrieval set: what its `block` makes of them, or what it says in `loss_of`."""

    block: Block
    # The standard deviation that differences of scores may be off by before the loss is blurred: a fifth of the
    # temperature of a sigmoid; None where a loss does not say. Training asks for it before it computes in 16 bits.
    tolerated_noise: float | None = None
    # Whether torch.compile takes the loss into its graph; if not, the graph ends before it and begins after it.
    one_operator = False

    def __init_subclass__(cls, **named: Any) -> None:
        """Give each loss a copy of `forward`: torch.compile makes at most eight graphs of one piece of code."""
        super().__init_subclass__(**named)
        if "forward" not in vars(cls):
            shared = RetrievalLoss.forward
            copy: Any = FunctionType(shared.__code__.replace(), shared.__globals__, argdefs=shared.__defaults__)
            update_wrapper(copy, shared)
            cls.forward = copy

    def forward(
        self,
        embeddings: Tensor,
        labels: Tensor | None,
        indices_tuple: tuple[Tensor, ...] | None = None,
        ref_emb: Tensor | None = None,
        ref_labels: Tensor | None = None,
        self_index: Tensor | None = None,
    ) -> Tensor:
        """The loss of embeddings (b, d) with labels (b,), whatever their order, length or device.

        ref_emb (m, d), ref_labels (m,): take the place of the batch as the retrieval set.
        self_index (b,): each query's own column in `ref_emb`, which is left out; -1 where it has none.
        indices_tuple: pairs (a, p, a, n) or triplets (a, p, n) that are P_q and N_q; labels then play no part.
        """
        call = Call(embeddings, labels, indices_tuple, ref_emb, ref_labels, self_index)
        if torch.compiler.is_compiling() and not self.one_operator:
            return torch.compiler.disable(self.loss_of)(call)
        return self.loss_of(call)

    def loss_of(self, call: Call) -> Tensor:
        return streamed_loss(self.block, call)

    def extra_repr(self) -> str:
        return repr(self.block).partition("(")[2].removesuffix(")")
