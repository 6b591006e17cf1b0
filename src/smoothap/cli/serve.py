"""`smoothap serve`."""

from __future__ import annotations

import ipaddress
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
    name: Annotated[list[str] | None, Parameter(negative=())] = None,
    trusted_proxy: Annotated[list[str] | None, Parameter(negative=())] = None,
    requests_per_address: int = 400,
    watch: Annotated[bool, Parameter(negative=())] = False,
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
    name
        A name that visitors reach the page by, such as that of a proxy in front of it. A token is required.
    trusted_proxy
        The address of a proxy that says whom each request comes from (X-Forwarded-For).
    requests_per_address
        How many requests of one address are taken at once; more are told to come back (503).
    watch
        Take in photos that come into the photo folder while the page is open; for a page that only this computer sees.
    open_page
        Open the page in the browser.
    """
    token = token or None
    if token is None and (name or host not in LOOPBACK):
        raise ValueError(
            f"On {name[0] if name else host} others can reach the page, so a token is required: set SMOOTHAP_TOKEN to "
            f"12 or more letters and digits, or leave {'--name' if name else '--host'} out."
        )
    if watch and (name or host not in LOOPBACK):
        raise ValueError(
            "--watch is for a page that only this computer sees: leave --host and --name out, or run smoothap index "
            "beside the page."
        )
    for proxy in trusted_proxy or []:
        _checked_address(proxy)
    if requests_per_address < 1:
        raise ValueError(
            f"--requests-per-address is how many are taken at once, at least 1, not {requests_per_address}."
        )
    if token is not None and not _TOKEN.fullmatch(token):
        raise ValueError("A token is 12 or more letters and digits, '-' and '_' (at most 200).")
    if not 0 <= port <= 65_535:
        raise ValueError(f"A port is a number from 0 to 65535, not {port}.")
    with listen(host, port) as listener:
        from smoothap.web.limits import Limits
        from smoothap.web.running import run_server

        albums = _open([path for path in (album, compare) if path is not None], model or [])
        run_server(
            albums, listener, host=host, names=name or [], proxies=trusted_proxy or [], token=token,
            open_page=open_page, watch=watch, limits=Limits(per_address=requests_per_address),
        )  # fmt: skip


def _checked_address(text: str) -> None:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        raise ValueError(f"--trusted-proxy is the IP address of a proxy, such as 127.0.0.1, not {text!r}.") from None


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


def listen(host: str, port: int) -> socket.socket:
    """Take the port before anything slow is loaded: whether it is free is known at once."""
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()  # "::" takes visitors by IPv4 too
        # Whoever comes before the album is open waits in the backlog, and is not refused.
        return socket.create_server(address, family=family, backlog=1024, dualstack_ipv6=both)
    except OSError as error:
        reason = (error.strerror or str(error)).partition(" (while")[0].lower()
        raise ValueError(f"{host}:{port} cannot be listened on ({reason}): give another --port or --host.") from error


def listen_anywhere() -> socket.socket:
    """The usual port of this machine, or any that is free where another program has that."""
    try:
        return listen("127.0.0.1", 8000)
    except ValueError:
        return listen("127.0.0.1", 0)
