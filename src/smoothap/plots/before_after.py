"""A test set as two networks see it: its vectors and exact reports before and after a training."""

from dataclasses import dataclass

import numpy as np

from smoothap.data.image_set import ImageSet
from smoothap.metrics import Report


@dataclass(frozen=True, eq=False)
class BeforeAfter:
    """The vectors (n, d) and (n, e) of the n images of a set before and after training, and their exact reports.

    Images that cannot be read are not among the n; an instance of several images is its first one.
    """

    images: ImageSet
    before: np.ndarray
    after: np.ndarray
    before_report: Report
    after_report: Report

    @property
    def query_rows(self) -> np.ndarray:
        """The rows of the queries, in the order of the reports. (queries,)"""
        return np.arange(len(self.images)) if self.images.is_query is None else np.flatnonzero(self.images.is_query)

    @property
    def query_labels(self) -> np.ndarray:
        """The classes of the queries. (queries,)"""
        return self.images.labels[self.query_rows]

    @property
    def average_precisions(self) -> tuple[np.ndarray, np.ndarray]:
        """AP of the queries before and after, each (queries,)."""
        return self.before_report.average_precision, self.after_report.average_precision

    @property
    def mean_average_precisions(self) -> tuple[float, float]:
        return self.before_report.mean_average_precision, self.after_report.mean_average_precision
