"""Lists of an album's photos behind the page: ranked for a query or in their order, filtered, copies stacked."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from smoothap.album import Album, Filter
from smoothap.album.queries import corrected
from smoothap.album.search import Ranking
from smoothap.plots.rankings import precision_recall
from smoothap.server import _schemas as schemas
from smoothap.server._stacks import Stacks

_SORTED_FROM = 1_000  # places: further down a list, the whole of it is sorted, once
_POINTS = 400  # of a curve


@dataclass(frozen=True, eq=False)
class LabelledRanking:
    """A ranking; `right` (n,) are the rows that have the query's label, where that is known."""

    ranking: Ranking
    right: np.ndarray | None
    _folded: tuple[object, tuple[np.ndarray, np.ndarray]] | None = None  # the last list that was stacked, by its name

    def places(self, first: int, last: int, minimum: float | None) -> tuple[np.ndarray, np.ndarray]:
        """The rows in these places of the list, counted from 0, and their scores; far down, all are sorted once."""
        if last <= _SORTED_FROM:
            rows, scores = self.ranking.best(last, minimum)
        else:
            rows, scores = self.in_order
            end = len(scores) if minimum is None else int(np.searchsorted(-scores, -minimum, side="right"))
            rows, scores = rows[:end], scores[:end]
        return rows[first:last], scores[first:last]

    @cached_property
    def in_order(self) -> tuple[np.ndarray, np.ndarray]:
        """All rows, best first, and their scores."""
        return self.ranking.best()

    def folded(self, stacks: Stacks, number: int, minimum: float | None) -> tuple[np.ndarray, np.ndarray]:
        """The places that are left of the first `number` when copies are stacked, and the number of copies of each."""
        name = minimum, stacks.version
        if self._folded is None or self._folded[0] != name:
            object.__setattr__(self, "_folded", (name, stacks.folded(self.in_order[0][:number])))
        assert self._folded is not None
        return self._folded[1]

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
    query_row: int | None,
    right: tuple[int, ...] = (),
    wrong: tuple[int, ...] = (),
    where: Filter | None = None,
    _kept: str = "",
) -> LabelledRanking:
    """The album ranked for the bytes of a vector (d,) float32 and marked ids, without the query's row, if any.

    `_kept` changes with the collections, which a filter may ask for.
    """
    # What is marked stays in the ranking: AP would rise by itself if wrong ones were taken out.
    marked = ([album.photos.row_of(identity) for identity in ids] for ids in (right, wrong))
    moved = corrected(np.frombuffer(vector, np.float32), *(album.vectors[rows] for rows in marked))
    ranking = album.ranking(moved, [] if query_row is None else [int(album.photos.ids[query_row])], where)
    if query_row is None or labels is None or labels[query_row] is None:
        return LabelledRanking(ranking, None)
    has_label = np.asarray(labels == labels[query_row], bool)
    has_label[query_row] = False
    return LabelledRanking(ranking, has_label & ranking.at_least())


def listed(
    album: Album, where: Filter | None, _kept: str, stacks: Stacks | None, _version: str
) -> tuple[int, np.ndarray, np.ndarray]:
    """How many photos pass a filter, and of those the rows in their order, copies folded, with the number of copies.

    `_kept` and `_version` change with the collections and with the stacks.
    """
    passing = album.passing(where)
    rows = np.arange(len(album)) if passing is None else np.flatnonzero(passing)
    if stacks is None:
        return len(rows), rows, np.zeros(len(rows), int)
    places, copies = stacks.folded(rows)
    return len(rows), rows[places], copies
