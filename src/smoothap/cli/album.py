"""`smoothap album`: look after an album."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from smoothap.cli._options import NOT_IMPROVED, AsJson, check_folder, command
from smoothap.plots.text import visible

if TYPE_CHECKING:
    from smoothap.album import Album, Learning
    from smoothap.album.copies import Copies
    from smoothap.album.moving_copies import Moved

app = App(
    name="album",
    help="Look after an album: duplicates, collections, what it learns; join albums, push one into Milvus.",
    help_epilogue="""Examples:

    smoothap album duplicates ALBUM --score 0.98
    smoothap album duplicates ALBUM --move COPIES --yes
    smoothap album people ALBUM
    smoothap album learn ALBUM
    smoothap album join ALBUM1 ALBUM2 --out ALBUM
    smoothap album push ALBUM milvus://HOST:PORT/NAME
    smoothap album verify ALBUM""",
)
app.command("smoothap.cli.album_people:people", name="people")
app.command(
    "smoothap.cli.album_collections:app",
    name="collections",
    help="Keep photos of an album in named collections, and take them out as files.",
)
Folder = Annotated[Path, Parameter(help="The folder that smoothap index made.")]
_LISTED = 10  # photos that could not be moved


@app.command
@command()
def duplicates(
    album: Folder,
    /,
    *,
    score: float = 0.98,
    move: Path | None = None,
    near: bool = False,
    yes: bool = False,
    undo: Path | None = None,
    not_copy: tuple[int, ...] = (),
    copy_again: tuple[int, ...] = (),
    as_json: AsJson = False,
) -> None:
    """List photos of an album that are there twice: exact copies by their hash, near ones by their score.

    The first of each group is the best: the most pixels, then the most bytes, then the original by its path, then the
    earliest date. The others can be moved out of the photo folder; nothing is ever deleted.

    Parameters
    ----------
    score
        From which cosine on two photos are near duplicates, from -1 to 1.
    move
        Say which exact copies would be moved into this folder, all but the best of each group. With --yes they are.
    near
        Move near duplicates too: look at the list first.
    yes
        Do what --move says.
    undo
        Move all copies that were moved into this folder back to where they were.
    not_copy
        The id of a photo that is no copy of those it is listed with; the album remembers it. Give it once for each.
    copy_again
        The id of a photo that --not-copy was given for by mistake.
    """
    if (yes or near) and move is None:
        raise ValueError("--yes and --near are about copies that --move moves: give the folder they are to go to.")
    from smoothap.album import Album
    from smoothap.album.copies import copies_again, copies_in, not_copies

    opened = Album.open(album)
    if undo is not None:
        _move_back(opened, album, undo)
        return
    if not_copy:
        alike = [group.photos for group in copies_in(opened, score)]
        for identity in not_copy:
            group = next(([photo.id for photo in one] for one in alike if identity in {each.id for each in one}), [])
            not_copies(opened, [identity], group)
    if copy_again:
        copies_again(opened, copy_again)
    if move is not None:
        _move(opened, copies_in(opened, score if near else None), move, yes)
        return
    exact = copies_in(opened, None)
    alike = [group for group in copies_in(opened, score) if not group.exact]
    if as_json:
        plain = {"exact": [_group(group) for group in exact], "near": [_group(group) for group in alike]}
        print(json.dumps({"score": score, **plain}, indent=1))
        return
    for title, groups in (("exact copies", exact), (f"near duplicates, score {score} or above", alike)):
        print(f"{len(groups):,} groups of {title}, {sum(len(group.photos) for group in groups):,} photos")
        for group in groups:
            print("  " + "  ".join(f"{photo.id}: {visible(photo.path)}" for photo in group.photos))


def _group(group: Copies) -> list[dict[str, object]]:
    return [{"id": photo.id, "path": photo.path, "sha256": photo.sha256} for photo in group.photos]


def _move(album: Album, groups: list[Copies], folder: Path, yes: bool) -> None:
    from smoothap.album.moving_copies import LOG, check_place, lesser_copies, move_copies

    moves = lesser_copies(groups)
    size = sum(move.photo.bytes for move in moves) / 1e6
    if not yes:
        check_place(album, folder)
        for photo, kept in moves:
            print(f"  would move {photo.id}: {visible(photo.path)} ({photo.width} x {photo.height}), ", end="")
            print(f"a copy of {kept.id}: {visible(kept.path)} ({kept.width} x {kept.height})")
        print(f"{len(moves):,} copies, {size:,.1f} MB, would be moved to {folder}. Nothing was: say --yes to do it.")
        return
    moved = move_copies(album, moves, folder)
    print(f"{len(moved.done):,} copies were moved to {folder}, and left the album.")
    _print_refused(moved)
    if moved.done:
        command = shlex.join(["smoothap", "album", "duplicates", str(album.folder), "--undo", str(folder)])
        print(f"{folder / LOG} says where each was. Move them back: {command}")


def _move_back(album: Album, place: Path, folder: Path) -> None:
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


@app.command
@command()
def learn(album: Path, /, *, check: bool = False, undo: bool = False, as_json: AsJson = False) -> None:
    """Let an album learn from its collections which photos belong together, so that it finds more like them.

    It takes seconds and reads no photo: a projection of the album's vectors is trained with Smooth-AP. Before it is
    taken, cross-validation says what it does for photos and for things that were left out; if it does not help beyond
    doubt, the album stays as it is.

    Parameters
    ----------
    album
        The folder that smoothap index made, with at least five collections of four photos or more.
    check
        Say what learning would bring, and change nothing.
    undo
        Go back to the vectors as the model gave them. Collections stay.
    """
    from smoothap.album import Album

    if check and undo:
        raise ValueError("--check changes nothing and --undo takes back what was learnt: give one of them.")
    opened = Album.open(album)
    if undo:
        opened.unlearn()
        if as_json:
            print(json.dumps({"learnt": False}))
        else:
            again = f"smoothap album learn {shlex.quote(str(album))}"
            print(f"{album} searches in the vectors of its model again. To learn once more: {again}")
        return
    from smoothap.album import learn as learn_from_collections

    learning = learn_from_collections(opened, check_only=check)
    print(json.dumps(_learnt(learning), indent=1) if as_json else _told(learning, check, album))
    if not learning.learnt and not (check and learning.check is not None and learning.check.is_clear):
        sys.exit(NOT_IMPROVED)


def _told(learning: Learning, check: bool, place: Path) -> str:
    lines, album = [learning.reason], shlex.quote(str(place))
    if learning.learnt:
        lines.append(
            f"The album learnt from {learning.photos:,} photos in {learning.collections:,} collections, and searches "
            "with that from now on; new photos too."
        )
        if learning.check is not None and learning.check.calibration is not None:
            lines.append("What a score means was learnt again, from the collections.")
        lines += [f"Next: smoothap serve {album}", f"      smoothap album learn {album} --undo"]
    elif check and learning.check is not None and learning.check.is_clear:
        lines.append(f"Nothing was changed. Next: smoothap album learn {album}")
    elif learning.check is not None:
        data, out = shlex.quote(f"album:{place}"), shlex.quote(str(Path("runs") / place.resolve().name))
        lines.append(f"Or train the whole network, which takes longer: smoothap train --data {data} --out {out}")
    return "\n".join(lines)


def _learnt(learning: Learning) -> dict[str, Any]:
    values: dict[str, Any] = {name: getattr(learning, name) for name in ("learnt", "reason", "collections", "photos")}
    if (check := learning.check) is not None:
        values |= {name: getattr(check, name) for name in ("before", "after", "strength")}
        for name, gain in (("taught", check.taught), ("untaught", check.untaught)):
            values[name] = {"gain": gain.value, "low": gain.low, "high": gain.high}
    return values


@app.command
@command()
def join(*albums: Path, out: Path) -> None:
    """Put albums of one model together as one new album, without reading or embedding a photo.

    The albums stay as they are: vectors and thumbnails are copied. What albums learnt, their collections, regions, and
    what they know of people are not taken over.

    Parameters
    ----------
    albums
        The folders of the albums, at least two.
    out
        The folder of the new album.
    """
    check_folder(out)
    from smoothap.album.joining import join_albums

    joined = join_albums(albums, out)
    twice = f"; {joined.twice:,} were in two albums and are in it once" if joined.twice else ""
    print(f"{joined.photos:,} photos of {len(albums)} albums are in {out}{twice}")
    if any((album / "people").is_dir() for album in albums):
        print("People were not taken over: smoothap index PHOTOS --out ALBUM --people finds them in the new album.")
    if any((album / "regions").is_dir() for album in albums):
        print(
            "Regions were not taken over: smoothap index PHOTOS --out ALBUM --regions describes them in the new album."
        )


@app.command
@command()
def push(
    album: Folder,
    address: str,
    /,
    *,
    index: str = "auto",
    connections: int = 4,
    min_recall: float = 0.8,
    replace: bool = False,
    timeout: float = 60.0,
    people: bool = False,
    regions: bool = False,
) -> None:
    """Bring the vectors of an album into Milvus, or what is there up to date: only what has changed is sent.

    Searches need the album's folder beside it, without its files of vectors. Stopped at any moment, the next run goes
    on. Set MILVUS_TOKEN to the token of the server, if it asks for one, and MILVUS_CERTIFICATE to a file with its
    certificate, if the system does not know who signed it.

    Parameters
    ----------
    address
        milvus://HOST:PORT/NAME, or milvus+tls://HOST:PORT/NAME for an encrypted connection.
    index
        hnsw, a graph; ivf_pq, codes of 64 bytes for 512 dimensions; auto takes the codes above two million photos.
    connections
        How many messages are on their way at once.
    min_recall
        The share of the nearest photos of a sample that a new index has to find, or nothing is switched.
    replace
        Put this album instead of another one of the same name.
    timeout
        How many seconds to wait for a server that does not answer.
    people
        Send faces too, to a collection of their own: their vectors, and which photo each is in. Without this, those
        that were sent before are removed there.
    regions
        Send parts of photos too, to a collection of their own: 19 vectors a photo. Without this, the server does not
        keep them, and the album's folder is searched for things inside photos.
    """
    from smoothap.album import Album
    from smoothap.album.engines import milvus_push

    done = milvus_push.push(
        Album.open(album, engine="exact"), address, index=index, connections=connections, min_recall=min_recall,
        replace_all=replace, timeout=timeout, people=people, regions=regions,
    )  # fmt: skip
    if done.people is not None:
        faces = done.people
        print(f"Faces: sent {faces.sent:,}, removed {faces.removed:,}; {faces.photos:,} are at {address}")
    if done.regions is not None:
        parts = done.regions
        print(f"Parts: sent {parts.sent:,}, removed {parts.removed:,}; {parts.photos:,} are at {address}")
    if not done.sent and not done.removed:
        print(f"{address} is up to date: {done.photos:,} photos")
        return
    print(f"Sent {done.sent:,}, removed {done.removed:,}: {done.photos:,} photos at {address}")
    if done.recall is not None:
        print(f"{done.index} finds {done.recall:.1%} of the ten nearest photos of a sample.")
    print(f"Search  smoothap search {shlex.quote(str(album))} PHOTO.jpg --engine {address}")
    if not people and (album / "people").is_dir():
        print("What the album knows of people stayed here: faces are not sent.")


@app.command
@command()
def verify(album: Folder, /) -> None:
    """Read everything that an album keeps, and compare it with its checksums."""
    from smoothap.album import Album

    opened = Album.open(album)
    opened.verify()
    print(f"{album} is whole: {len(opened):,} photos.")
