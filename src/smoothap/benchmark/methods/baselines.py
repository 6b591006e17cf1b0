"""The losses of other papers, called as our own: `loss(embeddings, labels)`, or against a memory of earlier batches.

Most are pytorch-metric-learning's with the settings of their papers (`Wrapped`). Ours are those that the library has
otherwise (`ProxyNCA` and the miners) or not at all (`ContrastiveWithMemory`). "The re-implementation" is that of Roth
and Brattoli (github.com/Confusezius/Deep-Metric-Learning-Baselines), which the paper ran and its released code is of.
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
_OPPOSITE = 1.999  # distances of opposite vectors count as this: at 2 the density is 0
_FAR = 10.0  # beyond all distances of unit vectors
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
        if labels.ndim > 1:
            raise ValueError(
                f"this loss takes one label for each image, not labels of shape {tuple(labels.shape)}: take one that "
                "knows several, such as Smooth-AP, or name one label for each image"
            )
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
    """One triplet for each anchor: any positive, and a negative beyond it by less than the margin.

    d(a, p) < d(a, n) < d(a, p) + margin, as FaceNet has it and the re-implementation since 16 March 2020; any negative
    where there is none such.
    """

    def __init__(self, margin: float = 0.2) -> None:
        super().__init__()
        self.margin = margin

    def draw(self, queries: Tensor, items: Tensor, same: Tensor, positive: Tensor) -> Triplets:
        anchors = (positive.any(1) & ~same.all(1)).nonzero()[:, 0]
        if not len(anchors):
            return anchors, anchors, anchors
        distances, negative = torch.cdist(queries[anchors], items), ~same[anchors]
        positives = _drawn(positive[anchors])
        beyond = distances - distances.gather(1, positives[:, None])
        return anchors, positives, _drawn(negative, (beyond > 0) & (beyond < self.margin))


class SoftHardMiner(TripletMiner):
    """One triplet for each anchor: what the re-implementation called semi-hard until 16 March 2020, softhard since.

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


def _drawn(possible: Tensor, preferred: Tensor | None = None) -> Tensor:
    """One of the possible columns of each row, (t, m) -> (t,): a preferred one where there is any."""
    chosen = possible if preferred is None else possible & preferred
    chosen = torch.where(chosen.any(1, keepdim=True), chosen, possible)
    return torch.multinomial(chosen.float(), 1)[:, 0]


class DistanceWeightedMiner(TripletMiner):
    """One triplet for each anchor, its negatives drawn so that all distances come up equally often.

    As the re-implementation has it: distances below `cutoff` count as that, and far negatives stay in, where Wu et al.
    (ICCV 2017, Section 4) leave out those beyond 1.4; the positive is any.
    """

    def __init__(self, cutoff: float = 0.5) -> None:
        super().__init__()
        self.cutoff = cutoff

    def draw(self, queries: Tensor, items: Tensor, same: Tensor, positive: Tensor) -> Triplets:
        anchors = (positive.any(1) & ~same.all(1)).nonzero()[:, 0]
        if not len(anchors):
            return anchors, anchors, anchors
        chances = self.logarithms(queries[anchors], items).masked_fill(same[anchors], -torch.inf).softmax(1)
        return anchors, _drawn(positive[anchors]), torch.multinomial(chances, 1)[:, 0]

    def logarithms(self, queries: Tensor, items: Tensor) -> Tensor:
        """How often each of the items (m, d) should be drawn for queries (b, d), but for a factor: (b, m)."""
        dimension = queries.shape[1]
        distances = torch.cdist(queries, items).clamp(self.cutoff, _OPPOSITE)
        # One over the density of distances between points that are spread evenly over a sphere.
        return (2 - dimension) * distances.log() - (dimension - 3) / 2 * (1 - distances**2 / 4).log()


class NearestMiner(TripletMiner):
    """All positives of an anchor, and as many negatives: the nearest at a distance of at least `cutoff`.

    The sampler of the code of Divide and Conquer. Where too few are that far, the nearest of the others follow.
    """

    def __init__(self, cutoff: float = 0.5) -> None:
        super().__init__()
        self.cutoff = cutoff

    def draw(self, queries: Tensor, items: Tensor, same: Tensor, positive: Tensor) -> Triplets:
        distances = torch.cdist(queries, items)
        order = (distances + _FAR * (distances < self.cutoff)).masked_fill(same, torch.inf).argsort(1)
        wanted = torch.minimum(positive.sum(1), (~same).sum(1))
        anchors, positives = positive.nonzero().T
        place = torch.arange(len(anchors), device=anchors.device) - torch.searchsorted(anchors, anchors)
        kept = place < wanted[anchors]
        return anchors[kept], positives[kept], order[anchors[kept], place[kept]]


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
    classes: int | None,
    margin: float = 0.2,
    beta: float = 1.2,
    learning_rate: float | None = 5e-4,
    miner: TripletMiner | None = None,
) -> Wrapped:
    """Margin loss (Wu et al. 2017), by default with distance-weighted sampling.

    The boundary beta is learned for each class, at a rate of its own; without `classes` it stays as it is.
    """
    loss = losses.MarginLoss(margin, beta=beta, learn_beta=classes is not None, num_classes=classes)
    return Wrapped(loss, miner or DistanceWeightedMiner(), classes, learning_rate)


class ProxyNCA(nn.Module):
    """The squared distance to the proxy of the class, plus the log of the sum of exp(-distance) to all others.

    As Eq. 4 of Movshovitz-Attias et al. (ICCV 2017) and the re-implementation that the paper ran have it. The library's
    has the positive proxy in the denominator too, which makes it a softmax over all proxies. Proxies start as
    randn / 8: the shorter they are, the farther a step of Adam turns them.
    """

    def __init__(self, classes: int, dimension: int) -> None:
        super().__init__()
        self.proxies = nn.Parameter(torch.randn(classes, dimension) / 8)

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
