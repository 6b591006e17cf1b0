"""Bringing the segments of an album into order, and those of another album into it; few vectors are copied."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from smoothap._core.files import link
from smoothap.album._segments import groups_of, is_stored, last_places
from smoothap.album.description import Description, Segment, write_description
from smoothap.album.photos import SCHEMA, whole_numbers
from smoothap.album.vectors import MappedVectors

if TYPE_CHECKING:
    from smoothap.album._storage import Storage

_COPIED = 1 << 14  # rows at a time


def settle(storage: Storage, description: Description, table: pa.Table, *, renewed: bool = False) -> None:
    """Make the rows of this table, in the order of ids, the album; all their ids are in it already.

    Segments that are as they should be are not touched. Where all of a segment's vectors stay, they are not copied
    but get a second name. With `renewed` the projected vectors are made again.
    """
    tables = storage.tables(description)
    before = None if description.known.whole else storage.files(description, pa.concat_tables([table, *tables]))
    places = last_places(tables, whole_numbers(table["id"]))
    pieces = storage.arrays("vectors", description, always=False)
    starts = np.cumsum([0, *(segment.rows for segment in description.segments)])
    owners = np.searchsorted(starts, places, side="right") - 1
    fresh = [is_stored(table, owners, number, stored) for number, stored in enumerate(tables)]
    settled: list[tuple[int, Segment]] = []  # with the first id of each, by which they are in order
    number = description.next_segment
    for group in groups_of(description.segments, np.bincount(owners, minlength=len(tables))):
        rows = np.flatnonzero(np.isin(owners, group))
        first = int(table["id"][int(rows[0])].as_py())
        if len(group) == 1 and fresh[group[0]] and not renewed:
            settled.append((first, description.segments[group[0]]))
            continue
        vectors = MappedVectors(pieces, description.dimension, places[rows])
        alone = description.segments[group[0]] if len(group) == 1 else None
        whole = alone is not None and len(rows) == alone.rows and bool((np.diff(places[rows]) == 1).all())
        files = {} if alone is None or not whole else _files_of(storage, alone)
        if renewed:
            files.pop("learnt", None)
        segment = storage.write_segment(number, table.take(pa.array(rows)), _Parts(vectors), description, files)
        settled.append((first, replace(segment, part=description.segments[group[0]].part)))
        number += 1
    segments = tuple(segment for _, segment in sorted(settled, key=lambda pair: pair[0]))
    description = replace(description, segments=segments, next_segment=number)
    write_description(storage.folder, description)
    storage.sweep(description, table, before)


def adopt(
    storage: Storage, description: Description, other: Storage, tables: Sequence[pa.Table], part: str | None = None
) -> Description:
    """Count in the segments of another album, of whose photos these tables say id and path in this one.

    Vectors and thumbnails are not copied but get a second name; where the disk has no such names, they are copied
    once. Nothing counts before the description that this gives back is written.
    """
    others, _, _ = other.load(original=True)
    pieces = other.arrays("vectors", others, always=False)
    number, segments = description.next_segment, list(description.segments)
    for segment, piece, table in zip(others.segments, pieces, tables, strict=True):
        packs = [pack for pack in pc.call_function("unique", [table["pack"]]).to_pylist() if pack >= 0]
        renamed = {pack: number + place for place, pack in enumerate(packs)}
        for pack, new in renamed.items():
            link(other.file("thumbnails", pack), storage.file("thumbnails", new))
        number += len(packs)
        column = pa.array([renamed.get(pack, -1) for pack in table["pack"].to_pylist()], pa.int32())
        table = table.set_column(SCHEMA.get_field_index("pack"), SCHEMA.field("pack"), column)
        vectors = {"vectors": (other.file("vectors", segment.number), segment.vectors)}
        parts = _Parts(MappedVectors([piece], others.dimension))
        segments.append(replace(storage.write_segment(number, table, parts, description, vectors), part=part))
        number += 1
    next_id = max([description.next_id, *(1 + int(whole_numbers(table["id"]).max()) for table in tables if len(table))])
    return replace(description, segments=tuple(segments), next_id=next_id, next_segment=number)


def _files_of(storage: Storage, segment: Segment) -> dict[str, tuple[Path, str]]:
    """The files of a segment's vectors, by their kind, with their checksums."""
    sums = {"vectors": segment.vectors, "learnt": segment.learnt}
    return {kind: (storage.file(kind, segment.number), known) for kind, known in sums.items() if known is not None}


@dataclass(frozen=True, eq=False)
class _Parts:
    """Vectors, a few rows at a time, for whoever goes through them more than once."""

    vectors: MappedVectors

    def __iter__(self) -> Iterator[np.ndarray]:
        for start in range(0, len(self.vectors), _COPIED):
            yield self.vectors[start : start + _COPIED]
