"""Original photos outside of the album: as a zip that is sent as it is made, or as copies on this computer."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.responses import StreamingResponse

from smoothap._core.files import data_folder, free_name
from smoothap.album import Album
from smoothap.album.collection_export import Originals, safe_name, zip_pieces, zip_size
from smoothap.album.collection_export import originals as originals_of
from smoothap.album.moving_copies import check_place
from smoothap.server import schemas
from smoothap.server.served_album import ServedAlbum
from smoothap.server.settings import Service


def chosen(served: ServedAlbum, asked: schemas.ChosenPhotos) -> tuple[Originals, str]:
    """The originals of some photos or of a collection, and a name for all of them."""
    if asked.collection is None:
        return originals_of(served.album, ids=asked.photos), "Photos"
    one = served.album.collections[served.collection(asked.collection)]
    return originals_of(served.album, [one]), one.name


def with_places(service: Service, remove_place: bool | None) -> bool:
    """Whether photos say where they were taken: for this computer alone they do, unless asked otherwise."""
    if remove_place is False and not service.is_local:
        raise HTTPException(403, "Places are given away only where the page is served to this computer alone.")
    return service.is_local and not remove_place


def as_zip(found: Originals, name: str, places: bool) -> StreamingResponse:
    """The originals as a zip; if one of them changes meanwhile, the answer breaks off."""
    if not found.files:
        raise ValueError("None of these originals is there: is their disk mounted?")
    headers = {**attached(f"{name}.zip"), "content-length": str(zip_size(found))}
    pieces: Iterator[bytes] = filter(None, zip_pieces(found, places=places))  # an empty one would end the answer
    return StreamingResponse(pieces, media_type="application/zip", headers=headers)


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


def attached(name: str) -> dict[str, str]:
    """Headers of a file to be saved under this name, in any script."""
    plain = "".join(letter if (letter.isascii() and letter.isalnum()) or letter in "-_. " else "_" for letter in name)
    value = f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"
    return {"content-disposition": value, "cache-control": "no-store"}
