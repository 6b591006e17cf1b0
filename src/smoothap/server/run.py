"""The server as a program: it tells its address, answers until Ctrl-C, and leaves nothing behind."""

import asyncio
import contextlib
import os
import signal
import socket
import sys
import tempfile
import threading
import webbrowser
from collections.abc import Callable, Generator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.supervisors import Multiprocess

from smoothap._core.memory import share_freed_memory
from smoothap.album import Album
from smoothap.album.watching import Watcher
from smoothap.plots.text import visible
from smoothap.server.app import create_app
from smoothap.server.limits import STOPPING, problem
from smoothap.server.observing import SHARED_FOLDER
from smoothap.server.settings import Limits, Service

_CONNECTIONS = 4_096  # files that may be open: a thousand visitors at once are told to wait, not left hanging
_SLOW = problem(408, "The request came too slowly: send it again.", close=True)
_TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\n%b\r\n%b" % (
    b"".join(b"%b: %b\r\n" % header for header in _SLOW.raw_headers), _SLOW.body,
)  # fmt: skip


def run_server(
    albums: Mapping[str, Album],
    listener: socket.socket,
    service: Service | None = None,
    *,
    open_page: bool = False,
    watchers: Mapping[str, Watcher] | None = None,
    processes: int = 1,
    opener: Callable[[], Mapping[str, Album]] | None = None,
) -> None:
    """Serve the albums on a bound socket until interrupted or told to stop, and finish what was begun by then.

    watchers: of the albums by name, which take in photos while this lasts. processes: how many answer; more than one
    open the albums by `opener`.
    """
    watchers, service, port = watchers or {}, service or Service(), listener.getsockname()[1]
    for album_name, album in albums.items():
        print(f"{album_name}: {len(album):,} photos")
    note = "" if service.shows_token or not service.token else "    (with ?token= and the token of SMOOTHAP_TOKEN)"
    print(f"Page    {service.address(port, with_token=service.shows_token)}{note}\nStop    Ctrl-C", flush=True)
    if open_page:
        webbrowser.open(service.address(port, with_token=True))
    if threading.current_thread() is threading.main_thread():
        # SIGTERM is the usual way to end a service, and no failure; uvicorn raises it again once it has shut down.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    # uvicorn raises the interrupt again once it has shut down: Ctrl-C is the usual way to end
    with contextlib.suppress(KeyboardInterrupt), _watching(watchers):
        if processes == 1:
            app = _application(lambda: albums, service, watchers)
            uvicorn.Server(configuration(app, service)).run(sockets=[listener])
        else:
            assert opener is not None
            config = configuration(partial(_application, opener, service), service, factory=True, workers=processes)
            with _shared_environment(processes):
                Multiprocess(config, [listener]).run()


@contextlib.contextmanager
def _shared_environment(processes: int) -> Generator[None]:
    """While this lasts, processes that are started count side by side, and each takes its share of the cores."""
    share = str(max(1, (os.cpu_count() or 1) // processes))  # more threads than cores are slower
    with tempfile.TemporaryDirectory(prefix="smoothap-metrics-") as folder:
        given = {SHARED_FOLDER: folder, "OMP_NUM_THREADS": share, "NUMBA_NUM_THREADS": share}
        added = given.keys() - os.environ.keys()
        os.environ.update({name: given[name] for name in added})
        try:
            yield
        finally:
            for name in added:
                del os.environ[name]


def _application(
    opener: Callable[[], Mapping[str, Album]], service: Service, watchers: Mapping[str, Watcher] | None = None
) -> ASGIApp:
    """The application in this process, of which there may be several."""
    share_freed_memory()
    _allow_connections()
    log = None
    if service.log is not None:  # which stays open as long as this process lasts
        log = sys.stdout if service.log == "-" else Path(service.log).open("a", buffering=1)  # noqa: SIM115
    return create_app(opener(), service, log, watchers)


def watcher_of(name: str, album: Album, **options: Any) -> Watcher:
    """What takes in an album's photos and says so on the terminal; the options are those of `Watcher`."""
    if album.folder is None or album.root is None or album.model is None:
        raise ValueError(f"{name} has no photo folder or no model, so it cannot be watched: leave --watch out.")
    return Watcher(album.reopened(), lambda said: print(f"{name}: {visible(said)}", flush=True), **options)


@contextlib.contextmanager
def _watching(watchers: Mapping[str, Watcher]) -> Generator[None]:
    """While this lasts, albums follow their photo folders; the server sees each new version by itself."""
    stop = threading.Event()
    threads = [
        threading.Thread(target=watcher.run, args=(stop,), name=f"watch {name}", daemon=True)
        for name, watcher in watchers.items()
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join(10)  # until what is embedded is in the album; what takes longer is taken in the next time


def configuration(app: Any, service: Service | None = None, **options: Any) -> uvicorn.Config:
    """How uvicorn serves the application: by our protocol, under the service's limits."""
    service = service or Service()
    limits = service.limits
    config = uvicorn.Config(
        app, http=TimedProtocol, ws="none", log_level="warning", access_log=False, server_header=False,
        date_header=False, proxy_headers=bool(service.proxies), forwarded_allow_ips=list(service.proxies),
        root_path=service.base_path,
        limit_concurrency=limits.connections, timeout_keep_alive=20, backlog=1024, h11_max_incomplete_event_size=32_768,
        timeout_graceful_shutdown=round(limits.seconds_to_stop), timeout_worker_healthcheck=60, **options,
    )  # fmt: skip
    config.limits = limits  # ty: ignore[missing-attribute]  # which the protocol finds there
    return config


class TimedProtocol(H11Protocol):
    """HTTP that ends a connection whose request does not come (with 408), or whose answer is not taken."""

    def __init__(self, config: Any, *arguments: Any, **options: Any) -> None:
        super().__init__(config, *arguments, **options)
        self.limits: Limits = config.limits
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
        self._head_timeout = self.loop.call_later(self.limits.seconds_for_head, self._give_up)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        answering = self.cycle is not None and not self.cycle.response_complete
        waiting = not answering and bool(self.conn.trailing_data[0])  # for the rest of a head
        if not waiting:
            self._head_timeout = _cancelled(self._head_timeout)
        elif self._head_timeout is None:
            self._head_timeout = self.loop.call_later(self.limits.seconds_for_head, self._give_up)

    def pause_writing(self) -> None:
        super().pause_writing()
        # Not close(), which would wait for the visitor to take the rest.
        self._read_timeout = self.loop.call_later(self.limits.seconds_to_read, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._read_timeout = _cancelled(self._read_timeout)

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_timeout, self._read_timeout = _cancelled(self._head_timeout), _cancelled(self._read_timeout)
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """Tell what would not end by itself that the server is stopped."""
        cycle: Any = self.cycle  # None before the first request
        if cycle is not None:
            cycle.scope[STOPPING] = True
        super().shutdown()

    def _give_up(self) -> None:
        self._head_timeout = None
        if not self.transport.is_closing():
            self.transport.write(_TOO_SLOW)
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
