"""The full ranking of one query: which images come first, which of them are right, and its precision-recall curve."""

from dataclasses import dataclass

import numpy as np
import torch

from smoothap.data.image_set import ImageSet
from smoothap.functional import average_precision
from smoothap.metrics.cosine import Cosines, given_rows


@dataclass(frozen=True, eq=False)
class RankedRow:
    """All items for one query, best first; of equal scores the wrong ones come first, as AP counts them."""

    query: int
    items: np.ndarray  # (m,) int64: rows of the set, the query itself left out
    scores: np.ndarray  # (m,) float64 cosines
    right: np.ndarray  # (m,) bool: of the query's class
    average_precision: float  # NaN where nothing is right

    @property
    def positives(self) -> int:
        """|P|, how many right images there are to find."""
        return int(self.right.sum())

    def right_among(self, first: int) -> int:
        """How many of the first items are right."""
        return int(self.right[:first].sum())

    @property
    def last_right(self) -> int:
        """The rank, from 1, at which every right image has been found."""
        return int(np.flatnonzero(self.right)[-1]) + 1


@dataclass(frozen=True, eq=False)
class PrecisionRecall:
    """Precision and recall (steps,) from recall 0 on where recall rises, so that the area below is the AP."""

    precision: np.ndarray
    recall: np.ndarray
    average_precision: float


def precision_recall(scores: np.ndarray, right: np.ndarray) -> PrecisionRecall:
    """The curve of one query over items in any order, of which at least one is right. scores, right (m,)"""
    thresholds, counts = np.unique(scores[right], return_counts=True)  # items of equal scores are one step
    steps = np.searchsorted(thresholds, scores, side="right")
    listed = np.bincount(steps, minlength=len(thresholds) + 1)[:0:-1].cumsum()
    right_listed = counts[::-1].cumsum()
    precision, recall = right_listed / listed, right_listed / right_listed[-1]
    area = float((precision * counts[::-1]).sum() / right_listed[-1])
    return PrecisionRecall(np.append(precision[0], precision), np.append(0.0, recall), area)


def rank(images: ImageSet, embeddings: np.ndarray, query: int) -> RankedRow:
    """Rank the gallery of a set (by default all other images) for one of its rows, by cosine. embeddings (n, d)"""
    check_rows(images, embeddings)
    items = np.arange(len(images)) if images.is_gallery is None else np.flatnonzero(images.is_gallery)
    items = items[items != query]
    scores = Cosines(given_rows(embeddings).numpy()).between(np.full_like(items, query), items)
    right = images.labels[items] == images.labels[query]
    order = np.lexsort((right, -scores))
    items, scores, right = items[order], scores[order], right[order]
    precision = average_precision(torch.from_numpy(scores), torch.from_numpy(right)).item() if right.any() else np.nan
    return RankedRow(query, items, scores, right, precision)


def check_rows(images: ImageSet, embeddings: np.ndarray) -> None:
    """One vector for each image, or an error."""
    if embeddings.ndim != 2 or len(embeddings) != len(images):
        raise ValueError(
            f"embeddings must have a row for each of the {len(images):,} images of {images.name}, "
            f"not the shape {tuple(embeddings.shape)}: embed this set, in its order"
        )
