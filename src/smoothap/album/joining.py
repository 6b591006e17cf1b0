"""Albums of one model put together as one, without copying their vectors: their files get a second name."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from smoothap._core.progress import Progress
from smoothap.album._segments import last_places
from smoothap.album._settling import adopt, settle
from smoothap.album._storage import Storage, relative
from smoothap.album._unreadable import Refusal, read_refusals, write_refusals
from smoothap.album.description import Description, write_description
from smoothap.album.photos import SCHEMA, Photos, whole_numbers


@dataclass(frozen=True)
class Joined:
    """What became of the photos of several albums: how many there are now, and how many were in two of them."""

    photos: int
    twice: int


def join_albums(albums: Sequence[Path | str], out: Path | str) -> Joined:
    """Put albums of one model together in a new folder; they stay as they are.

    The photo folder of the new album is the one that holds those of all. Photos of the first album keep their ids. A
    photo that two albums have, with one content, is taken once; of two versions neither is chosen for you. Vectors and
    thumbnails are not copied where the disk allows a file a second name. What albums learnt, and their collections,
    stay with them.
    """
    if len(albums) < 2:
        raise ValueError("Give at least two albums to be put together.")
    stored = [_Stored.of(Path(album)) for album in albums]
    for other in stored[1:]:
        other.check_like(stored[0])
    out = Path(out)
    root = _common_root([one.root for one in stored])
    storage, first = Storage(out), stored[0].description
    with storage.creating(), Progress("Joining", sum(len(one.photos) for one in stored), "photos") as line:
        source = _moved_source(first.source, stored[0].storage.folder, out)
        place = None if root is None else relative(root, out)
        calibration = first.calibration if first.learnt is None else first.learnt.calibration
        description = Description(
            first.dimension, first.model, source, place, calibration=calibration, dtype=first.dtype
        )
        known: dict[str, tuple[int, bytes]] = {}  # path -> id and content
        refusals: dict[str, Refusal] = {}
        twice: list[int] = []
        for one in stored:
            prefix = "" if root is None else _prefix(one.root, root)
            tables, again = one.renumbered(prefix, description.next_id, known)
            twice += again
            description = adopt(storage, description, one.storage, tables)
            refusals |= {prefix + path: why for path, why in read_refusals(one.storage.folder).items()}
            line.advance(len(one.photos))
        write_refusals(out, {path: why for path, why in refusals.items() if path not in known})
        if twice:
            tables = storage.tables(description)
            table = pa.concat_tables(tables)
            keep = np.setdiff1d(whole_numbers(table["id"]), twice)
            settle(storage, description, table.take(pa.array(last_places(tables, keep))))
        else:
            write_description(out, description)
    return Joined(sum(len(one.photos) for one in stored) - len(twice), len(twice))


@dataclass(frozen=True, eq=False)
class _Stored:
    """One of the albums to be joined."""

    storage: Storage
    description: Description
    photos: Photos
    root: Path | None

    @classmethod
    def of(cls, folder: Path) -> _Stored:
        storage = Storage(folder)
        description, photos, _ = storage.load(original=True)
        root = None if description.root is None else (folder / description.root).resolve()
        return cls(storage, description, photos, root)

    def check_like(self, other: _Stored) -> None:
        """Refuse an album whose vectors cannot be compared with those of another, or are kept in another way."""
        mine, theirs, folders = self.description, other.description, f"{self.storage.folder} and {other.storage.folder}"
        if (mine.model, mine.dimension) != (theirs.model, theirs.dimension):
            raise ValueError(f"{folders} were made by different models: their vectors cannot be compared.")
        if mine.dtype != theirs.dtype:
            raise ValueError(f"One of {folders} keeps its vectors in float32, the other in float16: index one again.")
        if (self.root is None) != (other.root is None):
            raise ValueError(f"Of {folders}, one says where its photos lie and the other does not: index one again.")

    def renumbered(
        self, prefix: str, start: int, known: dict[str, tuple[int, bytes]]
    ) -> tuple[list[pa.Table], list[int]]:
        """The tables of all segments with paths and ids of the new album, and the ids of what is in it already."""
        again: list[int] = []
        tables: list[pa.Table] = []
        contents = dict(zip(self.photos.ids.tolist(), self.photos.column("sha256").to_pylist(), strict=True))
        seen: set[int] = set()  # a changed photo has a row in more than one segment
        for table in self.storage.tables(self.description):
            paths, ids = Photos(table).paths(), table["id"].to_pylist()
            for path, identity in zip(paths, ids, strict=True):
                if identity not in seen:
                    seen.add(identity)
                    self._remember(prefix + path, start + identity, contents[identity], known, again)
            columns: dict[str, Any] = {
                "id": pa.array([start + identity for identity in ids], pa.int64()),
                "path": pa.array([os.fsencode(prefix + path) for path in paths], pa.binary()),
            }
            for name, column in columns.items():
                table = table.set_column(SCHEMA.get_field_index(name), SCHEMA.field(name), column)
            tables.append(table)
        return tables, again

    def _remember(
        self, path: str, identity: int, content: bytes, known: dict[str, tuple[int, bytes]], again: list[int]
    ) -> None:
        if path not in known:
            known[path] = identity, content
        elif content and known[path][1] == content:
            again.append(identity)
        else:
            raise ValueError(
                f"{path!r} is in two of the albums, with different contents: bring both up to date (smoothap index)."
            )


def _common_root(roots: Sequence[Path | None]) -> Path | None:
    """The folder that holds the photo folders of all; None where none is known."""
    known = [root for root in roots if root is not None]
    try:
        return Path(os.path.commonpath(known)) if known else None
    except ValueError as error:
        raise ValueError("The photo folders are on different disks, so no folder holds all of them.") from error


def _prefix(root: Path | None, common: Path) -> str:
    below = Path() if root is None else root.relative_to(common)
    return "" if below == Path() else f"{below.as_posix()}/"


def _moved_source(source: str, folder: Path, out: Path) -> str:
    """Where the model lies, as seen from the new album."""
    kind, _, name = source.partition(":")
    return f"folder:{relative(folder / name, out)}" if kind == "folder" else source
