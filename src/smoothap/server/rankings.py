"""Lists of an album's photos behind the page: ranked for a query or in their order, filtered, copies stacked."""

import contextlib
import threading
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from smoothap.album import Album, Filter
from smoothap.album.copies import ALIKE, Copies, copies_in, not_copies
from smoothap.album.order import Order
from smoothap.album.queries import corrected
from smoothap.album.search import Ranking
from smoothap.album.variants import Variant, variants_in
from smoothap.plots.rankings import precision_recall
from smoothap.server import schemas

_POINTS = 400  # of a curve
_AT_ONCE = 3_000  # photos whose copies are found while a visitor waits
_LATER = 2.0  # seconds: the first screen of a large album comes first
_MUCH_LATER = 10.0  # seconds: while an album fills in, there is a newer version by then
_COMPARED = 400_000  # photos; in a larger album the server stacks what is the same to the byte


class Stacks:
    """The stacks of one version of an album, found in the background where that takes a while."""

    def __init__(self, album: Album, earlier: "Stacks | None" = None) -> None:
        self._album = album
        self._stack_of: np.ndarray | None = None  # (n,) the stack of each row, -1: none
        self._members: list[np.ndarray] = []  # the rows of each stack, the best first
        self._kinds: list[str] = []  # of each stack
        self._variants: list[Variant] = []  # crops and the like, which are looked for last
        self._looked_at: dict[int, bytes] = {}  # the photos that have been by then, each with its content
        self._worth = np.zeros(0, np.int32)  # (n,) of each row in its stack: 0 is the best
        self._stamp: object = object()  # unlike any that is told
        self.found = 0  # how often they were found: whoever has a list of an earlier time may ask again
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        if earlier is not None and earlier._stack_of is not None:
            ids, self._variants, self._looked_at = earlier._album.photos.ids, earlier._variants, earlier._looked_at
            self._set([ids[rows] for rows in earlier._members], earlier._kinds)

    def ready(self) -> np.ndarray | None:
        """The stack of each row, -1 for none; None while they are looked for, or those of the version before."""
        if self._stamp != self._told():
            if len(self._album) <= _AT_ONCE or self.found:  # what was compared once is remembered
                self._find()
            elif self._thread is None:
                self._thread = _after(_LATER, self._find)
        return self._stack_of

    @property
    def version(self) -> str:
        """Changes when the stacks do: when they are found, and when a photo is told to be no copy."""
        stacks = self.ready()
        return (
            "flat"
            if stacks is None or not len(stacks) or stacks.max() < 0
            else f"{hash(self._stamp)}-{len(self._variants)}"
        )

    def members(self, row: int) -> np.ndarray:
        """The rows in the stack of a row, that one among them, the best first."""
        stacks = self.ready()
        return np.array([row]) if stacks is None or stacks[row] < 0 else self._members[stacks[row]]

    def folded(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The places (m,) in a list of rows where each stack first is, and the best of its rows in the list (m,)."""
        stacks = self.ready()
        if stacks is None:
            return np.arange(len(rows)), rows
        keys = np.where(stacks[rows] < 0, -1 - np.arange(len(rows)), stacks[rows])
        by_worth = np.argsort(self._worth[rows], kind="stable")
        _, best = np.unique(keys[by_worth], return_index=True)
        _, first = np.unique(keys, return_index=True)
        order = np.argsort(first)
        return first[order], rows[by_worth[best[order]]]

    def copies(self, rows: np.ndarray, listed: np.ndarray | None) -> list[list[int]]:
        """The ids of the others in the stack of each row, of those that are listed (n,) bool, or of all."""
        ids, stacks = self._album.photos.ids, self.ready()
        if stacks is None:
            return [[] for _ in rows]
        others = ([each for each in self.members(row) if each != row] for row in rows)
        return [[int(ids[each]) for each in some if listed is None or listed[each]] for some in others]

    def take_out(self, row: int) -> None:
        """Remember that the photo in a row is no copy of the others in its stack."""
        ids = self._album.photos.ids
        not_copies(self._album, [int(ids[row])], [int(ids[other]) for other in self.members(row)])

    def _find(self) -> None:
        with self._lock:
            stamp = self._told()
            groups = self._groups()
            ids = [np.array([photo.id for photo in group.photos]) for group in groups]
            self._set(ids, [group.kind for group in groups])
            self._stamp, self.found = stamp, self.found + 1
            if self.found == 1:
                _after(_MUCH_LATER, self._find_variants)

    def _find_variants(self) -> None:
        with contextlib.suppress(ValueError, OSError):  # as below, or the album is gone
            photos = self._album.photos
            contents = dict(zip(photos.ids.tolist(), photos.contents(), strict=True))
            known = {one for one, content in contents.items() if self._looked_at.get(one) == content}
            kept = [each for each in self._variants if each.first in known and each.second in known]
            found = kept + variants_in(self._album, known)
            self._looked_at = contents
            if set(found) != set(self._variants):
                self._variants = found
                self._find()

    def _set(self, groups: Iterable[np.ndarray], kinds: Iterable[str]) -> None:
        """Make these groups of ids, the best first, the stacks; ids that are no photos of the album are left out."""
        ids, members, kept = self._album.photos.ids, list[np.ndarray](), list[str]()
        stacks, worth = np.full(len(ids), -1, np.int32), np.zeros(len(ids), np.int32)
        for group, kind in zip(groups, kinds, strict=True):
            rows = np.searchsorted(ids, group[np.isin(group, ids)])
            if len(rows) > 1:
                stacks[rows], worth[rows] = len(members), np.arange(len(rows))
                members.append(rows)
                kept.append(kind)
        self._members, self._kinds, self._worth, self._stack_of = members, kept, worth, stacks

    def all(self) -> list[tuple[np.ndarray, str]]:
        """The rows of each stack, the best first, and how much they differ."""
        self.ready()
        return list(zip(self._members, self._kinds, strict=True))

    def _groups(self) -> list[Copies]:
        if len(self._album) <= _COMPARED:
            with contextlib.suppress(ValueError):  # nearly all photos look alike: then only what is the same is stacked
                return copies_in(self._album, ALIKE, self._variants)
        return copies_in(self._album, None)

    def _told(self) -> object:
        """What changes when photos are told to be no copies."""
        return None if self._album.folder is None else self._album.collections.distinct()


def _after(seconds: float, work: Callable[[], None]) -> threading.Timer:
    """Do something later, if whoever it is about is still there by then."""
    method = weakref.WeakMethod(work)

    def run() -> None:
        if (still := method()) is not None:
            still()

    timer = threading.Timer(seconds, run)
    timer.daemon = True
    timer.start()
    return timer


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
