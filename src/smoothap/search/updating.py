"""Bringing an album up to date with its photo folder: only what is new, changed or gone is touched.

Rows are committed every few seconds as segments of their own; the last step of a run brings them together. A run that
is stopped anywhere leaves an album that opens, and the next one finds the committed photos in it and goes on.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from smoothap.memory import freed_memory_kept
from smoothap.progress import Progress
from smoothap.search.description import write_description
from smoothap.search.photos import SCHEMA, Photos, new_record, whole_numbers
from smoothap.search.preparing import PreparedPhoto, RefusedPhoto, prepared_in_order
from smoothap.search.storage import Storage, relative
from smoothap.search.walking import Found, Walk, read_unreadable, write_unreadable

if TYPE_CHECKING:
    from torch import Tensor

    from smoothap.data.transforms import Transform
    from smoothap.models import Embedder

BATCH = 64
COMMIT_ROWS, COMMIT_SECONDS = 4096, 20.0
Labels = Callable[[str], "str | None"]  # from a path to its label


@dataclass
class UpdateReport:
    """Paths by what became of them; every file that was looked at stands in one place."""

    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    relabelled: list[str] = field(default_factory=list)
    unreadable: dict[str, str] = field(default_factory=dict)  # path -> reason
    unchanged: int = 0
    ignored: int = 0  # files that are no images by their name

    @property
    def seen(self) -> int:
        """How many image files were looked at."""
        return len(self.added) + len(self.changed) + self.unchanged + len(self.unreadable)


class Updater:
    """One run over some files of the photo folder, by the album's only writer."""

    def __init__(
        self, storage: Storage, model: Callable[[], Embedder], root: Path, labels: Labels | None, progress: bool
    ) -> None:
        self.storage, self.model, self.root, self.labels, self.progress = storage, model, root, labels, progress
        self.description, self.photos, _ = storage.load()
        storage.sweep(self.description, self.photos.table)
        self.report = UpdateReport()
        self._rows = {path: row for row, path in enumerate(self.photos.paths())}
        self._sizes, self._times = (whole_numbers(self.photos.table[name]) for name in ("bytes", "modified"))
        self._refused: dict[Found, str] = {}  # files that could not be read -> reason
        self._seen_again: dict[int, Found] = {}  # id -> file whose time changed, but not its content
        self._next_id = self.description.next_id
        self._pending: list[tuple[dict[str, Any], np.ndarray, bytes | None]] = []
        self._committed = time.monotonic()

    def run(self, walk: Walk, *, whole: bool) -> UpdateReport:
        """Take in the files of a walk; with `whole`, photos that it did not meet are removed from the album."""
        met = {file.path for file in walk.found} | walk.unreadable.keys()
        if whole and self._rows and not self._rows.keys() & met and not walk.closed:
            raise ValueError(
                f"None of the {len(self._rows):,} photos of {self.storage.folder} is in {self.root}: this is another "
                "folder, or its disk is not mounted. Choose another --out for it."
            )
        root = relative(self.root, self.storage.folder)
        if root != self.description.root:  # the folder or the album has been moved
            self.description = replace(self.description, root=root)
            write_description(self.storage.folder, self.description)
        self.report.ignored = walk.ignored
        self.report.unreadable = dict(walk.unreadable)
        earlier = read_unreadable(self.storage.folder)
        if not whole:
            self._refused = {file: reason for file, reason in earlier.items() if file.path not in met}
        wanted: list[tuple[Found, bytes | None]] = []
        for file in walk.found:
            row = self._rows.get(file.path)
            if row is not None and (self._sizes[row], self._times[row]) == (file.bytes, file.modified):
                self.report.unchanged += 1
            elif file in earlier:
                self._refuse(file, earlier[file])
            else:
                wanted.append((file, None if row is None else self.photos.record(row)["sha256"]))
        self._take_in(wanted)
        write_unreadable(self.storage.folder, self._refused, walk.unreadable)
        self._finish(self._gone(walk) if whole else {})
        return self.report

    def _gone(self, walk: Walk) -> dict[str, int]:
        """Path and id of photos that are no longer there; those in a folder that cannot be entered may well be."""
        met = {file.path for file in walk.found}
        closed = tuple(f"{folder}/" for folder in walk.closed)
        gone = {path: row for path, row in self._rows.items() if path not in met and not path.startswith(closed)}
        return {path: int(self.photos.ids[row]) for path, row in gone.items()}

    def _refuse(self, file: Found, reason: str) -> None:
        self._refused[file] = self.report.unreadable[file.path] = reason

    def _take_in(self, wanted: list[tuple[Found, bytes | None]]) -> None:
        if not wanted:
            return
        model = self.model()
        try:
            with freed_memory_kept(), Progress("Indexing", len(wanted), "photos", shown=self.progress) as line:
                for vectors, batch in model.embed_batches(self._batches(wanted, model.transform, line)):
                    self._add(vectors, batch)
        finally:  # also when the user interrupts: what is embedded is kept
            self._commit()

    def _batches(
        self, wanted: list[tuple[Found, bytes | None]], transform: Transform, line: Progress
    ) -> Iterator[tuple[Tensor, list[PreparedPhoto]]]:
        """The views of photos that need a vector, `BATCH` at a time; the other files are reported on the way."""
        import torch

        batch: list[PreparedPhoto] = []
        for number, outcome in enumerate(prepared_in_order(self.root, wanted, transform), start=1):
            line.advance()
            if isinstance(outcome, RefusedPhoto):
                self._refuse(outcome.found, outcome.reason)
            elif outcome.view is None:
                self._seen_again[int(self.photos.ids[self._rows[outcome.found.path]])] = outcome.found
                self.report.unchanged += 1
            else:
                batch.append(outcome)
            if batch and (len(batch) == BATCH or number == len(wanted)):
                yield torch.stack([photo.view for photo in batch if photo.view is not None]), batch
                batch = list[PreparedPhoto]()

    def _add(self, vectors: np.ndarray, batch: list[PreparedPhoto]) -> None:
        for photo, vector in zip(batch, vectors, strict=True):
            if not np.isfinite(vector).all() or abs(float(vector @ vector) - 1) > 1e-3:
                self._refuse(photo.found, "the model gives no vector for it")
            else:
                self._pending.append((self._record(photo), vector, photo.thumbnail))
        if len(self._pending) >= COMMIT_ROWS or time.monotonic() - self._committed > COMMIT_SECONDS:
            self._commit()

    def _record(self, photo: PreparedPhoto) -> dict[str, Any]:
        path, row = photo.found.path, self._rows.get(photo.found.path)
        if row is None:
            identity, self._next_id = self._next_id, self._next_id + 1
            self.report.added.append(path)
        else:
            identity = int(self.photos.ids[row])
            self.report.changed.append(path)
        return new_record(
            identity, path, label=self.labels(path) if self.labels else None,
            bytes=photo.found.bytes, modified=photo.found.modified, sha256=photo.sha256,
            width=photo.size[0], height=photo.size[1],
        )  # fmt: skip

    def _commit(self) -> None:
        if self._pending:
            records, vectors, thumbnails = zip(*self._pending, strict=True)
            self.description = self.storage.append(self.description, records, np.stack(vectors), thumbnails)
            self._pending = []
        self._committed = time.monotonic()

    def _finish(self, gone: dict[str, int]) -> None:
        """Bring all rows into one segment, without those that are gone, if anything is to be done at all."""
        self.report.removed = sorted(gone)
        description, photos, vectors = self.storage.load()
        labels = self._labels(photos)
        relabelled = labels is not None and labels != photos.column("label").to_pylist()
        if len(description.segments) <= 1 and not gone and not self._seen_again and not relabelled:
            return
        keep = np.flatnonzero(~np.isin(photos.ids, list(gone.values())))

        def changed(table: pa.Table) -> pa.Table:
            rows = np.searchsorted(photos.ids[keep], list(self._seen_again))
            for name in ("bytes", "modified") if len(rows) else ():
                values = whole_numbers(table[name]).copy()
                values[rows] = [getattr(file, name) for file in self._seen_again.values()]
                table = table.set_column(SCHEMA.get_field_index(name), name, pa.array(values))
            if labels is not None:
                column = pa.array([labels[row] for row in keep], pa.string())
                table = table.set_column(SCHEMA.get_field_index("label"), "label", column)
            return table

        self.storage.rewrite(description, photos, vectors, keep, changed)

    def _labels(self, photos: Photos) -> list[str | None] | None:
        if self.labels is None:
            return None
        old = photos.column("label").to_pylist()
        new = [self.labels(path) for path in photos.paths()]
        fresh = {*self.report.added, *self.report.changed}
        for path, before, after in zip(photos.paths(), old, new, strict=True):
            if before != after and path not in fresh:
                self.report.relabelled.append(path)
        return new


def remove_rows(storage: Storage, ids: Iterable[int]) -> None:
    """Take photos out of the album, whose ids are not given to any other."""
    description, photos, vectors = storage.load()
    if rows := {photos.row_of(int(identity)) for identity in ids}:
        storage.rewrite(description, photos, vectors, np.setdiff1d(np.arange(len(photos)), sorted(rows)))


def labels_by_folder(path: str) -> str | None:
    """The folder a photo lies in, below the root; none for photos directly in the root."""
    return os.path.dirname(path) or None  # noqa: PTH120 (a path with forward slashes, not of this machine)
