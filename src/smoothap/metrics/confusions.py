"""Which classes take the ranks of which: the AP that a class lost, shared out exactly among those that took it.

A positive i of a query is at rank R(i) because of N(i) negatives at or above it, and 1 - AP is the mean over the
positives of N(i) / R(i). So each of those negatives takes 1 / (|P| R(i)) of the query's AP, and what all of them take
adds up to 1 - AP. Summed over the queries of class a and the items of class b, that is what b takes from a.

Queries are sorted by class and worked through in strips: at no time is there more than a strip of scores.
"""

import heapq
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import groupby
from operator import attrgetter

import numpy as np
import torch

from smoothap._core.precision import full_precision
from smoothap._core.progress import Progress
from smoothap.metrics.cosine import certain_places, error_bound, pair_scores
from smoothap.metrics.rows import Embeddings, Rows, device_of

_ITEMS_AT_ONCE = 8192
_SCORES_AT_ONCE = 1 << 24
_LONGEST_STRIP = 256


@dataclass(frozen=True)
class ConfusedPair:
    """Two classes, named so that `taking` takes more AP from `losing` than the other way round."""

    losing: int
    taking: int
    taken: float  # AP, summed over the queries of `losing`
    ranks: int  # how often an item of `taking` scores at least as high as a right one for a query of `losing`
    queries: int  # of `losing`, that have a positive
    taken_back: float = 0.0  # the same three the other way round
    ranks_back: int = 0
    queries_back: int = 0


@dataclass(frozen=True, eq=False)
class ClassLosses:
    """What each class took from one: `losing` has that many queries with a positive."""

    losing: int
    queries: int
    taken: np.ndarray  # (classes,) AP, summed over the queries; all of it is the sum of 1 - AP
    ranks: np.ndarray  # (classes,) int64


@dataclass(frozen=True, eq=False)
class Confusions:
    """The pairs in which one class takes most AP from the other, most first, and who takes most from each class."""

    pairs: list[ConfusedPair]
    taker: np.ndarray  # (classes,) int64: the class that takes most from each, -1 where none takes anything
    taken: np.ndarray  # (classes,) AP that it takes, summed over the queries of the class
    lost: np.ndarray  # (classes,) AP that all take: the sum of 1 - AP


def confusions(
    embeddings: Embeddings,
    labels: np.ndarray,
    number: int = 20,
    *,
    is_query: np.ndarray | None = None,
    is_gallery: np.ndarray | None = None,
    progress: bool = True,
) -> Confusions:
    """Who takes AP from whom, exactly, over the full ranking of every query.

    embeddings (n, d) of any length; labels (n,) whole numbers from 0; is_query, is_gallery (n,) bool or None for all.
    An item is never ranked for itself. A pair is placed by its larger direction.
    """
    losses = partial(class_losses, embeddings, labels, is_query=is_query, is_gallery=is_gallery, progress=progress)
    classes = int(labels.max()) + 1
    taker, taken, lost = np.full(classes, -1, np.int64), np.zeros(classes), np.zeros(classes)
    most: list[ConfusedPair] = []
    for row in losses():
        lost[row.losing] = row.taken.sum()
        best = np.argsort(-row.taken, kind="stable")[: 2 * number]  # each pair may be there twice
        best = best[row.taken[best] > 0]
        if len(best):
            taker[row.losing], taken[row.losing] = best[0], row.taken[best[0]]
        most += [ConfusedPair(row.losing, int(b), float(row.taken[b]), int(row.ranks[b]), row.queries) for b in best]
        most = heapq.nsmallest(2 * number, most, key=lambda pair: (-pair.taken, pair.losing, pair.taking))
    larger: dict[frozenset[int], ConfusedPair] = {}
    for pair in most:
        larger.setdefault(frozenset((pair.losing, pair.taking)), pair)
    pairs = list(larger.values())[:number]
    back = {row.losing: row for row in losses(only={pair.taking for pair in pairs})}
    for place, pair in enumerate(pairs):
        if row := back.get(pair.taking):
            taken_back, ranks_back = float(row.taken[pair.losing]), int(row.ranks[pair.losing])
            pairs[place] = replace(pair, taken_back=taken_back, ranks_back=ranks_back, queries_back=row.queries)
    return Confusions(pairs, taker, taken, lost)


def class_losses(
    embeddings: Embeddings,
    labels: np.ndarray,
    *,
    is_query: np.ndarray | None = None,
    is_gallery: np.ndarray | None = None,
    only: Collection[int] | None = None,
    progress: bool = True,
) -> Iterator[ClassLosses]:
    """What every class took from each class that has queries, or from `only` some, in order of their labels."""
    everything = np.arange(len(labels))
    queries = everything if is_query is None else np.flatnonzero(is_query)
    if only is not None:
        queries = queries[np.isin(labels[queries], list(only))]
    items = everything if is_gallery is None else np.flatnonzero(is_gallery)
    queries, items = (rows[np.argsort(labels[rows], kind="stable")] for rows in (queries, items))
    if not len(queries) or not len(items):
        return
    device = device_of(embeddings)
    query_rows, item_rows = (Rows.of(embeddings, rows, device, "embeddings") for rows in (queries, items))
    strip = min(_LONGEST_STRIP, max(1, _SCORES_AT_ONCE // len(items)))
    classes = int(labels.max()) + 1

    def strips(line: Progress) -> Iterator[ClassLosses]:
        for start in range(0, len(queries), strip):
            stop = min(start + strip, len(queries))
            with torch.inference_mode(), full_precision(device.type):  # not while the caller has its turn
                losses = list(_strip_losses(query_rows, start, stop, item_rows, labels, classes))
            yield from losses
            line.advance(stop - start)

    with Progress("Confusions", len(queries), "queries", progress) as line:
        for _, several in groupby(strips(line), key=attrgetter("losing")):  # a class may go on in the next strip
            yield reduce(_added, several)


def _strip_losses(
    query_rows: Rows, start: int, stop: int, item_rows: Rows, labels: np.ndarray, classes: int
) -> Iterator[ClassLosses]:
    """The losses of the classes of queries start ... stop - 1; items are sorted by class."""
    rows, items = query_rows.order[start:stop], item_rows.order
    proposed = np.empty((len(rows), len(items)), np.float32)
    vectors = query_rows.units(start, stop, torch.float32)
    bound = error_bound(vectors.shape[1], vectors.dtype)
    for left in range(0, len(items), _ITEMS_AT_ONCE):
        right = min(left + _ITEMS_AT_ONCE, len(items))
        proposed[:, left:right] = (vectors @ item_rows.units(left, right, torch.float32).T).cpu().numpy()
    item_labels, query_labels = labels[items], labels[rows]
    for label in np.unique(query_labels):
        begin, end = np.searchsorted(item_labels, (label, label + 1))
        taken, ranks, queries = np.zeros(classes), np.zeros(classes, np.int64), 0
        for query in np.flatnonzero(query_labels == label):
            positives = begin + np.flatnonzero(items[begin:end] != rows[query])
            proposed[query, begin:end] = -np.inf
            if len(positives):
                definition = partial(_scores, query_rows, start + query, item_rows)
                negatives, cost, overtaken = _shares(proposed[query], definition(positives), bound, definition)
                taken += np.bincount(item_labels[negatives], cost, classes)
                ranks += np.bincount(item_labels[negatives], overtaken, classes).astype(np.int64)
                queries += 1
        yield ClassLosses(int(label), queries, taken, ranks)


def _scores(query_rows: Rows, query: int, item_rows: Rows, items: np.ndarray) -> np.ndarray:
    """The scores of one query with some items (k,), by the definition. -> (k,) float64"""
    places = np.arange(len(items))
    side = query_rows.side(query, query + 1)
    return pair_scores(*side, item_rows.given(items), item_rows.norms[items], np.zeros_like(places), places)


def _shares(
    proposed: np.ndarray, positives: np.ndarray, bound: float, definition: Callable[[np.ndarray], np.ndarray]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The negatives (k,) that take a rank of one query, the AP that each takes, and how many positives it overtakes.

    proposed (items,) scores of the negatives, off by at most `bound`, and minus infinity for all that is no negative;
    positives (p,) are scores by the definition, which `definition` gives for any items.
    """
    positives = np.sort(positives)
    negatives = np.flatnonzero(proposed >= positives[0] - bound)
    # a tie counts against the positive
    overtaken = certain_places(proposed[negatives], positives, bound, lambda places: definition(negatives[places]))
    negatives, overtaken = negatives[overtaken > 0], overtaken[overtaken > 0]
    number = len(positives)
    negatives_above = np.bincount(overtaken, minlength=number + 1)[:0:-1].cumsum()[::-1]
    positives_above = number - np.searchsorted(positives, positives)  # itself and its equals included
    cost = np.append(0, np.cumsum(1 / (number * (positives_above + negatives_above))))  # 1 / (|P| R(i)), summed
    return negatives, cost[overtaken], overtaken


def _added(one: ClassLosses, other: ClassLosses) -> ClassLosses:
    return ClassLosses(one.losing, one.queries + other.queries, one.taken + other.taken, one.ranks + other.ranks)
