"""What operators see: /health, /ready and /metrics, and a line of JSON for each request."""

import json
import os
import time
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.registry import Collector
from starlette.responses import PlainTextResponse
from starlette.routing import get_route_path
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from smoothap.server.limits import Workers, problem

if TYPE_CHECKING:
    from smoothap.server.served_album import Albums

GONE = 499  # what is counted where a visitor has left before the answer
SHARED_FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # of the environment: where several processes count side by side
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # seconds
_SIGNS = ("/health", "/ready")  # of life, which no route answers
disable_created_metrics()  # a second number for each count, which nobody here asks for


class Metrics:
    """The counts of this process, or with others, of all processes of the server."""

    def __init__(self) -> None:
        _forget_the_dead()
        self.registry, self._watched = CollectorRegistry(), dict[str, Workers]()
        options: dict[str, Any] = {"registry": self.registry, "namespace": "smoothap"}
        self.requests = Counter(
            "requests", "Answers by the template of their address and status.", ["route", "status"], **options
        )
        self.seconds = Histogram("request_seconds", "To the end of an answer.", ["route"], buckets=_BUCKETS, **options)
        self.refused = Counter("refused", "Too slow (408), too large (413) or too many (503).", ["status"], **options)
        self.photos = Counter("embedded_photos", "Photos through the network.", **options)
        self.batches = Counter("embedded_batches", "Batches that those made.", **options)
        options["multiprocess_mode"] = "livesum"
        self.working = Gauge("working", "Requests being worked on.", ["queue"], **options)
        self.queue = Gauge("queue", "Requests that wait for that.", ["queue"], **options)
        Gauge("processes", "Processes that answer.", **options).set(1)

    def answered(self, route: str, status: int, seconds: float) -> None:
        """Count an answer."""
        self.requests.labels(route, str(status)).inc()
        self.seconds.labels(route).observe(seconds)
        if status in (408, 413, 503) and route != "operating":  # a server that is not ready refuses nobody
            self.refused.labels(str(status)).inc()
        self._tell_queues()

    def embedded(self, photos: int) -> None:
        """Count a batch of photos that went through the network together."""
        self.batches.inc()
        self.photos.inc(photos)

    def watch(self, name: str, workers: Workers) -> None:
        """Tell from now on how many requests these workers have, and how many wait for them."""
        self._watched[name] = workers

    def _tell_queues(self) -> None:
        for name, workers in self._watched.items():
            self.working.labels(name).set(workers.limiter.borrowed_tokens)
            self.queue.labels(name).set(workers.limiter.statistics().tasks_waiting)

    def text(self, albums: "Albums") -> bytes:
        """All of it in the format of Prometheus."""
        self._tell_queues()
        registry = self.registry
        if SHARED_FOLDER in os.environ:
            registry = CollectorRegistry()
            MultiProcessCollector(registry)
        return generate_latest(registry) + generate_latest(_AlbumMetrics(albums))


def _forget_the_dead() -> None:
    """Take away what processes of this server that ended had in their queues."""
    for file in Path(os.environ.get(SHARED_FOLDER, os.devnull)).glob("gauge_live*_*.db"):
        process = int(file.stem.rpartition("_")[2])
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            mark_process_dead(process)


class _AlbumMetrics(Collector):
    """The size and the version of each album, which are the same in all processes."""

    def __init__(self, albums: "Albums") -> None:
        self._albums = albums

    def collect(self) -> list[Metric]:
        """What Prometheus is told."""
        photos = GaugeMetricFamily("smoothap_album_photos", "Photos of an album.", labels=["album"])
        versions = GaugeMetricFamily("smoothap_album_version", "1 for the one served.", labels=["album", "version"])
        for served in self._albums:
            photos.add_metric([served.name], len(served.album))
            versions.add_metric([served.name, served.version], 1)
        return [photos, versions]


class Observed:
    """Counts and logs each request from outside of everything else, and says whether the server is alive and ready.

    /health and /ready are for whoever starts and stops servers: they ask for no token and tell nothing else. `log` gets
    one line of JSON for each answer: time, address, method, path, status, seconds and bytes; neither what is behind
    the path's question mark nor headers nor bodies, so no token and no photo.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, missing: Callable[[], str], log: TextIO | None = None) -> None:
        self.app, self.metrics, self.missing, self.log = app, metrics, missing, log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun, status, size, path = time.perf_counter(), GONE, 0, get_route_path(scope)

        async def counting(message: Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
            size += len(message.get("body", b""))
            await send(message)

        try:
            await self._answerer(path)(scope, receive, counting)
        except BaseException as error:
            status = 500 if isinstance(error, Exception) else 503 if status == GONE else status
            raise
        finally:
            seconds = time.perf_counter() - begun
            is_sign = path in _SIGNS
            route = "operating" if is_sign else getattr(scope.get("route"), "path", "other")
            self.metrics.answered(route, status, seconds)
            if self.log is not None and not is_sign:
                when = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
                line = {
                    "time": when, "address": (scope.get("client") or ("",))[0], "method": scope["method"], "path": path,
                    "status": status, "seconds": round(seconds, 4), "bytes": size,
                }  # fmt: skip
                print(json.dumps(line), file=self.log, flush=True)

    def _answerer(self, path: str) -> ASGIApp:
        if path not in _SIGNS:
            return self.app
        if path == "/ready" and (missing := self.missing()):
            return problem(503, missing)
        return PlainTextResponse("alive\n" if path == "/health" else "ready\n", headers={"cache-control": "no-store"})
