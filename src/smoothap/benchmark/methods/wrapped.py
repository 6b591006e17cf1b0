"""Losses of pytorch-metric-learning with the settings of their papers, called as our own: `loss(embeddings, labels)`.

Each has its miner, with a part of our own where the library's do not suffice (`ProxyNCA`, `SemiHardMiner`) or
take too long (`DistanceWeightedMiner`); those with parameters of their own (a proxy, a weight or a margin for each
class) take labels 0 ... classes - 1. `ContrastiveWithMemory` is a loss of our own.
"""

import torch
from pytorch_metric_learning import losses
from pytorch_metric_learning.utils.loss_and_miner_utils import get_all_pairs_indices
from torch import Tensor, nn
from torch.nn.functional import normalize

from smoothap.benchmark.methods.miners import DistanceWeightedMiner, positives
from smoothap.losses.inputs import checked_call, first_of

_PROXY_LENGTH = 3.0  # of embeddings and proxies, in the re-implementation of Proxy NCA


class Wrapped(nn.Module):
    """A loss of pytorch-metric-learning with its miner, checked inputs, and float32 at least.

    `classes` is the number of classes that the loss has parameters for, or None where it has none; `learning_rate` is
    that of its parameters, where they have one of their own.
    """

    def __init__(
        self,
        loss: nn.Module,
        miner: nn.Module | None = None,
        classes: int | None = None,
        learning_rate: float | None = None,
    ) -> None:
        super().__init__()
        self.loss, self.miner, self.classes, self.learning_rate = loss, miner, classes, learning_rate

    def forward(
        self,
        embeddings: Tensor,
        labels: Tensor,
        ref_emb: Tensor | None = None,
        ref_labels: Tensor | None = None,
        self_index: Tensor | None = None,
    ) -> Tensor:
        """The loss of embeddings (b, d) with labels (b,), among themselves or against ref_emb (m, d), ref_labels (m,).

        self_index (b,): each query's own row in `ref_emb`, which is no positive of it; -1 where it has none.
        """
        checked_call(embeddings, labels, None, ref_emb, ref_labels, self_index)
        embeddings = as_floats(embeddings, "embeddings")
        if self.classes is not None and not 0 <= int(labels.min()) <= int(labels.max()) < self.classes:
            raise ValueError(
                f"labels run from {int(labels.min())} to {int(labels.max())}, but this loss was built for classes 0 to "
                f"{self.classes - 1}: number the training classes from 0"
            )
        if ref_emb is None or ref_labels is None:
            indices = None if self.miner is None else self.miner(embeddings, labels)
            return self.loss(embeddings, labels, indices)
        ref_emb = as_floats(ref_emb, "ref_emb")
        if self.miner is None:
            indices = _without_self(get_all_pairs_indices(labels, ref_labels), self_index)
        else:
            indices = self.miner(embeddings, labels, ref_emb, ref_labels, self_index)
        return self.loss(embeddings, labels, indices, ref_emb, ref_labels)


class ProxyNCA(nn.Module):
    """The squared distance to the proxy of the class, plus the log of the sum of exp(-distance) to all others.

    As Eq. 4 of Movshovitz-Attias et al. (ICCV 2017) and the re-implementation that the paper ran have it. The library's
    has the positive proxy in the denominator too, which makes it a softmax over all proxies.
    """

    def __init__(self, classes: int, dimension: int) -> None:
        super().__init__()
        self.proxies = nn.Parameter(torch.randn(classes, dimension))

    def forward(self, embeddings: Tensor, labels: Tensor, *others: object) -> Tensor:
        """The mean over embeddings (b, d) with labels (b,), the numbers of their proxies."""
        if any(other is not None for other in others):
            raise ValueError("Proxy NCA compares with proxies alone: it takes no ref_emb, pairs or triplets")
        cosines = normalize(embeddings, dim=1) @ normalize(self.proxies.to(embeddings.dtype), dim=1).T
        distances = _PROXY_LENGTH**2 * (2 - 2 * cosines)  # squared, (b, classes)
        to_own = distances.gather(1, labels[:, None])
        is_own = torch.zeros_like(distances, dtype=torch.bool).scatter_(1, labels[:, None], True)
        to_others = distances.masked_fill(is_own, torch.inf)
        return (to_own[:, 0] + torch.logsumexp(-to_others, 1)).mean()


class ContrastiveWithMemory(nn.Module):
    """The contrastive loss with cross-batch memory (Wang et al., CVPR 2020): a term of the batch and one of the memory.

    Positives up to a cosine of 1, negatives below the margin; `weight` is that of the memory's term. Each is a sum over
    pairs, divided by the number of queries alone, so that more negatives weigh more. As in the released code, the
    memory holds the batch too, and passes no gradient on.
    """

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
            pulled = positives(same, self_index)
            signs = pushed.to(queries.dtype) - pulled.to(queries.dtype)
            constant = pulled.sum() - self.margin * pushed.sum()
        return ((queries * (signs @ items)).sum() + constant) / len(queries)


def margin_loss(
    classes: int | None, margin: float = 0.2, beta: float = 1.2, learning_rate: float | None = 5e-4
) -> Wrapped:
    """Margin loss with distance-weighted sampling (Wu et al. 2017).

    The boundary beta is learned for each class, at a rate of its own; without `classes` it stays as it is.
    """
    loss = losses.MarginLoss(margin, beta=beta, learn_beta=classes is not None, num_classes=classes)
    return Wrapped(loss, DistanceWeightedMiner(), classes, learning_rate)


def as_floats(matrix: Tensor, name: str) -> Tensor:
    """In float32 or better; NaN and infinite values are refused."""
    if not bool(matrix.sum().isfinite()):  # one pass for what is nearly always so; a sum can overflow by itself
        finite = matrix.isfinite().all(1)
        if not bool(finite.all()):
            raise ValueError(
                f"{name} has NaN or infinite values in row {first_of(~finite)}: look for a learning rate that is too "
                "high, a division by zero, or float16 overflow before the loss"
            )
    return matrix.to(torch.promote_types(matrix.dtype, torch.float32))


def _without_self(pairs: tuple[Tensor, ...], self_index: Tensor | None) -> tuple[Tensor, ...]:
    """Pairs (a, p, a, n) without those whose positive is the anchor's own row."""
    if self_index is None:
        return pairs
    anchors, positives = pairs[:2]
    kept = positives != self_index.to(anchors.device)[anchors]
    return (anchors[kept], positives[kept], *pairs[2:])
