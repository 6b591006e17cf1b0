"""Photos that are remembered for longer than an album lasts: by id, path and content, found again in whatever is there.

A photo that is moved gets a new id, one that is edited or tagged has new content, and an album that is made again
counts from 0 again. What is remembered is enough to know the photo in all three.
"""

import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from smoothap.album.photos import Photos


class Member(NamedTuple):
    """A photo as it was when it was last seen; `sha256` is empty where nobody has read the file."""

    id: int
    path: str
    sha256: str


def members_of(photos: Photos, ids: Iterable[int]) -> list[Member]:
    """What to remember of these photos of an album."""
    rows = np.array([photos.row_of(int(identity)) for identity in ids], np.int64)
    return _remembered(photos, rows)


def _remembered(photos: Photos, rows: np.ndarray) -> list[Member]:
    paths, _ = photos.named(rows)
    sums = photos.column("sha256").take(pa.array(rows.tolist(), pa.int64())).to_pylist()
    ids = photos.ids[rows].tolist()
    return [Member(one, path, (content or b"").hex()) for one, path, content in zip(ids, paths, sums, strict=True)]


class Lookup:
    """Finds members among the photos of an album; `members` are all that will be asked for, in one group or several."""

    def __init__(self, members: Sequence[Member], photos: Photos) -> None:
        self._by_path: dict[str, Member] = {}
        self._by_content: defaultdict[str, list[Member]] = defaultdict(list)
        for member in _candidates(members, photos) if members and len(photos) else ():
            self._by_path[member.path] = member
            self._by_content[member.sha256].append(member)

    def found(self, members: Sequence[Member]) -> list[Member | None]:
        """Each member of a group as the album has it now, None for one that is not there; no photo twice.

        Where it was with the same content it is certain. Else the same content counts, wherever it lies now; and last
        the same path, whose file was edited.
        """
        answers: list[Member | None] = [None] * len(members)
        taken: set[int] = set()

        def take(place: int, choices: Iterable[Member | None]) -> None:
            free = (choice for choice in choices if choice is not None and choice.id not in taken)
            if answers[place] is None and (chosen := next(free, None)) is not None:
                answers[place] = chosen
                taken.add(chosen.id)

        for place, member in enumerate(members):
            there = self._by_path.get(member.path)
            if there is not None and (there.sha256 == member.sha256 or not there.sha256 or not member.sha256):
                take(place, [there])
        for place, member in enumerate(members):
            take(place, self._by_content.get(member.sha256, ()) if member.sha256 else ())
        for place, member in enumerate(members):
            take(place, [self._by_path.get(member.path)])
        return answers


def _candidates(members: Sequence[Member], photos: Photos) -> list[Member]:
    """The photos that have the path or the content of a member, in the order of their ids."""
    rows = np.minimum(np.searchsorted(photos.ids, [member.id for member in members]), len(photos) - 1)
    seen = _remembered(photos, np.unique(rows))
    if set(members) <= set(seen):  # nothing has changed, as in nearly every case: no need to look through the album
        return seen
    paths = pa.array(list({os.fsencode(member.path) for member in members}), pa.binary())
    sums = pa.array(list({bytes.fromhex(member.sha256) for member in members if member.sha256}), pa.binary())
    is_one = pc.call_function("or", [_is_in(photos.column("path"), paths), _is_in(photos.column("sha256"), sums)])
    return _remembered(photos, np.flatnonzero(is_one.to_numpy(zero_copy_only=False)))


def _is_in(column: pa.Array, values: pa.Array) -> pa.Array:
    return pc.call_function("is_in", [column], pc.SetLookupOptions(values))
