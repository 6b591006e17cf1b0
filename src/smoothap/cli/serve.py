"""`smoothap serve`."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from smoothap.cli._options import check_file, command
from smoothap.server import LOOPBACK
from smoothap.server.settings import Service

if TYPE_CHECKING:
    from smoothap.album import Album

_TOKEN = re.compile(r"[A-Za-z0-9_-]{12,200}")


@command()
def serve(
    album: Path,
    compare: Path | None = None,
    /,
    *,
    engine: str = "auto",
    host: str = "127.0.0.1",
    port: int = 8000,
    token: Annotated[str | None, Parameter(env_var="SMOOTHAP_TOKEN")] = None,
    model: tuple[Path, ...] = (),
    allow_host: tuple[str, ...] = (),
    trusted_proxy: tuple[str, ...] = (),
    base_path: str = "",
    write_token: Annotated[str | None, Parameter(env_var="SMOOTHAP_WRITE_TOKEN")] = None,
    processes: int = 1,
    access_log: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    watch: bool = False,
    open_page: Annotated[bool, Parameter(name="--open")] = False,
    people: bool | None = None,
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
    allow_host
        A name that visitors reach the server by, such as that of a proxy in front of it, or *.example.org for all names
        below one; repeatable. A token is required.
    trusted_proxy
        The address of a proxy, or its network such as 172.16.0.0/12, that says whom each request comes from and
        whether that was by TLS (X-Forwarded-For and -Proto); repeatable.
    base_path
        The path that a proxy puts before the page's own, such as /search.
    write_token
        What programs must know to add and remove photos, beside the token; without it nobody can. Better given as the
        environment variable SMOOTHAP_WRITE_TOKEN.
    processes
        How many processes answer; each maps the same vectors and loads the model for itself.
    access_log
        A file that gets a line of JSON for each request, without tokens and photos; - is standard output.
    watch
        Take in photos that come into the photo folder while the page is open; for a page that only this computer sees.
    people
        Show the faces and names that the album has to all visitors, who may change them too. Without it they are shown
        only by a page that this computer alone sees, and with --no-people nowhere.
    """
    token, write_token, names = token or None, write_token or None, allow_host
    if compare is not None and "://" in engine:
        raise ValueError("--engine milvus://... is for one album: leave the second one out.")
    if token is None and (names or host not in LOOPBACK):
        raise ValueError(
            f"On {names[0] if names else host} others can reach the page, so a token is required: set SMOOTHAP_TOKEN "
            f"to 12 or more letters and digits, or leave {'--allow-host' if names else '--host'} out."
        )
    if watch and (names or host not in LOOPBACK):
        raise ValueError(
            "--watch is for a page that only this computer sees: leave --host and --allow-host out, or run smoothap "
            "index beside the page."
        )
    if not 1 <= processes <= 64:
        raise ValueError(f"--processes is how many processes answer, 1 to 64, not {processes}.")
    _check_tokens(token, write_token)
    if access_log not in (None, "-"):
        check_file(Path(access_log), "access.jsonl", "--access-log")
    service = Service(
        host=host, names=names, proxies=trusted_proxy, base_path=base_path.rstrip("/"), token=token,
        write_token=write_token, shows_token=os.environ.get("SMOOTHAP_TOKEN") != token, log=access_log,
    )  # fmt: skip
    with listen(host, port) as listener:
        from smoothap.server.run import run_server, watcher_of

        shown = service.is_local if people is None else people
        opener = partial(open_albums, [path for path in (album, compare) if path is not None], model, engine, shown)
        albums = opener()
        watchers = {name: watcher_of(name, each) for name, each in albums.items()} if watch else {}
        run_server(
            albums, listener, service, open_page=open_page, watchers=watchers, processes=processes, opener=opener
        )


def open_albums(
    paths: Sequence[Path], models: Sequence[Path] = (), engine: str = "auto", people: bool = True
) -> dict[str, Album]:
    """The albums by name; two are compared photo by photo, so they have to have photos in common.

    An album goes by the name of its folder, and a second one of that name by that of the folder above it too.
    `models` are folders of their models, in order, where these are no longer where they were; `engine` and
    `people` are as in `Album.open`.
    """
    from smoothap.album import Album

    albums: dict[str, Album] = {}
    for place, path in enumerate(paths):
        model = models[place] if place < len(models) else None
        whole = path.resolve()
        name = whole.name or "album"
        opened = Album.open(path, engine=engine, model=model, people=people)
        albums[name if name not in albums else f"{whole.parent.name}-{name}"] = opened
    if len(albums) == 2:
        first, second = (set(opened.photos.paths()) for opened in albums.values())
        if first and second and first.isdisjoint(second):
            raise ValueError(
                "The two albums have no photo in common, by the paths in their photo folders: compare albums of the "
                "same photos, or serve one at a time."
            )
    return albums


def _check_tokens(*tokens: str | None) -> None:
    given = [token for token in tokens if token is not None]
    if not all(_TOKEN.fullmatch(token) for token in given):
        raise ValueError("A token is 12 or more letters and digits, '-' and '_' (at most 200).")
    if len(set(given)) < len(given):
        raise ValueError("The write token lets programs change albums: give another one than the token for reading.")


def listen(host: str, port: int) -> socket.socket:
    """Take the port before anything slow is loaded: whether it is free is known at once."""
    if not 0 <= port <= 65_535:  # of a larger number, the system would take the rest
        raise ValueError(f"A port is a number from 0 to 65535, not {port}.")
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
