"""The losses of other papers, called as our own: `loss(embeddings, labels)`, or against a memory of earlier batches.

Most are pytorch-metric-learning's with the settings of their papers (`Wrapped`). Ours are those that the library has
otherwise (`ProxyNCA`, `SemiHardMiner`), not at all (`ContrastiveWithMemory`), or slowly (`DistanceWeightedMiner`).
"""

from abc import abstractmethod
from typing import NamedTuple

import torch
from pytorch_metric_learning import losses
from pytorch_metric_learning.utils.loss_and_miner_utils import get_all_pairs_indices
from torch import Tensor, nn
from torch.nn.functional import normalize

from smoothap.losses.inputs import checked_call, first_of

_PROXY_LENGTH = 3.0  # of embeddings and proxies, in the re-implementation of Proxy NCA
Triplets = tuple[Tensor, Tensor, Tensor]  # rows of anchors, positives and negatives, (t,) each


class Items(NamedTuple):
    """What queries are compared with: vectors (m, d), labels (m,), and the row of each query among them."""

    vectors: Tensor
    labels: Tensor
    self_index: Tensor | None = None  # (b,): -1 where a query has no row; None where none has

    def positives(self, same: Tensor) -> Tensor:
        """Pairs of one class (b, m) without those of a query and itself."""
        if self.self_index is None:
            return same
        return same & (torch.arange(same.shape[1], device=same.device) != self.self_index[:, None])


def own_items(embeddings: Tensor, labels: Tensor) -> Items:
    """A batch that is compared with itself."""
    return Items(embeddings, labels, torch.arange(len(labels), device=labels.device))


class Baseline(nn.Module):
    """A loss with checked inputs, in float32 at least."""

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
        embeddings, items = _as_floats(embeddings, "embeddings"), None
        if ref_emb is not None and ref_labels is not None:
            items = Items(_as_floats(ref_emb, "ref_emb"), ref_labels, self_index)
        return self.value(embeddings, labels, items)

    @abstractmethod
    def value(self, embeddings: Tensor, labels: Tensor, items: Items | None) -> Tensor:
        """The loss of a batch among itself, or against items where there are any."""


class TripletMiner(nn.Module):
    """Knows which items are positives of which anchors; a miner says which triplets of them it draws."""

    @torch.no_grad()
    def forward(self, embeddings: Tensor, labels: Tensor, items: Items | None = None) -> Triplets:
        """Triplets of a batch, or of a batch and other items."""
        items = own_items(embeddings, labels) if items is None else items
        same = labels[:, None] == items.labels
        return self.draw(normalize(embeddings, dim=1), normalize(items.vectors, dim=1), same, items.positives(same))

    @abstractmethod
    def draw(self, queries: Tensor, items: Tensor, same: Tensor, positive: Tensor) -> Triplets:
        """Triplets of unit vectors queries (b, d), items (m, d); same, positive (b, m): of one class, not itself."""


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


class Wrapped(Baseline):
    """A loss of pytorch-metric-learning with its miner.

    `classes` is the number of classes that the loss has parameters for (a proxy, a weight or a margin for each), which
    takes labels 0 ... classes - 1, or None; `learning_rate` is that of its parameters, where it is not the network's.
    """

    def __init__(
        self,
        loss: nn.Module,
        miner: TripletMiner | None = None,
        classes: int | None = None,
        learning_rate: float | None = None,
    ) -> None:
        super().__init__()
        self.loss, self.miner, self.classes, self.learning_rate = loss, miner, classes, learning_rate

    def value(self, embeddings: Tensor, labels: Tensor, items: Items | None) -> Tensor:
        if self.classes is not None and not 0 <= int(labels.min()) <= int(labels.max()) < self.classes:
            raise ValueError(
                f"labels run from {int(labels.min())} to {int(labels.max())}, but this loss was built for classes 0 to "
                f"{self.classes - 1}: number the training classes from 0"
            )
        indices = None if self.miner is None else self.miner(embeddings, labels, items)
        if items is None:
            return self.loss(embeddings, labels, indices)
        if indices is None:
            indices = _without_self(get_all_pairs_indices(labels, items.labels), items.self_index)
        return self.loss(embeddings, labels, indices, items.vectors, items.labels)


def margin_loss(
    classes: int | None, margin: float = 0.2, beta: float = 1.2, learning_rate: float | None = 5e-4
) -> Wrapped:
    """Margin loss with distance-weighted sampling (Wu et al. 2017).

    The boundary beta is learned for each class, at a rate of its own; without `classes` it stays as it is.
    """
    loss = losses.MarginLoss(margin, beta=beta, learn_beta=classes is not None, num_classes=classes)
    return Wrapped(loss, DistanceWeightedMiner(), classes, learning_rate)


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


class ContrastiveWithMemory(Baseline):
    """The contrastive loss with cross-batch memory (Wang et al., CVPR 2020): a term of the batch and one of the memory.

    Positives up to a cosine of 1, negatives below the margin; `weight` is that of the memory's term. Each is a sum over
    pairs, divided by the number of queries alone, so that more negatives weigh more. As in the released code, the
    memory holds the batch too, and passes no gradient on.
    """

    def __init__(self, margin: float = 0.5, weight: float = 1.0) -> None:
        super().__init__()
        self.margin, self.weight = margin, weight

    def value(self, embeddings: Tensor, labels: Tensor, items: Items | None) -> Tensor:
        queries = normalize(embeddings, dim=1)
        value = self._of_pairs(queries, labels, own_items(queries, labels))
        if items is None:
            return value
        remembered = items._replace(vectors=normalize(items.vectors.detach(), dim=1))
        return value + self.weight * self._of_pairs(queries, labels, remembered)

    def _of_pairs(self, queries: Tensor, labels: Tensor, items: Items) -> Tensor:
        """The sum over pairs: it is linear in their cosines, once it is known which of them count."""
        with torch.no_grad():
            same = labels[:, None] == items.labels
            pushed = (queries @ items.vectors.T > self.margin) & ~same
            pulled = items.positives(same)
            signs = pushed.to(queries.dtype) - pulled.to(queries.dtype)
            constant = pulled.sum() - self.margin * pushed.sum()
        return ((queries * (signs @ items.vectors)).sum() + constant) / len(queries)


def _as_floats(matrix: Tensor, name: str) -> Tensor:
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
