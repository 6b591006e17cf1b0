"""One set of images as two models see it: what the analyses of queries and classes start from."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from smoothap.data.dataset import ImageDataset
from smoothap.data.image_set import ImageSet
from smoothap.metrics import Report
from smoothap.models import Embedder
from smoothap.training.evaluation import Embedded, embed_set, evaluate_embedded, group_means


@dataclass(frozen=True, eq=False)
class BeforeAfter:
    """The vectors (n, d) and (n, e) of the n images of a set before and after training, and their exact figures.

    Images that cannot be read are not among the n; an instance of several images is its first one.
    """

    images: ImageSet
    before: np.ndarray
    after: np.ndarray
    before_report: Report
    after_report: Report

    @property
    def asked(self) -> np.ndarray:
        """The rows of the queries, in the order of the reports. (queries,)"""
        return np.arange(len(self.images)) if self.images.is_query is None else np.flatnonzero(self.images.is_query)

    @property
    def mean_average_precisions(self) -> tuple[float, float]:
        return self.before_report.mean_average_precision, self.after_report.mean_average_precision


def embed_before_and_after(
    before: Embedder, after: Embedder, images: ImageSet, *, unreadable: Path, workers: int = 0
) -> BeforeAfter:
    """Embed and evaluate a set by both models; `unreadable` is the file that will list what cannot be read."""
    embedded = [
        embed_set(model, ImageDataset(images, model.transform, report=unreadable), workers=workers)
        for model in (before, after)
    ]
    reports = [evaluate_embedded(each, images) for each in embedded]
    kept = images.rows(embedded[0].rows) if len(embedded[0].rows) < len(images) else images
    vectors = [each.vectors for each in embedded]
    if kept.instances is not None:
        _, first, instance = np.unique(kept.instances, return_index=True, return_inverse=True)
        vectors = [group_means(each, instance.reshape(-1), len(first)) for each in vectors]
        kept = replace(kept.rows(first), instances=None)
    return BeforeAfter(kept, vectors[0], vectors[1], reports[0], reports[1])


def compare_vectors(images: ImageSet, before: np.ndarray, after: np.ndarray) -> BeforeAfter:
    """The same from vectors (n, d) and (n, e) of the n images that are there already."""
    rows = np.arange(len(images))
    reports = [evaluate_embedded(Embedded(vectors, rows), images) for vectors in (before, after)]
    return BeforeAfter(images, before, after, reports[0], reports[1])
