"""Losses of pytorch-metric-learning with the settings of their papers, called as our own: `loss(embeddings, labels)`.

Each function builds one, with a part of our own where the library's do not suffice (`_semi_hard.py`, `_proxy_nca.py`)
or take too long (`_distance_weighted.py`); those with parameters of their own (a proxy, a weight or a margin for each
class) take labels 0 ... classes - 1.
"""

import torch
from pytorch_metric_learning import distances, losses, reducers
from pytorch_metric_learning.utils.loss_and_miner_utils import get_all_pairs_indices
from torch import Tensor, nn

from smoothap.losses.inputs import checked_call, first_of
from smoothap.methods._distance_weighted import DistanceWeightedMiner
from smoothap.methods._proxy_nca import ProxyNCA
from smoothap.methods._semi_hard import SemiHardMiner


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


def contrastive(margin: float = 0.5) -> Wrapped:
    """Pairwise contrastive on cosines: positives up to 1, negatives below the margin (that of cross-batch memory)."""
    return Wrapped(losses.ContrastiveLoss(pos_margin=1, neg_margin=margin, distance=distances.CosineSimilarity()))


def triplet(margin: float = 0.2) -> Wrapped:
    """Triplets on squared distances, one semi-hard one for each anchor, the mean over all of them."""
    loss = losses.TripletMarginLoss(margin, distance=distances.LpDistance(power=2), reducer=reducers.MeanReducer())
    return Wrapped(loss, SemiHardMiner())


def margin(classes: int | None, margin: float = 0.2, beta: float = 1.2, learning_rate: float | None = 5e-4) -> Wrapped:
    """Margin loss with distance-weighted sampling (Wu et al. 2017).

    The boundary beta is learned for each class, at a rate of its own; without `classes` it stays as it is.
    """
    loss = losses.MarginLoss(margin, beta=beta, learn_beta=classes is not None, num_classes=classes)
    return Wrapped(loss, DistanceWeightedMiner(), classes, learning_rate)


def proxy_nca(classes: int, dimension: int) -> Wrapped:
    """Proxy NCA with one proxy for each class, the paper's choice."""
    return Wrapped(ProxyNCA(classes, dimension), classes=classes)


def fast_ap(bins: int = 10) -> Wrapped:
    """FastAP: AP of a histogram of distances; the paper takes 20 bins for iNaturalist."""
    return Wrapped(losses.FastAPLoss(num_bins=bins))


def softmax(classes: int, dimension: int, temperature: float = 0.05) -> Wrapped:
    """Normalised softmax: cross-entropy of the cosines with one weight vector for each class."""
    return Wrapped(losses.NormalizedSoftmaxLoss(classes, dimension, temperature=temperature), classes=classes)


def arcface(classes: int, dimension: int, margin: float = 28.6, scale: float = 64.0) -> Wrapped:
    """ArcFace: softmax with an angular margin, in degrees (28.6 are 0.5), and a scale."""
    return Wrapped(losses.ArcFaceLoss(classes, dimension, margin=margin, scale=scale), classes=classes)


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
