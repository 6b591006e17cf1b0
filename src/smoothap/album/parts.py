"""An album in parts, for batch systems and many processes: each is computed alone, and is there whole or not at all.

A photo belongs to the part that its path falls to, so that every process finds its own share of a source by itself. The
photos of a part that the album lacks are embedded into a small album of their own, in ALBUM/.parts, which goes on where
it was if it is stopped. When it is whole, its files get a second name in the album and one description counts them in.
"""

from __future__ import annotations

import os
import shutil
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from smoothap.album._segments import is_settled
from smoothap.album._settling import adopt, settle
from smoothap.album._storage import PATIENCE, Storage
from smoothap.album._unreadable import read_refusals, write_refusals
from smoothap.album.description import NAME, Description, Part, read_description, write_description
from smoothap.album.photos import SCHEMA, Photos, whole_numbers
from smoothap.album.preparing import Read
from smoothap.album.updating import (
    Columns,
    Labels,
    Updater,
    UpdateReport,
    listed_columns,
    refuse_missing,
    remove_rows,
    spelled_label,
)
from smoothap.album.vectors import Vectors
from smoothap.album.walking import PhotoFile, Walk, container_of

if TYPE_CHECKING:
    from smoothap.models import Embedder

PARTS = ".parts"  # the folder in an album for parts that are not whole yet
_PATHS_AT_ONCE = 1 << 16


class Share(NamedTuple):
    """One part of that many: `Share(3, 64)` is the third of 64."""

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> Share:
        """The share that a text such as 3/64 names."""
        number, slash, of = text.partition("/")
        if not (slash and number.isascii() and of.isascii() and number.isdigit() and of.isdigit()):
            raise ValueError(f"A part is given as NUMBER/OF, such as 3/64, not as {text!r}.")
        if not 1 <= int(number) <= int(of):
            raise ValueError(f"Parts are numbered from 1/{of} to {of}/{of}: there is no part {text}.")
        return cls(int(number), int(of))

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    def holds(self, path: str) -> bool:
        """Whether a photo falls to this part: by its path alone, so that it stays there when others come and go."""
        return self.place(path) == self.number - 1

    def place(self, path: str) -> int:
        """Which of all parts a photo falls to, from 0."""
        return zlib.crc32(os.fsencode(container_of(path))) % self.of

    def of_walk(self, walk: Walk) -> Walk:
        """What of a source falls to this part."""
        return Walk(
            [file for file in walk.files if self.holds(file.path)],
            {path: reason for path, reason in walk.unreadable.items() if self.holds(path)},
            {path: reason for path, reason in walk.others.items() if self.holds(path)},
        )


@dataclass(eq=False)
class PartUpdate:
    """One run over the files of one part; `walk` is the whole source, or all of it that falls to this part.

    With `apart` the part keeps segments of its own and is listed in the album; without, it is a piece of work whose
    rows are brought together with others when all are done.
    """

    folder: Path  # of the album
    model: Callable[[], Embedder]  # the album's own
    root: Path | None
    share: Share
    walk: Walk
    labels: Labels | None = None
    remove_missing: bool = False
    readers: int | None = None
    progress: bool = True
    apart: bool = True
    read: Read | None = None
    columns: Columns | None = None
    report: UpdateReport = field(default_factory=UpdateReport)

    def run(self) -> UpdateReport:
        """Compute what of the part is missing, and count it in."""
        self._storage = Storage(self.folder)
        self._mine = self.share.of_walk(self.walk)
        description, photos, _ = self._load_mine()
        gone = self._gone(photos)
        wanted = self._wanted(photos)
        place = self._storage.folder / PARTS / f"{self.share.number:06d}-of-{self.share.of:06d}"
        staging = Storage(place)
        # A process that was killed may still be ending, and hold on to what another run of the same work takes over.
        with staging.writing(0.0 if self.apart else PATIENCE):
            self._compute(staging, description, wanted)
            with self._storage.writing(PATIENCE):
                self._count_in(staging, gone)
            (place / NAME).unlink()  # first: what is left of it is not taken for a part that was stopped
        shutil.rmtree(place, ignore_errors=True)
        return self.report

    def _load_mine(self) -> tuple[Description, Photos, Vectors]:
        """The album's description, and those of its photos that can be of this part: not what others counted in."""
        return self._storage.load(original=True, only=self._part())

    def _part(self, given: int = 0, reported: int = 0) -> Part:
        return Part(*self.share, given, given - reported, reported, loose=not self.apart)

    def _wanted(self, photos: Photos) -> list[PhotoFile]:
        """The files that the album lacks, or has in another version; those refused before are among them."""
        sizes, times = (whole_numbers(photos.table[name]) for name in ("bytes", "modified"))
        known = {path: (sizes[row], times[row]) for path, row in _rows_of(photos, self.share.holds).items()}
        wanted = [file for file in self._mine.files if known.get(file.path) != (file.bytes, file.modified)]
        self.report.unchanged = len(self._mine.files) - len(wanted)
        return wanted

    def _gone(self, photos: Photos) -> list[str]:
        known = _rows_of(photos, self.share.holds)
        gone = self.walk.missing(known)
        if not self.remove_missing:
            refuse_missing(gone, len(known), self._storage.folder, self.root or "the source")
        return gone

    def _compute(self, staging: Storage, description: Description, wanted: list[PhotoFile]) -> None:
        """Embed the wanted files into the album of this part, and leave nothing else in it."""
        empty = Description(
            description.dimension, description.model, description.source, description.root, dtype=description.dtype
        )
        if not _goes_on(staging.folder, empty):
            for file in staging.folder.iterdir():
                if file.name != ".lock":
                    file.unlink()
            write_description(staging.folder, empty)
            # What the album could not read before is not tried again, unless it has changed.
            earlier = read_refusals(self._storage.folder)
            write_refusals(staging.folder, {path: why for path, why in earlier.items() if self.share.holds(path)})
        files = Walk(wanted, self._mine.unreadable, self._mine.others)
        updater = Updater(
            staging, self.model, description.source, self.root, self.labels, self.progress,
            workers=self.readers, columns=self.columns, read=self.read,
        )  # fmt: skip
        made = updater.run(files, whole=False, remove_missing=False)
        self.report.unreadable, self.report.others = made.unreadable, made.others
        listed = {file.path: (file.bytes, file.modified) for file in wanted}
        _, photos, _ = staging.load()
        sizes, times = (whole_numbers(photos.table[name]) for name in ("bytes", "modified"))
        stale = [
            int(photos.ids[row])
            for row, path in enumerate(photos.paths())
            if listed.get(path) != (sizes[row], times[row]) or path in made.unreadable
        ]
        remove_rows(staging, stale)

    def _count_in(self, staging: Storage, gone: list[str]) -> None:
        """Make the part's rows the album's, from one moment to the next, by the only writer."""
        description, photos, _ = self._load_mine()  # what a stopped writer left has the names of what is written now
        known = _rows_of(photos, self.share.holds)
        made, new, _ = staging.load(original=True)
        changes = len(new) > 0
        if changes:
            tables = self._with_ids(staging.tables(made), photos, known, description.next_id)
            description = adopt(self._storage, description, staging, tables, self._part().name)
        self._write_refusals(staging)
        counted = self._counted({*known, *self.report.added})
        parts = (*(part for part in description.parts if part.name != counted.name), counted)
        if changes or (self.apart and counted not in description.parts):
            description = replace(description, parts=parts)
            write_description(self._storage.folder, description)
        self.report.removed = sorted(gone)
        settled = not self.apart or is_settled([each for each in description.segments if each.part == counted.name])
        if gone or not settled or self.labels is not None or self.columns is not None:
            self._finish(gone, settled=settled)

    def _with_ids(self, tables: list[pa.Table], photos: Photos, known: dict[str, int], next_id: int) -> list[pa.Table]:
        """The tables of the part's photos with ids of the album: those of changed photos stay."""
        numbered: list[pa.Table] = []
        for table in tables:
            ids: list[int] = []
            for path in Photos(table).paths():
                row = known.get(path)
                (self.report.added if row is None else self.report.changed).append(path)
                ids.append(next_id if row is None else int(photos.ids[row]))
                next_id += row is None
            numbered.append(table.set_column(0, SCHEMA.field("id"), pa.array(ids, pa.int64())))
        return numbered

    def _write_refusals(self, staging: Storage) -> None:
        others = {path: why for path, why in read_refusals(self._storage.folder).items() if not self.share.holds(path)}
        write_refusals(self._storage.folder, {**others, **read_refusals(staging.folder)})

    def _counted(self, present: set[str]) -> Part:
        """How many files were given, indexed and reported; a file that is neither is an error of ours."""
        reported, files = self.report.unreadable, {file.path for file in self._mine.files}
        given = len(files | reported.keys())
        if lost := [path for path in files if path not in reported and path not in present]:
            raise RuntimeError(
                f"{len(lost):,} photos of part {self.share}, such as {lost[0]!r}, are lost: nothing is kept."
            )
        return self._part(given, len(reported))

    def _finish(self, gone: list[str], *, settled: bool) -> None:
        """Take out what is gone and name photos again; segments of other parts are not touched."""
        description, photos, _ = self._load_mine()
        rows = _rows_of(photos, self.share.holds)
        named = self._relabelled(photos, rows)
        if not gone and settled and named is photos.table:
            return
        removed = np.array([rows[path] for path in gone], np.int64)
        keep = np.setdiff1d(np.arange(len(photos)), removed)
        settle(self._storage, description, named.take(pa.array(keep)))

    def _relabelled(self, photos: Photos, rows: dict[str, int]) -> pa.Table:
        """The photos with the labels and columns that the user gives now, those of other parts as they were."""
        table, changed = photos.table, set[str]()
        makes = {
            "label": None if self.labels is None else partial(spelled_label, self.labels),
            "columns": None if self.columns is None else partial(listed_columns, self.columns),
        }
        for name, make in makes.items():
            if make is None:
                continue
            before = photos.column(name).to_pylist()
            after = list(before)
            for path, row in rows.items():
                after[row] = make(path)
                if after[row] != before[row]:
                    changed.add(path)
            if after != before:
                place = SCHEMA.get_field_index(name)
                table = table.set_column(place, SCHEMA.field(place), pa.array(after, SCHEMA.field(place).type))
        self.report.relabelled = sorted(changed - {*self.report.added, *self.report.changed})
        return table


def settle_album(folder: Path) -> None:
    """Bring together what many processes counted in, once all are done."""
    storage = Storage(folder)
    with storage.writing(PATIENCE):
        description, photos, _ = storage.load(original=True)
        storage.sweep(description, photos.table)
        loose = any(record.part.loose for record in description.known.records.values())
        if loose or not is_settled(description.segments):
            settle(storage, description, photos.table)


def _goes_on(place: Path, empty: Description) -> bool:
    """Whether the folder holds what a run of the same part, by the same model, began."""
    try:
        begun = read_description(place)
    except (OSError, ValueError):
        return False
    return (begun.model, begun.dtype) == (empty.model, empty.dtype)


def _rows_of(photos: Photos, holds: Callable[[str], bool]) -> dict[str, int]:
    """The rows of the photos that fall to a part, by path; a few paths are looked at at a time."""
    column, rows = photos.column("path"), dict[str, int]()
    for start in range(0, len(photos), _PATHS_AT_ONCE):
        for row, path in enumerate(column.slice(start, _PATHS_AT_ONCE).to_pylist(), start):
            if holds(name := os.fsdecode(path)):
                rows[name] = row
    return rows
