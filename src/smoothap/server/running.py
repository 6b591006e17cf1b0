"""The server as a program: it tells its address, answers until Ctrl-C, and leaves nothing behind."""

import asyncio
import contextlib
import signal
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from smoothap.album import Album
from smoothap.album.watching import Watcher
from smoothap.plots.text import visible
from smoothap.server import LOOPBACK
from smoothap.server._fair_server import FairServer
from smoothap.server._metrics import Metrics
from smoothap.server._processes import run_processes
from smoothap.server._server import create_app
from smoothap.server.limits import Limits

_CONNECTIONS = 4_096  # files that may be open: a thousand visitors at once are told to wait, not left hanging
_TOO_SLOW = b'{"error":"The request came too slowly: send it again."}'


@dataclass(frozen=True)
class Service:
    """How albums are served, beside the socket.

    names: other names that visitors reach it by, or *.NAME for all below one. proxies: addresses or networks of proxies
    that tell their visitors' addresses. log: a file for a line of JSON for each request, "-" for standard output.
    shows_token: whether the address that is printed holds the token.
    """

    host: str = "127.0.0.1"
    names: tuple[str, ...] = ()
    proxies: tuple[str, ...] = ()
    base_path: str = ""
    token: str | None = None
    write_token: str | None = None
    shows_token: bool = True
    log: str | None = None
    limits: Limits = field(default_factory=Limits)

    @property
    def hosts(self) -> frozenset[str]:
        """All names that this server goes by."""
        here = {socket.gethostname().lower()} if self.host not in LOOPBACK else set()
        return LOOPBACK | here | {self.host.lower(), *(name.lower() for name in self.names)}

    @property
    def is_local(self) -> bool:
        """Whether only this computer sees the page."""
        return self.host in LOOPBACK and not (self.names or self.proxies)

    def address(self, port: int, *, with_token: bool) -> str:
        """The page's address."""
        name = socket.gethostname() if self.host in ("0.0.0.0", "::") else self.host
        shown = f"[{name}]" if ":" in name else name
        query = f"?token={self.token}" if self.token and with_token else ""
        return f"http://{shown}:{port}{self.base_path}/{query}"


def run_server(
    albums: Mapping[str, Album],
    listener: socket.socket,
    service: Service | None = None,
    *,
    open_page: bool = False,
    watch: bool = False,
    processes: int = 1,
    opener: Callable[[], Mapping[str, Album]] | None = None,
) -> None:
    """Serve the albums on a bound socket until interrupted or told to stop, and finish what was begun by then.

    watch: take in photos as they come. processes: how many answer; more than one open the albums by `opener`.
    """
    _allow_connections()
    service, port = service or Service(), listener.getsockname()[1]
    for album_name, album in albums.items():
        print(f"{album_name}: {len(album):,} photos")
    note = "" if service.shows_token or not service.token else "    (with ?token= and the token of SMOOTHAP_TOKEN)"
    print(f"Page    {service.address(port, with_token=service.shows_token)}{note}\nStop    Ctrl-C", flush=True)
    if open_page:
        webbrowser.open(service.address(port, with_token=True))
    _end_well()
    # uvicorn raises the interrupt again once it has shut down: Ctrl-C is the usual way to end
    with contextlib.suppress(KeyboardInterrupt), _watching(albums if watch else {}):
        if processes == 1:
            _answer_requests(albums, service, listener, Metrics(), shares=False)
        else:
            assert opener is not None
            work = partial(_open_and_answer, opener, service)
            run_processes(work, listener, processes, service.limits.seconds_to_stop)


def _open_and_answer(
    opener: Callable[[], Mapping[str, Album]], service: Service, listener: socket.socket, memory: Any, row: int
) -> None:
    """One of several processes."""
    _allow_connections()
    _end_well()
    with contextlib.suppress(KeyboardInterrupt):
        _answer_requests(opener(), service, listener, Metrics(memory, row), shares=True)


def _answer_requests(
    albums: Mapping[str, Album], service: Service, listener: socket.socket, metrics: Metrics, *, shares: bool
) -> None:
    with contextlib.ExitStack() as stack:
        log = None
        if service.log is not None:
            log = sys.stdout if service.log == "-" else stack.enter_context(Path(service.log).open("a"))
        app = create_app(
            albums, token=service.token, write_token=service.write_token, hosts=service.hosts,
            any_address=service.host not in LOOPBACK, limits=service.limits, proxies=service.proxies,
            base_path=service.base_path, metrics=metrics, log=log, local=service.is_local,
        )  # fmt: skip
        http_server(app, service.limits, shares=shares).run(sockets=[listener])


def _end_well() -> None:
    """Take SIGTERM for what it is, the usual way to end a service; uvicorn raises it again once it has shut down."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))


@contextlib.contextmanager
def _watching(albums: Mapping[str, Album]) -> Generator[None]:
    """While this lasts, the albums follow their photo folders; the server sees each new version by itself."""
    stop, threads = threading.Event(), list[threading.Thread]()
    for name, album in albums.items():
        if album.folder is None or album.root is None or album.model is None:
            raise ValueError(f"{name} has no photo folder or no model, so it cannot be watched: leave --watch out.")
        watcher = Watcher(album.reopened(), lambda said, name=name: print(f"{name}: {visible(said)}", flush=True))
        threads.append(threading.Thread(target=watcher.run, args=(stop,), name=f"watch {name}", daemon=True))
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join(5)  # an update that takes longer is stopped with the program, and goes on with the next one


def http_server(app: ASGIApp, limits: Limits, *, shares: bool = False) -> FairServer:
    """A server for the application whose connections keep to the limits; `shares`: others are on the same socket."""

    class Protocol(TimedProtocol):
        seconds_for_head, seconds_to_read = limits.seconds_for_head, limits.seconds_to_read

    config = uvicorn.Config(
        app, http=Protocol, ws="none", log_level="warning", access_log=False, server_header=False, date_header=False,
        proxy_headers=False, timeout_keep_alive=20, backlog=1024, h11_max_incomplete_event_size=32_768,
        timeout_graceful_shutdown=round(limits.seconds_to_stop),
    )  # fmt: skip
    return FairServer(config, shares=shares)


class TimedProtocol(H11Protocol):
    """HTTP that ends a connection whose request does not come (with 408), or whose answer is not taken."""

    seconds_for_head = seconds_to_read = 10.0

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._head_timeout: asyncio.TimerHandle | None = None
        self._read_timeout: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        transport.set_write_buffer_limits(0)  # writing is paused whenever the visitor has anything left to take
        # The system would hold megabytes and say only after a third of them that there is room: a slow visitor would
        # look like one who does not read.
        connection = transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
        # Head and body of an answer are two writes, of which the second would wait 40 ms for the visitor to confirm the
        # first. asyncio asks for this itself, but not on a socket that it was given.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._head_timeout = self.loop.call_later(self.seconds_for_head, self._give_up)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        answering = self.cycle is not None and not self.cycle.response_complete
        waiting = not answering and bool(self.conn.trailing_data[0])  # for the rest of a head
        if not waiting:
            self._head_timeout = _cancelled(self._head_timeout)
        elif self._head_timeout is None:
            self._head_timeout = self.loop.call_later(self.seconds_for_head, self._give_up)

    def pause_writing(self) -> None:
        super().pause_writing()
        # Not close(), which would wait for the visitor to take the rest.
        self._read_timeout = self.loop.call_later(self.seconds_to_read, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._read_timeout = _cancelled(self._read_timeout)

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_timeout, self._read_timeout = _cancelled(self._head_timeout), _cancelled(self._read_timeout)
        super().connection_lost(exc)

    def _give_up(self) -> None:
        self._head_timeout = None
        if not self.transport.is_closing():
            head = (
                b"HTTP/1.1 408 Request Timeout\r\ncontent-type: application/json\r\nconnection: close\r\n"
                b"content-length: %d\r\n\r\n"
            )
            self.transport.write(head % len(_TOO_SLOW) + _TOO_SLOW)
            self.transport.close()


def _cancelled(timeout: asyncio.TimerHandle | None) -> None:
    if timeout is not None:
        timeout.cancel()


def _allow_connections() -> None:
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _CONNECTIONS if hard == resource.RLIM_INFINITY else min(_CONNECTIONS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
