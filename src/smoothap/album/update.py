"""Bringing an album up to date with its photo folder: only what is new, changed or gone is touched.

Photos are committed after a second, and then every few seconds. A run that is stopped anywhere leaves an album that
opens, and the next one finds the committed photos in it and goes on.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothap._core.memory import freed_memory_kept
from smoothap._core.progress import Progress
from smoothap.album.photos import packed_columns, spelled
from smoothap.album.prepare import Describer, Embedded, Read, Wanted, embed_files, look_again
from smoothap.album.region_codes import begin_regions
from smoothap.album.store import Store, relative
from smoothap.album.walk import PhotoFile, Refusal, Walk, read_refusals, write_refusals

if TYPE_CHECKING:
    from smoothap.album.album import Album

COMMIT_ROWS, COMMIT_SECONDS = 4096, 20.0
_FIRST_SECONDS = 1.0  # until the first commit, for whoever waits for photos; the pauses grow to the above
_FEW, _SHARE = 10, 0.1  # more missing photos than both are removed only when the user says so
Labels = Callable[[str], "str | None"]  # from a path to its label
Columns = Callable[[str], "Mapping[str, str] | None"]  # from a path to what else the user's table says of it
Embed = Callable[[Sequence[Wanted]], Iterable[Embedded]]


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
    faces: int = 0  # that were found

    @property
    def seen(self) -> int:
        """How many image files were looked at."""
        return len(self.added) + len(self.changed) + self.unchanged + len(self.unreadable)

    def counts(self) -> dict[str, int]:
        """How many paths are in each place, and how many files were seen."""
        sizes = {name: len(paths) for name, paths in vars(self).items() if isinstance(paths, (list, dict))}
        return {**sizes, "unchanged": self.unchanged, "seen": self.seen}


@dataclass(eq=False)
class Updater:
    """One run over some files of the photo folder, by the album's only writer.

    `embed` gives what becomes of files that the album lacks, each with the hash of the content that it has: computed
    here, by other processes or on other machines. What a describer finds is kept beside it.
    """

    store: Store
    embed: Embed
    source: str
    root: Path | None  # the photo folder; None: there is none on this machine
    labels: Labels | None = None
    columns: Columns | None = None
    among: Sequence[str] | None = None  # the paths that it is about; None: all
    describers: Sequence[Describer] = ()

    def __post_init__(self) -> None:
        self.report = UpdateReport()
        self._known = self.store.paths(None if self.among is None else [os.fsencode(path) for path in self.among])
        self._refusals: dict[str, Refusal] = {}
        self._revised: dict[int, dict[str, Any]] = {}  # id -> facts that changed, but not its content
        self._pending = Embedded()
        self._committed, self._pause = time.monotonic(), _FIRST_SECONDS

    def run(self, walk: Walk, *, whole: bool, remove_missing: bool) -> UpdateReport:
        """Take in the files of a walk; with `whole`, photos that are gone from it are removed from the album."""
        gone = walk.missing(os.fsdecode(path) for path in self._known) if whole else []
        if not remove_missing:
            refuse_missing(gone, len(self._known), self.store.folder, self.root or "the source")
        settings = self.store.settings()
        # The photo folder, the album or the model may have been moved.
        root = settings.root if self.root is None else relative(self.root, self.store.folder)
        if (root, self.source) != (settings.root, settings.source):
            self.store.set(root=root, source=self.source)
        earlier = read_refusals(self.store.folder)
        if not whole:
            present = {file.path for file in walk.files}
            self._refusals = {path: refusal for path, refusal in earlier.items() if path not in present}
        self.report.others = walk.others
        for path, reason in walk.unreadable.items():
            self._refuse(path, Refusal(reason))
        wanted, unchanged = self._compared(walk, earlier)
        if wanted:
            try:
                for batch in self.embed(wanted):
                    self.take(batch)
            finally:  # also when the user interrupts: what is embedded is kept
                self.commit()
        others = {path: Refusal(reason) for path, reason in walk.others.items()}
        write_refusals(self.store.folder, {**others, **self._refusals})
        self._relabel(unchanged)
        self.store.revise(self._revised)
        self.report.removed = sorted(gone)
        self.store.remove(self._known[os.fsencode(path)][0] for path in gone)
        self.store.compact()
        return self.report

    def _compared(self, walk: Walk, earlier: Mapping[str, Refusal]) -> tuple[list[Wanted], list[str]]:
        """The files that the album lacks or has in another version, and the paths of those that are as they were."""
        wanted, unchanged = list[Wanted](), list[str]()
        counted = {*self.report.added, *self.report.changed}  # those of shards
        for file in walk.files:
            known, refusal = self._known.get(os.fsencode(file.path)), earlier.get(file.path)
            if known is not None and known[1:3] == (file.bytes, file.modified):
                self.report.unchanged += file.path not in counted
                unchanged.append(file.path)
            elif refusal is not None and refusal == Refusal(refusal.reason, file.bytes, file.modified):
                self._refuse(file.path, refusal)
            else:
                wanted.append((file, None if known is None else known[3]))
        return wanted, unchanged

    def _refuse(self, path: str, refusal: Refusal) -> None:
        self._refusals[path] = refusal
        self.report.unreadable[path] = refusal.reason

    def take(self, batch: Embedded) -> None:
        """Count in photos; they are committed every few seconds."""
        for path, refusal in batch.refusals.items():
            self._refuse(path, refusal)
        for file in batch.same:
            if os.fsencode(file.path) not in self._known:  # removed since it was looked at
                continue
            facts = {"bytes": file.bytes, "modified": file.modified, **self._said(file.path)}
            self._revised[self._known[os.fsencode(file.path)][0]] = facts
            self.report.unchanged += 1
        for place, record in enumerate(batch.records):
            path, known = os.fsdecode(record["path"]), self._known.get(record["path"])
            if known is not None and known[1:] == (record["bytes"], record["modified"], record["sha256"]):
                continue  # a shard that was left twice
            self._pending.vectors.append(batch.vectors[place])
            self._pending.thumbnails.append(batch.thumbnails[place])
            self._pending.described.append(batch.described[place] if batch.described else [])
            (self.report.added if known is None else self.report.changed).append(path)
            self._pending.records.append({**record, "id": None if known is None else known[0], **self._said(path)})
        if len(self._pending.records) >= COMMIT_ROWS or time.monotonic() - self._committed > self._pause:
            self.commit()

    def commit(self) -> None:
        """Bring to the disk what was counted in."""
        pending, self._pending = self._pending, Embedded()
        if pending.records:
            ids = self.store.add(pending.records, np.stack(pending.vectors), pending.thumbnails)
            for identity, record in zip(ids, pending.records, strict=True):
                self._known[record["path"]] = identity, record["bytes"], record["modified"], record["sha256"]
            rows = list(zip(ids, pending.records, pending.described, strict=True))
            for place, one in enumerate(self.describers):
                found = {identity: (record["sha256"], parts[place]) for identity, record, parts in rows if parts}
                if found:
                    self.report.faces += one.put(found)
        self._committed, self._pause = time.monotonic(), min(2 * self._pause, COMMIT_SECONDS)

    def _said(self, path: str) -> dict[str, Any]:
        """What the user says of a photo now: its label and its columns."""
        said: dict[str, Any] = {}
        if self.labels is not None:
            label = self.labels(path)
            said["label"] = None if label is None else spelled(label)
        if self.columns is not None:
            said["columns"] = packed_columns(self.columns(path) or {})
        return said

    def _relabel(self, unchanged: list[str]) -> None:
        """Give the photos whose files are as they were the labels and columns that the user gives now."""
        if self.labels is None and self.columns is None:
            return
        for record in self.store.records(self._known[os.fsencode(path)][0] for path in unchanged):
            path = os.fsdecode(record["path"])
            changed = {name: value for name, value in self._said(path).items() if record[name] != value}
            if changed:
                self._revised[record["id"]] = changed
                self.report.relabelled.append(path)
        self.report.relabelled.sort()


def bring_up_to_date(
    album: Album,
    files: Walk,
    read: Read,
    *,
    root: Path | None,
    labels: Labels | None = None,
    columns: Columns | None = None,
    embed: Embed | None = None,
    shards: Iterable[Embedded] = (),
    people: bool | None = None,
    regions: bool | None = None,
    region_size: int | None = None,
    whole: bool = True,
    remove_missing: bool = False,
    workers: int | None = None,
    progress: bool = True,
) -> UpdateReport:
    """Take in what an album lacks of these files, which it has to be opened again for.

    Faces and parts of photos are described if it keeps them, or as `people` and `regions` say. `embed` is by default
    this process, in which `workers` threads read photos. `shards` are committed first.
    """
    if workers is not None and workers < 1:
        raise ValueError(f"workers is how many photos are read at once, at least 1, not {workers}.")
    store, describers = album.store, list[Describer]()
    with store.writing():
        store.find_by_dates()
        if album.has_people if people is None else people:
            describers.append(album.face_space().describer())
        if album.has_regions if regions is None else regions:
            coder = begin_regions(
                store, album.embedder(), read, files.files, region_size, embeds=embed is None, progress=progress
            )
            if coder is not None:
                describers.append(coder)
        if embed is None:
            embed = partial(_embed_here, album, read, describers, workers, progress)
        among = None if whole else [file.path for file in files.files]
        updater = Updater(store, embed, album.model_source, root, labels, columns, among, describers)
        for shard in shards:
            updater.take(shard)
            updater.commit()
        report = updater.run(files, whole=whole, remove_missing=remove_missing)
        for one in describers:
            _, faces = describe_missing(store, one, read, files.files, workers, progress=progress)
            report.faces += faces
    return report


def _embed_here(
    album: Album,
    read: Read,
    describers: Sequence[Describer],
    workers: int | None,
    progress: bool,
    wanted: Sequence[Wanted],
) -> Iterator[Embedded]:
    with freed_memory_kept(), Progress("Reading photos", len(wanted), "photos", shown=progress) as line:
        yield from embed_files(album.embedder(), read, wanted, workers, line, describers)


def describe_missing(
    store: Store,
    describer: Describer,
    read: Read,
    files: Sequence[PhotoFile],
    workers: int | None = None,
    *,
    progress: bool = True,
) -> tuple[int, int]:
    """Describe photos in these files that lack it, by the album's only writer; how many, and how many faces they have.

    A photo whose file is gone or changed since it was taken in is left for the next time.
    """
    known = store.paths([os.fsencode(file.path) for file in files])
    lacking = describer.lacking({identity: sha256 for identity, *_, sha256 in known.values()})
    there = [(file, known[path]) for file in files if (path := os.fsencode(file.path)) in known]
    wanted = [(file, sha256) for file, (identity, *_, sha256) in there if identity in lacking]
    if not wanted:
        return 0, 0
    photos, faces, since = 0, 0, time.monotonic()
    pending = dict[int, tuple[bytes, Any]]()
    with freed_memory_kept(), Progress(describer.title, len(wanted), "photos", shown=progress) as line:
        try:
            for file, sha256, found in look_again(read, wanted, describer, workers, line):
                pending[known[os.fsencode(file.path)][0]] = sha256, found
                photos += 1
                if time.monotonic() - since > COMMIT_SECONDS:
                    faces, pending, since = faces + describer.put(pending), {}, time.monotonic()
        finally:  # also when the user interrupts
            if pending:
                faces += describer.put(pending)
    return photos, faces


def refuse_missing(gone: list[str], known: int, folder: Path, root: Path | str) -> None:
    """Refuse to remove all photos, or many of them: the disk may not be mounted, or the folder be another one."""
    if gone and (len(gone) == known or len(gone) > max(_FEW, _SHARE * known)):
        examples = ", ".join(repr(path) for path in gone[:3])
        raise ValueError(
            f"{len(gone):,} of the {known:,} photos of {folder} are not in {root}, such as "
            f"{examples}: is this another folder, or is its disk not mounted? Nothing was changed. If they are "
            "gone for good, take them out of the album with --remove-missing (in Python: remove_missing=True)."
        )


def labels_by_folder(path: str) -> str | None:
    """The folder a photo is in, below the root; none for photos directly in the root."""
    return os.path.dirname(path) or None  # noqa: PTH120 (a path with forward slashes, not of this machine)
