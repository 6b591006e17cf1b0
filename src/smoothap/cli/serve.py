"""`smoothap serve`."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from smoothap.web import LOOPBACK

if TYPE_CHECKING:
    from smoothap.search import Album

_TOKEN = re.compile(r"[A-Za-z0-9_-]{12,200}")


def serve(
    album: Path,
    compare: Path | None = None,
    /,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    token: Annotated[str | None, Parameter(env_var="SMOOTHAP_TOKEN")] = None,
    model: Annotated[list[Path] | None, Parameter(negative=())] = None,
    open_page: Annotated[bool, Parameter(name="--open", negative="")] = False,
) -> None:
    """Open an album as a page: give a photo and see all that look like it. With two albums, compare them.

    Parameters
    ----------
    album
        The album that smoothap index or smoothap demo made.
    compare
        A second album of the same photos, such as after training: both are shown side by side.
    host
        The address to listen on. Beyond this machine a token is required.
    port
        The port to listen on; 0 takes any that is free.
    token
        What visitors must know, 12 letters or more; better given as the environment variable SMOOTHAP_TOKEN.
    model
        The folder of the album's model, for each album, where it is no longer where it was.
    open_page
        Open the page in the browser.
    """
    token = token or None
    if token is None and host not in LOOPBACK:
        raise ValueError(
            f"On {host} others can reach the page, so a token is required: set SMOOTHAP_TOKEN to 12 or more letters "
            "and digits, or leave --host out."
        )
    if token is not None and not _TOKEN.fullmatch(token):
        raise ValueError("A token is 12 or more letters and digits, '-' and '_' (at most 200).")
    if not 0 <= port <= 65_535:
        raise ValueError(f"A port is a number from 0 to 65535, not {port}.")
    with _listen(host, port) as listener:
        from smoothap.web.running import run_server

        albums = _open([path for path in (album, compare) if path is not None], model or [])
        run_server(albums, listener, host=host, token=token, open_page=open_page)


def _open(paths: list[Path], models: list[Path]) -> dict[str, Album]:
    """The albums by name; two are compared photo by photo, so they have to have photos in common."""
    from smoothap.search import Album

    albums: dict[str, Album] = {}
    for place, path in enumerate(paths):
        model = models[place] if place < len(models) else None
        short = path.resolve().name or str(path)
        albums[short if short not in albums else str(path)] = Album.open(path, model=model)
    if len(albums) == 2:
        first, second = (set(opened.photos.paths()) for opened in albums.values())
        if first and second and first.isdisjoint(second):
            raise ValueError(
                "The two albums have no photo in common, by the paths in their photo folders: compare albums of the "
                "same photos, or serve one at a time."
            )
    return albums


def _listen(host: str, port: int) -> socket.socket:
    """Take the port before anything slow is loaded: whether it is free is known at once."""
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()  # "::" takes visitors by IPv4 too
        # Whoever comes before the album is open waits in the backlog, and is not refused.
        return socket.create_server(address, family=family, backlog=1024, dualstack_ipv6=both)
    except OSError as error:
        reason = (error.strerror or str(error)).partition(" (while")[0].lower()
        raise ValueError(f"{host}:{port} cannot be listened on ({reason}): give another --port or --host.") from error
