"""`smoothap duplicates`."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from smoothap.plots.text import visible

if TYPE_CHECKING:
    from smoothap.album import Album
    from smoothap.album.copies import Copies
    from smoothap.album.moving_copies import Moved

_LISTED = 10  # photos that could not be moved


def duplicates(
    album: Path,
    /,
    *,
    score: float = 0.98,
    move: Path | None = None,
    near: Annotated[bool, Parameter(negative=())] = False,
    really: Annotated[bool, Parameter(negative=())] = False,
    undo: Path | None = None,
    not_copy: Annotated[tuple[int, ...], Parameter(negative=(), show_default=False)] = (),
    copy_again: Annotated[tuple[int, ...], Parameter(negative=(), show_default=False)] = (),
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
) -> None:
    """List photos of an album that are there twice: exact copies by their hash, near ones by their score.

    The first of each group is the best: the most pixels, then the most bytes, then the earliest date. The others can
    be moved out of the photo folder; nothing is ever deleted.

    Parameters
    ----------
    album
        The folder that smoothap index made.
    score
        From which cosine on two photos are near duplicates, from -1 to 1.
    move
        Say which exact copies would be moved into this folder, all but the best of each group. With --really they are.
    near
        Move near duplicates too: look at the list first.
    really
        Do what --move says.
    undo
        Move all copies that were moved into this folder back to where they were.
    not_copy
        The id of a photo that is no copy of those it is listed with; the album remembers it. Give it once for each.
    copy_again
        The id of a photo that --not-copy was given for by mistake.
    as_json
        Print the groups as JSON.
    """
    if (really or near) and move is None:
        raise ValueError("--really and --near are about copies that --move moves: give the folder they are to go to.")
    from smoothap.album import Album
    from smoothap.album.copies import copies_again, copies_in, not_copies

    opened = Album.open(album)
    if undo is not None:
        _undo(opened, album, undo)
        return
    if not_copy:
        alike = [group.photos for group in copies_in(opened, score)]
        for identity in not_copy:
            group = next(([photo.id for photo in one] for one in alike if identity in {each.id for each in one}), [])
            not_copies(opened, [identity], group)
    if copy_again:
        copies_again(opened, copy_again)
    if move is not None:
        _move(opened, copies_in(opened, score if near else None), move, really)
        return
    exact = copies_in(opened, None)
    alike = [group for group in copies_in(opened, score) if not group.exact]
    if as_json:
        plain = {"exact": [_plain(group) for group in exact], "near": [_plain(group) for group in alike]}
        print(json.dumps({"score": score, **plain}, indent=1))
        return
    for title, groups in (("exact copies", exact), (f"near duplicates, score {score} or above", alike)):
        print(f"{len(groups):,} groups of {title}, {sum(len(group.photos) for group in groups):,} photos")
        for group in groups:
            print("  " + "  ".join(f"{photo.id}: {visible(photo.path)}" for photo in group.photos))


def _plain(group: Copies) -> list[dict[str, object]]:
    return [{"id": photo.id, "path": photo.path, "sha256": photo.sha256} for photo in group.photos]


def _move(album: Album, groups: list[Copies], folder: Path, really: bool) -> None:
    from smoothap.album.moving_copies import LOG, check_place, lesser_copies, move_copies

    moves = lesser_copies(groups)
    size = sum(move.photo.bytes for move in moves) / 1e6
    if not really:
        check_place(album, folder)
        for photo, kept in moves:
            print(f"  would move {photo.id}: {visible(photo.path)} ({photo.width} x {photo.height}), ", end="")
            print(f"a copy of {kept.id}: {visible(kept.path)} ({kept.width} x {kept.height})")
        print(f"{len(moves):,} copies, {size:,.1f} MB, would be moved to {folder}. Nothing was: say --really to do it.")
        return
    moved = move_copies(album, moves, folder)
    print(f"{len(moved.done):,} copies were moved to {folder}, and left the album.")
    _print_refused(moved)
    if moved.done:
        command = shlex.join(["smoothap", "duplicates", str(album.folder), "--undo", str(folder)])
        print(f"{folder / LOG} says where each was. Move them back: {command}")


def _undo(album: Album, place: Path, folder: Path) -> None:
    from smoothap.album.moving_copies import undo_moves

    moved = undo_moves(folder)
    print(f"{len(moved.done):,} photos were moved back to where they were.")
    _print_refused(moved)
    if moved.done:
        command = shlex.join(["smoothap", "index", str(album.root), "--out", str(place)])
        print(f"Take them into the album again: {command}")


def _print_refused(moved: Moved) -> None:
    for path, reason in list(moved.refused.items())[:_LISTED]:
        print(f"  stays: {visible(path)}: {visible(reason)}")
    if len(moved.refused) > _LISTED:
        print(f"  and {len(moved.refused) - _LISTED:,} others")
