"""The addresses of photos: lists, facts, pictures, copies, originals; and photos that programs add or take out."""

import shutil
import subprocess
import sys
from pathlib import Path, PurePosixPath
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Depends, Form, Query
from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse

from smoothap.album.collection_export import Originals, copy_originals, originals, zip_pieces, zip_size
from smoothap.album.moving_copies import export_folder
from smoothap.server import schemas, writing
from smoothap.server.auth import may_write
from smoothap.server.dependencies import AllAlbums, ChosenAlbum, KeepingAlbum, Parts, Server, file_of
from smoothap.server.schemas import Identity, PictureKey
from smoothap.server.served_album import ServedAlbum

router = APIRouter(prefix="/albums/{album}/photos", tags=["photos"])


@router.get("")
def photos(served: ChosenAlbum, question: Annotated[schemas.PhotoListRequest, Query()]) -> schemas.PhotoPage:
    """Photos of the album in their order: all or some of them, and copies of one photo as one."""
    return served.listed(question)


@router.get("/sections")
def sections(served: ChosenAlbum, question: Annotated[schemas.SectionsRequest, Query()]) -> schemas.PhotoSections:
    """The months, folders or letters of the same list, to jump to."""
    return served.sections(question)


@router.post("", dependencies=[Depends(may_write)])
async def add_photos(
    server: Server, served: ChosenAlbum, form: Annotated[schemas.NewPhotos, Form(media_type="multipart/form-data")]
) -> schemas.Written:
    """Add photos to the album, as files `image` of a form whose file names are their paths.

    The album is written again once for each request: many photos in one request take hardly longer than one.
    """
    given = [(PurePosixPath(file.filename or "").as_posix(), await file.read()) for file in form.image]
    if len(dict(given)) < len(given):
        raise HTTPException(422, "Two photos of the form have one path: name each by a path of its own.")
    add = writing.add_photos
    return await server.photo_workers.run(add, served, dict(given), form.label, form.columns())


# ---- one photo


@router.get("/{photo}")
def photo(albums: AllAlbums, served: ChosenAlbum, photo: Identity) -> schemas.Photo:
    """What is known of a photo: its file, date, camera, size, copies, and its id in every album of the server."""
    return served.facts(photo, albums)


@router.delete("/{photo}", dependencies=[Depends(may_write)])
async def remove_photo(
    server: Server,
    served: ChosenAlbum,
    photo: Identity,
    delete_file: Annotated[bool, Query(description="Delete its file too; else the next index takes it in.")] = False,
) -> schemas.Removed:
    """Take a photo out of the album; its id is given to no other. A file that was changed since is not deleted."""
    return await server.photo_workers.run(lambda: writing.remove_photo(served, photo, delete_file=delete_file))


@router.get("/{photo}/thumbnail", response_class=Response, responses=file_of("image/jpeg"))
async def thumbnail(server: Server, served: ChosenAlbum, photo: Identity, picture: PictureKey = None) -> Response:
    """A picture of at most 256 pixels a side: pixels, and nothing else that the file held."""
    return _picture(served, photo, picture, await server.picture_workers.run(served.thumbnail, photo))


@router.get("/{photo}/image", response_class=Response, responses=file_of("image/jpeg"))
async def image(server: Server, served: ChosenAlbum, photo: Identity, picture: PictureKey = None) -> Response:
    """A picture of at most 1,024 pixels a side: pixels, and nothing else that the file held."""
    return _picture(served, photo, picture, await server.workers.run(served.image, photo, 1_024))


@router.get("/{photo}/detail", response_class=Response, responses=file_of("image/jpeg"))
async def detail(server: Server, served: ChosenAlbum, photo: Identity, picture: PictureKey = None) -> Response:
    """A picture of at most 4,096 pixels a side, to look at from near: pixels, and nothing else of the file."""
    return _picture(served, photo, picture, await server.workers.run(served.image, photo, 4_096))


def _picture(served: ServedAlbum, photo: int, picture: str | None, content: bytes) -> Response:
    """A JPEG; a browser may keep it only under an address that no other picture will ever have."""
    kept = picture == served.picture_key(served.album.photo(photo))
    headers = {"cache-control": "private, max-age=31536000, immutable" if kept else "no-store"}
    return Response(content, media_type="image/jpeg", headers=headers)


@router.post("/{photo}/not-a-copy", status_code=204)
def not_a_copy(served: KeepingAlbum, photo: Identity) -> None:
    """Remember that a photo is no copy of the others in its stack."""
    served.stacks.take_out(served.album.photos.row_of(photo))


@router.post("/{photo}/reveal", status_code=204)
def show_in_folder(server: Server, served: ChosenAlbum, photo: Identity) -> None:
    """Show a photo in its folder, on the screen of the computer that serves it; for a page that it alone sees."""
    _refuse_others(server, "Folders are shown")
    reveal(served.album.photo_path(photo))


def reveal(photo: Path) -> None:
    """Open the folder that a photo is in, with the photo chosen where the system can do that."""
    place = photo.absolute()
    if not place.is_file():
        raise ValueError(f"{place.name} is not in its folder any more.")
    if sys.platform == "darwin":
        command = ["open", "-R", str(place)]
    elif sys.platform == "win32":
        command = ["explorer", f"/select,{place}"]
    else:
        command = ["xdg-open", str(place.parent)]
    if shutil.which(command[0]) is None:
        raise ValueError(f"This computer has no program to show folders with ({command[0]}): look in {place.parent}.")
    subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )


# ---- originals


@router.post("/originals.zip", response_class=Response, responses=file_of("application/zip"))
def archive(server: Server, served: ChosenAlbum, asked: schemas.ChosenPhotos) -> Response:
    """The original photos as a zip, sent as it is made; if one of them changes meanwhile, the answer breaks off.

    A server that was started for this computer alone sends them as they are, or with `remove_place` without what they
    say of where they were taken. A server for others always takes that out.
    """
    if asked.remove_place is False:
        _refuse_others(server, "Places are given away")
    found, name = _chosen(served, asked)
    headers = {**attached(f"{name}.zip"), "content-length": str(zip_size(found))}
    pieces = zip_pieces(found, places=server.service.is_local and not asked.remove_place)
    # An empty piece would end the answer.
    return StreamingResponse(filter(None, pieces), media_type="application/zip", headers=headers)


@router.post("/export")
def export(server: Server, served: ChosenAlbum, asked: schemas.ChosenPhotos) -> schemas.Exported:
    """Copy original photos into a new folder of this computer; for a page that it alone sees."""
    _refuse_others(server, "Photos are copied")
    found, name = _chosen(served, asked)
    folder = export_folder(served.album, name)
    report = copy_originals(found, folder, places=not asked.remove_place, progress=False)
    skipped = [f"{path}: {reason}" for path, reason in report.missing.items()]
    return schemas.Exported(folder=str(folder), files=report.copied, skipped=skipped)


def _refuse_others(server: Parts, what: str) -> None:
    if not server.service.is_local:
        raise HTTPException(403, f"{what} only where the page is served to this computer alone.")


def _chosen(served: ServedAlbum, asked: schemas.ChosenPhotos) -> tuple[Originals, str]:
    """The originals of some photos or of a collection, and a name for all of them."""
    if asked.collection is None:
        found, name = originals(served.album, ids=asked.photos), "Photos"
    else:
        one = served.album.collections[served.collection(asked.collection)]
        found, name = originals(served.album, [one]), one.name
    if not found.files:
        raise ValueError("None of these originals is there: is their disk mounted?")
    return found, name


def attached(name: str) -> dict[str, str]:
    """Headers of a file to be saved under this name, in any script."""
    quoted = quote(name, safe="")
    file = f'filename="{name}"' if quoted == name else f"filename*=UTF-8''{quoted}"
    return {"content-disposition": f"attachment; {file}", "cache-control": "no-store"}
