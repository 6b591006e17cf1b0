"""`smoothap collection`."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from smoothap.cli._options import check_file, check_folder
from smoothap.plots.text import text_table, visible

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from smoothap.album import Album, Collection

Action = Literal["list", "show", "add", "remove", "rename", "delete", "undo", "export", "import"]
_LISTED = 5  # of photos that something is wrong with


@dataclass(frozen=True)
class _Request:
    """What was asked for, as words and options."""

    album: Album
    place: Path | str  # of the album, as it was given
    words: tuple[str, ...]
    ids: tuple[int, ...]
    wrong: bool
    out: Path | None
    links: bool
    as_json: bool

    def command(self, words: str) -> str:
        """A command for this album, to be typed as it is."""
        return f"smoothap collection {shlex.quote(str(self.place))} {words}"

    def name(self, example: str) -> str:
        """The first word, which names a collection."""
        if not self.words:
            raise ValueError(f"Say which collection: {self.command(example)}")
        return self.words[0]


def collection(
    album: str,
    action: Action = "list",
    /,
    *words: str,
    id: Annotated[tuple[int, ...], Parameter(name="--id", negative=(), show_default=False)] = (),
    wrong: Annotated[bool, Parameter(negative=())] = False,
    out: Path | None = None,
    links: Annotated[bool, Parameter(negative=())] = False,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
) -> None:
    """Keep photos of an album in collections with names of yours; they are part of the album, and of its page.

    Parameters
    ----------
    album
        The folder that smoothap index made, or milvus://HOST:PORT/NAME, where smoothap load brought it.
    action
        list the collections; show NAME: its photos; add NAME PHOTO...: keep photos, in a new collection if there is
        none of this name; remove NAME PHOTO...; rename NAME NEW-NAME; delete NAME; undo the last step, and run again
        the one before; export [NAME...] --out PLACE; import PLACE, a folder with a folder of photos for each
        collection, or a table that was exported.
    words
        The name of a collection, in quotation marks if it has spaces, and the photos or the new name.
    id
        A photo to add or remove by its id in the album, as smoothap search prints it.
    wrong
        With add: mark the photos as not belonging to the collection.
    out
        Where to export to: a file that ends in .csv or .json for a table, in .zip for the original photos; else a
        folder, for copies of them.
    links
        Export links to the originals into the folder, not copies.
    as_json
        Print what list and show find as JSON.
    """
    actions: dict[str, Callable[[_Request], None]] = {
        "list": _list, "show": _show, "add": _add, "remove": _remove, "rename": _rename, "delete": _delete,
        "undo": _undo, "export": _export, "import": _import,
    }  # fmt: skip
    if out is not None and action != "export":
        raise ValueError(f"--out says where to export to, and this is {action}: leave it out.")
    from smoothap.album import Album

    actions[action](_Request(Album.open(album), album, words, id, wrong, out, links, as_json))


def _photos(number: int) -> str:
    return f"{number:,} photo{'' if number == 1 else 's'}"


def _list(request: _Request) -> None:
    collections = request.album.collections.all().values()
    if request.as_json:
        plain = [
            {"name": one.name, "right": len(one.right), "wrong": len(one.wrong), "away": len(one.away)}
            for one in collections
        ]
        print(json.dumps({"collections": plain}, indent=1))
    elif not collections:
        print("There are no collections yet: " + request.command('add "my dog" PHOTO...'))
    else:
        rows = [
            {"photos": f"{len(one.right):,}", "marked wrong": f"{len(one.wrong):,}"}
            | ({"away": f"{len(one.away):,}"} if any(other.away for other in collections) else {})
            | {"collection": one.name}
            for one in collections
        ]
        print(text_table(rows, text=("collection",)))


def _show(request: _Request) -> None:
    from smoothap.album.collection_export import as_json

    chosen = request.album.collections[request.name('show "my dog"')]
    if request.as_json:
        print(as_json(request.album, [chosen]).decode(), end="")
        return
    marks = {"right": chosen.right, "wrong": chosen.wrong}
    rows = [
        {"id": str(identity), "mark": mark, "photo": visible(request.album.photo(identity).path)}
        for mark, ids in marks.items()
        for identity in ids
    ]
    print(text_table(rows, text=("mark", "photo")) if rows else f"{chosen.name} holds no photos yet.")
    _print_few("belong to it and are not in the album any more", dict.fromkeys(chosen.away, ""))


def _add(request: _Request) -> None:
    name, ids = request.name('add "my dog" PHOTO...'), _given_photos(request, "add")
    marked = {"wrong": ids} if request.wrong else {"right": ids}
    _say(request.album.collections.mark(name, **marked))


def _remove(request: _Request) -> None:
    name, ids = request.name('remove "my dog" PHOTO...'), _given_photos(request, "remove")
    _say(request.album.collections.remove(name, ids))


def _given_photos(request: _Request, action: str) -> list[int]:
    from smoothap.album.collection_import import ids_of

    if len(request.words) < 2 and not request.ids:
        raise ValueError(f"Say which photos to {action}: their paths behind the name of the collection, or --id.")
    known = ids_of(request.album, request.words[1:])
    if unknown := [path for path, identity in known.items() if identity is None]:
        examples = ", ".join(repr(path) for path in unknown[:_LISTED])
        raise ValueError(
            f"{_photos(len(unknown))} of {len(known):,} not in the album, such as {examples}: nothing was changed. "
            "Give files that smoothap index has taken in."
        )
    return [*request.ids, *(identity for identity in known.values() if identity is not None)]


def _rename(request: _Request) -> None:
    if len(request.words) != 2:
        raise ValueError("Give the old name and the new one: " + request.command('rename "my dog" Rex'))
    _say(request.album.collections.rename(*request.words))


def _delete(request: _Request) -> None:
    name = request.name('delete "my dog"')
    request.album.collections.delete(name)
    print(f"{name} is deleted, the photos are where they were. To have it back: {request.command('undo')}")


def _undo(request: _Request) -> None:
    print(f"Undone: {request.album.collections.undo()}")


def _say(changed: Collection) -> None:
    wrong = f", {len(changed.wrong):,} marked wrong" if changed.wrong else ""
    print(f"{changed.name}: {_photos(len(changed.right))}{wrong}")


def _export(request: _Request) -> None:
    from smoothap.album import collection_export as exporting

    if request.out is None:
        raise ValueError("Say where to export to: --out dog.zip, dog.csv, dog.json, or a folder for the photos.")
    out, there, album = request.out, request.album.collections, request.album
    chosen = [there[name] for name in request.words] or list(there.all().values())
    if not any(one.right or one.wrong or one.away for one in chosen):
        raise ValueError("There is nothing to export: no photo is in these collections.")
    kind = out.suffix.lower()
    if request.links and kind in (".csv", ".json", ".zip"):
        raise ValueError(f"--links makes links in a folder, and {out} is none: leave one of both out.")
    if kind in (".csv", ".json"):
        check_file(out, f"photos{kind}")
        from smoothap._core.files import write_atomically

        write_atomically(out, exporting.as_csv(album, chosen) if kind == ".csv" else exporting.as_json(album, chosen))
        print(out)
        return
    originals = exporting.originals(album, chosen)
    if not originals.files:
        _print_few("cannot be read", originals.missing)
        raise ValueError(
            f"Nothing was exported: no original of {_photos(len(originals.missing))} is there. Is its disk mounted?"
        )
    if kind == ".zip":
        check_file(out, "photos.zip")
        print(
            f"{_photos(len(originals.files))}, {exporting.spoken_size(exporting.zip_size(originals))}", file=sys.stderr
        )
        print(exporting.pack(originals, out))
        missing = originals.missing
    else:
        check_folder(out)
        print(f"{_photos(len(originals.files))}, {exporting.spoken_size(originals.bytes)}", file=sys.stderr)
        report = exporting.copy_originals(originals, out, links=request.links)
        missing = report.missing
        done = f"{report.copied:,} {'linked' if request.links else 'copied'}"
        print(done + (f", {report.already_there:,} already there" if report.already_there else "") + f": {out}")
    if missing:
        _print_few("could not be exported", missing)
        sys.exit(1)


def _import(request: _Request) -> None:
    from smoothap.album.collection_import import import_collections

    if len(request.words) != 1:
        raise ValueError("Give the folder of folders, or the CSV or JSON file, to import from.")
    report = import_collections(request.album, Path(request.words[0]))
    rows = [{"photos": f"{number:,}", "collection": name} for name, number in report.photos.items()]
    print(text_table(rows, text=("collection",)))
    if report.beside:
        print(f"{_photos(report.beside)} in no folder of a name: left out.", file=sys.stderr)
    _print_few("not in the album and left out", dict.fromkeys(report.unknown, ""))


def _print_few(what: str, photos: Mapping[str, str]) -> None:
    """Name some of the photos that something is wrong with, on standard error."""
    listed: Sequence[str] = list(photos)
    if listed:
        print(f"{_photos(len(listed))}: {what}", file=sys.stderr)
    for path in listed[:_LISTED]:
        print(f"  {visible(path)}{photos[path] and f': {visible(photos[path])}'}", file=sys.stderr)
