"""Which segments of an album stay as they are, and which are brought together."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from smoothap.album._checksums import checksum
from smoothap.album.description import Segment
from smoothap.album.photos import whole_numbers
from smoothap.album.vectors import MappedVectors, Vectors

ENOUGH = 1 << 20  # rows: a segment this large is not copied to bring others into it


def last_places(tables: Sequence[pa.Table], ids: np.ndarray) -> np.ndarray:
    """Where the last row of each id (n,) stands among the rows of all tables. -> (n,) int64"""
    stored = np.concatenate([np.empty(0, np.int64), *(whole_numbers(table["id"]) for table in tables)])
    order = np.argsort(stored, kind="stable")
    return order[np.searchsorted(stored[order], ids, side="right") - 1]


def is_stored(table: pa.Table, owners: np.ndarray, number: int, stored: pa.Table) -> bool:
    """Whether a segment's rows, those of the album's table that it owns, are its stored ones, one by one."""
    rows = np.flatnonzero(owners == number)
    return len(rows) == stored.num_rows and table.take(pa.array(rows)).equals(stored)


def is_settled(segments: Sequence[Segment]) -> bool:
    """Whether segments whose rows all count are as many as there need be."""
    rows = np.array([segment.rows for segment in segments], np.int64)
    return all(len(group) == 1 for group in groups_of(segments, rows))


def groups_of(segments: Sequence[Segment], live: np.ndarray) -> list[list[int]]:
    """Which segments (by their places) become one: those of a part, and small ones that are of none.

    `live` says how many rows of each count. Segments in which no row counts are in no group.
    """
    groups: list[list[int]] = []
    parts: dict[str, list[int]] = {}
    small: list[int] = []
    for place, segment in enumerate(segments):
        if not live[place]:
            continue
        if segment.part is not None:
            parts.setdefault(segment.part, []).append(place)
        elif live[place] >= ENOUGH:  # whose neighbours do not become one past it: ids stay in the order of rows
            groups += [small, [place]]
            small = []
        else:
            small.append(place)
            if live[small].sum() >= ENOUGH:
                groups.append(small)
                small = []
    return [group for group in (*groups, small, *parts.values()) if group]


def vectors_checksum(segments: Sequence[Segment], vectors: Vectors) -> str:
    """What stands for the vectors of an album on disk, in their order: that of their file, if it is one."""
    sums = [segment.learnt or segment.vectors for segment in segments]
    order = vectors.order() if isinstance(vectors, MappedVectors) else None
    if len(sums) == 1 and order is None:
        return sums[0]
    return checksum("\n".join(sums).encode() + (b"" if order is None else checksum(order.tobytes()).encode()))
