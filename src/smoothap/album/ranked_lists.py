"""Labelled vectors ranked by neighbourhood, each against all others: for reports, and for what a ranked score means."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from smoothap._core.progress import Progress
from smoothap.album.graph import build_graph
from smoothap.album.neighbourhood import COMPARED, Neighbourhood
from smoothap.album.search import Nearest, best_rows
from smoothap.album.vectors import StoredVectors, unit_vectors
from smoothap.metrics import Report
from smoothap.metrics.evaluate import report_of_ranks

_PRODUCTS = 1 << 24  # that are computed at once


def ranked_lists(
    vectors: np.ndarray, queries: np.ndarray | None = None, *, progress: bool = False
) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Each row of vectors (n, d) of length 1 as a query: the row, all others as they rank, and the scores of places.

    With `queries` (m,), these rows alone.
    """
    number, queries = len(vectors), np.arange(len(vectors)) if queries is None else queries
    slots = np.arange(number)
    neighbourhood = Neighbourhood(build_graph(StoredVectors(vectors), slots, progress=progress), slots)
    nothing = np.empty(0, np.int64)
    with Progress("Ranking by neighbourhood", len(queries), "queries", shown=progress) as line:
        step = max(1, _PRODUCTS // number)
        for start in range(0, len(queries), step):
            some = queries[start : start + step]
            for row, products in zip(some.tolist(), vectors[some] @ vectors.T, strict=True):
                scores = products.astype(np.float64)
                scores[row] = -np.inf
                plain = best_rows(scores, number - 1)
                seeds = neighbourhood.at_photo(row)
                assert seeds is not None
                nearest = Nearest(plain[:COMPARED], scores[plain[:COMPARED]])
                window = neighbourhood.window(seeds, nearest, np.array([row]), None, nothing)
                yield row, window.followed_by(plain), scores[plain]
            line.advance(len(some))


def evaluate_ranked(
    vectors: np.ndarray, labels: np.ndarray, recall_at: Sequence[int] = (1, 10, 100, 1000), *, progress: bool = True
) -> Report:
    """The metrics of vectors (n, d) with labels (n,) when each query's list is ranked by neighbourhood.

    The album is the set itself: the graph is made of all its vectors, and no label is used.
    """
    labels, ranks = np.asarray(labels), []
    for row, order, _ in ranked_lists(unit_vectors(vectors), progress=progress):
        ranks.append(1 + np.flatnonzero(labels[order] == labels[row]))
    return report_of_ranks(ranks, labels, recall_at)
