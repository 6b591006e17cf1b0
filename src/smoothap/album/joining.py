"""Albums of one model put together as one."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from smoothap._core.files import DiskFullError, locked, rename
from smoothap._core.progress import Progress
from smoothap.album.store import NAME, Snapshot, Store, refuse_inside_album, relative
from smoothap.album.walk import Refusal, read_refusals, write_refusals

_AT_ONCE = 4096  # photos


@dataclass(frozen=True)
class Joined:
    """What became of the photos of several albums: how many there are now, and how many were in two of them."""

    photos: int
    twice: int


def join_albums(albums: Sequence[Path | str], out: Path | str) -> Joined:
    """Put albums of one model together in a new folder; they stay as they are.

    The photo folder of the new album is the one that holds those of all. A photo that two albums have, with one
    content, is taken once; of two versions neither is chosen for you. What albums learnt, their people and their
    collections stay with them.
    """
    if len(albums) < 2:
        raise ValueError("Give at least two albums to be put together.")
    stores, out = [Store(Path(album)) for album in albums], Path(out)
    snapshots = [store.snapshot() for store in stores]
    roots = [_root(store, one) for store, one in zip(stores, snapshots, strict=True)]
    for place in range(1, len(stores)):
        _check_alike([(stores[each].folder, snapshots[each], roots[each]) for each in (0, place)])
    root = _common_root(roots)
    prefixes = ["" if root is None or one is None else _prefix(one, root) for one in roots]
    twice = _refuse_two_versions(stores, prefixes)
    first = snapshots[0]
    settings = first.settings
    refuse_inside_album(out)
    with locked(out, f"Another process is writing to {out}: wait until it is done."):
        if (out / NAME).exists():
            raise ValueError(f"There is an album in {out} already: choose another folder.")
        place = out / ".joining.partial"  # whole before it is the album: one that lacks photos would not show it
        shutil.rmtree(place, ignore_errors=True)
        try:
            joined = Store.create(
                place, first.space.dimension, first.space.codec, model=settings.model,
                source=_moved_source(settings.source, stores[0].folder, out),
                root=None if root is None else relative(root, out),
                calibration=settings.calibration if settings.learnt is None else settings.learnt["calibration"],
            )  # fmt: skip
            _fill(joined, stores, snapshots, prefixes)
            joined.database.close()
            for file in sorted(place.iterdir(), key=lambda file: file.name == NAME):
                if file.name != ".lock":
                    rename(file, out / file.name)
        except DiskFullError as error:
            raise DiskFullError(
                error.errno, f"The disk of {out} is full, and no album was made: make room, and run this again."
            ) from error
        finally:
            shutil.rmtree(place, ignore_errors=True)
    return Joined(sum(len(one.ids) for one in snapshots) - twice, twice)


def _fill(joined: Store, stores: Sequence[Store], snapshots: Sequence[Snapshot], prefixes: Sequence[str]) -> None:
    """Take the photos of albums into the joined one, and what is known of files that were not read."""
    refusals: dict[str, Refusal] = {}
    with joined.writing(), Progress("Joining", sum(len(one.ids) for one in snapshots), "photos") as line:
        known: set[bytes] = set()
        for store, snapshot, prefix in zip(stores, snapshots, prefixes, strict=True):
            for start in range(0, len(snapshot.ids), _AT_ONCE):
                rows = np.arange(start, min(start + _AT_ONCE, len(snapshot.ids)))
                _copy(store, snapshot, rows, os.fsencode(prefix), joined, known)
                line.advance(len(rows))
            refusals |= {prefix + path: why for path, why in read_refusals(store.folder).items()}
        write_refusals(joined.folder, {path: why for path, why in refusals.items() if os.fsencode(path) not in known})


def _copy(store: Store, snapshot: Snapshot, rows: np.ndarray, prefix: bytes, joined: Store, known: set[bytes]) -> None:
    """Take some photos of an album into the joined one, but for those that it has."""
    records = {record["id"]: record for record in store.records(snapshot.ids[rows].tolist())}
    chosen = [(row, records[identity]) for row, identity in zip(rows, snapshot.ids[rows].tolist(), strict=True)]
    chosen = [(row, record) for row, record in chosen if prefix + record["path"] not in known]
    known.update(prefix + record["path"] for _, record in chosen)
    if chosen:
        fresh = [{**record, "id": None, "path": prefix + record["path"]} for _, record in chosen]
        pictures = [store.thumbnail(record) for _, record in chosen]
        joined.add(fresh, snapshot.original[np.array([row for row, _ in chosen])], pictures)


def _refuse_two_versions(stores: Sequence[Store], prefixes: Sequence[str]) -> int:
    """How many photos are in two of the albums; those with different contents are an error."""
    known: dict[bytes, bytes] = {}
    twice = 0
    for store, prefix in zip(stores, prefixes, strict=True):
        for path, (_, _, _, content) in store.paths().items():
            path = os.fsencode(prefix) + path
            if path not in known:
                known[path] = content
            elif content and known[path] == content:
                twice += 1
            else:
                raise ValueError(
                    f"{os.fsdecode(path)!r} is in two of the albums, with different contents: bring both up to date "
                    "(smoothap index)."
                )
    return twice


def _root(store: Store, snapshot: Snapshot) -> Path | None:
    below = snapshot.settings.root
    return None if below is None else (store.folder / below).resolve()


def _check_alike(pair: Sequence[tuple[Path, Snapshot, Path | None]]) -> None:
    (folder, first, root), (other_folder, second, other_root) = pair
    folders = f"{folder} and {other_folder}"
    models = (json.dumps(one.settings.model, sort_keys=True) for one in (first, second))
    if len(set(models)) > 1 or first.space.dimension != second.space.dimension:
        raise ValueError(f"{folders} were made by different models: their vectors cannot be compared.")
    if first.space.codec != second.space.codec:
        raise ValueError(f"One of {folders} keeps its vectors in float32, the other in float16: index one again.")
    if (root is None) != (other_root is None):
        raise ValueError(f"Of {folders}, one says where its photos are and the other does not: index one again.")


def _common_root(roots: Sequence[Path | None]) -> Path | None:
    """The folder that holds the photo folders of all; None where none is known."""
    known = [root for root in roots if root is not None]
    try:
        return Path(os.path.commonpath(known)) if known else None
    except ValueError as error:
        raise ValueError("The photo folders are on different disks, so no folder holds all of them.") from error


def _prefix(root: Path, common: Path) -> str:
    below = root.relative_to(common)
    return "" if below == Path() else f"{below.as_posix()}/"


def _moved_source(source: str, folder: Path, out: Path) -> str:
    """Where the model is, as seen from the new album."""
    kind, _, name = source.partition(":")
    return f"folder:{relative(folder / name, out)}" if kind == "folder" else source
