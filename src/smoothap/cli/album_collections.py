"""`smoothap album collections`: photos of an album under names of yours, a part of the album and of its page."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from smoothap.cli._options import AsJson, check_file, check_folder, command
from smoothap.plots.text import text_table, visible

if TYPE_CHECKING:
    from collections.abc import Mapping

    from smoothap.album import Album, Collection

app = App(
    name="collections",
    help="Keep photos of an album in named collections, and take them out as files.",
    help_epilogue="""Examples:

    smoothap album collections add ALBUM "my dog" PHOTOS/rex1.jpg PHOTOS/rex2.jpg
    smoothap album collections list ALBUM
    smoothap album collections show ALBUM "my dog"
    smoothap album collections remove ALBUM "my dog" PHOTOS/rex2.jpg
    smoothap album collections rename ALBUM "my dog" Rex
    smoothap album collections delete ALBUM Rex
    smoothap album collections undo ALBUM
    smoothap album collections export ALBUM "my dog" --out dog.zip
    smoothap album collections import ALBUM FOLDER""",
)
Name = Annotated[str, Parameter(help="The name of the collection, in quotation marks if it has spaces.")]
Photos = Annotated[str, Parameter(help="The photos, as files or by their paths in the album.")]
Ids = Annotated[tuple[int, ...], Parameter(name="--id", help="A photo by its id, as smoothap search prints it.")]
_LISTED = 5  # of photos that something is wrong with


def _opened(album: str) -> Album:
    from smoothap.album import Album

    return Album.open(album)


def _photos(number: int) -> str:
    return f"{number:,} photo{'' if number == 1 else 's'}"


@app.command(name="list")
@command()
def list_collections(album: str, /, *, as_json: AsJson = False) -> None:
    """List the collections, with how many photos each holds."""
    collections = _opened(album).collections.all().values()
    if as_json:
        plain = [
            {"name": one.name, "right": len(one.right), "wrong": len(one.wrong), "away": len(one.away)}
            for one in collections
        ]
        print(json.dumps({"collections": plain}, indent=1))
    elif not collections:
        print(f'There are no collections yet: smoothap album collections add {shlex.quote(album)} "my dog" PHOTO...')
    else:
        rows = [
            {"photos": f"{len(one.right):,}", "marked wrong": f"{len(one.wrong):,}"}
            | ({"away": f"{len(one.away):,}"} if any(other.away for other in collections) else {})
            | {"collection": one.name}
            for one in collections
        ]
        print(text_table(rows, text=("collection",)))


@app.command
@command()
def show(album: str, name: Name, /, *, as_json: AsJson = False) -> None:
    """List the photos of a collection."""
    from smoothap.album import collection_export

    opened = _opened(album)
    chosen = opened.collections[name]
    if as_json:
        print(collection_export.as_json(opened, [chosen]).decode(), end="")
        return
    marks = {"right": chosen.right, "wrong": chosen.wrong}
    rows = [
        {"id": str(identity), "mark": mark, "photo": visible(opened.photo(identity).path)}
        for mark, ids in marks.items()
        for identity in ids
    ]
    print(text_table(rows, text=("mark", "photo")) if rows else f"{chosen.name} holds no photos yet.")
    _print_few("belong to it and are not in the album any more", dict.fromkeys(chosen.away, ""))


@app.command
@command()
def add(
    album: str,
    name: Name,
    /,
    *photos: Photos,
    id: Ids = (),
    wrong: bool = False,
) -> None:
    """Add photos to a collection, which is made if there is none of this name.

    Parameters
    ----------
    wrong
        Mark the photos as not belonging to the collection.
    """
    opened = _opened(album)
    ids = _given_photos(opened, photos, id)
    _say(opened.collections.mark(name, **({"wrong": ids} if wrong else {"right": ids})))


@app.command
@command()
def remove(album: str, name: Name, /, *photos: Photos, id: Ids = ()) -> None:
    """Take photos out of a collection; they stay in the album."""
    opened = _opened(album)
    _say(opened.collections.remove(name, _given_photos(opened, photos, id)))


def _given_photos(album: Album, photos: Sequence[str], ids: Sequence[int]) -> list[int]:
    from smoothap.album.collection_import import ids_of

    if not photos and not ids:
        raise ValueError("Say which photos: their paths behind the name of the collection, or --id.")
    known = ids_of(album, photos)
    if unknown := [path for path, identity in known.items() if identity is None]:
        examples = ", ".join(repr(path) for path in unknown[:_LISTED])
        raise ValueError(
            f"{_photos(len(unknown))} of {len(known):,} not in the album, such as {examples}: nothing was changed. "
            "Give files that smoothap index has taken in."
        )
    return [*ids, *(identity for identity in known.values() if identity is not None)]


@app.command
@command()
def rename(album: str, name: Name, new_name: Name, /) -> None:
    """Give a collection another name."""
    _say(_opened(album).collections.rename(name, new_name))


@app.command
@command()
def delete(album: str, name: Name, /) -> None:
    """Delete a collection; its photos stay where they are."""
    _opened(album).collections.delete(name)
    again = shlex.join(["smoothap", "album", "collections", "undo", album])
    print(f"{name} is deleted, the photos are where they were. To have it back: {again}")


@app.command
@command()
def undo(album: str, /) -> None:
    """Undo the last step; run it again for the one before."""
    print(f"Undone: {_opened(album).collections.undo()}")


def _say(changed: Collection) -> None:
    wrong = f", {len(changed.wrong):,} marked wrong" if changed.wrong else ""
    print(f"{changed.name}: {_photos(len(changed.right))}{wrong}")


@app.command
@command()
def export(album: str, /, *names: str, out: Path, links: bool = False) -> None:
    """Take collections out of the album: those that are named, or all.

    Parameters
    ----------
    names
        The names of the collections.
    out
        A file that ends in .csv or .json for a table, in .zip for the original photos; else a folder, for copies of
        them.
    links
        Put links to the originals into the folder, not copies.
    """
    from smoothap.album import collection_export as exporting

    opened = _opened(album)
    there = opened.collections
    chosen = [there[name] for name in names] or list(there.all().values())
    if not any(one.right or one.wrong or one.away for one in chosen):
        raise ValueError("There is nothing to export: no photo is in these collections.")
    kind = out.suffix.lower()
    if links and kind in (".csv", ".json", ".zip"):
        raise ValueError(f"--links makes links in a folder, and {out} is none: leave one of both out.")
    if kind in (".csv", ".json"):
        check_file(out, f"photos{kind}")
        from smoothap._core.files import write_atomically

        as_table = exporting.as_csv if kind == ".csv" else exporting.as_json
        print(write_atomically(out, as_table(opened, chosen)))
        return
    originals = exporting.originals(opened, chosen)
    missing = originals.missing
    if not originals.files:
        _print_few("cannot be read", missing)
        raise ValueError(f"Nothing was exported: no original of {_photos(len(missing))} is there. Is its disk mounted?")
    size = exporting.zip_size(originals) if kind == ".zip" else originals.bytes
    print(f"{_photos(len(originals.files))}, {exporting.spoken_size(size)}", file=sys.stderr)
    if kind == ".zip":
        check_file(out, "photos.zip")
        print(exporting.pack(originals, out))
    else:
        check_folder(out)
        report = exporting.copy_originals(originals, out, links=links)
        missing = report.missing
        done = f"{report.copied:,} {'linked' if links else 'copied'}"
        print(done + (f", {report.already_there:,} already there" if report.already_there else "") + f": {out}")
    if missing:
        _print_few("could not be exported", missing)
        sys.exit(1)


@app.command(name="import")
@command()
def import_collections(album: str, place: Path, /) -> None:
    """Bring collections in: from a folder with a folder of photos for each, or a table that was exported.

    Parameters
    ----------
    place
        The folder of folders, or the CSV or JSON file.
    """
    from smoothap.album import collection_import

    report = collection_import.import_collections(_opened(album), place)
    rows = [{"photos": f"{number:,}", "collection": name} for name, number in report.photos.items()]
    print(text_table(rows, text=("collection",)))
    if report.beside:
        print(f"{_photos(report.beside)} in no folder of a name: left out.", file=sys.stderr)
    _print_few("not in the album and left out", dict.fromkeys(report.unknown, ""))


def _print_few(what: str, photos: Mapping[str, str]) -> None:
    """Name some of the photos that something is wrong with, on standard error."""
    listed = list(photos)
    if listed:
        print(f"{_photos(len(listed))}: {what}", file=sys.stderr)
    for path in listed[:_LISTED]:
        print(f"  {visible(path)}{photos[path] and f': {visible(photos[path])}'}", file=sys.stderr)
