"""The server as a program: it tells its address, answers until Ctrl-C, and leaves nothing behind."""

import contextlib
import ipaddress
import socket
import webbrowser
from collections.abc import Mapping

import uvicorn

from smoothap.search import Album
from smoothap.web.gate import LOOPBACK
from smoothap.web.limits import Limits
from smoothap.web.patience import PatientForAWhile
from smoothap.web.server import create_app

_CONNECTIONS = 4_096  # files that may be open: a thousand visitors at once are told to wait, not left hanging


def run(
    albums: Mapping[str, Album],
    listener: socket.socket,
    *,
    host: str,
    token: str | None = None,
    open_page: bool = False,
    limits: Limits | None = None,
) -> None:
    """Serve the albums on a bound socket until interrupted."""
    _allow_connections()
    beyond = not _is_loopback(host)
    hosts = LOOPBACK | {host.lower()} | ({socket.gethostname().lower()} if beyond else set())
    app = create_app(albums, token=token, hosts=frozenset(hosts), any_address=beyond, limits=limits)
    config = uvicorn.Config(
        app, http=PatientForAWhile, ws="none", log_level="warning", access_log=False, server_header=False,
        date_header=False, proxy_headers=False, timeout_keep_alive=20, backlog=1024,
        h11_max_incomplete_event_size=32_768, timeout_graceful_shutdown=3,
    )  # fmt: skip
    address = address_of(listener, host, token)
    for name, album in albums.items():
        print(f"{name}: {len(album):,} photos")
    print(f"Page    {address}\nStop    Ctrl-C", flush=True)
    if open_page:
        webbrowser.open(address)
    # uvicorn raises the interrupt again once it has shut down: Ctrl-C is the usual way to end
    with contextlib.suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listener])


def address_of(listener: socket.socket, host: str, token: str | None) -> str:
    """What to type into a browser."""
    name = socket.gethostname() if host in ("0.0.0.0", "::") else host
    shown = f"[{name}]" if ":" in name else name
    return f"http://{shown}:{listener.getsockname()[1]}/" + (f"?token={token}" if token else "")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _allow_connections() -> None:
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _CONNECTIONS if hard == resource.RLIM_INFINITY else min(_CONNECTIONS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
