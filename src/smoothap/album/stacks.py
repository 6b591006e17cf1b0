"""The stacks of copies in an album, as a page shows them: found in the background, and kept for the next version."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import numpy as np

from smoothap.album.copies import ALIKE, Copies, copies_in, not_copies
from smoothap.album.variants import Variant, variants_in

if TYPE_CHECKING:
    from smoothap.album.album import Album

_AT_ONCE = 3_000  # photos whose copies are found while a visitor waits
_LATER = 2.0  # seconds: the first screen of a large album comes first
_MUCH_LATER = 10.0  # seconds: while an album fills in, there is a newer version by then
_COMPARED = 400_000  # photos; in a larger album what is the same to the byte is stacked


class Stacks:
    """The stacks of one version of an album, found in the background where that takes a while."""

    def __init__(self, album: Album, earlier: Stacks | None = None) -> None:
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
        self.ready()
        return f"{hash(self._stamp)}-{len(self._variants)}" if self._members else "flat"

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
        ids = self._album.photos.ids
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
        """The rows of each stack, the best first, and how much they differ; the largest stacks first."""
        self.ready()
        return sorted(zip(self._members, self._kinds, strict=True), key=lambda stack: -len(stack[0]))

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
