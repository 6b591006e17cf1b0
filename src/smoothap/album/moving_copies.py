"""Moving the lesser copies of photos out of the photo folder: nothing is deleted, and all of it can be undone.

`moved.csv` in the folder they go to has a line for each, written to the disk before any file is touched: where it was,
where it is, its checksum, and the photo that was kept. A line of a file that was not moved does no harm: undoing sees
that it is where it was.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from smoothap._core.files import csv_of, data_folder, digest_of, free_name, rename, rows_of_csv, write_atomically
from smoothap._core.progress import Progress
from smoothap.album.collection_export import safe_name
from smoothap.album.walk import reason_of

if TYPE_CHECKING:
    from smoothap.album.album import Album
    from smoothap.album.copies import Copies
    from smoothap.album.photos import Photo

LOG = "moved.csv"
_HEADER = ["was", "is", "sha256", "kept"]


class Move(NamedTuple):
    """A photo that is to go because another, which is at least as good, stays."""

    photo: Photo
    kept: Photo


@dataclass
class Moved:
    """What became of each photo: where it is now, or why it stayed where it was."""

    done: dict[str, str] = field(default_factory=dict)  # where it was -> where it is
    refused: dict[str, str] = field(default_factory=dict)  # where it is -> reason


class _Line(NamedTuple):
    was: str
    now: str
    sha256: str
    kept: str


def lesser_copies(groups: Iterable[Copies]) -> list[Move]:
    """All but the best of each group."""
    return [Move(photo, group.photos[0]) for group in groups for photo in group.photos[1:]]


def check_place(album: Album, folder: Path) -> None:
    """Refuse a folder that copies cannot be moved to: they would be found again, or lost with the album."""
    place = folder.resolve()
    for what, above in (("photo folder", album.root), ("album", album.folder)):
        if above is not None and place.is_relative_to(above.resolve()):
            raise ValueError(f"{folder} is in the {what} {above}: give a folder outside of it for the copies.")
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file: give a folder for the copies.")


def export_folder(album: Album, name: str) -> Path:
    """A new folder for copies: among the user's downloads or, where those are in the photo folder, among our data."""
    for above in (Path.home() / "Downloads", data_folder() / "exports"):
        place = above / free_name(safe_name(name), lambda free, above=above: (above / free).exists())
        try:
            check_place(album, place)
        except ValueError:
            continue
        return place
    raise ValueError("There is no folder for copies outside of the photo folder: export on the command line instead.")


def move_copies(album: Album, moves: Sequence[Move], folder: Path, *, progress: bool = True) -> Moved:
    """Move photos into a folder, under the paths they have below the photo folder, and take them out of the album.

    A photo stays where it is if it, or the one that is kept for it, is not the file any more that the album knows.
    """
    check_place(album, folder)
    moved, gone, whole = Moved(), list[int](), dict[int, str | None]()
    if not moves:
        return moved
    folder.mkdir(parents=True, exist_ok=True)
    earlier = [one for one in _read(folder) if os.path.lexists(one.now)]
    planned, taken = list[_Line](), set[str]()
    for photo, kept in moves:
        was, wanted = (album.root or Path()) / photo.path, str((folder / photo.path).absolute())
        target = free_name(wanted, lambda name: os.path.lexists(name) or name in taken, suffix=True)
        taken.add(target)
        planned.append(_Line(str(was.absolute()), target, photo.sha256, kept.path))
    _write(folder, earlier + planned)
    try:
        with Progress("Moving", len(moves), "copies", shown=progress) as line:
            for (photo, kept), one in zip(moves, planned, strict=True):
                line.advance()
                if kept.id not in whole:
                    whole[kept.id] = _why_not(album, kept)
                reason = _why_not(album, photo) or (whole[kept.id] and f"{kept.path}, its copy: {whole[kept.id]}")
                if reason:
                    moved.refused[photo.path] = reason
                    continue
                try:
                    _move(Path(one.was), Path(one.now), photo.sha256)
                except OSError as error:
                    moved.refused[photo.path] = reason_of(error)
                    continue
                moved.done[photo.path] = one.now
                gone.append(photo.id)
    finally:  # also when the user interrupts: what was moved is not in the album any more
        _write(folder, earlier + [one for one in planned if os.path.lexists(one.now)])
        if gone:
            album.remove(gone)
    return moved


def undo_moves(folder: Path, *, progress: bool = True) -> Moved:
    """Bring back what was moved into a folder to where it was; what cannot come back stays, with its line."""
    if not (folder / LOG).is_file():
        raise FileNotFoundError(f"There is no {LOG} in {folder}: give the folder that copies were moved to.")
    moved, left = Moved(), _read(folder)
    try:
        with Progress("Moving back", len(left), "copies", shown=progress) as line:
            for one in list(left):
                line.advance()
                was, now = Path(one.was), Path(one.now)
                if not now.exists():
                    if was.exists():  # the run that wrote the line was stopped before it moved the file
                        left.remove(one)
                    else:
                        moved.refused[one.now] = "is not there any more"
                elif was.exists():
                    moved.refused[one.now] = f"there is another file at {one.was}"
                else:
                    try:
                        _move(now, was, one.sha256)
                    except OSError as error:
                        moved.refused[one.now] = reason_of(error)
                        continue
                    moved.done[one.now] = one.was
                    left.remove(one)
    finally:
        _write(folder, left)
    return moved


def _why_not(album: Album, photo: Photo) -> str | None:
    """Why a photo is not to be touched, or relied on: it has to be, to the byte, what the album knows of it."""
    try:
        path = album.photo_path(photo.id)
        if path.is_symlink():
            return "it is a link"
        if not photo.sha256:
            return "the album does not know its content: it was made from vectors"
        return (
            None if digest_of(path) == photo.sha256 else "it has changed since it was indexed: run smoothap index first"
        )
    except (OSError, ValueError) as error:
        return reason_of(error)


def _move(source: Path, target: Path, sha256: str) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        # A second name first and then the old one away: unlike a rename this never replaces a file.
        os.link(source, target)
    except FileExistsError:
        raise
    except OSError:  # another disk, or one without links
        _copy(source, target, sha256)
    try:
        source.unlink()
    except OSError:  # a folder that cannot be written: the photo stays, so it is not to be there twice
        if os.path.lexists(source):
            target.unlink()
        raise


def _copy(source: Path, target: Path, sha256: str) -> None:
    partial = target.with_name(f".{target.name}.partial")
    try:
        shutil.copy2(source, partial)
        if digest_of(partial) != sha256:
            raise OSError("the copy on the other disk is not the same to the byte")
        with partial.open("rb") as stream:
            os.fsync(stream.fileno())
        if target.exists():
            raise FileExistsError(f"{target} is there already")
        rename(partial, target)
    finally:
        partial.unlink(missing_ok=True)


def _read(folder: Path) -> list[_Line]:
    try:
        header, *rows = rows_of_csv((folder / LOG).read_bytes()) or [[]]
    except FileNotFoundError:
        return []
    if header != _HEADER or any(len(row) != len(_HEADER) for row in rows):
        raise ValueError(f"{folder / LOG} is not a list of moved copies: give another folder.")
    return [_Line(*row) for row in rows]


def _write(folder: Path, lines: list[_Line]) -> None:
    write_atomically(folder / LOG, csv_of([_HEADER, *lines]))
