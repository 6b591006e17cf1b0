"""`smoothap album people`."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from smoothap.cli._options import AsJson, command, key_values
from smoothap.plots.text import text_table, visible

if TYPE_CHECKING:
    from smoothap.album.people import Group

_LISTED = 30  # groups


@command()
def people(
    album: Path,
    /,
    *,
    name: tuple[str, ...] = (),
    merge: tuple[str, ...] = (),
    split: tuple[str, ...] = (),
    stranger: tuple[int, ...] = (),
    no_face: tuple[int, ...] = (),
    questions: bool = False,
    everybody: bool = False,
    forget: bool = False,
    as_json: AsJson = False,
) -> None:
    """List the people of an album: groups of faces, each with its number, its name and how many photos it is in.

    Faces are found by smoothap index --people. What you say of them is obeyed for ever, also when photos are indexed
    again.

    Parameters
    ----------
    name
        GROUP=NAME, such as 12=Anna: name a group by its number; a name that somebody has makes both one person.
    merge
        GROUP,GROUP: these groups are one person.
    split
        FACE,FACE: these faces are another person than the rest of their group. --json lists the faces of each group.
    stranger
        The number of a group that is nobody you know: it is not listed any more.
    no_face
        The id of a face that is none.
    questions
        List pairs of groups that may be one person, the answer that settles most first.
    everybody
        List all groups, strangers and single faces too.
    forget
        Remove all that the album knows of people: faces, vectors, names, marks, and faces that were sent to Milvus.
        Photos and their files stay.
    """
    from smoothap.album import Album

    opened = Album.open(album)
    if forget:
        gone = opened.forget_people()
        removed = f"{gone.faces:,} faces with their vectors, {gone.names:,} names, {gone.marks:,} marks"
        if as_json:
            print(json.dumps(asdict(gone), indent=1))
        elif gone.files:
            print(f"Removed: {removed} ({', '.join(gone.files)}). Copies of this album made elsewhere keep theirs.")
        else:
            print(f"{album} knows nothing of people.")
        if gone.left:
            print(*gone.left, sep="\n", file=sys.stderr)
            raise SystemExit(1)
        return
    known = opened.people
    for group, words in key_values(name, "--name", "GROUP=NAME, such as 12=Anna").items():
        known.name(_number(group), words)
    for words in merge:
        known.merge([_number(word) for word in words.split(",")])
    for words in split:
        known.split([_number(word) for word in words.split(",")])
    for number in stranger:
        known.stranger(number)
    if no_face:
        known.no_face(no_face)
    if questions:
        asked = known.questions()
        if as_json:
            print(json.dumps([asdict(one) for one in asked], indent=1))
        for one in asked if not as_json else ():
            who = "" if one.name is None else f" ({visible(one.name)})"
            print(
                f"Is group {one.group} ({one.gain:,} faces) the same person as group {one.other}{who}?  {one.score:.2f}"
            )
        return
    groups = known.groups(strangers=everybody)
    if as_json:
        print(json.dumps([asdict(group) for group in groups], indent=1))
        return
    _print(groups, everybody)


def _number(text: str) -> int:
    if not text.strip().isdecimal():
        raise ValueError(f"Groups and faces are given by their numbers, such as 12, not {text!r}.")
    return int(text)


def _print(groups: list[Group], everybody: bool) -> None:
    shown = [group for group in groups if everybody or group.name is not None or len(group.photos) > 1]
    rows = [
        {"group": str(group.number), "photos": f"{len(group.photos):,}",
         "name": "a stranger" if group.stranger else visible(group.name or "")}
        for group in shown[: None if everybody else _LISTED]
    ]  # fmt: skip
    print(text_table(rows, text=("name",)) if rows else "Nobody is in more than one photo.")
    if left := len(groups) - len(rows):
        print(f"{left:,} more groups, most of them of one face: --everybody lists all.")
