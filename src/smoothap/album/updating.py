"""Bringing an album up to date with its photo folder: only what is new, changed or gone is touched.

Rows are committed every few seconds as segments of their own; the last step of a run brings them together. A run that
is stopped anywhere leaves an album that opens, and the next one finds the committed photos in it and goes on.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from smoothap._core.memory import freed_memory_kept
from smoothap._core.progress import Progress
from smoothap.album._segments import is_settled
from smoothap.album._settling import settle
from smoothap.album._storage import Storage, relative
from smoothap.album._unreadable import Refusal, read_refusals, write_refusals
from smoothap.album.description import write_description
from smoothap.album.photos import SCHEMA, Photos, new_record, seconds_of, whole_numbers
from smoothap.album.preparing import PreparedPhoto, Read, RefusedPhoto, files_below, heads_of, prepared_in_order
from smoothap.album.walking import PhotoFile, Walk
from smoothap.data.reading import ImageHead

if TYPE_CHECKING:
    from torch import Tensor

    from smoothap.data.transforms import Transform
    from smoothap.models import Embedder

BATCH = 64
COMMIT_ROWS, COMMIT_SECONDS = 4096, 20.0
_FEW, _SHARE = 10, 0.1  # more missing photos than both are removed only when the user says so
Labels = Callable[[str], "str | None"]  # from a path to its label
Columns = Callable[[str], "Mapping[str, str] | None"]  # from a path to what else the user's table says of it


@dataclass
class UpdateReport:
    """Paths by what became of them; every file that was looked at is in one place."""

    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    relabelled: list[str] = field(default_factory=list)
    unreadable: dict[str, str] = field(default_factory=dict)  # path -> reason
    others: dict[str, str] = field(default_factory=dict)  # files that are no photos by their names -> what they are
    unchanged: int = 0

    @property
    def seen(self) -> int:
        """How many image files were looked at."""
        return len(self.added) + len(self.changed) + self.unchanged + len(self.unreadable)

    def counts(self) -> dict[str, int]:
        """How many paths are in each place, and how many files were seen."""
        names = ("added", "changed", "removed", "relabelled", "unreadable", "others")
        return {**{name: len(getattr(self, name)) for name in names}, "unchanged": self.unchanged, "seen": self.seen}


@dataclass(eq=False)
class Updater:
    """One run over some files of the photo folder, by the album's only writer."""

    storage: Storage
    model: Callable[[], Embedder]
    source: str
    root: Path | None  # the photo folder; None: `read` knows where the photos are
    labels: Labels | None
    progress: bool
    workers: int | None = None
    columns: Columns | None = None
    read: Read | None = None

    def __post_init__(self) -> None:
        if self.workers is not None and self.workers < 1:
            raise ValueError(f"workers is how many photos are read at once, at least 1, not {self.workers}.")
        self.description, self.photos, _ = self.storage.load()
        self.storage.sweep(self.description, self.photos.table)
        self.report = UpdateReport()
        self._rows = {path: row for row, path in enumerate(self.photos.paths())}
        self._sizes, self._times = (whole_numbers(self.photos.table[name]) for name in ("bytes", "modified"))
        self._refusals: dict[str, Refusal] = {}
        self._seen_again: dict[int, PhotoFile] = {}  # id -> file whose time changed, but not its content
        self._heads: dict[int, ImageHead] = {}  # id -> what an album of an older version did not ask of its files
        self._next_id = self.description.next_id
        self._described: set[str] | None = None  # the paths that labels and columns are about; None: all
        self._pending: list[tuple[dict[str, Any], np.ndarray, bytes | None]] = []
        self._committed = time.monotonic()

    def run(self, walk: Walk, *, whole: bool, remove_missing: bool) -> UpdateReport:
        """Take in the files of a walk; with `whole`, photos that are gone from it are removed from the album."""
        gone = walk.missing(self._rows) if whole else []
        if not remove_missing:
            refuse_missing(gone, len(self._rows), self.storage.folder, self.root or "the source")
        # The photo folder, the album or the model may have been moved.
        moved = replace(self.description, root=self._root_below(), source=self.source)
        if moved != self.description:
            self.description = moved
            write_description(self.storage.folder, moved)
        earlier = read_refusals(self.storage.folder)
        if not whole:
            present = self._described = {file.path for file in walk.files}
            self._refusals = {path: refusal for path, refusal in earlier.items() if path not in present}
        self.report.others = walk.others
        for path, reason in walk.unreadable.items():
            self._refuse(path, Refusal(reason))
        wanted: list[tuple[PhotoFile, bytes | None]] = []
        unchanged: list[str] = []
        for file in walk.files:
            row, refusal = self._rows.get(file.path), earlier.get(file.path)
            if row is not None and (self._sizes[row], self._times[row]) == (file.bytes, file.modified):
                self.report.unchanged += 1
                unchanged.append(file.path)
            elif refusal is not None and refusal == Refusal(refusal.reason, file.bytes, file.modified):
                self._refuse(file.path, refusal)
            else:
                wanted.append((file, None if row is None else self.photos.record(row)["sha256"]))
        self._take_in(wanted)
        self._read_heads(unchanged)
        others = {path: Refusal(reason) for path, reason in walk.others.items()}
        write_refusals(self.storage.folder, {**others, **self._refusals})
        self._finish(gone)
        return self.report

    def _refuse(self, path: str, refusal: Refusal) -> None:
        self._refusals[path] = refusal
        self.report.unreadable[path] = refusal.reason

    def _root_below(self) -> str | None:
        return None if self.root is None else relative(self.root, self.storage.folder)

    def _reading(self) -> Read:
        if self.read is not None:
            return self.read
        assert self.root is not None
        return files_below(self.root)

    def _take_in(self, wanted: list[tuple[PhotoFile, bytes | None]]) -> None:
        if not wanted:
            return
        model = self.model()
        try:
            with freed_memory_kept(), Progress("Indexing", len(wanted), "photos", shown=self.progress) as line:
                for vectors, batch in model.embed_batches(self._batches(wanted, model.transform, line)):
                    self._add(vectors, batch)
        finally:  # also when the user interrupts: what is embedded is kept
            self._commit()

    def _read_heads(self, unchanged: list[str]) -> None:
        """Ask the photos of an album from before there were dates and cameras in it; no vector is made again."""
        unasked = self.photos.column("camera").is_null().to_numpy(zero_copy_only=False)
        rows = [row for path in unchanged if unasked[row := self._rows[path]]]
        if not rows or self.root is None:
            return
        files = [self.root / self.photos[row].path for row in rows]
        with Progress("Dates and cameras", len(rows), "photos", shown=self.progress) as line:
            for row, head in zip(rows, heads_of(files, self.workers), strict=True):
                line.advance()
                if head is not None:
                    self._heads[int(self.photos.ids[row])] = head

    def _batches(
        self, wanted: list[tuple[PhotoFile, bytes | None]], transform: Transform, line: Progress
    ) -> Iterator[tuple[Tensor, list[PreparedPhoto]]]:
        """The views of photos that need a vector, `BATCH` at a time; the other files are reported on the way."""
        import torch

        batch: list[PreparedPhoto] = []
        for number, outcome in enumerate(prepared_in_order(self._reading(), wanted, transform, self.workers), start=1):
            line.advance()
            if isinstance(outcome, RefusedPhoto):
                when = () if outcome.may_pass else (outcome.file.bytes, outcome.file.modified)
                self._refuse(outcome.file.path, Refusal(outcome.reason, *when))
            elif outcome.view is None:
                self._seen_again[int(self.photos.ids[self._rows[outcome.file.path]])] = outcome.file
                self.report.unchanged += 1
            else:
                batch.append(outcome)
            if batch and (len(batch) == BATCH or number == len(wanted)):
                yield torch.stack([photo.view for photo in batch if photo.view is not None]), batch
                batch = list[PreparedPhoto]()

    def _add(self, vectors: np.ndarray, batch: list[PreparedPhoto]) -> None:
        for photo, vector in zip(batch, vectors, strict=True):
            if not np.isfinite(vector).all() or abs(float(vector @ vector) - 1) > 1e-3:
                refusal = Refusal("the model gives no vector for it", photo.file.bytes, photo.file.modified)
                self._refuse(photo.file.path, refusal)
            else:
                self._pending.append((self._record(photo), vector, photo.thumbnail))
        if len(self._pending) >= COMMIT_ROWS or time.monotonic() - self._committed > COMMIT_SECONDS:
            self._commit()

    def _record(self, photo: PreparedPhoto) -> dict[str, Any]:
        path, row = photo.file.path, self._rows.get(photo.file.path)
        if row is None:
            identity, self._next_id = self._next_id, self._next_id + 1
            self.report.added.append(path)
        else:
            identity = int(self.photos.ids[row])
            self.report.changed.append(path)
        assert photo.head is not None
        return new_record(
            identity, path, label=self._label(path), columns=self._columns(path),
            bytes=photo.file.bytes, modified=photo.file.modified, sha256=photo.sha256,
            width=photo.head.width, height=photo.head.height, **_camera_facts(photo.head),
        )  # fmt: skip

    def _label(self, path: str) -> str | None:
        return None if self.labels is None else spelled_label(self.labels, path)

    def _columns(self, path: str) -> list[tuple[str, str]] | None:
        return None if self.columns is None else listed_columns(self.columns, path)

    def _commit(self) -> None:
        if self._pending:
            records, vectors, thumbnails = zip(*self._pending, strict=True)
            self.description = self.storage.append(self.description, records, np.stack(vectors), thumbnails)
            self._pending = []
        self._committed = time.monotonic()

    def _finish(self, gone: list[str]) -> None:
        """Bring all rows into one segment, without those that are gone, if anything is to be done at all."""
        self.report.removed = sorted(gone)
        description, photos, _ = self.storage.load(original=True)
        table = self._relabelled(self._with_heads(self._with_new_times(photos)))
        keep = np.flatnonzero(~np.isin(photos.ids, [self.photos.ids[self._rows[path]] for path in gone]))
        if gone or not table.equals(photos.table) or not is_settled(description.segments):
            settle(self.storage, description, table.take(pa.array(keep)))

    def _with_new_times(self, photos: Photos) -> Photos:
        """The photos with the times of files that were written again with the same content."""
        rows, table = np.searchsorted(photos.ids, list(self._seen_again)), photos.table
        for name in ("bytes", "modified") if len(rows) else ():
            values = whole_numbers(table[name]).copy()
            values[rows] = [getattr(file, name) for file in self._seen_again.values()]
            table = table.set_column(SCHEMA.get_field_index(name), name, pa.array(values))
        return Photos(table)

    def _with_heads(self, photos: Photos) -> Photos:
        """The photos with the dates and cameras that were read in this run."""
        rows, table = np.searchsorted(photos.ids, list(self._heads)), photos.table
        facts = dict(zip(rows.tolist(), map(_camera_facts, self._heads.values()), strict=True))
        for name in ("taken", "camera") if facts else ():
            values = table[name].to_pylist()
            for row, known in facts.items():
                values[row] = known[name]
            table = table.set_column(SCHEMA.get_field_index(name), name, pa.array(values, SCHEMA.field(name).type))
        return Photos(table)

    def _relabelled(self, photos: Photos) -> pa.Table:
        """The photos with the labels and columns that the user gives now."""
        table, paths = photos.table, photos.paths()
        for name, given, make in (("label", self.labels, self._label), ("columns", self.columns, self._columns)):
            if given is None:
                continue
            before = table.column(name).to_pylist()
            about = self._described
            after = [
                make(path) if about is None or path in about else kept for path, kept in zip(paths, before, strict=True)
            ]
            self._report_changes(paths, before, after)
            place = SCHEMA.get_field_index(name)
            table = table.set_column(place, SCHEMA.field(place), pa.array(after, SCHEMA.field(place).type))
        return table

    def _report_changes(self, paths: list[str], before: list[Any], after: list[Any]) -> None:
        fresh = {*self.report.added, *self.report.changed, *self.report.removed, *self.report.relabelled}
        changed = (path for path, one, other in zip(paths, before, after, strict=True) if one != other)
        self.report.relabelled += [path for path in changed if path not in fresh]


def _camera_facts(head: ImageHead) -> Mapping[str, Any]:
    """What the album's table keeps of what a camera wrote; where a photo was taken is not among it."""
    return {"taken": None if head.taken is None else seconds_of(head.taken), "camera": head.camera}


def refuse_missing(gone: list[str], known: int, folder: Path, root: Path | str) -> None:
    """Refuse to remove all photos, or many of them: the disk may not be mounted, or the folder be another one."""
    if gone and (len(gone) == known or len(gone) > max(_FEW, _SHARE * known)):
        examples = ", ".join(repr(path) for path in gone[:3])
        raise ValueError(
            f"{len(gone):,} of the {known:,} photos of {folder} are not in {root}, such as "
            f"{examples}: is this another folder, or is its disk not mounted? Nothing was changed. If they are "
            "gone for good, take them out of the album with --remove-missing (in Python: remove_missing=True)."
        )


def spelled_label(labels: Labels, path: str) -> str | None:
    """The label of a path in UTF-8, which a folder's name need not be: what is not is spelled out."""
    label = labels(path)
    return None if label is None else label.encode(errors="backslashreplace").decode()


def listed_columns(columns: Columns, path: str) -> list[tuple[str, str]] | None:
    """What else the user's table says of a path, as the album's table has it."""
    said = columns(path)
    return list(said.items()) if said else None


def remove_rows(storage: Storage, ids: Iterable[int]) -> None:
    """Take photos out of the album, whose ids are not given to any other."""
    description, photos, _ = storage.load(original=True)
    if rows := {photos.row_of(int(identity)) for identity in ids}:
        keep = np.setdiff1d(np.arange(len(photos)), sorted(rows))
        settle(storage, description, photos.table.take(pa.array(keep)))


def labels_by_folder(path: str) -> str | None:
    """The folder a photo is in, below the root; none for photos directly in the root."""
    return os.path.dirname(path) or None  # noqa: PTH120 (a path with forward slashes, not of this machine)
