"""Photos that programs add to an album over HTTP, and take out of it; each change is a new version of the album."""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from starlette.exceptions import HTTPException

from smoothap._core.files import FolderBusy, digest_of, write_atomically
from smoothap.album import Album
from smoothap.album.photos import spelled
from smoothap.album.walk import place_for
from smoothap.data.reading import UnreadableImage
from smoothap.server import schemas
from smoothap.server.served_album import ServedAlbum

_NAMED = 5  # photos that an error names
_PATIENCE = 20.0  # seconds that a change waits for another one, of this process or of another
_writing = threading.Lock()  # one change at a time: each writes the album again
Result = TypeVar("Result")


def add_photos(
    served: ServedAlbum, photos: Mapping[str, bytes], label: str | None, columns: Mapping[str, str]
) -> schemas.Written:
    """Write photos into the album's photo folder by their paths and take them in, all in one step.

    A photo that cannot be read is refused before anything of it is written; one whose path is taken by other pixels
    takes its place. `label` and `columns` are those of all these photos. Where no photo is left, that is an error.
    """
    root, refused, written, status = _root(served.album), dict[str, str](), dict[str, str](), 422
    for path, content in photos.items():
        try:
            target = place_for(path, root, served.album.folder)
            served.decoder.decode(content, side=256)
            write_atomically(target, content)
            # As the album finds it, whose paths lead through no link.
            written[path] = Path(os.path.realpath(target.parent), target.name).relative_to(root.resolve()).as_posix()
        except UnreadableImage as error:
            refused[path] = error.reason
        except ValueError as error:
            refused[path] = str(error)
        except OSError as error:  # a full disk, or a folder that this server may not write to
            refused[path], status = f"it cannot be written: {error.strerror or error}", 507

    def take_in(album: Album) -> Album:
        report = album.add(
            [root / path for path in written],
            labels=None if label is None else lambda _: label,
            columns=None if not columns else lambda _: columns,
            progress=False,
        )
        refused.update({path: report.unreadable[one] for path, one in written.items() if one in report.unreadable})
        return album

    album = _changed(served.album, take_in) if written else served.album
    ids = {path: album.photos.id_of(one) for path, one in written.items() if path not in refused}
    if not ids:
        raise HTTPException(status, f"Nothing was added. {_reasons(refused)}")
    return schemas.Written(version=album.version, ids=ids, refused=refused)


def remove_photo(served: ServedAlbum, identity: int, *, delete_file: bool) -> schemas.Removed:
    """Take a photo out of the album and, if asked for, delete its file; another photo in its place stays."""
    photo = served.album.photo(identity)
    file = served.album.photo_path(identity) if delete_file else None

    def take_out(album: Album) -> Album:
        album.photos.row_of(identity)  # by now another may have taken it out
        album.remove([identity])
        return album

    album = _changed(served.album, take_out)
    deleted = False
    if file is not None:
        with contextlib.suppress(FileNotFoundError):
            if not photo.sha256 or digest_of(file) == photo.sha256:  # which vectors made elsewhere do not say
                file.unlink()
                deleted = True
    return schemas.Removed(version=album.version, id=identity, path=photo.path, file_deleted=deleted)


def _changed(album: Album, change: Callable[[Album], Result]) -> Result:
    """What a change gives, made to the album as it is on disk by now, when no other process writes to it."""
    end = time.monotonic() + _PATIENCE
    with _writing:
        while True:
            try:
                return change(album.reopened())
            except FolderBusy as error:
                if time.monotonic() >= end:
                    raise HTTPException(503, "Another process writes to the album: try again in a while.") from error
                time.sleep(0.05)
            except FileNotFoundError as error:  # the album's folder was moved away
                raise HTTPException(503, str(error)) from error


def _reasons(refused: Mapping[str, str]) -> str:
    """Some of the reasons, in a sentence."""
    said = "; ".join(f"{spelled(path)!r}: {reason.rstrip('.')}" for path, reason in list(refused.items())[:_NAMED])
    return f"{said}, and {len(refused) - _NAMED:,} more." if len(refused) > _NAMED else f"{said}."


def _root(album: Album) -> Path:
    if album.root is None or album.model is None or album.folder is None:
        raise HTTPException(409, "This album has no photo folder or no model, so it takes in no photos.")
    if not album.root.is_dir():
        raise HTTPException(503, "The album's photo folder is not there: is its disk mounted? Nothing was added.")
    return album.root
