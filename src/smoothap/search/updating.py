"""Bringing an album up to date with its photo folder: only what is new, changed or gone is touched.

Rows are committed every few seconds as segments of their own; the last step of a run brings them together. A run that
is stopped anywhere leaves an album that opens, and the next one finds the committed photos in it and goes on.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from smoothap.memory import freed_memory_kept
from smoothap.progress import Progress
from smoothap.search.description import Description, write_description
from smoothap.search.photos import SCHEMA, Photos, new_record, whole_numbers
from smoothap.search.preparing import PreparedPhoto, RefusedPhoto, prepared_in_order
from smoothap.search.storage import Storage, relative
from smoothap.search.walking import Found, Walk, read_unreadable, write_unreadable

if TYPE_CHECKING:
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
        self.description, self.photos, self.vectors = storage.load()
        storage.sweep(self.description, self.photos.table)
        self.report = UpdateReport()
        self._rows = {path: row for row, path in enumerate(self.photos.paths())}
        self._sizes, self._times = (whole_numbers(self.photos.table[name]) for name in ("bytes", "modified"))
        self._seen_again: dict[int, Found] = {}  # row -> file whose time changed, but not its content
        self._next_id = self.description.next_id
        self._pending: list[tuple[dict[str, Any], np.ndarray, bytes | None]] = []
        self._committed = time.monotonic()

    def run(self, walk: Walk, *, whole: bool) -> UpdateReport:
        """Take in the files of a walk; with `whole`, photos that it did not meet are removed from the album."""
        if whole:
            self._refuse_another_folder(walk)
        self._keep_root()
        self.report.ignored = walk.ignored
        self.report.unreadable = dict(walk.unreadable)
        earlier = read_unreadable(self.storage.folder)
        met = {found.path for found in walk.found} | walk.unreadable.keys()
        refused = {} if whole else {found: reason for found, reason in earlier.items() if found.path not in met}
        wanted: list[tuple[Found, bytes | None]] = []
        for found in walk.found:
            row = self._rows.get(found.path)
            if row is not None and self._is_same(row, found):
                self.report.unchanged += 1
            elif found in earlier:
                refused[found] = self.report.unreadable[found.path] = earlier[found]
            else:
                wanted.append((found, None if row is None else self.photos.record(row)["sha256"]))
        self._take_in(wanted, refused)
        write_unreadable(self.storage.folder, refused, walk.unreadable)
        self._finish(self._gone(walk) if whole else set())
        return self.report

    def _refuse_another_folder(self, walk: Walk) -> None:
        met = {found.path for found in walk.found} | walk.unreadable.keys()
        if self._rows and not self._rows.keys() & met and not walk.closed:
            raise ValueError(
                f"None of the {len(self._rows):,} photos of {self.storage.folder} is in {self.root}: this is another "
                "folder, or its disk is not mounted. Choose another --out for it."
            )

    def _keep_root(self) -> None:
        """Write down where the photos lie now, should the folder or the album have been moved."""
        root = relative(self.root, self.storage.folder)
        if root != self.description.root:
            self.description = replace(self.description, root=root)
            write_description(self.storage.folder, self.description)

    def _is_same(self, row: int, found: Found) -> bool:
        return bool(self._sizes[row] == found.bytes) and bool(self._times[row] == found.modified)

    def _gone(self, walk: Walk) -> set[int]:
        """Rows of photos that are no longer there; those in a folder that cannot be entered may well be."""
        met = {found.path for found in walk.found}
        closed = tuple(f"{folder}/" for folder in walk.closed)
        return {row for path, row in self._rows.items() if path not in met and not path.startswith(closed)}

    def _take_in(self, wanted: list[tuple[Found, bytes | None]], refused: dict[Found, str]) -> None:
        if not wanted:
            return
        model = self.model()
        batch: list[PreparedPhoto] = []
        try:
            with freed_memory_kept(), Progress("Indexing", len(wanted), "photos", shown=self.progress) as line:
                for outcome in prepared_in_order(self.root, wanted, model.transform):
                    line.advance()
                    if isinstance(outcome, RefusedPhoto):
                        refused[outcome.found] = self.report.unreadable[outcome.found.path] = outcome.reason
                    elif outcome.view is None:
                        self._seen_again[self._rows[outcome.found.path]] = outcome.found
                        self.report.unchanged += 1
                    else:
                        batch.append(outcome)
                    if len(batch) == BATCH:
                        self._embed(model, batch, refused)
                        batch = []
                if batch:
                    self._embed(model, batch, refused)
        finally:  # also when the user interrupts: what is embedded is kept
            self._commit()

    def _embed(self, model: Embedder, batch: list[PreparedPhoto], refused: dict[Found, str]) -> None:
        import torch

        views = torch.stack([each.view for each in batch if each.view is not None])
        device = next(model.parameters()).device
        with torch.inference_mode():
            vectors = model(views.to(device)).float().cpu().numpy()
        for each, vector in zip(batch, vectors, strict=True):
            if not np.isfinite(vector).all() or abs(float(vector @ vector) - 1) > 1e-3:
                refused[each.found] = self.report.unreadable[each.found.path] = "the model gives no vector for it"
                continue
            self._pending.append((self._record(each), vector, each.thumbnail))
        if len(self._pending) >= COMMIT_ROWS or time.monotonic() - self._committed > COMMIT_SECONDS:
            self._commit()

    def _record(self, each: PreparedPhoto) -> dict[str, Any]:
        path, row = each.found.path, self._rows.get(each.found.path)
        if row is None:
            identity, self._next_id = self._next_id, self._next_id + 1
            self.report.added.append(path)
        else:
            identity = int(self.photos.ids[row])
            self.report.changed.append(path)
        known = {
            "label": self.labels(path) if self.labels else None,
            "bytes": each.found.bytes, "modified": each.found.modified, "sha256": each.sha256,
            "width": each.size[0], "height": each.size[1],
        }  # fmt: skip
        return new_record(identity, path, **known)

    def _commit(self) -> None:
        if self._pending:
            records, vectors, thumbnails = zip(*self._pending, strict=True)
            self.description = self.storage.append(self.description, records, np.stack(vectors), thumbnails)
            self._pending = []
        self._committed = time.monotonic()

    def _finish(self, gone: set[int]) -> None:
        """Bring all rows into one segment, without those that are gone, if anything is to be done at all."""
        gone_ids = {int(self.photos.ids[row]) for row in gone}
        seen_again = {int(self.photos.ids[row]): found for row, found in self._seen_again.items()}
        self.report.removed = sorted(path for path, row in self._rows.items() if row in gone)
        description, photos, vectors = self.storage.load()
        labels = self._labels(photos)
        stays = labels is None or labels == photos.column("label").to_pylist()
        if len(description.segments) <= 1 and not gone_ids and not seen_again and stays:
            return
        keep = np.flatnonzero(~np.isin(photos.ids, list(gone_ids)))

        def changed(table: pa.Table) -> pa.Table:
            if seen_again:
                found = [seen_again.get(identity) for identity in table["id"].to_pylist()]
                for name, place in (("bytes", 1), ("modified", 2)):
                    old = table[name].to_pylist()
                    new = [o if f is None else f[place] for o, f in zip(old, found, strict=True)]
                    table = table.set_column(SCHEMA.get_field_index(name), name, pa.array(new, pa.int64()))
            if labels is not None:
                column = pa.array([labels[row] for row in keep], pa.string())
                table = table.set_column(SCHEMA.get_field_index("label"), "label", column)
            return table

        self.description = self.storage.rewrite(description, photos, vectors, keep, changed)

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


def remove_rows(storage: Storage, ids: Iterable[int]) -> Description:
    """Take photos out of the album, whose ids are not given to any other."""
    description, photos, vectors = storage.load()
    rows = {photos.row_of(int(identity)) for identity in ids}
    if not rows:
        return description
    return storage.rewrite(description, photos, vectors, np.setdiff1d(np.arange(len(photos)), sorted(rows)))


def labels_by_folder(path: str) -> str | None:
    """The folder a photo lies in, below the root; none for photos directly in the root."""
    return os.path.dirname(path) or None  # noqa: PTH120 (a path with forward slashes, not of this machine)
