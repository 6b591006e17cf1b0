"""Lists of an album's photos behind the page: ranked for a query or in their order, filtered, copies stacked."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from smoothap.album import Album, Filter
from smoothap.album.order import Order
from smoothap.album.queries import corrected
from smoothap.album.search import Ranking
from smoothap.album.stacks import Stacks
from smoothap.plots.rankings import precision_recall
from smoothap.server import schemas

_POINTS = 400  # of a curve


@dataclass(frozen=True, eq=False)
class LabelledRanking:
    """A ranking; `right` (n,) are the rows that have the query's label, where that is known."""

    ranking: Ranking
    right: np.ndarray | None

    @cached_property
    def curve(self) -> schemas.PrecisionRecallCurve | None:
        """AP and precision by recall over a whole ranking, exactly; None if nothing is right or not all was seen."""
        if self.right is None or not self.right.any() or not self.ranking.complete:
            return None
        curve = precision_recall(self.ranking.scores, self.right)
        steps = len(curve.recall)
        drawn = np.unique(np.linspace(0, steps - 1, min(steps, _POINTS)).round().astype(int))
        return schemas.PrecisionRecallCurve(
            average_precision=curve.average_precision,
            positives=int(self.right.sum()),
            recall=curve.recall[drawn].round(5).tolist(),
            precision=curve.precision[drawn].round(5).tolist(),
        )


def ranked(
    album: Album,
    labels: np.ndarray | None,
    vector: bytes,
    query_rows: tuple[int, ...] = (),
    right: tuple[int, ...] = (),
    wrong: tuple[int, ...] = (),
    where: Filter | None = None,
    _kept: str = "",
    rerank: bool = False,
    _linked: int = 0,
) -> LabelledRanking:
    """The album ranked for the bytes of a vector (d,) float32 and marked ids, without the query's rows, if any.

    `_kept` changes with the collections, which a filter may ask for, and `_linked` with the graph of neighbours.
    """
    # What is marked stays in the ranking: AP would rise by itself if wrong ones were taken out.
    moved = moved_by_marks(album, np.frombuffer(vector, np.float32), right, wrong)
    ids = album.photos.ids[list(query_rows)].tolist()
    itself = ids[0] if len(ids) == 1 and np.array_equal(moved, album.vectors[query_rows[0]]) else None
    ranking = album.ranking(moved, ids, where, rerank=rerank, photo=itself)
    names = set() if labels is None else {labels[row] for row in query_rows}
    if labels is None or len(names) != 1 or None in names:
        return LabelledRanking(ranking, None)
    has_label = np.asarray(labels == names.pop(), bool)
    has_label[list(query_rows)] = False
    return LabelledRanking(ranking, has_label & ranking.at_least())


def moved_by_marks(album: Album, vector: np.ndarray, right: tuple[int, ...], wrong: tuple[int, ...]) -> np.ndarray:
    """A query (d,) moved towards the photos marked as right and away from those marked as wrong, by their ids."""
    return corrected(vector, *(album.vectors[album.photos.rows_of(ids)] for ids in (right, wrong)))


class PhotoList(NamedTuple):
    """Photos that pass a filter: how many; the rows to show, copies folded; the row that put each there; all that pass.

    `passing` (n,) is None where all do.
    """

    number: int
    shown: np.ndarray
    places: np.ndarray
    passing: np.ndarray | None


def listed(
    album: Album, where: Filter | None, _kept: str, stacks: Stacks | None, _version: str, order: Order | None = None
) -> PhotoList:
    """The photos that pass a filter, in an order, by default that of the album.

    `_kept` and `_version` change with the collections and with the stacks.
    """
    passing = album.passing(where)
    rows = np.arange(len(album)) if passing is None else np.flatnonzero(passing)
    if order is not None:
        rows = order.sorted(rows)
    first, shown = (np.arange(len(rows)), rows) if stacks is None else stacks.folded(rows)
    return PhotoList(len(rows), shown, rows[first], passing)


def in_order(
    stacks: Stacks, labelled: LabelledRanking, least: float | None, version: str | None
) -> tuple[int, np.ndarray, np.ndarray]:
    """How many photos of a ranking score that much; of those the rows to show, best first, and the place of each.

    With a version of the stacks, copies are folded; without one nothing is.
    """
    rows, _ = labelled.ranking.best(min_score=least)
    places, shown = (np.arange(len(rows)), rows) if version is None else stacks.folded(rows)
    return len(rows), shown, places
