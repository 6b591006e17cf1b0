"""Copies of one photo are in one stack: which photos of an album do, and a list with each stack in one place."""

import contextlib
import threading

import numpy as np

from smoothap.album import Album
from smoothap.album.copies import ALIKE, Copies, copies_in, not_copies

_AT_ONCE = 3_000  # photos whose copies are found while a visitor waits
_LATER = 2.0  # seconds: the first screen of a large album comes first
_COMPARED = 400_000  # photos; in a larger album the server stacks what is the same to the byte


class Stacks:
    """The stacks of one version of an album, found in the background where that takes a while."""

    def __init__(self, album: Album) -> None:
        self._album = album
        self._stack_of: np.ndarray | None = None  # (n,) the stack of each row, -1: none
        self._stamp: object = None
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def ready(self) -> np.ndarray | None:
        """The stack of each row, -1 for none; None while they are being looked for."""
        if self._stack_of is None or self._stamp != self._told():
            if len(self._album) <= _AT_ONCE or self._stack_of is not None:  # what was compared once is remembered
                self._find()
            elif self._thread is None:
                self._thread = threading.Timer(_LATER, self._find)
                self._thread.daemon = True
                self._thread.start()
        return self._stack_of

    @property
    def version(self) -> str:
        """Changes when the stacks do: when they are found, and when a photo is told to be no copy."""
        stacks = self.ready()
        return "flat" if stacks is None or not len(stacks) or stacks.max() < 0 else str(hash(self._stamp))

    def members(self, row: int) -> np.ndarray:
        """The rows in the stack of a row, that one among them."""
        stacks = self.ready()
        if stacks is None or stacks[row] < 0:
            return np.array([row])
        return np.flatnonzero(stacks == stacks[row])

    def folded(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The places (m,) in a list of rows that are left when each stack is shown where it first stands, and how
        many others of the list are under each."""
        stacks = self.ready()
        if stacks is None:
            return np.arange(len(rows)), np.zeros(len(rows), np.int64)
        keys = np.where(stacks[rows] < 0, -1 - np.arange(len(rows)), stacks[rows])
        _, first, number = np.unique(keys, return_index=True, return_counts=True)
        order = np.argsort(first)
        return first[order], number[order] - 1

    def take_out(self, row: int) -> None:
        """Remember that the photo in a row is no copy of the others in its stack."""
        ids = self._album.photos.ids
        not_copies(self._album, [int(ids[row])], [int(ids[other]) for other in self.members(row)])

    def _find(self) -> None:
        with self._lock:
            stamp = self._told()
            stacks = np.full(len(self._album), -1, np.int32)
            for number, group in enumerate(self._groups()):
                stacks[[self._album.photos.row_of(photo.id) for photo in group.photos]] = number
            self._stack_of, self._stamp = stacks, stamp

    def _groups(self) -> list[Copies]:
        if len(self._album) <= _COMPARED:
            with contextlib.suppress(ValueError):  # nearly all photos look alike: then only what is the same is stacked
                return copies_in(self._album, ALIKE)
        return copies_in(self._album, None)

    def _told(self) -> object:
        """What changes when photos are told to be no copies."""
        return None if self._album.folder is None else self._album.collections.distinct()
